"""The generative model of a spectrum: what a class is, and the light it is seen in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

FloatArray = npt.NDArray[np.float64]

_FLAT_STD = 0.05
"""Of z and w on flat sunlit ground [1]."""
_SUN = ((0.0, 0.03), (0.22, 0.14), (0.72, 0.22))
_SKY = ((0.5, 0.2), (0.93, 0.13))
"""Means and standard deviations of z and w [1] of the other components: shadow to slope towards the sun, and
narrow to open sky."""
_ADJACENCY_STD = 0.05
"""Of the light that comes from neighbouring ground [share of flat sunlit ground's]."""


@dataclass(frozen=True, eq=False)
class SpectralLibrary:
    """Reflectance of the classes on flat sunlit ground: x = (z·a + w·b) ⊙ (ρ_y + V_y c + F f) + e.

    c and f are standard normal. c is the intrinsic variability of a class, f that of all classes, e is noise.
    Two scalars z and w are the light: the share of direct sun times the cosine of incidence (δ·cosΘ), and the
    share of the sky's diffuse light. a and b are the spectra of both, relative to flat sunlit ground.
    """

    mean: FloatArray
    """ρ, (classes, bands) [reflectance]."""
    directions: FloatArray
    """V, (classes, directions, bands) [reflectance]; rows of zeros where a class has fewer."""
    factors: FloatArray
    """F, (factors, bands) [reflectance]: the within-class covariance that all classes share is FᵀF."""
    noise: FloatArray
    """Variance of e, (bands,) [reflectance²]; light does not scale it."""

    def at_bands(self, columns: npt.NDArray[np.integer[Any]]) -> Self:
        """The same without the other bands: in a Gaussian they are integrated out by leaving them away."""
        return replace(self, **{name: values[..., columns] for name, values in vars(self).items()})

    def tensors(self) -> dict[str, Tensor]:
        """For storage."""
        return {name: torch.as_tensor(values) for name, values in vars(self).items()}

    @classmethod
    def restore(cls, tensors: Mapping[str, Tensor]) -> Self:
        """The library of these tensors."""
        return cls(**_arrays(tensors))


@dataclass(frozen=True, eq=False)
class LightPrior:
    """A Gaussian mixture over (z, w); its first component is flat sunlit ground.

    Light that neighbouring ground reflects has the colour of the mean reflectance of all classes.
    """

    mean: FloatArray
    """(components, 2) [1]."""
    std: FloatArray
    """(components, 2) [1]."""
    weight: FloatArray
    """(components,), sums to one."""
    adjacency_std: float = 0.0
    """Of the light from neighbouring ground [share of flat sunlit ground's]."""

    @classmethod
    def broad(cls, cos_zenith: float) -> Self:
        """Flat ground under the sun at this zenith, and any other light, all equally likely."""
        others = [((z, w), (s, t)) for z, s in _SUN for w, t in _SKY]
        mean, std = zip(((cos_zenith, 1.0), (_FLAT_STD, _FLAT_STD)), *others, strict=True)
        weight = np.full(len(mean), 1 / len(mean))
        return cls(np.array(mean), np.array(std), weight, _ADJACENCY_STD)

    @classmethod
    def flat(cls, cos_zenith: float, std: float = 0.0) -> Self:
        """Flat sunlit ground alone."""
        return cls(np.array([[cos_zenith, 1.0]]), np.full((1, 2), std), np.ones(1))

    def tensors(self) -> dict[str, Tensor]:
        """For storage."""
        return {name: torch.as_tensor(values, dtype=torch.float64) for name, values in vars(self).items()}

    @classmethod
    def restore(cls, tensors: Mapping[str, Tensor]) -> Self:
        """The prior of these tensors."""
        found = _arrays(tensors)
        return cls(found["mean"], found["std"], found["weight"], float(found["adjacency_std"]))

    def sample(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Draws of (z, w), not below zero, (count, 2) [1]."""
        component = rng.choice(len(self.weight), count, p=self.weight)
        draws = self.mean[component] + self.std[component] * rng.standard_normal((count, 2))
        return np.maximum(draws, 0.0)

    def under(self, cos_zenith: float) -> Self:
        """The same prior when the sun stands at another zenith."""
        mean = self.mean.copy()
        mean[0, 0] = cos_zenith
        return replace(self, mean=mean)


def _arrays(tensors: Mapping[str, Tensor]) -> dict[str, FloatArray]:
    return {name: values.cpu().numpy().astype(np.float64) for name, values in tensors.items()}
