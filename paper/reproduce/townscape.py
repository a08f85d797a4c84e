"""The simulated land-cover experiment: a partly labelled townscape, and spectra that cover all light.

Signal model, as in the paper: x = (z·a + w·b)·ρ with z = δ·cosΘ the direct light, w = Ω·p the skylight (sky
view times anisotropy), and ρ = α·ρ_i + (1 - α)·ρ_j a mixture of two materials of the class. The sun stands
30° from the zenith, in the south.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from p3vae.physics.illumination import SpectralIrradiance, clear_sky_irradiance
from p3vae.physics.irradiance import apparent_reflectance
from p3vae.physics.simulation import materials
from p3vae.physics.spectral_response import Bands, outside

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]
BoolArray = npt.NDArray[np.bool_]

CLASSES = ("vegetation", "sheet metal", "sandy loam", "tile", "asphalt")
VEGETATION, METAL, LOAM, TILE, ASPHALT = range(5)
SUN_ZENITH_DEG = 30.0
_COS_SUN, _SIN_SUN = np.cos(np.radians(SUN_ZENITH_DEG)), np.sin(np.radians(SUN_ZENITH_DEG))

_IN_FILE = (
    ("grass", "dry_grass", "tree"),
    ("alu",),
    ("loam_1", "loam_2"),
    ("tile_1", "tile_2", "tile_3"),
    ("asphalt",),
)
_BUILT_IN = (
    ("grass", "dry grass", "tree"),
    ("aluminium",),
    ("light loam", "dark loam"),
    ("orange tile", "red tile", "weathered tile"),
    ("worn asphalt",),
)
_UNUSABLE_NM = ((745, 766), (882, 980), (1090, 1156), (1304, 1500), (1759, 2020), (2331, 2400))
GAIN_NOISE, MATERIAL_NOISE, SENSOR_NOISE = 0.02, 0.004, 0.001
"""Standard deviations: of a material's brightness, relative; of its reflectance; of the sensor [1]."""
_ROOFS = ((1, 30.0), (0, 20.0), (2, 40.0), (1, 25.0), (0, 35.0))
"""Tile and pitch [degree] of each roof, the most labelled roof first: the third tile is never labelled."""
_METAL_PITCH_DEG = 8.0
_SHADOW_SHARE = {VEGETATION: 0.30, LOAM: 0.50, ASPHALT: 0.60}
"""Of the unlabelled ground of a class."""


@dataclass(frozen=True, eq=False)
class Townscape:
    """What stands where, of what, in which light; everything but the chance of one seed."""

    spectra: tuple[FloatArray, ...]
    """True reflectance of the materials of each class, (materials, bands) [1]."""
    bands: Bands
    irradiance: SpectralIrradiance
    class_index: IntArray
    """(rows, cols), positions in `CLASSES`."""
    labelled: BoolArray
    """(rows, cols)."""


@dataclass(frozen=True, eq=False)
class Spectra:
    """Spectra and the truth behind each, (pixels,) unless said."""

    x: npt.NDArray[np.float32]
    """Apparent reflectance (pixels, bands) [1]."""
    y: IntArray
    """Position in `CLASSES`."""
    z: FloatArray
    """Direct light δ·cosΘ [1]."""
    w: FloatArray
    """Skylight Ω·p [1]."""
    alpha: FloatArray
    """Share of the first material [1]."""
    eta: IntArray
    """Which pair of materials."""


def built_in() -> Townscape:
    """The paper's classes with this project's own synthetic materials, irradiance and map."""
    centres = np.linspace(453.25, 2396.75, 300)
    bands = Bands.from_centres(centres[outside(centres, _UNUSABLE_NM)])
    known = {material.name: material for material in materials.all_materials()}
    spectra = tuple(
        np.stack([known[name].reflectance(bands.wavelength_nm) for name in names]) for names in _BUILT_IN
    )
    class_index, labelled = _built_in_map()
    light = clear_sky_irradiance(bands, SUN_ZENITH_DEG)
    return Townscape(spectra, bands, light, class_index, labelled)


def from_file(path: Path) -> Townscape:
    """The paper's materials, irradiance and label masks; KeyError names what the file lacks."""
    with np.load(path, allow_pickle=False) as file:
        good = file["good_band"].astype(bool)
        bands = Bands.from_centres(file["wavelength_um"][good].astype(np.float64) * 1000.0)
        direct, diffuse = [file[f"irradiance_{part}"][good] for part in ("direct", "diffuse")]
        spectra = tuple(
            np.stack([file[f"reflectance_{name}"][good].astype(np.float64) for name in names])
            for names in _IN_FILE
        )
        train, rest = file["train_mask"].astype(int), file["val_mask"].astype(int)
    irradiance = SpectralIrradiance(bands.wavelength_nm, direct, diffuse, SUN_ZENITH_DEG)
    return Townscape(spectra, bands, irradiance, np.where(train > 0, train, rest) - 1, train > 0)


