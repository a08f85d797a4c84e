"""Spectra drawn from a scene: labelled pixels, balanced over classes and polygons, and unlabelled ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from p3vae.cli.errors import LabelError
from p3vae.cli.labels.pixels import LabelledPixels
from p3vae.cli.scenes.base import Scene
from p3vae.cli.scenes.tiling import Window, tile_pixels, tile_shape, windows
from p3vae.models.landcover.patches import PatchSet
from p3vae.models.landcover.types import Surroundings

Index = npt.NDArray[np.int64]

SCATTERED_BUDGET = 24 * 2**20
"""Memory for reading scattered pixels, of which a tile holds few [bytes]."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Spectra at the scene's bands, in its unit; bad bands hold NaN."""

    spectra: npt.NDArray[np.float32]
    """Labelled, (samples, bands)."""
    pixels: LabelledPixels
    """Where each labelled spectrum comes from, (samples,)."""
    unlabelled: npt.NDArray[np.float32]
    """(pixels, bands)."""
    patches: PatchSet | None = None
    """The images that the labelled pixels lie in, and others, if asked for."""
    around: Surroundings | None = None
    """The neighbours of the labelled pixels, if asked for."""
    flat: npt.NDArray[np.float32] | None = None
    """The labelled spectra as flat, sunlit ground would show them; NaN where their light is not known."""


def draw_samples(
    scene: Scene, pixels: LabelledPixels, *, per_class: int = 2000, unlabelled: int = 20_000, seed: int = 0
) -> Samples:
    """At most `per_class` labelled spectra of each class and about `unlabelled` others, by a seeded draw."""
    rng = np.random.default_rng(seed)
    chosen = pixels.subset(_balanced(pixels, per_class, rng), "none was drawn")
    spectra, valid = read_pixels(scene, chosen.row, chosen.col)
    if len(valid) and not valid.any():
        raise LabelError(
            "every labelled pixel is nodata in the scene",
            path=scene.path,
            remedy="check that labels and scene cover the same ground",
        )
    return Samples(
        spectra[valid],
        chosen.subset(np.flatnonzero(valid), "all that were drawn are nodata in the scene"),
        draw_pixels(scene, unlabelled, seed, leave_out=pixels).spectra,
    )


def _balanced(pixels: LabelledPixels, per_class: int, rng: np.random.Generator) -> Index:
    """Up to `per_class` pixels of each class, in turn from its polygons so that small ones count."""
    chosen = []
    for id_ in np.unique(pixels.class_id):
        members = rng.permutation(np.flatnonzero(pixels.class_id == id_))
        turn = np.empty(len(members), np.int64)
        for group in np.unique(pixels.group[members]):
            inside = pixels.group[members] == group
            turn[inside] = np.arange(inside.sum())
        chosen.append(members[np.argsort(turn, kind="stable")][:per_class])
    return np.sort(np.concatenate(chosen)) if chosen else np.empty(0, np.int64)


def _tiles(scene: Scene, budget: int | None = None) -> Iterator[Window]:
    grid = scene.grid
    pixels = tile_pixels(len(scene.bands), budget=budget)
    shape = tile_shape(grid.height, grid.width, scene.block_shape, pixels)
    return windows(Window(0, 0, grid.height, grid.width), shape)


def read_pixels(
    scene: Scene, row: Index, col: Index
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Spectra (pixels, bands) and validity (pixels,), reading only those parts of tiles that hold any."""
    spectra = np.full((len(row), len(scene.bands)), np.nan, np.float32)
    valid = np.zeros(len(row), np.bool_)
    for window in _tiles(scene, SCATTERED_BUDGET):
        rows, cols = window.slices
        here = np.flatnonzero(
            (row >= rows.start) & (row < rows.stop) & (col >= cols.start) & (col < cols.stop)
        )
        if len(here):
            top, left = int(row[here].min()), int(col[here].min())
            rows_read, cols_read = int(row[here].max()) - top + 1, int(col[here].max()) - left + 1
            tile = scene.read(Window(top, left, rows_read, cols_read))
            inside = row[here] - top, col[here] - left
            spectra[here], valid[here] = tile.values[inside], tile.valid[inside]
    return spectra, valid


@dataclass(frozen=True, eq=False)
class DrawnPixels:
    """Valid pixels drawn evenly over a scene; arrays are (pixels, ...)."""

    spectra: npt.NDArray[np.float32]
    row: Index
    col: Index


def draw_pixels(scene: Scene, count: int, seed: int, leave_out: LabelledPixels | None = None) -> DrawnPixels:
    """About `count` valid pixels from all over the scene, by a seeded draw."""
    grid, rng = scene.grid, np.random.default_rng(seed)
    share = min(1.0, count / (grid.height * grid.width))
    labels = leave_out or LabelledPixels.none()
    taken = labels.row * grid.width + labels.col
    parts = [(np.empty((0, len(scene.bands)), np.float32), *[np.empty(0, np.int64)] * 2)]
    for window in _tiles(scene) if count else ():
        row, col = np.divmod(np.flatnonzero(rng.random(window.pixels) < share), window.cols)
        free = ~np.isin((row + window.row) * grid.width + col + window.col, taken)
        if free.any():
            tile = scene.read(window)
            row, col = row[free], col[free]
            valid = tile.valid[row, col]
            row, col = row[valid], col[valid]
            parts.append((tile.values[row, col], row + window.row, col + window.col))
    spectra, rows, cols = (np.concatenate(part) for part in zip(*parts, strict=True))
    return DrawnPixels(spectra, rows, cols)
