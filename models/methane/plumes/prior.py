"""A prior that knows that most pixels hold no plume: spike and slab, both learned from the scene.

The enhancement of a pixel, z [ppm m], and its estimate from the spectrum alone, m with std s:

    z ~ (1 - w) N(0, spike^2) + w |N(0, slab^2)|          m ~ N(z + offset(s), (scale(s) s)^2)

Offset and scale are measured on the scene's own clear pixels, w and slab by expectation-maximisation
(empirical Bayes). Errors of neighbours are correlated; by how much is measured too. The precision-weighted
mean around a pixel, a matched spatial filter, gives the pixel its own w. With r the posterior probability of
the slab, the result is that of a Gaussian prior of variance A = (1 - r) spike^2 + r slab^2:

    kappa = A / (A + s^2)      z = kappa m      std = sqrt(kappa) s

kappa is the sensitivity: z / kappa and std / sqrt(kappa) are the estimate without the prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter
from scipy.special import expit, log_ndtr

FloatArray = npt.NDArray[np.floating[Any]]
BoolArray = npt.NDArray[np.bool_]
Float64 = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.integer[Any]]

REACH_PIXELS = 1.5
"""Standard deviation of the weights around a pixel [pixels]."""
HALO_PIXELS = int(4.0 * REACH_PIXELS + 0.5)
"""Where these weights end [pixels]."""
SPIKE_OVER_STD = 1.5
"""Width of the spike over the median std of clear pixels: these are shrunk by about a third."""
BINS, FEWEST_OF_BIN = 10, 50
TAILS = ((0.025, 1.96), (0.16, 1.0))
"""Lower quantiles of the estimates, where no plume is, and where a normal distribution has them [std]."""
SCALES, OTHER_SCALES = (0.7, 3.0), (1.0, 100.0)
"""Limits of the scale on clear ground, and on ground that the background was not learned from."""
CELL_PIXELS = 4
"""Side of the cells within which errors are correlated [pixels]."""
WEIGHTS = (1e-4, 0.3)
LOCAL_WEIGHTS = (1e-4, 0.95)
"""Limits of w in the scene and at a pixel."""
SLAB_PPM_M = (1000.0, 20_000.0)
"""Limits of the slab [ppm m]."""
ROUNDS = 30
LEAST_PRECISION = 1e-60
"""Keeps the mean of nothing finite [ppm-2 m-2]."""
FEWEST_AROUND = 0.05
"""Share of the neighbourhood that must be clear for it to say anything."""


@dataclass(frozen=True, eq=False)
class NullCalibration:
    """Offset and scale of estimates without plume, as functions of their std."""

    log_std: Float64
    """ln of std [ppm m] at which both are known, (bins,)."""
    offset: Float64
    """[ppm m], (bins,)."""
    scale: Float64
    """[1], (bins,)."""

    @classmethod
    def learn(cls, ppm_m: FloatArray, std: FloatArray, scales: tuple[float, float]) -> NullCalibration:
        """Per bin of std: the median, and how far the lower tail reaches; pixels (pixels,) of one kind."""
        edges = np.quantile(std, np.linspace(0.0, 1.0, BINS + 1))
        bin_of = np.clip(np.searchsorted(edges, std, side="right") - 1, 0, BINS - 1)
        used = np.flatnonzero(np.bincount(bin_of, minlength=BINS) >= FEWEST_OF_BIN)
        if len(used) == 0:
            used, bin_of = np.array([0]), np.zeros_like(bin_of)
        rows = []
        for index in used:
            mine, own = ppm_m[bin_of == index], float(np.median(std[bin_of == index]))
            middle = np.median(mine)
            reach = max((middle - np.quantile(mine, share)) / sigmas for share, sigmas in TAILS)
            rows.append((np.log(own), middle, np.clip(reach / own, *scales)))
        return cls(*np.array(rows, np.float64).T)

    def __call__(self, ppm_m: FloatArray, std: FloatArray) -> tuple[Float64, Float64]:
        """Calibrated enhancement and std [ppm m]."""
        at = np.log(np.asarray(std, np.float64))
        offset, scale = (np.interp(at, self.log_std, values) for values in (self.offset, self.scale))
        return ppm_m - offset, std * scale


@dataclass(frozen=True, eq=False)
class PlumePrior:
    """What a scene says about estimates without plume, and about plumes."""

    clear: NullCalibration
    other: NullCalibration
    """Of water, deep shadow, cloud: ground that the background was not learned from."""
    correlation: float
    """Of errors within `CELL_PIXELS` [1]."""
    spike_ppm_m: float
    slab_ppm_m: float
    weight: float
    """Share of pixels under a plume [1]."""

    @classmethod
    def learn(
        cls, ppm_m: FloatArray, std: FloatArray, clear: BoolArray, row: IntArray, col: IntArray
    ) -> PlumePrior:
        """From estimates of pixels drawn from all over a scene, (pixels,) each, and their places."""
        on_clear = NullCalibration.learn(ppm_m[clear], std[clear], SCALES)
        enough = int((~clear).sum()) >= FEWEST_OF_BIN
        on_other = NullCalibration.learn(ppm_m[~clear], std[~clear], OTHER_SCALES) if enough else on_clear
        mean, spread = on_clear(ppm_m[clear], std[clear])
        spike = SPIKE_OVER_STD * float(np.median(spread))
        weight, slab = _weight_and_slab(mean, spread, spike)
        shared = error_correlation(mean / spread, row[clear], col[clear])
        return cls(on_clear, on_other, shared, spike, slab, weight)

    @property
    def typical_std(self) -> float:
        """Std of the estimate of a usual clear pixel without plume [ppm m]."""
        return self.spike_ppm_m / float(np.hypot(1.0, SPIKE_OVER_STD))

    def apply(
        self, ppm_m: FloatArray, std: FloatArray, clear: BoolArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Enhancement, std [ppm m] and sensitivity [1] of an image (rows, cols) of estimates.

        Pixels that are not `clear` are believed under a plume if their neighbours are, whatever they show.
        Values everywhere must be finite, std positive.
        """
        mean, spread = np.where(clear, self.clear(ppm_m, std), self.other(ppm_m, std))
        weight = self._local_weight(mean, spread, clear)
        own = _probability(_log_bayes_factor(mean, spread, self.spike_ppm_m, self.slab_ppm_m), weight)
        plume = np.where(clear, own, weight)
        variance = (1.0 - plume) * self.spike_ppm_m**2 + plume * self.slab_ppm_m**2
        kappa = variance / (variance + spread**2)
        return kappa * mean, np.sqrt(kappa) * spread, kappa

    def _local_weight(self, mean: Float64, spread: Float64, clear: BoolArray) -> Float64:
        """w of each pixel: the probability that the mean around it is that of a plume."""
        around, error = neighbourhood_mean(mean, spread, clear, self.correlation)
        # over a neighbourhood a plume is fainter than in its pixels: half, as its width is about the reach
        factor = _log_bayes_factor(around, error, 0.0, self.slab_ppm_m / 2.0)
        known = _smooth(clear.astype(np.float64)) > FEWEST_AROUND
        local = np.where(known, _probability(factor, self.weight), self.weight)
        return np.clip(local, *LOCAL_WEIGHTS)