def _built_in_map() -> tuple[IntArray, BoolArray]:
    """Classes and labels (80, 80): street, gardens with five roofs, a metal hall, a field, a meadow."""
    kind = np.full((80, 80), VEGETATION)
    kind[:10], kind[46:52] = ASPHALT, LOAM
    kind[14:28, 62:74] = METAL
    roofs = ((12, 26, 8, 28), (12, 26, 34, 52), (29, 42, 8, 26), (29, 42, 32, 56), (58, 72, 30, 54))
    for top, bottom, left, right in roofs:
        kind[top:bottom, left:right] = TILE
    labelled = kind == METAL
    for rows, cols in (
        (slice(0, 10), slice(30, 80)),
        (slice(10, 46), slice(0, 8)),
        (slice(50, 52), slice(0, 80)),
        (slice(52, 58), slice(0, 30)),
        (slice(12, 26), slice(8, 28)),
        (slice(58, 65), slice(30, 54)),
    ):
        labelled[rows, cols] = True
    return kind, labelled


@dataclass(frozen=True, eq=False)
class Image:
    """One simulated acquisition; maps (rows, cols)."""

    cube: npt.NDArray[np.float32]
    """(rows, cols, bands)."""
    z: FloatArray
    w: FloatArray
    material: IntArray
    """Position of the pixel's material within its class."""


def polygons(town: Townscape, *, labelled_only: bool = True) -> IntArray:
    """Connected parts of each class, numbered from 1 over the whole image; 0 outside, (rows, cols)."""
    number = np.zeros(town.class_index.shape, dtype=int)
    for index in range(len(CLASSES)):
        inside = town.class_index == index
        if labelled_only:
            inside &= town.labelled
        parts, _ = ndimage.label(inside)
        number[inside] = parts[inside] + number.max()
    return number


def acquire(town: Townscape, seed: int) -> Image:
    """Materials, slopes, shadows and noise of one seed.

    Labelled ground lies in the sun and unlabelled ground partly in shadow; trees stand where no label is.
    """
    rng = np.random.default_rng(seed)
    material = _materials(town, rng)
    slope, faces_sun = _roof_slopes(town)
    cos_incidence = _incidence(slope, np.where(faces_sun, 0.0, np.pi))
    lit = _lit_fraction(town, rng)
    sky = np.clip(_sky_view(town, slope) + rng.normal(0.0, 0.02, slope.shape), 0.2, 1.0)
    z = lit * cos_incidence
    w = sky * (1.0 + 0.15 * (cos_incidence - _COS_SUN) - 0.25 * (1.0 - lit))
    reflectance = np.empty((*z.shape, len(town.bands)))
    for index, spectra in enumerate(town.spectra):
        here = town.class_index == index
        reflectance[here] = spectra[material[here]]
    cube = _seen(town, reflectance.reshape(z.size, -1), z.ravel(), w.ravel(), rng)
    return Image(cube.reshape(*z.shape, -1), z, w, material)


def random_spectra(town: Townscape, per_class: int, seed: int) -> Spectra:
    """Noisy test spectra with independent random light: half in full sun, 15 % in full shadow."""
    rng = np.random.default_rng(seed)
    parts = []
    for index, spectra in enumerate(town.spectra):
        lit = rng.choice([0.0, 1.0, np.nan], per_class, p=[0.15, 0.50, 0.35])
        lit = np.where(np.isnan(lit), rng.random(per_class), lit)
        slope, aspect = np.radians(rng.uniform(0, 60, per_class)), rng.uniform(0, 2 * np.pi, per_class)
        z = lit * _incidence(slope, aspect)
        w = rng.uniform(0.25, 1.0, per_class) * rng.uniform(0.8, 1.1, per_class)
        eta = rng.integers(len(spectra), size=per_class)
        alpha = rng.random(per_class) if len(spectra) > 1 else np.ones(per_class)
        x = _seen(town, mixed(spectra, eta, alpha), z, w, rng)
        parts.append((x, np.full(per_class, index), z, w, alpha, eta))
    return _joined(parts)


