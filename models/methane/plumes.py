"""From an enhancement map to plumes: the mask, the list with mass and flux."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from p3vae.models.methane.screening import MAD_TO_STD
from p3vae.physics.emission import (
    DEFAULT_EFFECTIVE_WIND,
    EffectiveWind,
    EmissionRate,
    emission_rate,
    integrated_mass_enhancement,
)

FloatArray = npt.NDArray[np.floating[Any]]
BoolArray = npt.NDArray[np.bool_]

REACH_PIXELS = 1.5
"""Standard deviation of the weights around a pixel [pixels]."""
FEWEST_WINDOWS = 30
"""Windows without which their scatter would be a guess."""
EIGHT_NEIGHBOURS = np.ones((3, 3), dtype=bool)


@dataclass(frozen=True)
class PlumeRule:
    """What counts as a plume."""

    threshold_sigma: float = 3.0
    """Enhancement over its std, after a 3 x 3 median, over its own robust scatter in the scene."""
    min_pixels: int = 9
    """Smaller groups of 8-connected pixels are noise."""
    min_peak_sigma: float = 5.0
    """A plume holds at least one pixel around which the mean is this far above its scatter."""
    rim_sigma: float = 3.0
    """Neighbourhoods this far above their scatter belong to the plume that they touch."""


@dataclass(frozen=True)
class Plume:
    """One connected plume."""

    label: int
    """Its number in the label image, from 1."""
    pixels: int
    peak_ppm_m: float
    mean_ppm_m: float
    area_m2: float | None
    """This and what follows from it: None where the size of a pixel is unknown."""
    ime_kg: float | None
    ime_std_kg: float | None
    emission: EmissionRate | None
    """Q, when the wind is known too."""


def label_plumes(
    ppm_m: FloatArray, std: FloatArray, valid: BoolArray, rule: PlumeRule | None = None
) -> npt.NDArray[np.int32]:
    """Label image (rows, cols): 0 no plume, 1... plumes by descending significance of their peak."""
    chosen = rule or PlumeRule()
    single = _in_scatter(_median_of_neighbours(ppm_m / np.where(valid, std, 1.0), valid), valid)
    labels, count = ndimage.label(single > chosen.threshold_sigma, structure=EIGHT_NEIGHBOURS)
    if count == 0:
        return np.zeros(ppm_m.shape, dtype=np.int32)
    numbers = np.arange(1, count + 1)
    together = _in_scatter(_neighbourhood_certainty(ppm_m, std, valid), valid)
    peaks = np.atleast_1d(ndimage.maximum(together, labels, numbers))
    sizes = np.bincount(labels.ravel(), minlength=count + 1)[1:]
    kept = numbers[(sizes >= chosen.min_pixels) & (peaks >= chosen.min_peak_sigma)]
    ranked = kept[np.argsort(-peaks[kept - 1])]
    lookup = np.zeros(count + 1, dtype=np.int32)
    lookup[ranked] = np.arange(1, len(ranked) + 1)
    core: npt.NDArray[np.int32] = lookup[labels]
    return _with_rim(core, ppm_m, std, valid, chosen.rim_sigma)


def count_false_alarms(
    ppm_m: FloatArray, std: FloatArray, valid: BoolArray, rule: PlumeRule | None = None
) -> int | None:
    """Plumes that the same rule finds in the sign-flipped map, where there can be none.

    None for a map without negative values: flipped, it says nothing.
    """
    if not (ppm_m[valid] < 0).any():
        return None
    return int(label_plumes(-ppm_m, std, valid, rule).max(initial=0))


def list_plumes(
    ppm_m: FloatArray,
    std: FloatArray,
    valid: BoolArray,
    labels: npt.NDArray[np.int32],
    pixel_area_m2: float | None,
    *,
    wind_m_s: float | None = None,
    wind_std_m_s: float | None = None,
    effective_wind: EffectiveWind = DEFAULT_EFFECTIVE_WIND,
) -> list[Plume]:
    """Peak, mean, area, mass and, with a 10 m wind [m s-1], the emission rate of every labelled plume.

    Errors of neighbours are not independent: they share their ground. By how much that widens the error of
    a sum is seen on the plume-free ground around.
    """
    plumes = []
    ground = valid & (labels == 0)
    for label in range(1, int(labels.max(initial=0)) + 1):
        inside = labels == label
        values, pixels = ppm_m[inside], int(inside.sum())
        seen = label, pixels, float(values.max()), float(values.mean())
        if pixel_area_m2 is None:
            plumes.append(Plume(*seen, None, None, None, None))
            continue
        area = pixels * pixel_area_m2
        mass = integrated_mass_enhancement(values, pixel_area_m2)
        alone = np.sqrt((std[inside] ** 2).sum(keepdims=True))
        shared = _excess_scatter(ppm_m, std, ground, pixels)
        spread = shared * integrated_mass_enhancement(alone, pixel_area_m2)
        rate = None
        if wind_m_s is not None:
            rate = emission_rate(
                mass,
                area,
                wind_m_s,
                ime_std_kg=spread,
                wind_std_m_s=wind_std_m_s,
                effective_wind=effective_wind,
            )
        plumes.append(Plume(*seen, area, mass, spread, rate))
    return plumes


def _excess_scatter(ppm_m: FloatArray, std: FloatArray, ground: BoolArray, pixels: int) -> float:
    """How many times more sums over square windows scatter than independent errors would, at least 1.

    The windows are of as many pixels as asked, or of fewer where the ground has no room for enough of them.
    """
    side = int(np.sqrt(min(pixels, ground.sum() / FEWEST_WINDOWS)))
    if side < 2:
        return 1.0
    rows, cols = (length // side for length in ground.shape)

    def sums(values: FloatArray | BoolArray) -> npt.NDArray[np.float64]:
        cut = values[: rows * side, : cols * side].astype(np.float64)
        return np.asarray(cut.reshape(rows, side, cols, side).sum((1, 3)).ravel())

    full = sums(ground) > 0.5 * side**2
    if not full.any():
        return 1.0
    total = sums(np.where(ground, ppm_m - np.median(ppm_m[ground]), 0.0))[full]
    alone = np.sqrt(sums(np.where(ground, std, 0.0) ** 2)[full])
    return max(1.0, float(MAD_TO_STD * np.median(np.abs(total / alone))))


def _in_scatter(values: FloatArray, valid: BoolArray) -> npt.NDArray[np.float64]:
    """Values over the scene's median in units of their robust standard deviation; -inf where invalid.

    The scatter of a sparse map, which is mostly exact zeros, is that of its other values.
    """
    out = np.full(values.shape, -np.inf)
    if valid.any():
        excess = values[valid] - np.median(values[valid])
        deviation = np.abs(excess)
        informative = deviation if np.median(deviation) > 0 else deviation[deviation > 0]
        out[valid] = excess / (MAD_TO_STD * np.median(informative)) if len(informative) else 0.0
    return out


def _median_of_neighbours(values: FloatArray, valid: BoolArray) -> npt.NDArray[np.float64]:
    """3 x 3 median, which keeps the edges of a plume; invalid pixels count as the scene's median."""
    filled = np.where(valid, values, np.median(values[valid]) if valid.any() else 0.0)
    smooth: npt.NDArray[np.float64] = ndimage.median_filter(filled.astype(np.float64), size=3)
    return smooth


