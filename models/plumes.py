"""From an enhancement map to plumes: finding plume-free pixels, the mask, the list with mass and flux."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import ndimage
from torch import Tensor

from p3vae.models.baselines.matched_filter import MatchedFilter
from p3vae.models.methane_types import PlumeOptics
from p3vae.physics.emission import (
    DEFAULT_EFFECTIVE_WIND,
    EffectiveWind,
    EmissionRate,
    emission_rate,
    integrated_mass_enhancement,
)

FloatArray = npt.NDArray[np.floating[Any]]
BoolArray = npt.NDArray[np.bool_]

MAD_TO_STD = 1.4826
CANDIDATE_SIGMA = 2.5
CLEANING_ROUNDS = 3
EIGHT_NEIGHBOURS = np.ones((3, 3), dtype=bool)


@dataclass(frozen=True)
class PlumeRule:
    """What counts as a plume."""

    threshold_sigma: float = 3.0
    """Enhancement, after a 3 x 3 median, over its own robust scatter in the scene."""
    min_pixels: int = 9
    """Smaller groups of 8-connected pixels are noise."""
    min_peak_sigma: float = 5.0
    """A plume holds at least one pixel this far above the scatter."""


@dataclass(frozen=True)
class Plume:
    """One connected plume."""

    label: int
    """Its number in the label image, from 1."""
    pixels: int
    area_m2: float
    peak_ppm_m: float
    mean_ppm_m: float
    ime_kg: float
    ime_std_kg: float
    emission: EmissionRate | None
    """Q, when the wind is known."""


def plume_free(radiance: Tensor, optics: PlumeOptics, detector_column: Tensor | None = None) -> Tensor:
    """Mask (pixels,) of radiance (pixels, bands) that a robust matched filter finds free of methane.

    Pixels above 2.5 robust standard deviations leave the statistics, and the filter is fitted again.
    """
    keep = torch.ones(len(radiance), dtype=torch.bool)
    for _ in range(CLEANING_ROUNDS):
        columns = None if detector_column is None else detector_column[keep]
        found = MatchedFilter.fit(radiance[keep], optics, variant="log", detector_column=columns)
        alpha = found.invert(radiance, detector_column).ppm_m
        centre = alpha[keep].median()
        scatter = MAD_TO_STD * (alpha[keep] - centre).abs().median()
        keep = alpha < centre + CANDIDATE_SIGMA * scatter
    return keep


def label_plumes(ppm_m: FloatArray, valid: BoolArray, rule: PlumeRule | None = None) -> npt.NDArray[np.int32]:
    """Label image (rows, cols): 0 no plume, 1... plumes by descending peak."""
    chosen = rule or PlumeRule()
    smooth = _median_of_neighbours(ppm_m, valid)
    centre, scatter = _centre_and_scatter(smooth[valid])
    excess = np.where(valid, smooth - centre, -np.inf)
    labels, count = ndimage.label(excess > chosen.threshold_sigma * scatter, structure=EIGHT_NEIGHBOURS)
    if count == 0:
        return np.zeros(ppm_m.shape, dtype=np.int32)
    numbers = np.arange(1, count + 1)
    peaks = np.atleast_1d(ndimage.maximum(excess, labels, numbers))
    sizes = np.bincount(labels.ravel(), minlength=count + 1)[1:]
    kept = numbers[(sizes >= chosen.min_pixels) & (peaks >= chosen.min_peak_sigma * scatter)]
    ranked = kept[np.argsort(-peaks[kept - 1])]
    lookup = np.zeros(count + 1, dtype=np.int32)
    lookup[ranked] = np.arange(1, len(ranked) + 1)
    found: npt.NDArray[np.int32] = lookup[labels]
    return found


def count_false_alarms(ppm_m: FloatArray, valid: BoolArray, rule: PlumeRule | None = None) -> int:
    """Plumes that the same rule finds in the sign-flipped map, where there can be none."""
    return int(label_plumes(-ppm_m, valid, rule).max(initial=0))


def list_plumes(
    ppm_m: FloatArray,
    std: FloatArray,
    labels: npt.NDArray[np.int32],
    pixel_area_m2: float,
    *,
    wind_m_s: float | None = None,
    wind_std_m_s: float | None = None,
    effective_wind: EffectiveWind = DEFAULT_EFFECTIVE_WIND,
) -> list[Plume]:
    """Area, peak, mean, mass and, with a 10 m wind [m s-1], the emission rate of every labelled plume."""
    plumes = []
    for label in range(1, int(labels.max(initial=0)) + 1):
        inside = labels == label
        values = ppm_m[inside]
        area = float(inside.sum() * pixel_area_m2)
        mass = integrated_mass_enhancement(values, pixel_area_m2)
        spread = integrated_mass_enhancement(np.sqrt((std[inside] ** 2).sum(keepdims=True)), pixel_area_m2)
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
        plumes.append(
            Plume(
                label, int(inside.sum()), area, float(values.max()), float(values.mean()), mass, spread, rate
            )
        )
    return plumes


def _centre_and_scatter(values: FloatArray) -> tuple[float, float]:
    """Median and robust standard deviation; a sparse map's, mostly exact zeros, from its other values."""
    if len(values) == 0:
        return 0.0, np.inf
    centre = float(np.median(values))
    deviation = np.abs(values - centre)
    telling = deviation if np.median(deviation) > 0 else deviation[deviation > 0]
    return centre, MAD_TO_STD * float(np.median(telling)) if len(telling) else np.inf


def _median_of_neighbours(ppm_m: FloatArray, valid: BoolArray) -> npt.NDArray[np.float64]:
    """3 x 3 median, which keeps the edges of a plume; invalid pixels count as the scene's median."""
    filled = np.where(valid, ppm_m, np.median(ppm_m[valid]) if valid.any() else 0.0)
    smooth: npt.NDArray[np.float64] = ndimage.median_filter(filled.astype(np.float64), size=3)
    return smooth
