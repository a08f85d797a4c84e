"""Latent reflectance spectra from labelled pixels: anchored starts, exact refinement, and their level.

Training begins from the data instead of from chance. Labelled spectra of a class are clustered by shape; a
cluster that the others can explain under another light is dropped; the level of each remaining spectrum is
set by the light that its pixels, labelled and not, would otherwise need. Refinement then alternates the exact
solution of the light and mixing of every pixel with least squares for the spectra.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans

FloatArray = npt.NDArray[np.float64]

_ANGLES = np.radians(np.linspace(6.0, 90.0, 25))
_REDUNDANT = 1.25
"""A spectrum without which the misfit grows by less than this factor is the others in another light."""
_FEWEST = 0.02
_MOST_PIXELS = 600
_ANCHOR_WEIGHT = 0.05
_FLAT_SPREAD, _FLAT_SHARE = 0.07, 0.4
_SKY_MEAN, _SKY_SPREAD = 0.97, 0.1
_SUN_EDGE = 0.02


@dataclass(frozen=True, eq=False)
class Explanation:
    """Best light and mixing of pixels under one class, without any prior."""

    light: FloatArray
    """(z, w) of each pixel, (pixels, 2) [1]."""
    mixing: FloatArray
    """Shares of the class's spectra, (pixels, spectra)."""
    misfit: FloatArray
    """Mean squared residual relative to the mean square of the pixel, (pixels,) [1]."""


def explain(pixels: FloatArray, spectra: FloatArray, light: FloatArray) -> Explanation:
    """Non-negative least squares of pixels (n, bands) on spectra (k, bands) in any mix of lights."""
    count = len(spectra)
    best = np.full(len(pixels), -np.inf)
    amount = np.zeros((len(pixels), count))
    angle = np.zeros(len(pixels))
    faces = [f for size in range(1, count + 1) for f in itertools.combinations(range(count), size)]
    for theta in _ANGLES:
        lit = (np.cos(theta) * light[0] + np.sin(theta) * light[1]) * spectra
        gram, moment = lit @ lit.T, pixels @ lit.T
        gram += np.eye(count) * 1e-9 * np.trace(gram)
        for face in faces:
            u = np.linalg.solve(gram[np.ix_(face, face)], moment[:, face].T).T
            energy = np.where((u >= 0).all(1), (u * moment[:, face]).sum(1), -np.inf)
            better = energy > best
            best[better], angle[better] = energy[better], theta
            amount[better] = 0.0
            amount[np.ix_(np.flatnonzero(better), np.array(face))] = u[better]
    total = amount.sum(1)
    square = np.square(pixels).sum(1)
    return Explanation(
        light=np.stack([total * np.cos(angle), total * np.sin(angle)], axis=1),
        mixing=amount / np.maximum(total, 1e-9)[:, None],
        misfit=np.maximum(square - np.maximum(best, 0), 0) / square,
    )


def anchored_spectra(pixels: FloatArray, light: FloatArray, most: int, seed: int) -> FloatArray:
    """At most `most` cluster means of labelled pixels (n, bands), none of them another one in other light."""
    pixels = _subset(pixels, seed)
    shape = pixels / np.linalg.norm(pixels, axis=1, keepdims=True)
    clusters = min(most, len(np.unique(shape.round(5), axis=0)))
    label = KMeans(clusters, n_init=4, random_state=seed).fit_predict(shape)
    means = [pixels[label == k].mean(0) for k in range(clusters) if (label == k).mean() >= _FEWEST]
    kept = sorted(means, key=lambda spectrum: float(spectrum.mean()))
    reference = _misfit_summary(pixels, kept, light)
    for candidate in list(kept):
        rest = [spectrum for spectrum in kept if spectrum is not candidate]
        if rest and np.all(_misfit_summary(pixels, rest, light) < _REDUNDANT * reference):
            kept = rest
    return np.stack(kept)


def refined_spectra(
    spectra: FloatArray, pixels: FloatArray, weight: FloatArray, light: FloatArray, rounds: int = 2
) -> FloatArray:
    """Alternate exact light and mixing with weighted least squares for the spectra, held near their start."""
    anchor = spectra
    for _ in range(rounds):
        found = explain(pixels, spectra, light)
        ratio = found.light @ light
        gram = np.einsum("n,nk,nl,nb->bkl", weight, found.mixing, found.mixing, ratio**2, optimize=True)
        moment = np.einsum("n,nk,nb->bk", weight, found.mixing, ratio * pixels, optimize=True)
        pull = _ANCHOR_WEIGHT * np.maximum(np.trace(gram, axis1=1, axis2=2), 1e-9)[:, None]
        gram += pull[..., None] * np.eye(len(spectra))
        moment += pull * anchor.T
        spectra = np.clip(np.linalg.solve(gram, moment[..., None])[..., 0].T, 1e-4, 1.5)
    return spectra


def levelled_spectra(
    spectra: FloatArray, pixels: FloatArray, light: FloatArray, cos_zenith: float
) -> FloatArray:
    """Divide each spectrum by the light that its labelled pixels most plausibly stood in.

    Labelled pixels may lie on slopes. If they were taken as flat, pixels of the same material on better
    exposed ground would need more than full sun: the pixels (n, bands) that the class explains tell.
    """
    found = explain(pixels, spectra, light)
    levelled = []
    for k, spectrum in enumerate(spectra):
        mine = pixels[found.mixing[:, k] > 0.8]
        levelled.append(_level(spectrum, mine, light, cos_zenith) if len(mine) >= 5 else spectrum)
    return np.stack(levelled)


def _level(spectrum: FloatArray, pixels: FloatArray, light: FloatArray, cos_zenith: float) -> FloatArray:
    candidates: list[FloatArray] = [
        spectrum / (z * light[0] + _SKY_MEAN * light[1]) for z in np.linspace(0.4, 1.0, 31)
    ]
    plausibility = [_plausibility(candidate, pixels, light, cos_zenith) for candidate in candidates]
    return candidates[int(np.argmax(plausibility))]


def _plausibility(spectrum: FloatArray, pixels: FloatArray, light: FloatArray, cos_zenith: float) -> float:
    design = (light * spectrum).T
    sun, sky = np.linalg.lstsq(design, pixels.T, rcond=None)[0]
    flat = np.exp(-0.5 * ((sun - cos_zenith) / _FLAT_SPREAD) ** 2) / (_FLAT_SPREAD * np.sqrt(2 * np.pi))
    possible = 1.0 / (1.0 + np.exp(np.clip((sun - 1.0 - _SUN_EDGE) / _SUN_EDGE, -50, 50)))
    beta = (1 - cos_zenith) / cos_zenith
    exposed = beta * np.maximum(1.0 - sun, _SUN_EDGE) ** (beta - 1.0)
    density = _FLAT_SHARE * flat + (1 - _FLAT_SHARE) * possible * exposed + 1e-6
    lit = sun > 0.3
    glow = np.where(lit, np.clip((sky - _SKY_MEAN) / _SKY_SPREAD, -3, 3) ** 2, 0.0)
    return float(np.mean(np.log(density) - 0.5 * glow))


def _misfit_summary(pixels: FloatArray, spectra: list[FloatArray], light: FloatArray) -> FloatArray:
    misfit = explain(pixels, np.stack(spectra), light).misfit
    return np.array([misfit.mean(), np.quantile(misfit, 0.95)]) + 1e-9


def _subset(pixels: FloatArray, seed: int) -> FloatArray:
    if len(pixels) <= _MOST_PIXELS:
        return pixels
    return pixels[np.random.default_rng(seed).choice(len(pixels), _MOST_PIXELS, replace=False)]
