"""Mass, place and shape of the plumes of a map, with a budget of the errors of the mass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from p3vae.models.methane.background.screening import MAD_TO_STD
from p3vae.models.methane.plumes.clusters import EIGHT_NEIGHBOURS, FoundPlumes
from p3vae.models.methane.plumes.prior import neighbourhood_mean
from p3vae.models.methane.plumes.vetting import LogRatio
from p3vae.physics.emission import (
    DEFAULT_EFFECTIVE_WIND,
    EffectiveWind,
    EmissionRate,
    emission_rate,
    integrated_mass_enhancement,
)

FloatArray = npt.NDArray[np.floating[Any]]
BoolArray = npt.NDArray[np.bool_]
Place = tuple[float, float]

ABSORPTION_ERROR = 0.06
"""Relative error of the absorption of methane: two good tables differ by 5 to 8 % on these sensors' bands."""
FEWEST_WINDOWS = 30
"""Windows without which their scatter would be a guess."""
SHORTEST_AXIS_PIXELS = 2.0
"""Distance from source to centroid below which a plume has no direction [pixels]."""


@dataclass(frozen=True)
class Mass:
    """IME [kg] and the one-sigma errors it is made of [kg]."""

    kg: float
    noise_kg: float
    """Errors of single pixels."""
    background_kg: float
    """Errors that neighbours share: sums over plume-free windows of that size scatter by it."""
    mask_kg: float
    """Gas of the pixels around the mask."""
    absorption_kg: float
    """The absorption of methane, see `ABSORPTION_ERROR`."""

    @property
    def std_kg(self) -> float:
        """All errors together [kg]."""
        parts = (self.noise_kg, self.background_kg, self.mask_kg, self.absorption_kg)
        return float(np.sqrt(sum(part**2 for part in parts)))


@dataclass(frozen=True)
class Plume:
    """One connected plume; places are (row, col) of pixel centres."""

    label: int
    """Its number in the label image, from 1."""
    false_plumes: float
    """Expected number of false plumes of this strength in the scene."""
    log_ratio: LogRatio | None
    """What its spectrum says; None where it was not looked at."""
    pixels: int
    peak_ppm_m: float
    mean_ppm_m: float
    peak: Place
    source: Place
    """The likely source: the end of the axis nearest to the peak."""
    centroid: Place
    """Weighted by enhancement."""
    touches_edge: bool
    """Whether the plume goes on where nothing is known: beyond the scene, or under cloud."""
    area_m2: float | None
    """This and what follows from it: None where the size of a pixel is unknown."""
    mass: Mass | None
    emission: EmissionRate | None
    """Q, when the wind is known too."""

    @property
    def probability(self) -> float:
        """That it is a plume [1], with as many plumes as false ones to be expected beforehand."""
        for_methane = 0.0 if self.log_ratio is None else float(np.clip(self.log_ratio.found, -30.0, 30.0))
        return float(1.0 / (1.0 + self.false_plumes * np.exp(-for_methane)))

    @property
    def has_direction(self) -> bool:
        """Whether it is long enough for one."""
        return float(np.hypot(*np.subtract(self.centroid, self.source))) >= SHORTEST_AXIS_PIXELS


@dataclass(frozen=True)
class Wind:
    """10 m wind [m s-1], its one-sigma error, and how it becomes the speed of a plume's mass."""

    m_s: float | None = None
    std_m_s: float | None = None
    effective: EffectiveWind = DEFAULT_EFFECTIVE_WIND


def list_plumes(
    ppm_m: FloatArray,
    std: FloatArray,
    valid: BoolArray,
    found: FoundPlumes,
    pixel_area_m2: float | None,
    wind: Wind | None = None,
) -> list[Plume]:
    """Peak, place, area, mass and, with the wind, the emission rate of every plume of a map."""
    around, _ = neighbourhood_mean(ppm_m, std, valid, 0.0)
    ground = valid & (found.labels == 0)
    blown = wind or Wind()
    plumes = []
    for label, false_plumes in enumerate(found.false_plumes, start=1):
        inside = found.labels == label
        pixels, values = int(inside.sum()), ppm_m[inside]
        row, col = np.nonzero(inside)
        highest = int(values.argmax())
        mass = emission = area = None
        if pixel_area_m2 is not None:
            area = pixels * pixel_area_m2
            mass = _mass(ppm_m, std, inside, ground, pixel_area_m2)
            if blown.m_s is not None:
                emission = emission_rate(
                    mass.kg,
                    area,
                    blown.m_s,
                    ime_std_kg=mass.std_kg,
                    wind_std_m_s=blown.std_m_s,
                    effective_wind=blown.effective,
                )
        plumes.append(
            Plume(
                label,
                float(false_plumes),
                found.log_ratios[label - 1],
                pixels,
                float(values.max()),
                float(values.mean()),
                (float(row[highest]), float(col[highest])),
                *_axis(row, col, values, around[inside]),
                _touches_edge(inside, valid),
                area,
                mass,
                emission,
            )
        )
    return plumes


def _mass(
    ppm_m: FloatArray, std: FloatArray, inside: BoolArray, ground: BoolArray, pixel_area_m2: float
) -> Mass:
    mass = integrated_mass_enhancement(ppm_m[inside], pixel_area_m2)
    alone = integrated_mass_enhancement(np.sqrt((std[inside] ** 2).sum(keepdims=True)), pixel_area_m2)
    excess = _excess_scatter(ppm_m, std, ground, int(inside.sum()))
    rim = ndimage.binary_dilation(inside, EIGHT_NEIGHBOURS) & ground
    outside = integrated_mass_enhancement(ppm_m[rim], pixel_area_m2)
    shared = alone * float(np.sqrt(excess**2 - 1.0))
    return Mass(mass, alone, shared, abs(outside), ABSORPTION_ERROR * abs(mass))


def _axis(
    row: npt.NDArray[np.intp], col: npt.NDArray[np.intp], values: FloatArray, around: FloatArray
) -> tuple[Place, Place]:
    """Source and centroid of a plume.

    The source is, of the pixels around which at least half of the highest mean is found, the one furthest
    from the centroid on the side of that highest mean.
    """
    places = np.column_stack([row, col]).astype(np.float64)
    weight = np.maximum(values, 0.0)
    centroid = weight @ places / weight.sum() if weight.sum() > 0 else places.mean(0)
    towards = places[int(around.argmax())] - centroid
    strong = np.flatnonzero(around >= 0.5 * around.max())
    source = places[strong[int(((places[strong] - centroid) @ towards).argmax())]]
    return (float(source[0]), float(source[1])), (float(centroid[0]), float(centroid[1]))


def _touches_edge(inside: BoolArray, valid: BoolArray) -> bool:
    border = np.ones_like(inside)
    border[1:-1, 1:-1] = False
    beside = ndimage.binary_dilation(inside, EIGHT_NEIGHBOURS) & ~inside
    return bool((inside & border).any() or (beside & ~valid).any())


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
