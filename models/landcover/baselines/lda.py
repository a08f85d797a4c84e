"""Linear discriminant analysis of scikit-learn, with the shrunken covariance of Ledoit and Wolf (2004)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from p3vae.models.landcover.estimator import Discriminative, Frame, PixelPrediction
from p3vae.models.landcover.job import Job, refitted
from p3vae.models.landcover.types import Method, TrainingSet, TrainingSummary
from p3vae.physics.illumination import SpectralIrradiance


@dataclass(frozen=True, eq=False)
class LinearDiscriminantAnalysis(Discriminative):
    """One Gaussian per class with a covariance that all share: log-odds are linear in the spectrum."""

    supported_options: ClassVar[frozenset[str]] = frozenset({"class_prior"})
    methods: ClassVar[tuple[Method, ...]] = ("classifier",)
    gives_irradiance: ClassVar[bool] = False
    gives_misfit: ClassVar[bool] = False
    weights: Tensor
    """(bands, classes), float64."""
    bias: Tensor
    """(classes,), float64."""

    @classmethod
    def fit(cls, job: Job) -> tuple[Self, TrainingSummary]:
        """Fitted to all labels; the scores are those of one that never saw the held-out polygons."""
        return refitted(job, partial(cls._fitted, job))

    @classmethod
    def _fitted(cls, job: Job, data: TrainingSet) -> Self:
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis as Lda

        if job.settings.class_prior == "scene":
            from p3vae.models.landcover.types import TrainingError

            raise TrainingError("lda takes no class prior from the scene; use uniform or labels")
        classes = len(job.legend)
        uniform = np.full(classes, 1 / classes) if job.settings.class_prior == "uniform" else None
        found = Lda(solver="lsqr", shrinkage="auto", priors=uniform).fit(
            data.spectra.astype(np.float64), data.class_index
        )
        weights, bias = torch.from_numpy(found.coef_.T.copy()), torch.from_numpy(found.intercept_)
        if classes == 2:  # one column of log-odds
            weights, bias = weights * torch.tensor([0.0, 1.0]), bias * torch.tensor([0.0, 1.0])
        return cls(weights.double(), bias.double())

    def predict_logits(
        self, spectra: Tensor, irradiance: SpectralIrradiance, method: Method
    ) -> PixelPrediction:
        """Classes by their discriminant functions."""
        return PixelPrediction((spectra.double() @ self.weights + self.bias).float())

    def tensors(self) -> dict[str, Tensor]:
        """The discriminant functions."""
        return {"lda.weights": self.weights, "lda.bias": self.bias}

    def to(self, device: str) -> Self:
        """The same on another device."""
        return replace(self, weights=self.weights.to(device), bias=self.bias.to(device))

    @classmethod
    def restore(cls, frame: Frame, card: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The estimator that gave these tensors."""
        return cls(tensors["lda.weights"], tensors["lda.bias"])


ESTIMATOR = LinearDiscriminantAnalysis