def grid_spectra(town: Townscape, per_class: int) -> Spectra:
    """Noise-free test spectra on a regular grid of z (0 to 1), w (0.2 to 1), mixing and pair."""
    parts = []
    for index, spectra in enumerate(town.spectra):
        mixing = np.linspace(0.0, 1.0, 10) if len(spectra) > 1 else np.ones(1)
        steps = -(-per_class // (10 * len(spectra) * len(mixing)))
        axes: tuple[Any, ...] = (
            np.arange(len(spectra)),
            mixing,
            np.linspace(0, 1, steps),
            np.linspace(0.2, 1, 10),
        )
        eta, alpha, z, w = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
        x = _lit(town, mixed(spectra, eta, alpha), z, w).astype(np.float32)
        parts.append((x, np.full(len(z), index), z, w, alpha, eta))
    return _joined(parts)


def _joined(parts: list[tuple[Any, ...]]) -> Spectra:
    return Spectra(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def mixed(spectra: FloatArray, eta: IntArray, alpha: FloatArray) -> FloatArray:
    """Reflectance of `alpha` parts of material `eta` and the rest of the next one, (pixels, bands) [1]."""
    share = alpha[:, None]
    return np.asarray(share * spectra[eta] + (1 - share) * spectra[(eta + 1) % len(spectra)])


def _lit(town: Townscape, reflectance: FloatArray, z: FloatArray, w: FloatArray) -> FloatArray:
    light = town.irradiance
    return np.asarray(apparent_reflectance(reflectance, z, w, light.direct_ratio, light.diffuse_ratio))


def _seen(
    town: Townscape, reflectance: FloatArray, z: FloatArray, w: FloatArray, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    """With the variability of materials and the noise of a sensor."""
    gain = rng.normal(1.0, GAIN_NOISE, (len(reflectance), 1))
    varied = reflectance * gain + rng.normal(0.0, MATERIAL_NOISE, reflectance.shape)
    x = _lit(town, varied, z, w) + rng.normal(0.0, SENSOR_NOISE, reflectance.shape)
    return np.maximum(x, 1e-4).astype(np.float32)


def _incidence(slope: FloatArray, aspect_from_sun: FloatArray) -> FloatArray:
    """cosΘ of ground with a slope [rad], turned away from the sun by an azimuth [rad]; 0 if behind."""
    cosine = _COS_SUN * np.cos(slope) + _SIN_SUN * np.sin(slope) * np.cos(aspect_from_sun)
    return np.asarray(np.clip(cosine, 0.0, 1.0))


def _smooth_noise(shape: tuple[int, ...], width: float, rng: np.random.Generator) -> FloatArray:
    field = ndimage.gaussian_filter(rng.standard_normal(shape), width, mode="wrap")
    return np.asarray((field - field.mean()) / field.std())


def _materials(town: Townscape, rng: np.random.Generator) -> IntArray:
    """Green lawns in the upper half, dry ones below, trees scattered; two soils; one tile per roof."""
    kind = town.class_index
    places: IntArray = np.indices(kind.shape)
    rows, cols = places[0], places[1]
    material = np.zeros(kind.shape, dtype=int)
    lawns, count = ndimage.label(kind == VEGETATION)
    for lawn in range(1, count + 1):
        material[lawns == lawn] = int(rows[lawns == lawn].mean() >= kind.shape[0] / 2)
    trees = _smooth_noise(kind.shape, 1.8, rng) > 1.1
    material[trees & (kind == VEGETATION) & ~town.labelled] = 2
    material[(kind == LOAM) & (cols >= kind.shape[1] // 2)] = 1
    for roof, (tile, _) in _roofs(town):
        material[roof] = tile
    return material


def _roofs(town: Townscape) -> list[tuple[BoolArray, tuple[int, float]]]:
    """Every tiled roof with its tile and pitch, the most labelled first."""
    parts, count = ndimage.label(town.class_index == TILE)
    roofs = sorted((parts == n for n in range(1, count + 1)), key=lambda roof: -town.labelled[roof].mean())
    return [(roof, _ROOFS[n % len(_ROOFS)]) for n, roof in enumerate(roofs)]


def _roof_slopes(town: Townscape) -> tuple[FloatArray, BoolArray]:
    """Slope [rad] and whether it falls towards the sun: ridges run east-west, metal has one side."""
    rows: IntArray = np.indices(town.class_index.shape)[0]
    slope, faces_sun = np.zeros(rows.shape), np.ones(rows.shape, dtype=bool)
    for roof, (_, pitch) in _roofs(town):
        slope[roof] = np.radians(pitch)
        faces_sun[roof] = rows[roof] >= rows[roof].mean()
    slope[town.class_index == METAL] = np.radians(_METAL_PITCH_DEG)
    return slope, faces_sun


def _lit_fraction(town: Townscape, rng: np.random.Generator) -> FloatArray:
    """δ: soft-edged shadows over unlabelled ground, 1 elsewhere."""
    field = _smooth_noise(town.class_index.shape, 2.5, rng)
    lit = np.ones(field.shape)
    for index, share in _SHADOW_SHARE.items():
        ground = (town.class_index == index) & ~town.labelled
        edge = np.quantile(field[ground], share)
        lit[ground] = np.clip((field[ground] - edge) / 0.35 + 0.5, 0.0, 1.0)
    return lit


def _sky_view(town: Townscape, slope: FloatArray) -> FloatArray:
    """Ω: tilted roofs lose what lies behind them, ground what the nearest building hides."""
    built = np.isin(town.class_index, (METAL, TILE))
    distance = ndimage.distance_transform_edt(~built)
    return np.where(built, (1 + np.cos(slope)) / 2, 1 - 0.45 * np.exp(-distance / 3.0))
