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

from p3vae.models.landcover.library.decoder import FloatArray
from p3vae.models.landcover.library.endmembers import shrunken_covariance
from p3vae.models.landcover.types import TrainingSet

_COLUMNS = 16
"""Weights have a multiple of so many columns: narrow products round by the place of a pixel in its piece."""
_LEAST_RMS = 1e-4
"""Root mean square of reflectance [1] that a shape is divided by, at least."""


@dataclass(frozen=True, eq=False)
class Classifier:
    """Weights of both discriminants, float32.

    Logits of a view v are (v − v̄)·W + b. With the shape x / |x|, where |x| is the root mean square over
    bands, and a centre c = |c| s̄ that has the mean shape s̄,

        (x / |x| − s̄)·W = (x − c)·W / |x| + s̄·W (|c| / |x| − 1)

    so one product of x − c with the weights of both views serves both, without loss of precision.
    """

    centre: Tensor
    """c, (bands,)."""
    rms: Tensor
    """|c|, ()."""
    weights: Tensor
    """(bands, columns): of the classes in reflectance, then in shape, then zeros."""
    mean_shape: Tensor
    """s̄·W of the shape, (classes,)."""
    bias: Tensor
    """b, of reflectance about c and of shape about s̄, (views, classes)."""

    @classmethod
    def fit(cls, data: TrainingSet, classes: int) -> Self:
        """From labelled spectra; classes are equally likely."""
        spectra = data.spectra.astype(np.float64)
        rms = _rms(torch.from_numpy(spectra)).numpy()
        shapes = spectra / rms
        shape = shapes.mean(0)
        centre = rms.mean() * shape
        views = [_discriminant(view, data, classes, at) for view, at in ((spectra, centre), (shapes, shape))]
        weights, bias = (np.stack(part) for part in zip(*views, strict=True))
        nothing = np.zeros((len(centre), -2 * classes % _COLUMNS))
        found = (centre, rms.mean(), np.concatenate([*weights, nothing], 1), shape @ weights[1], bias)
        return cls(*(torch.as_tensor(values).float() for values in found))

    def log_posterior(self, spectra: Tensor) -> Tensor:
        """log q(y|x), (pixels, classes); `spectra` (pixels, bands) are a piece of `fixed_chunks`."""
        rms = _rms(spectra)
        products, classes = (spectra - self.centre) @ self.weights, len(self.mean_shape)
        of_reflectance, of_shape = products[:, :classes], products[:, classes : 2 * classes]
        of_shape = of_shape / rms + self.mean_shape * (self.rms / rms - 1)
        logs = (of_reflectance + self.bias[0]).log_softmax(1) + (of_shape + self.bias[1]).log_softmax(1)
        return (logs / 2).log_softmax(1)

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


def _rms(spectra: Tensor) -> Tensor:
    """Root mean squares of spectra (pixels, bands), (pixels, 1)."""
    norm = torch.linalg.vector_norm(spectra, dim=1, keepdim=True)
    rms: Tensor = (norm / spectra.shape[1] ** 0.5).clamp(min=_LEAST_RMS)
    return rms


def _discriminant(
    view: FloatArray, data: TrainingSet, classes: int, centre: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Weights (bands, classes) and bias (classes,) of one view of the labelled spectra about a centre."""
    mean = np.array([view[data.class_index == k].mean(0) for k in range(classes)])
    covariance = shrunken_covariance(view - mean[data.class_index])
    middle = mean.mean(0)
    weights = np.linalg.solve(covariance, (mean - middle).T)
    return weights, (centre - middle) @ weights - 0.5 * ((mean - middle).T * weights).sum(0)
