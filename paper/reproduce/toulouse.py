"""The real land-cover experiment: labelled airborne spectra of Toulouse, split by polygons, and relit.

Polygons are split between training and test as wholes; a class with one polygon is cut across its longer
side. The plain test is easy, because all labels lie in the sun: the same spectra in random other light, the
relit test, is the one that counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter1d
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.irradiance import irradiance_ratio
from p3vae.physics.spectral_response import Bands

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]
Float32Array = npt.NDArray[np.float32]

CLASSES = (
    "tile",
    "asphalt",
    "vegetation",
    "painted metal",
    "water",
    "gravel",
    "metal",
    "fibre cement",
)
SUN_ZENITH_DEG = 22.12
_SCALE = 1e-4
_REACH = 3
"""Labelled pixels at most this far apart belong to one polygon [pixels]."""
_TRAINING_SHARE = 0.45
_SMOOTHING = 1.5
"""The labelled spectra came smoothed along the spectrum; image tiles are smoothed alike [bands]."""
_UNLABELLED = 4000


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test spectra of one seed; reflectance [1]."""

    bands: Bands
    irradiance: SpectralIrradiance
    labelled: Float32Array
    """(samples, bands)."""
    labelled_class: IntArray
    polygon: IntArray
    """(samples,)."""
    place: IntArray
    """Row and column in the image of the sample, (samples, 2)."""
    unlabelled: Float32Array
    """(pixels, bands)."""
    tiles: tuple[Float32Array, ...]
    """The images that unlabelled pixels come from, (rows, cols, bands), NaN where there is no data."""
    test: Float32Array
    test_class: IntArray
    test_polygon: IntArray
    test_place: IntArray


@dataclass(frozen=True, eq=False)
class Relit:
    """Test spectra in other light."""

    x: Float32Array
    y: IntArray
    z: FloatArray
    """Direct light δ·cosΘ [1]."""


def read_split(path: Path, seed: int) -> Split:
    """One split of the labelled polygons, and unlabelled pixels of two tiles; KeyError names what lacks."""
    rng = np.random.default_rng(seed)
    with np.load(path, allow_pickle=False) as file:
        good = file["good_band"].astype(bool)
        spectra, label = file["spectra"], file["label"].astype(int) - 1
        place = np.stack([file["image"], file["row"], file["col"]], axis=1).astype(int)
        tiles = [file[name] for name in ("tile_asphalt", "tile_vegetation")]
        direct, diffuse = [file[f"irradiance_{part}"][good] for part in ("direct", "diffuse")]
        bands = Bands.from_centres(file["wavelength_um"][good].astype(np.float64) * 1000.0)
    polygon = _polygons(label, place)
    chosen = _training_polygons(label, polygon, rng)
    train, test = np.isin(polygon, chosen), ~np.isin(polygon, [*chosen, -1])
    pool = np.concatenate([tile.reshape(-1, spectra.shape[1]) for tile in tiles])
    pool = rng.permutation(pool[pool.max(axis=1) > 0])[:_UNLABELLED]
    reflectance = (spectra * _SCALE).astype(np.float32)
    return Split(
        bands,
        SpectralIrradiance(bands.wavelength_nm, direct, diffuse, SUN_ZENITH_DEG),
        reflectance[train],
        label[train],
        polygon[train],
        place[train, 1:],
        _smoothed(pool * _SCALE, good),
        tuple(_tile(tile, good) for tile in tiles),
        reflectance[test],
        label[test],
        polygon[test],
        place[test, 1:],
    )


class Chip(NamedTuple):
    """A polygon as a small image."""

    cube: Float32Array
    """(rows, cols, bands), NaN outside the polygon."""
    samples: IntArray
    """Which sample stands at each pixel, (rows, cols); -1 outside."""


