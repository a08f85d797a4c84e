"""How far terrain is right about light: its error by the evidence of the brightness of some pixels.

The brightness b of a pixel, mean over its bands, and the light c that terrain tells obey

    log b = μ_y + log(z·a + w·b_sky) + N(0, τ_y²)        c = z + N(0, s²)        z ~ N(mean c, var c - s²)

for its kind of ground y, where a and b_sky are the shares of direct and diffuse light in its bands. μ and τ
are found by EM for every s of a grid, z is summed over; the s of the largest evidence p(b, c) is taken. An
error s makes dark slopes scatter more than bright ones, and weakens the dependence of brightness on c: so s
and τ are told apart. Pixels in cast shadow are left out. Kinds of ground are clusters of spectra over their
root mean square, in which brightness plays no part.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.cluster.vq import kmeans2

FloatArray = npt.NDArray[np.floating[Any]]

LARGEST_ERROR = 0.4
"""s from which on terrain says nothing of the light [1]."""
_ERRORS = np.geomspace(0.01, LARGEST_ERROR, 15)
_DIRECT = np.linspace(0.005, 1.2, 100)
"""z over which is summed."""
_STEPS = 12
_KINDS = 6
"""Of ground."""
_LEAST_SPREAD = 0.03
_SHADOW = 0.02
"""c up to which a pixel counts as shaded."""
_FEWEST = 100
"""Lit pixels, at least."""


@dataclass(frozen=True, eq=False)
class Brightness:
    """Pixels of a scene, (pixels,) each unless said."""

    log_brightness: FloatArray
    sky: FloatArray
    """w by the sky view [1]."""
    index: npt.NDArray[np.integer[Any]]
    """Kind of ground of each."""
    light: tuple[float, float]
    """Shares of direct light per z and of diffuse light per w in the brightness of flat ground."""

    @classmethod
    def of(cls, spectra: FloatArray, ratios: FloatArray, sky: FloatArray) -> Self:
        """Of spectra (pixels, bands), and direct and diffuse light of their bands, (2, bands)."""
        level = np.maximum(spectra.mean(1, dtype=np.float64), 1e-4)
        typical = np.maximum(spectra.mean(0, dtype=np.float64), 0)
        direct, diffuse = ratios @ typical / typical.sum()
        square = np.square(spectra, dtype=np.float64).mean(1, keepdims=True)
        shape = spectra / np.sqrt(np.maximum(square, 1e-12))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of fewer kinds than were asked for
            index = kmeans2(shape, min(_KINDS, len(shape)), seed=0, minit="++")[1]
        return cls(np.log(level), sky, index, (float(direct), float(diffuse)))

    def subset(self, rows: npt.NDArray[np.bool_]) -> Self:
        """Some of the pixels."""
        index = np.unique(self.index[rows], return_inverse=True)[1]
        return replace(self, log_brightness=self.log_brightness[rows], sky=self.sky[rows], index=index)


@dataclass(frozen=True)
class TerrainError:
    """What the brightness of a scene says of its terrain."""

    error: float
    """s [1]."""
    spread: float
    """τ, of all kinds together [1]: relative standard deviation of the brightness of ground."""
    log_evidence: float


def fitted_error(seen: Brightness, direct: FloatArray) -> TerrainError | None:
    """The likeliest error of `direct`, c (pixels,); None where too few pixels are lit."""
    lit = np.isfinite(direct) & (direct > _SHADOW)
    if lit.sum() < _FEWEST:
        return None
    part, c = seen.subset(lit), np.asarray(direct[lit], np.float64)
    return max((_fit(part, c, float(s)) for s in _ERRORS), key=lambda found: found.log_evidence)


def evidence_of(seen: Brightness, direct: FloatArray, error: float) -> float:
    """log p(b, c) of pixels that are all lit, if the error of c is known."""
    return _fit(seen, np.asarray(direct, np.float64), error).log_evidence


def _fit(seen: Brightness, c: FloatArray, error: float) -> TerrainError:
    variance = max(float(c.var()) - error**2, 1e-4)
    prior = -0.5 * np.square(_DIRECT - c.mean()) / variance
    prior -= np.log(np.exp(prior).sum())
    of_terrain = prior - 0.5 * np.square((c[:, None] - _DIRECT) / error) - np.log(error)
    a, b = seen.light
    ground = seen.log_brightness[:, None] - np.log(np.maximum(_DIRECT * a + seen.sky[:, None] * b, 1e-3))
    count = np.bincount(seen.index)
    at_word = seen.log_brightness - np.log(np.maximum(c * a + seen.sky * b, 1e-3))
    level = np.bincount(seen.index, at_word) / count
    spread = np.full(len(count), 0.3)
    evidence = -np.inf
    for _ in range(_STEPS):
        off = (ground - level[seen.index, None]) / spread[seen.index, None]
        joint = of_terrain - 0.5 * np.square(off) - np.log(spread)[seen.index, None]
        largest = joint.max(1, keepdims=True)
        share = np.exp(joint - largest)
        total = share.sum(1)
        evidence = float((np.log(total) + largest[:, 0]).sum())
        share /= total[:, None]
        level = np.bincount(seen.index, (share * ground).sum(1)) / count
        squares = (share * np.square(ground - level[seen.index, None])).sum(1)
        spread = np.sqrt(np.maximum(np.bincount(seen.index, squares) / count, _LEAST_SPREAD**2))
    together = float(np.sqrt((np.square(spread) * count).sum() / count.sum()))
    return TerrainError(error, together, evidence)
