"""Plumes in an enhancement map: clusters of pixels that together stand out from the scene's own noise.

The precision-weighted mean around each pixel, a matched spatial filter, over its own robust scatter in the
scene, is compared with a threshold. Connected pixels above it form clusters, and a cluster is as strong as
the root of its summed excess (cluster mass; Bullmore et al. 1999, 10.1109/42.750253). The sign-flipped map
holds no plume: its clusters tell how many false ones of any strength to expect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from p3vae.models.methane.background.screening import MAD_TO_STD
from p3vae.models.methane.plumes.prior import (
    CELL_PIXELS,
    TAILS,
    error_correlation,
    neighbourhood_mean,
)
from p3vae.models.methane.plumes.rule import PlumeRule
from p3vae.models.methane.plumes.vetting import LogRatio

FloatArray = npt.NDArray[np.floating[Any]]
BoolArray = npt.NDArray[np.bool_]
Labels = npt.NDArray[np.int32]
Float64 = npt.NDArray[np.float64]

ENOUGH_PIXELS = 200_000
"""To measure the correlation of errors: of a larger map, every so many rows of cells."""
EIGHT_NEIGHBOURS = np.ones((3, 3), dtype=bool)
UPPER_CLUSTERS = (0.5, 0.9)
"""Quantiles of cluster strength between which the tail of false clusters is measured."""
TAIL_MARGIN = 1.25
"""Ground errs upwards further than downwards (carbonates, roofs): the measured tail is made longer by it."""
SHORTEST_TAIL = 1.0
"""Of the strength of clusters of Gaussian noise; measured on few clusters it could be anything."""


@dataclass(frozen=True, eq=False)
class FoundPlumes:
    """Plumes of one map."""

    labels: Labels
    """(rows, cols): 0 no plume, 1... plumes by descending strength."""
    false_plumes: Float64
    """Expected number of false plumes as strong as each, (plumes,)."""
    log_ratios: tuple[LogRatio | None, ...]
    """What the spectrum of each says; None where it was not looked at."""
    rejected: int = 0
    """Clusters as strong as plumes whose spectra speak against methane."""

    @property
    def count(self) -> int:
        """Number of plumes."""
        return len(self.false_plumes)


Vet = Callable[[BoolArray], LogRatio | None]
"""What the spectrum of a cluster (rows, cols) says; None where it cannot be read."""


def find_plumes(
    ppm_m: FloatArray,
    std: FloatArray,
    valid: BoolArray,
    rule: PlumeRule | None = None,
    vet: Vet = lambda cluster: None,
) -> FoundPlumes:
    """Plumes of an enhancement map (rows, cols) with its std [ppm m].

    A cluster that few false ones equal is a plume unless its spectrum speaks against methane, and a weaker
    one is if its spectrum is that of methane.
    """
    chosen = rule or PlumeRule()
    significance = _significance(ppm_m, std, valid)
    clusters, strength, sizes = _clusters(significance, chosen.threshold_sigma)
    if len(strength) == 0:
        return FoundPlumes(np.zeros(ppm_m.shape, np.int32), np.empty(0), ())
    _, flipped, _ = _clusters(np.where(valid, -significance, -np.inf), chosen.threshold_sigma)
    del significance
    expected = _expected_false(strength, flipped if len(flipped) else strength)
    likely = np.flatnonzero((sizes >= chosen.min_pixels) & (expected <= chosen.max_false_candidates))
    said = {index: vet(clusters == index + 1) for index in likely[np.argsort(-strength[likely])]}
    ranked = np.array([i for i in said if _is_plume(expected[i], said[i], chosen)], np.int64)
    lookup = np.zeros(len(strength) + 1, np.int32)
    lookup[ranked + 1] = np.arange(1, len(ranked) + 1)
    labels = _without_halo(lookup[clusters], ppm_m, std, valid, chosen)
    strong = [i for i in said if expected[i] <= chosen.max_false_plumes]
    rejected = len(set(strong) - set(ranked.tolist()))
    return FoundPlumes(labels, expected[ranked], tuple(said[i] for i in ranked), rejected)


def _is_plume(expected: float, log_ratio: LogRatio | None, rule: PlumeRule) -> bool:
    if log_ratio is not None and log_ratio.name == "methane":
        return True
    against = log_ratio is not None and log_ratio.speaks_against
    return expected <= rule.max_false_plumes and not against


def count_false_alarms(
    ppm_m: FloatArray, std: FloatArray, valid: BoolArray, rule: PlumeRule | None = None
) -> int | None:
    """Plumes that the same rule finds in the sign-flipped map, where there can be none.

    Spectra are not looked at. None for a map without negative values: flipped, it says nothing.
    """
    if not (ppm_m[valid] < 0).any():
        return None
    return find_plumes(-ppm_m, std, valid, rule).count


def _significance(ppm_m: FloatArray, std: FloatArray, valid: BoolArray) -> Float64:
    """Mean around each pixel over its std, in units of its scatter in the scene; -inf where invalid."""
    rows = np.arange(len(valid)) // CELL_PIXELS % (1 + valid.size // ENOUGH_PIXELS) == 0
    row, col = np.nonzero(valid & rows[:, None])
    shared = error_correlation(ppm_m[row, col] / std[row, col], row, col) if len(row) else 0.0
    around, error = neighbourhood_mean(ppm_m, std, valid, shared)
    return _in_scatter(around / error, valid)


def _in_scatter(values: FloatArray, valid: BoolArray) -> Float64:
    """Values over their median in units of their scatter below it, where no plume is; -inf where invalid.

    The scatter of a map without lower values (a sparse filter's) is that of the values above the median.
    """
    out = np.full(values.shape, -np.inf)
    if not valid.any():
        return out
    excess = values[valid] - np.median(values[valid])
    scatter = max(float(-np.quantile(excess, share)) / sigmas for share, sigmas in TAILS)
    if scatter <= 0.0:
        above = excess[excess > 0]
        scatter = MAD_TO_STD * float(np.median(above)) if len(above) else 1.0
    out[valid] = excess / scatter
    return out


def _clusters(significance: Float64, threshold: float) -> tuple[Labels, Float64, npt.NDArray[np.int64]]:
    """Clusters above a threshold: label image, strength and pixels of each."""
    labels, count = ndimage.label(significance > threshold, structure=EIGHT_NEIGHBOURS)
    excess = np.where(labels > 0, significance - threshold, 0.0)
    mass = np.bincount(labels.ravel(), excess.ravel(), minlength=count + 1)[1:]
    return labels, np.sqrt(mass), np.bincount(labels.ravel(), minlength=count + 1)[1:]


def _expected_false(strength: Float64, null: Float64) -> Float64:
    """Number of false clusters of at least some strength: an exponential tail fitted to `null`."""
    middle, high = np.quantile(null, UPPER_CLUSTERS)
    decay = (high - middle) / np.log((1.0 - UPPER_CLUSTERS[0]) / (1.0 - UPPER_CLUSTERS[1]))
    length = TAIL_MARGIN * max(decay, SHORTEST_TAIL)
    return np.asarray((1.0 - UPPER_CLUSTERS[0]) * len(null) * np.exp((middle - strength) / length))


def _without_halo(
    labels: Labels, ppm_m: FloatArray, std: FloatArray, valid: BoolArray, rule: PlumeRule
) -> Labels:
    """Plumes without the pixels that only the mean around them had brought in.

    What stays: pixels sure by themselves, and faint gas, which is judged without the sure pixels.
    """
    if not labels.any():
        return labels
    median = _median_of_neighbours(ppm_m / np.where(valid, std, 1.0), valid)
    core = (labels > 0) & (_in_scatter(median, valid) > rule.core_sigma)
    del median
    outside = valid & ~core
    faint = _significance(ppm_m, std, outside) > rule.threshold_sigma
    kept: Labels = np.where(core | faint, labels, 0).astype(np.int32)
    gone = np.setdiff1d(np.unique(labels), np.unique(kept))
    return np.where(np.isin(labels, gone), labels, kept).astype(np.int32)


def _median_of_neighbours(values: FloatArray, valid: BoolArray) -> FloatArray:
    """3 x 3 median, which keeps the edges of a plume; invalid pixels count as the scene's median."""
    filled = np.where(valid, values, np.median(values[valid])).astype(np.float32)
    smooth: FloatArray = ndimage.median_filter(filled, size=3)
    return smooth