def chips(spectra: Float32Array, polygon: IntArray, place: IntArray) -> list[Chip]:
    """Samples (samples, bands) as images of their polygons."""
    made = []
    for name in np.unique(polygon):
        mine = np.flatnonzero(polygon == name)
        rows, cols = (place[mine] - place[mine].min(axis=0)).T
        samples = np.full((rows.max() + 1, cols.max() + 1), -1)
        samples[rows, cols] = mine
        cube = np.where(samples[..., None] >= 0, spectra[samples], np.float32(np.nan))
        made.append(Chip(cube, samples))
    return made


def relight(split: Split, copies: int, seed: int) -> Relit:
    """Every test spectrum, taken as flat and sunlit, `copies` times in random light, with sensor noise."""
    rng = np.random.default_rng(seed)
    x, y = np.repeat(split.test, copies, axis=0), np.repeat(split.test_class, copies)
    count, sun = len(x), np.radians(SUN_ZENITH_DEG)
    lit = rng.choice([0.0, 1.0, np.nan], count, p=[0.15, 0.50, 0.35])
    lit = np.where(np.isnan(lit), rng.random(count), lit)
    slope, aspect = np.radians(rng.uniform(0, 50, count)), rng.uniform(0, 2 * np.pi, count)
    cosine = np.cos(sun) * np.cos(slope) + np.sin(sun) * np.sin(slope) * np.cos(aspect)
    z = lit * np.clip(cosine, 0.0, 1.0)
    w = rng.uniform(0.25, 1.0, count) * rng.uniform(0.8, 1.1, count)
    light = split.irradiance
    ratio = irradiance_ratio(z, w, light.direct_ratio, light.diffuse_ratio)
    seen = x * ratio + rng.normal(0.0, 0.001, x.shape)
    return Relit(np.maximum(seen, 1e-4).astype(np.float32), y, z)


def _polygons(label: IntArray, place: IntArray) -> IntArray:
    """Polygon of each labelled pixel, (pixels,); -1 on the line where a lone polygon is cut in two."""
    # Pixels of other classes and images are put out of each other's reach.
    apart = np.column_stack((place[:, 1:], 10_000 * place[:, 0] + 100_000 * label))
    pairs = cKDTree(apart).query_pairs(_REACH + 0.5, p=np.inf, output_type="ndarray")
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(label), len(label)))
    polygon = np.asarray(connected_components(graph, directed=False)[1], dtype=int)
    for index in np.unique(label):
        mine = np.flatnonzero(label == index)
        if len(np.unique(polygon[mine])) == 1:
            along = place[mine, 1:][:, np.argmax(np.ptp(place[mine, 1:], axis=0))]
            middle = np.median(along)
            polygon[mine[along > middle]] = polygon.max() + 1
            polygon[mine[along == middle]] = -1
    return polygon


def _training_polygons(label: IntArray, polygon: IntArray, rng: np.random.Generator) -> list[int]:
    """Random polygons of each class until a fair share of its pixels is reached; one is left for the test."""
    chosen: list[int] = []
    for index in np.unique(label):
        names, counts = np.unique(polygon[(label == index) & (polygon >= 0)], return_counts=True)
        reached = 0
        for position in rng.permutation(len(names))[:-1]:
            if reached < _TRAINING_SHARE * counts.sum():
                chosen.append(int(names[position]))
                reached += int(counts[position])
    return chosen


def _tile(tile: FloatArray, good: npt.NDArray[np.bool_]) -> Float32Array:
    cube = _smoothed(tile.reshape(-1, tile.shape[-1]) * _SCALE, good).reshape(tile.shape)
    return np.where(tile.max(axis=-1, keepdims=True) > 0, cube, np.float32(np.nan))


def _smoothed(spectra: FloatArray, good: npt.NDArray[np.bool_]) -> Float32Array:
    """Gaussian smoothing within each run of neighbouring good bands."""
    runs = np.split(np.arange(good.sum()), np.flatnonzero(np.diff(np.flatnonzero(good)) > 1) + 1)
    parts = [gaussian_filter1d(spectra[:, run].astype(np.float32), _SMOOTHING, axis=1) for run in runs]
    return np.concatenate(parts, axis=1)
