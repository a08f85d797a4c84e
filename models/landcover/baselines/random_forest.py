"""A random forest, stored as the arrays of its trees and evaluated without the library that grew it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from p3vae.models.landcover.estimator import Discriminative, Frame, PixelPrediction, part
from p3vae.models.landcover.job import Job, refitted
from p3vae.models.landcover.types import Method, TrainingSet, TrainingSummary
from p3vae.physics.illumination import SpectralIrradiance

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestClassifier

TREES = 200
_PIXELS = 4096
_LEAST_PROBABILITY = 1e-9


@dataclass(frozen=True, eq=False)
class RandomForest(Discriminative):
    """All trees in one list of nodes; a leaf is its own child."""

    supported_options: ClassVar[frozenset[str]] = frozenset()
    root: Tensor
    """First node of each tree, (trees,)."""
    child: Tensor
    """Nodes to go to if the feature is not above the threshold, and if it is, (nodes, 2)."""
    feature: Tensor
    """(nodes,)."""
    threshold: Tensor
    """(nodes,), float64 as it was grown."""
    share: Tensor
    """Shares of the classes among the training samples of a node, (nodes, classes)."""
    depth: int
    methods: tuple[Method, ...] = ("classifier",)
    gives_irradiance: bool = False
    gives_misfit: bool = False

    @classmethod
    def fit(cls, job: Job) -> tuple[Self, TrainingSummary]:
        """A forest on all labels; its scores are those of one that never saw the held-out polygons."""
        return refitted(job, lambda data: cls.grown(data, len(job.legend), job.settings.seed))

    @classmethod
    def grown(cls, data: TrainingSet, classes: int, seed: int) -> Self:
        """A forest on labelled spectra, classes in balance."""
        from sklearn.ensemble import RandomForestClassifier

        forest = RandomForestClassifier(TREES, class_weight="balanced", random_state=seed)
        return cls.from_sklearn(forest.fit(data.spectra, data.class_index), classes)

    @classmethod
    def from_sklearn(cls, forest: RandomForestClassifier, classes: int) -> Self:
        """The arrays of a fitted forest whose classes are indices below `classes`."""
        trees = [estimator.tree_ for estimator in forest.estimators_]
        starts = np.concatenate([[0], np.cumsum([tree.node_count for tree in trees])])
        child, share = [], []
        for tree, start in zip(trees, starts[:-1], strict=True):
            own = np.arange(tree.node_count)
            pair = np.stack([tree.children_left, tree.children_right], axis=1)
            child.append(start + np.where(pair < 0, own[:, None], pair))
            values = np.zeros((tree.node_count, classes))
            values[:, forest.classes_.astype(int)] = tree.value[:, 0]
            share.append(values / values.sum(1, keepdims=True))
        return cls(
            torch.from_numpy(starts[:-1].astype(np.int64)),
            torch.from_numpy(np.concatenate(child).astype(np.int64)),
            torch.from_numpy(np.concatenate([np.maximum(tree.feature, 0) for tree in trees])),
            torch.from_numpy(np.concatenate([tree.threshold for tree in trees])),
            torch.from_numpy(np.concatenate(share)),
            max(tree.max_depth for tree in trees),
        )

    def probabilities(self, spectra: Tensor) -> Tensor:
        """Mean share of each class over the trees, (pixels, classes), float64."""
        return torch.cat([self._some_probabilities(part) for part in torch.split(spectra, _PIXELS)])

    def _some_probabilities(self, spectra: Tensor) -> Tensor:
        values = spectra.cpu().double()
        node = self.root.expand(len(spectra), -1)
        for _ in range(self.depth):
            above = values.gather(1, self.feature[node]) > self.threshold[node]
            node = self.child[node, above.long()]
        return self.share[node].mean(1)

    def predict_logits(
        self, spectra: Tensor, irradiance: SpectralIrradiance, method: Method
    ) -> PixelPrediction:
        """Classes by the vote of the trees."""
        return PixelPrediction(self.probabilities(spectra).clamp(min=_LEAST_PROBABILITY).log().float())

    def metadata(self) -> dict[str, Any]:
        """Depth of the deepest tree."""
        return {"depth": self.depth}

    def tensors(self) -> dict[str, Tensor]:
        """Every array."""
        return {f"forest.{name}": getattr(self, name) for name in _ARRAYS}

    def to(self, device: str) -> Self:
        """Itself: its numbers are float64, which not every device has, and the CPU suits trees."""
        return self

    @classmethod
    def restore(cls, frame: Frame, card: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The forest that gave these arrays; refused if a node leads outside of it."""
        arrays = part(tensors, "forest.")
        nodes = len(arrays["feature"])
        inside = (arrays["child"] < nodes).all() and (arrays["root"] < nodes).all()
        if not inside or not (arrays["feature"] < len(frame.bands)).all():
            raise ValueError("the trees of the forest are broken")
        root, child, feature, threshold, share = (arrays[name] for name in _ARRAYS)
        return cls(root, child, feature, threshold, share, int(card["depth"]))


_ARRAYS = ("root", "child", "feature", "threshold", "share")
ESTIMATOR = RandomForest
