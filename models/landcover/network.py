"""Common to the land-cover models that are networks: what the trainer asks of them, and their storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import torch.nn.functional as F
from torch import Tensor, nn

from p3vae.models.landcover.estimator import Frame, PixelPrediction, SpectraArray, part
from p3vae.models.landcover.types import Method
from p3vae.models.nn.classifiers import SegmentClassifier
from p3vae.models.nn.layers import contiguous_segments
from p3vae.models.nn.trainer import Optimisation
from p3vae.physics.illumination import SpectralIrradiance

PUBLISHED_DESCENT = Optimisation(100, 1e-3, 1e-4, cycle_steps=660, clip_norm=0.0, keep_best=True)
"""Adam, learning rate cycling between 1e-4 and 1e-3, best validation loss held_out, as published."""


class SpectraBatch(NamedTuple):
    """Spectra of one training step."""

    x: Tensor
    """Labelled spectra, (samples, bands)."""
    y: Tensor
    """Their classes, (samples,)."""
    unlabelled: Tensor
    """(as many or none, bands)."""
    step: int
    """From 0, over the whole training."""


class StoredNetwork(nn.Module):
    """A network that tells classes, without latent variables unless a heir has some, and its storage."""

    methods: tuple[Method, ...] = ("classifier",)
    gives_irradiance = False
    gives_misfit = False

    def __init__(self, frame: Frame) -> None:
        super().__init__()

    def codes(self, spectra: Tensor, irradiance: SpectralIrradiance) -> Tensor | None:
        """None: no latent variables."""
        return None

    def generate(self, index: int, codes: Tensor, irradiance: SpectralIrradiance) -> Tensor | None:
        """None: no decoder."""
        return None

    def latent_spectra(self) -> list[SpectraArray] | None:
        """None: no latent spectra."""
        return None

    def metadata(self) -> dict[str, Any]:
        """Nothing but tensors."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """All weights and constants."""
        return {f"network.{name}": value for name, value in self.state_dict().items()}

    @classmethod
    def restore(cls, frame: Frame, card: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The estimator that gave these tensors."""
        estimator = cls(frame)
        estimator.load_state_dict(part(tensors, "network."))
        return estimator.eval()


class NetworkEstimator(StoredNetwork):
    """An estimator with a classifier q(y|x) that is trained by gradients; alone, it is the spectral CNN."""

    descent: ClassVar[Optimisation] = PUBLISHED_DESCENT
    learns_unlabelled: ClassVar[bool] = True
    classifier: nn.Module

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.classes = len(frame.legend)
        self.classifier = SegmentClassifier(contiguous_segments(frame.bands.wavelength_nm), self.classes)

    def losses(self, batch: SpectraBatch) -> Mapping[str, Tensor]:
        """Named terms of the objective; `total` is minimised."""
        return {"total": F.cross_entropy(self.classifier(batch.x), batch.y)}

    def validation_loss(self, x: Tensor, y: Tensor) -> Tensor:
        """What chooses the best epoch, from labelled spectra kept aside."""
        return F.cross_entropy(self.classifier(x), y)

    def after_training(self, held_out: Tensor) -> None:
        """Calibrate on spectra kept aside."""

    def predict_logits(
        self, spectra: Tensor, irradiance: SpectralIrradiance, method: Method
    ) -> PixelPrediction:
        """Classes by q(y|x)."""
        return PixelPrediction(self.classifier(spectra))
