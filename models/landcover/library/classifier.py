"""The classifier q(y|x): two linear discriminants, of a spectrum and of its shape.

A discriminant has one mean a class and one covariance, that of Ledoit and Wolf (2004). In reflectance,
brightness counts; in reflectance over its root mean square over bands, only shape does. q is the normalised
geometric mean of both posteriors. It knows the light of its labels only: see `mixture`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from p3vae.models.landcover.library.chunks import fixed_chunks
from p3vae.models.landcover.library.decoder import FloatArray
from p3vae.models.landcover.library.endmembers import shrunken_covariance
from p3vae.models.landcover.types import TrainingSet

_LEAST_RMS = 1e-4
"""Root mean square of reflectance [1] that a shape is divided by, at least."""


@dataclass(frozen=True, eq=False)
class Classifier:
    """Weights of both discriminants, float32; log posteriors are linear in centred spectra and shapes."""

    centre: Tensor
    """(views, bands): reflectance, shape [1]."""
    weights: Tensor
    """(views, bands, classes)."""
    bias: Tensor
    """(views, 1, classes)."""

    @classmethod
    def fit(cls, data: TrainingSet, classes: int) -> Self:
        """From labelled spectra; classes are equally likely."""
        spectra = torch.from_numpy(data.spectra).double()
        views = [_discriminant(view.numpy(), data, classes) for view in (spectra, _shape(spectra))]
        stored = (torch.as_tensor(np.stack(part)).float() for part in zip(*views, strict=True))
        return cls(*stored)

    def log_posterior(self, spectra: Tensor) -> Tensor:
        """log q(y|x), (pixels, classes), the same to the bit however the pixels are split over calls."""
        parts = [self._chunk(piece) for piece in fixed_chunks(spectra, spectra.shape[1])]
        return torch.cat(parts)[: len(spectra)]

    def _chunk(self, spectra: Tensor) -> Tensor:
        logs = [
            torch.addmm(bias, view - centre, weights).log_softmax(1)
            for view, centre, weights, bias in zip(
                (spectra, _shape(spectra)), self.centre, self.weights, self.bias, strict=True
            )
        ]
        return ((logs[0] + logs[1]) / 2).log_softmax(1)

    def to(self, device: str) -> Self:
        """The same on another device."""
        moved: dict[str, Any] = {name: values.to(device) for name, values in vars(self).items()}
        return replace(self, **moved)

    def tensors(self) -> dict[str, Tensor]:
        """For storage."""
        return dict(vars(self))

    @classmethod
    def restore(cls, tensors: Mapping[str, Tensor]) -> Self:
        """The classifier of these tensors."""
        return cls(**tensors)


def _shape(spectra: Tensor) -> Tensor:
    """Spectra (pixels, bands) over their root mean squares."""
    return spectra / spectra.square().mean(1, keepdim=True).sqrt().clamp(min=_LEAST_RMS)


def _discriminant(
    view: FloatArray, data: TrainingSet, classes: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Centre (bands,), weights (bands, classes) and bias (1, classes) of one view of the labelled spectra."""
    mean = np.array([view[data.class_index == k].mean(0) for k in range(classes)])
    covariance = shrunken_covariance(view - mean[data.class_index])
    centre = mean.mean(0)
    away = mean - centre
    weights = np.linalg.solve(covariance, away.T)
    return centre, weights, -0.5 * (away.T * weights).sum(0)[None]
