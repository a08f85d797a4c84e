"""From ground to Gaussian components: one per material."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from p3vae.models.landcover.library.decoder import FloatArray, LightPrior, SpectralLibrary
from p3vae.models.landcover.library.endmembers import factor_covariance
from p3vae.models.landcover.library.materials import MaterialEstimator

from .ground import Ground
from .legend import CLASSES, MATERIALS

_PIXELS = 6000
"""Drawn per material."""
_DIRECTIONS = 8
_FACTORS = 24
_SHRINKAGE = 0.15
"""Share of the covariance of a component that is replaced by the mean over all components (Friedman 1989)."""
_DISCREPANCY = 0.025
"""Standard deviation of what libraries do not know of real ground, in every band [reflectance]; the accuracy
on withheld libraries chose it."""
_RARE = {"char and ash": 0.25}
"""Prior weight of materials relative to the others: a few percent of all land burn in a year [1]."""
_LIGHT = (
    ((1.0, 1.0), (0.06, 0.06), 0.8),
    ((0.95, 0.95), (0.20, 0.12), 0.1),
    ((0.45, 0.70), (0.18, 0.20), 0.05),
    ((0.03, 0.50), (0.05, 0.20), 0.05),
)
"""Mean of (z / cosΘ0, w), standard deviation of (z, w), and weight: level sunlit ground, slopes, half shadow,
shadow."""


@dataclass(frozen=True, eq=False)
class _Component:
    material: int
    mean: FloatArray
    directions: FloatArray
    residual: FloatArray
    """Sum of squares and products of what directions leave, (bands, bands)."""
    pixels: int
    fraction: FloatArray
    fraction_std: FloatArray


def fit_earth(
    ground: Ground, description: Mapping[str, Any], *, ood_threshold: float, seed: int = 0
) -> MaterialEstimator:
    """One component for the pixels, pure or mixed, that each material dominates.

    All materials are equally likely but for `_RARE`.
    """
    rng = np.random.default_rng(seed)
    materials = [name for name in MATERIALS if ground.has(name)]
    parts = [_component(k, *ground.pixels(name, _PIXELS, rng)) for k, name in enumerate(materials)]
    directions = np.stack([part.directions for part in parts])
    pooled = np.einsum("kdi,kdj->ij", directions, directions) / len(parts)
    residual = np.sum([part.residual for part in parts], axis=0) / sum(part.pixels for part in parts)
    covariance = residual + _SHRINKAGE * pooled
    factors, noise = factor_covariance(covariance + _DISCREPANCY**2 * np.eye(len(pooled)), _FACTORS)
    library = SpectralLibrary(
        np.stack([part.mean for part in parts]), np.sqrt(1 - _SHRINKAGE) * directions, factors, noise
    )
    names = list(CLASSES)
    weight = np.array([_RARE.get(materials[part.material], 1.0) for part in parts])
    light_mean, light_std, light_weight = (np.array(column) for column in zip(*_LIGHT, strict=True))
    return MaterialEstimator(
        library,
        LightPrior(light_mean, light_std, light_weight),
        weight / weight.sum(),
        np.array([part.material for part in parts]),
        np.array([names.index(MATERIALS[name]) for name in materials]),
        np.stack([part.fraction for part in parts]),
        np.stack([part.fraction_std for part in parts]),
        tuple(materials),
        ood_threshold,
        float(len(noise)),
        description,
    )


def _component(index: int, spectra: FloatArray, fraction: FloatArray) -> _Component:
    mean = spectra.mean(0)
    deviation = spectra - mean
    products = deviation.T @ deviation
    values, vectors = np.linalg.eigh(products / len(spectra))
    directions = np.sqrt(values[-_DIRECTIONS:, None]) * vectors[:, -_DIRECTIONS:].T
    residual: FloatArray = products - len(spectra) * directions.T @ directions
    return _Component(index, mean, directions, residual, len(spectra), fraction.mean(0), fraction.std(0))
