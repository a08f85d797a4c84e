"""Synthetic reflectance spectra of the materials of a town, and the land-cover classes they belong to.

No spectrum here was measured. Each is a smooth continuum times absorption features that are Gaussian in
the logarithm of reflectance (the form of the modified Gaussian model, Sunshine et al. 1990,
doi:10.1029/JB095iB05p06955), placed where the substance is known to absorb: chlorophyll, liquid water,
iron oxides, clay, carbonate, cellulose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.interpolate import PchipInterpolator

Spectrum = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Absorption:
    """One absorption feature: reflectance is multiplied by exp(-depth · exp(-(λ - centre)² / 2 width²))."""

    centre_nm: float
    width_nm: float
    """Standard deviation [nm]."""
    depth: float
    """Depth in ln(reflectance) [1]; negative for a bump."""


def chlorophyll(amount: float) -> tuple[Absorption, ...]:
    """Leaf pigments: blue (430, 480 nm) and red (610, 672 nm) absorption, with the green gap between."""
    return tuple(
        Absorption(centre, width, amount * depth)
        for centre, width, depth in ((430, 40, 1.9), (480, 22, 1.1), (610, 35, 0.75), (672, 20, 1.9))
    )


def liquid_water(amount: float) -> tuple[Absorption, ...]:
    """The overtones of liquid water at 970, 1200, 1450 and 1940 nm and the wing of the 2.8 µm fundamental."""
    return tuple(
        Absorption(centre, width, amount * depth)
        for centre, width, depth in (
            (970, 30, 0.08),
            (1195, 45, 0.18),
            (1455, 60, 1.05),
            (1940, 70, 1.75),
            (2600, 230, 2.1),
        )
    )


def iron_oxide(amount: float) -> tuple[Absorption, ...]:
    """Fe3+ in haematite and goethite: charge transfer below 550 nm, crystal field at 660 and 880 nm."""
    return tuple(
        Absorption(centre, width, amount * depth)
        for centre, width, depth in ((400, 95, 1.5), (530, 40, 0.45), (660, 45, 0.06), (880, 70, 0.16))
    )


def clay(amount: float) -> tuple[Absorption, ...]:
    """Hydroxyl of clay minerals at 1414 and 2205 nm and bound water at 1910 nm."""
    return (
        Absorption(1414, 22, 0.6 * amount),
        Absorption(1910, 32, 0.8 * amount),
        Absorption(2205, 25, amount),
    )


def carbonate(amount: float) -> tuple[Absorption, ...]:
    """Calcite: 2340 nm, and the weaker 2160 and 1995 nm."""
    return (
        Absorption(1995, 28, 0.2 * amount),
        Absorption(2160, 25, 0.15 * amount),
        Absorption(2340, 30, amount),
    )


def cellulose(amount: float) -> tuple[Absorption, ...]:
    """Dry plant matter: cellulose and lignin at 2100 and 2300 nm, and 1730 nm."""
    return (
        Absorption(1730, 30, 0.25 * amount),
        Absorption(2100, 50, amount),
        Absorption(2300, 45, 0.9 * amount),
    )


@dataclass(frozen=True)
class Material:
    """A synthetic substance: continuum points and absorption features."""

    name: str
    continuum: tuple[tuple[float, float], ...]
    """(wavelength [nm], reflectance [1]) points, joined by a monotone cubic curve."""
    features: tuple[Absorption, ...]

    def reflectance(self, wavelength_nm: npt.ArrayLike) -> Spectrum:
        """Reflectance [1] at wavelengths [nm]."""
        wavelength = np.asarray(wavelength_nm, dtype=np.float64)
        points = np.asarray(self.continuum)
        inside = np.clip(wavelength, points[0, 0], points[-1, 0])
        curve = PchipInterpolator(points[:, 0], points[:, 1])(inside)
        depth = np.zeros_like(wavelength)
        for feature in self.features:
            depth += feature.depth * np.exp(-0.5 * ((wavelength - feature.centre_nm) / feature.width_nm) ** 2)
        return np.asarray(curve * np.exp(-depth))


@dataclass(frozen=True)
class LandCover:
    """A class of the map and the materials that occur in it."""

    name: str
    color: str
    """#rrggbb"""
    materials: tuple[Material, ...]
    gain_spread: float
    """Standard deviation of the logarithm of the brightness of a pixel [1] (roughness, wear, moisture)."""


_LEAF_CONTINUUM = ((400, 0.17), (560, 0.18), (690, 0.24), (715, 0.34), (750, 0.50), (800, 0.54), (1300, 0.56))