def _neighbourhood_certainty(ppm_m: FloatArray, std: FloatArray, valid: BoolArray) -> npt.NDArray[np.float64]:
    """Precision-weighted mean around each pixel over its standard deviation, up to a constant.

    A faint plume is in no single pixel and in all of them together.
    """
    precision = valid / np.where(valid, std, 1.0).astype(np.float64) ** 2
    signal = ndimage.gaussian_filter(precision * np.where(valid, ppm_m, 0.0), REACH_PIXELS)
    weight = ndimage.gaussian_filter(precision, REACH_PIXELS)
    certainty: npt.NDArray[np.float64] = signal / np.sqrt(np.where(valid, weight, 1.0))
    return certainty


def _with_rim(
    core: npt.NDArray[np.int32], ppm_m: FloatArray, std: FloatArray, valid: BoolArray, rim_sigma: float
) -> npt.NDArray[np.int32]:
    """Plumes with the faint gas that touches them; those that it connects are one.

    The gas is judged without the plumes' own pixels, which would outshine it.
    """
    if not core.any():
        return core
    outside = valid & (core == 0)
    faint = _in_scatter(_neighbourhood_certainty(ppm_m, std, outside), outside) > rim_sigma
    joined, count = ndimage.label(faint | (core > 0), structure=EIGHT_NEIGHBOURS)
    first = np.full(count + 1, np.iinfo(np.int32).max)
    np.minimum.at(first, joined[core > 0], core[core > 0])
    order = np.argsort(first)[: int((first < np.iinfo(np.int32).max).sum())]
    lookup = np.zeros(count + 1, dtype=np.int32)
    lookup[order] = np.arange(1, len(order) + 1)
    labels: npt.NDArray[np.int32] = lookup[joined]
    return labels
