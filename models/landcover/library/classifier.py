"""The classifier q(y|x): two linear discriminants, of a spectrum and of its shape.

A discriminant has one mean a class and one covariance, that of Ledoit and Wolf (2004). In reflectance,
brightness counts; in reflectance over its root mean square over bands, only shape does. q is the normalised
geometric mean of both posteriors. It knows the light of its labels only: see `mixture`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from p3vae.models.landcover.library.decoder import FloatArray
from p3vae.models.landcover.library.endmembers import shrunken_covariance
from p3vae.models.landcover.library.scene import Classes
from p3vae.models.landcover.types import TrainingSet

IntArray = npt.NDArray[np.integer[Any]]

_COLUMNS = 16
"""Weights have a multiple of so many columns: narrow products round by the place of a pixel in its piece."""
_LEAST_RMS = 1e-4
"""Root mean square of reflectance [1] that a shape is divided by, at least."""


@dataclass(frozen=True, eq=False)
class Classifier:
    """Means and covariances of both discriminants: of reflectance, then of shape."""

    mean: FloatArray
    """(views, classes, bands)."""
    covariance: FloatArray
    """(views, bands, bands)."""
    rms: float
    """Mean root mean square of labelled spectra [reflectance]."""
    device: str = "cpu"

    @classmethod
    def fit(cls, data: TrainingSet, classes: int) -> Self:
        """From labelled spectra; classes are equally likely."""
        spectra = data.spectra.astype(np.float64)
        rms = _rms(torch.from_numpy(spectra)).numpy()
        means, covariances = [], []
        for view in (spectra, spectra / rms):
            mean = np.array([view[data.class_index == k].mean(0) for k in range(classes)])
            means.append(mean)
            covariances.append(shrunken_covariance(view - mean[data.class_index]))
        return cls(np.stack(means), np.stack(covariances), float(rms.mean()))

    @property
    def classes(self) -> Classes:
        """As reflectance."""
        return Classes(self.mean[0], self.covariance[0])

    def widened(self, noise: npt.NDArray[np.floating[Any]]) -> Self:
        """The same for spectra with more noise of this variance, (bands,) [reflectance²]."""
        more = np.stack([np.diag(noise), np.diag(noise / self.rms**2)])
        return replace(self, covariance=self.covariance + more)

    def at_bands(self, columns: IntArray) -> Self:
        """The same for spectra that lack the other bands: they are integrated out.

        The root mean square of fewer bands differs: shapes are divided by that of the mean shape of their
        class there, and their covariance by the mean square of these.
        """
        mean, covariance = self.mean[:, :, columns], self.covariance[:, columns][:, :, columns]
        factor = _rms(torch.from_numpy(mean[1])).numpy()
        return replace(
            self,
            mean=np.stack([mean[0], mean[1] / factor]),
            covariance=np.stack([covariance[0], covariance[1] / np.square(factor).mean()]),
            rms=self.rms * float(factor.mean()),
        )

    def log_posterior(self, spectra: Tensor) -> Tensor:
        """log q(y|x), (pixels, classes); `spectra` (pixels, bands) are a piece of `fixed_chunks`."""
        return self._products.log_posterior(spectra)

    @cached_property
    def _products(self) -> _Products:
        return _Products.of(self)

    def to(self, device: str) -> Self:
        """The same on another device."""
        return replace(self, device=device)

    def tensors(self) -> dict[str, Tensor]:
        """For storage."""
        return {
            "mean": torch.as_tensor(self.mean),
            "covariance": torch.as_tensor(self.covariance),
            "rms": torch.tensor(self.rms, dtype=torch.float64),
        }

    @classmethod
    def restore(cls, tensors: Mapping[str, Tensor]) -> Self:
        """The classifier of these tensors."""
        return cls(tensors["mean"].numpy(), tensors["covariance"].numpy(), float(tensors["rms"]))


class _Products(NamedTuple):
    """Constants of both discriminants, float32, on one device.

    Logits of a view v are (v − v̄)·W + b. With the shape x / |x|, where |x| is the root mean square over
    bands, and a centre c = |c| s̄ that has the mean shape s̄,

        (x / |x| − s̄)·W = (x − c)·W / |x| + s̄·W (|c| / |x| − 1)

    so one product of x − c with the weights of both views serves both, without loss of precision.
    """

    centre: Tensor
    """c, (bands,)."""
    rms: float
    """|c|."""
    weights: Tensor
    """(bands, columns): of the classes in reflectance, then in shape, then zeros."""
    mean_shape: Tensor
    """s̄·W of the shape, (classes,)."""
    bias: Tensor
    """b, of reflectance about c and of shape about s̄, (views, classes)."""

    @classmethod
    def of(cls, classifier: Classifier) -> Self:
        """Of means and covariances."""
        classes = classifier.mean.shape[1]
        shape = classifier.mean[1].mean(0)
        centre = classifier.rms * shape
        weights, bias = [], []
        for mean, covariance, at in zip(classifier.mean, classifier.covariance, (centre, shape), strict=True):
            middle = mean.mean(0)
            found = np.linalg.solve(covariance, (mean - middle).T)
            weights.append(found)
            bias.append((at - middle) @ found - 0.5 * ((mean - middle).T * found).sum(0))
        nothing = np.zeros((len(centre), -2 * classes % _COLUMNS))

        def stored(values: FloatArray) -> Tensor:
            return torch.as_tensor(values).float().contiguous().to(classifier.device)

        return cls(
            stored(centre),
            classifier.rms,
            stored(np.concatenate([*weights, nothing], 1)),
            stored(shape @ weights[1]),
            stored(np.stack(bias)),
        )

    def log_posterior(self, spectra: Tensor) -> Tensor:
        """log q(y|x), (pixels, classes)."""
        rms = _rms(spectra)
        products, classes = (spectra - self.centre) @ self.weights, len(self.mean_shape)
        of_reflectance, of_shape = products[:, :classes], products[:, classes : 2 * classes]
        of_shape = of_shape / rms + self.mean_shape * (self.rms / rms - 1)
        logs = (of_reflectance + self.bias[0]).log_softmax(1) + (of_shape + self.bias[1]).log_softmax(1)
        return (logs / 2).log_softmax(1)


def _rms(spectra: Tensor) -> Tensor:
    """Root mean squares of spectra (pixels, bands), (pixels, 1)."""
    norm = torch.linalg.vector_norm(spectra, dim=1, keepdim=True)
    rms: Tensor = (norm / spectra.shape[1] ** 0.5).clamp(min=_LEAST_RMS)
    return rms