GRASS = Material(
    "grass",
    (*_LEAF_CONTINUUM, (1700, 0.38), (2250, 0.28), (2500, 0.26)),
    (*chlorophyll(0.85), *liquid_water(0.85), *cellulose(0.10)),
)
DRY_GRASS = Material(
    "dry grass",
    ((400, 0.10), (550, 0.15), (700, 0.24), (900, 0.31), (1300, 0.37), (1700, 0.36), (2500, 0.30)),
    (*chlorophyll(0.10), *liquid_water(0.18), *cellulose(0.28)),
)
TREE = Material(
    "tree",
    (
        *((nm, 0.8 * level) for nm, level in _LEAF_CONTINUUM),
        (1700, 0.31),
        (2250, 0.20),
        (2500, 0.18),
    ),
    (*chlorophyll(1.0), *liquid_water(1.05), *cellulose(0.06)),
)
ALUMINIUM = Material(
    "aluminium",
    ((400, 0.36), (700, 0.40), (1000, 0.44), (1500, 0.54), (2000, 0.61), (2500, 0.66)),
    (Absorption(860, 95, 0.42),),
)
COATED_STEEL = Material(
    "coated steel",
    ((400, 0.24), (470, 0.34), (600, 0.30), (900, 0.31), (1300, 0.38), (1700, 0.42), (2500, 0.40)),
    (Absorption(1725, 25, 0.12), Absorption(2310, 30, 0.22), Absorption(1190, 25, 0.05)),
)
LIGHT_LOAM = Material(
    "light loam",
    ((400, 0.14), (600, 0.25), (800, 0.34), (1300, 0.47), (1700, 0.51), (2100, 0.51), (2500, 0.46)),
    (*iron_oxide(0.38), *clay(0.17)),
)
DARK_LOAM = Material(
    "dark loam",
    ((400, 0.06), (600, 0.11), (800, 0.18), (1300, 0.30), (1700, 0.35), (2100, 0.34), (2500, 0.29)),
    (*iron_oxide(0.40), *clay(0.09), *liquid_water(0.07)),
)
RED_TILE = Material(
    "red tile",
    ((400, 0.24), (600, 0.31), (750, 0.35), (1300, 0.37), (1700, 0.38), (2500, 0.35)),
    (*iron_oxide(0.95), *clay(0.06), *carbonate(0.03)),
)
ORANGE_TILE = Material(
    "orange tile",
    ((400, 0.34), (600, 0.41), (750, 0.45), (1300, 0.48), (1700, 0.51), (2500, 0.53)),
    (*iron_oxide(0.75),),
)
WEATHERED_TILE = Material(
    "weathered tile",
    ((400, 0.13), (600, 0.18), (750, 0.22), (1300, 0.27), (1700, 0.29), (2500, 0.25)),
    (*iron_oxide(0.55), *clay(0.12), *chlorophyll(0.06), *cellulose(0.05)),
)
FRESH_ASPHALT = Material(
    "fresh asphalt",
    ((400, 0.055), (700, 0.065), (1300, 0.075), (2000, 0.08), (2500, 0.075)),
    (Absorption(1730, 25, 0.05), Absorption(2310, 30, 0.12)),
)
WORN_ASPHALT = Material(
    "worn asphalt",
    ((400, 0.085), (700, 0.13), (1300, 0.165), (2000, 0.18), (2500, 0.165)),
    (*iron_oxide(0.10), *carbonate(0.06)),
)
LIMESTONE_GRAVEL = Material(
    "limestone gravel",
    ((400, 0.28), (600, 0.39), (900, 0.44), (1300, 0.47), (1700, 0.49), (2500, 0.42)),
    (*iron_oxide(0.10), *carbonate(0.30), *liquid_water(0.05)),
)
GRANITE_GRAVEL = Material(
    "granite gravel",
    ((400, 0.20), (600, 0.25), (900, 0.27), (1300, 0.29), (1700, 0.31), (2500, 0.29)),
    (*iron_oxide(0.15), *clay(0.10)),
)

LAND_COVER: tuple[LandCover, ...] = (
    LandCover("asphalt", "#55565b", (FRESH_ASPHALT, WORN_ASPHALT), 0.08),
    LandCover("bare soil", "#a9814f", (LIGHT_LOAM, DARK_LOAM), 0.08),
    LandCover("gravel", "#d9cfb4", (LIMESTONE_GRAVEL, GRANITE_GRAVEL), 0.08),
    LandCover("sheet metal", "#4a7fb5", (ALUMINIUM, COATED_STEEL), 0.08),
    LandCover("tile", "#c8502d", (RED_TILE, ORANGE_TILE, WEATHERED_TILE), 0.08),
    LandCover("vegetation", "#2f8f3a", (GRASS, DRY_GRASS, TREE), 0.10),
)
"""Class k of a map (k = 1, 2, …) is `LAND_COVER[k - 1]`; 0 means no data."""


def material_index(name: str) -> int:
    """Position of a material in the order of `all_materials`."""
    return [material.name for material in all_materials()].index(name)


def all_materials() -> tuple[Material, ...]:
    """Every material, class after class."""
    return tuple(material for cover in LAND_COVER for material in cover.materials)


def class_of_material() -> npt.NDArray[np.uint8]:
    """Class id (from 1) of each material, in the order of `all_materials`."""
    return np.repeat(
        np.arange(1, len(LAND_COVER) + 1), [len(cover.materials) for cover in LAND_COVER]
    ).astype(np.uint8)
