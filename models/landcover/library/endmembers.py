"""A spectral library from labelled spectra."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans
from sklearn.covariance import ledoit_wolf

from p3vae.models.landcover.library.decoder import FloatArray, SpectralLibrary
from p3vae.models.landcover.types import TrainingSet

_ENDMEMBERS = 4
"""Of a class, at most."""
_LEAST_PIXELS = 15
"""Labelled pixels that an endmember stands for, at least."""
_MOST_FACTORS = 64
_LEAST_FACTOR = 2.0
"""Variance along a factor over that of the noise, below which the noise stands for it."""
_SMOOTH_STD = 0.005
"""Of a smooth deviation along the spectrum, relative to the class mean [1]: what labelled pixels do not show
of a class, and errors of the atmospheric correction."""
_SMOOTH_ORDERS = 4
"""Cosines along the spectrum, of which smooth deviations are made."""
_LEAST_NOISE = 1e-4
"""Standard deviation [reflectance]: half a step of reflectance stored in 16 bits as parts of 5000."""


def fit_library(data: TrainingSet, classes: int, seed: int) -> SpectralLibrary:
    """Class means, their variability, and the covariance of the rest.

    Endmembers are the cluster means of k-means on spectra of unit norm, so that a cluster has a shape rather
    than a brightness. The pooled covariance of residuals is that of Ledoit and Wolf (2004), of bands in units
    of their standard deviation.
    """
    means, spreads, residuals = [], [], []
    for k in range(classes):
        pixels = _pixels(data, data.class_index == k).astype(np.float64)
        found = _endmembers(pixels, seed)
        nearest = np.square(pixels[:, None] - found).sum(2).argmin(1)
        residuals.append(pixels - found[nearest])
        means.append(found.mean(0))
        spreads.append(_principal(found - found.mean(0)))
    directions = np.zeros((classes, max(len(spread) for spread in spreads), data.spectra.shape[1]))
    for rows, spread in zip(directions, spreads, strict=True):
        rows[: len(spread)] = spread
    smooth = _SMOOTH_STD * np.stack(means)[:, None] * _cosines(data.spectra.shape[1])
    directions = np.concatenate([directions, smooth], axis=1)
    shared, noise = factor_covariance(shrunken_covariance(np.concatenate(residuals)))
    return SpectralLibrary(np.stack(means), directions, shared, noise)


def _pixels(data: TrainingSet, rows: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
    """Spectra of a class: as on flat ground, where terrain told the light of enough of its labels."""
    if data.flat is not None:
        known = rows & np.isfinite(data.flat).all(1)
        if known.sum() >= min(_LEAST_PIXELS, rows.sum()):
            return data.flat[known]
    return data.spectra[rows]


def _cosines(bands: int) -> FloatArray:
    """Half-periods along the spectrum, (orders, bands)."""
    position = np.linspace(0.0, np.pi, bands)
    return np.cos(np.arange(1, _SMOOTH_ORDERS + 1)[:, None] * position)


def _endmembers(pixels: FloatArray, seed: int) -> FloatArray:
    """Cluster means, (endmembers, bands)."""
    count = min(_ENDMEMBERS, max(1, len(pixels) // _LEAST_PIXELS))
    if count == 1:
        return np.asarray(pixels.mean(0, keepdims=True))
    shapes = pixels / np.maximum(np.linalg.norm(pixels, axis=1, keepdims=True), _LEAST_NOISE)
    label = KMeans(count, n_init=3, random_state=seed).fit_predict(shapes)
    return np.asarray([pixels[label == k].mean(0) for k in np.unique(label)])


def _principal(deviations: FloatArray) -> FloatArray:
    """Rows whose outer products sum to the covariance of deviations (endmembers, bands) from their mean."""
    _, scale, rows = np.linalg.svd(deviations / np.sqrt(len(deviations)), full_matrices=False)
    return np.asarray((scale[:, None] * rows)[: len(deviations) - 1])


def shrunken_covariance(residuals: FloatArray) -> FloatArray:
    """Ledoit and Wolf's covariance of residuals (pixels, bands), (bands, bands)."""
    std = np.maximum(residuals.std(0), _LEAST_NOISE)
    covariance: FloatArray = ledoit_wolf(residuals / std, assume_centered=True)[0]
    return covariance * np.outer(std, std)


def factor_covariance(covariance: FloatArray, most: int = _MOST_FACTORS) -> tuple[FloatArray, FloatArray]:
    """A covariance as FᵀF + diag(noise): factors (at most `most`, bands) and noise (bands,).

    Noise is the variance of a band that no other band explains, 1 / (C⁻¹)_bb. Factors are the principal
    components of what is left, in units of the noise.
    """
    unexplained = 1 / np.diag(np.linalg.inv(covariance))
    scale = np.sqrt(unexplained)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    chosen = np.flatnonzero(values > _LEAST_FACTOR)[-most:]
    factors = np.sqrt(values[chosen] - 1)[:, None] * vectors[:, chosen].T * scale
    noise = np.maximum(np.diag(covariance) - np.square(factors).sum(0), _LEAST_NOISE**2)
    return factors, noise