def neighbourhood_mean(
    mean: FloatArray, std: FloatArray, known: BoolArray, correlation: float
) -> tuple[Float64, Float64]:
    """Precision-weighted mean around each pixel (rows, cols) and its std, with errors partly shared."""
    precision = np.where(known, std, np.inf).astype(np.float64)
    precision **= -2
    total = np.maximum(_smooth(precision), LEAST_PRECISION)
    around = _smooth(np.where(known, precision * mean, 0.0))
    around /= total
    together = _smooth(np.sqrt(precision))
    together /= total
    together **= 2
    # the squared weights are Gaussian again, narrower and lower
    alone = gaussian_filter(precision, REACH_PIXELS / np.sqrt(2.0), mode="constant", radius=HALO_PIXELS)
    del precision
    total **= 2
    alone /= total
    variance = (1.0 - correlation) / (4.0 * np.pi * REACH_PIXELS**2) * alone
    variance += correlation * together
    return around, np.sqrt(np.maximum(variance, LEAST_PRECISION))


def _smooth(values: FloatArray) -> Float64:
    return np.asarray(gaussian_filter(values, REACH_PIXELS, mode="constant", radius=HALO_PIXELS))


def error_correlation(standardised: Float64, row: IntArray, col: IntArray) -> float:
    """Mean correlation of pixels within a cell, from all pairs that were drawn, 0 to 1."""
    clipped = np.clip(standardised, -3.0, 3.0)
    centred = clipped - clipped.mean()
    width = int(col.max()) // CELL_PIXELS + 1
    cell = (row // CELL_PIXELS) * width + col // CELL_PIXELS
    count, total, square = (np.bincount(cell, w) for w in (np.ones(len(cell)), centred, centred**2))
    pairs = float((count * (count - 1.0)).sum())
    if pairs == 0.0 or centred.var() == 0.0:
        return 0.0
    return float(np.clip((total**2 - square).sum() / pairs / centred.var(), 0.0, 1.0))


def _weight_and_slab(mean: Float64, std: Float64, spike: float) -> tuple[float, float]:
    """w and slab [ppm m] of the highest likelihood, by expectation-maximisation."""
    weight, slab = 0.01, 5000.0
    for _ in range(ROUNDS):
        plume = _probability(_log_bayes_factor(mean, std, spike, slab), weight)
        weight = float(np.clip(plume.mean(), *WEIGHTS))
        kappa = slab**2 / (slab**2 + std**2)
        power = (plume * ((kappa * mean) ** 2 + kappa * std**2)).sum() / plume.sum()
        slab = float(np.clip(np.sqrt(power), *SLAB_PPM_M))
    return weight, slab


def _log_bayes_factor(mean: Float64, std: Float64, spike: float, slab: float) -> Float64:
    """ln p(m | slab) - ln p(m | spike); the slab is half a Gaussian, above zero."""
    without, within = spike**2 + std**2, slab**2 + std**2
    positive = log_ndtr(mean * slab / (std * np.sqrt(within)))
    difference = mean**2 * (1.0 / without - 1.0 / within) + np.log(without / within)
    return np.asarray(np.log(2.0) + positive + 0.5 * difference)


def _probability(log_bayes_factor: Float64, weight: Float64 | float) -> Float64:
    return np.asarray(expit(log_bayes_factor + np.log(weight) - np.log1p(-weight)))
