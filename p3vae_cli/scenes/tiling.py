"""Rectangles of pixels, the spectra in one of them, and how a raster is cut into them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

DEFAULT_TILE_SIZE = 256
"""Tiles of about 256 x 256 pixels: larger ones cost memory and gain no speed."""

_USUAL_BUDGET = 350 * 2**20  # for tiles, unless a limit is given [bytes]
_SMALLEST_BUDGET = 16 * 2**20
_BYTES_PER_VALUE = 12  # a value as float32, its raw copy inside the reader, and temporaries of one function


class Window(NamedTuple):
    """A rectangle of pixels: `rows` x `cols`, its upper left pixel at (`row`, `col`)."""

    row: int
    col: int
    rows: int
    cols: int

    @property
    def slices(self) -> tuple[slice, slice]:
        """Row and column slices of the window in a (rows, cols, ...) array."""
        return slice(self.row, self.row + self.rows), slice(self.col, self.col + self.cols)

    @property
    def pixels(self) -> int:
        """Number of pixels in the window."""
        return self.rows * self.cols

    def grown(self, halo: int, height: int, width: int) -> Window:
        """The window with `halo` more pixels on every side, as far as a raster of that size reaches."""
        row, col = max(self.row - halo, 0), max(self.col - halo, 0)
        bottom = min(self.row + self.rows + halo, height)
        right = min(self.col + self.cols + halo, width)
        return Window(row, col, bottom - row, right - col)

    def seen_from(self, outer: Window) -> Window:
        """The same pixels, counted from the upper left pixel of `outer`."""
        return self._replace(row=self.row - outer.row, col=self.col - outer.col)


@dataclass(frozen=True)
class SpectraTile:
    """The spectra of one window, in physical units."""

    values: npt.NDArray[np.float32]
    """(rows, cols, bands): reflectance [1] or radiance [W m-2 sr-1 um-1]; NaN where invalid.

    In memory the axes lie as in the file, often with bands first: prefer matrix products and
    reductions, which do not mind, and copy only what needs spectra side by side.
    """
    valid: npt.NDArray[np.bool_]
    """(rows, cols): True where every good band holds a finite value."""
    window: Window
    inside: tuple[slice, slice] = (slice(None), slice(None))
    """Rows and columns to map; the others are neighbours that belong to other tiles."""


def tile_pixels(bands: int, *, budget: int | None = None, in_flight: int = 2) -> int:
    """Pixels a tile of `bands` bands may have so that `in_flight` of them stay below `budget` [bytes]."""
    usable = _USUAL_BUDGET if budget is None else max(budget, _SMALLEST_BUDGET)
    affordable = usable // (max(bands, 1) * _BYTES_PER_VALUE * in_flight)
    return max(1, min(affordable, DEFAULT_TILE_SIZE**2))


def tile_shape(
    height: int, width: int, block_shape: tuple[int, int], max_pixels: int, halo: int = 0
) -> tuple[int, int]:
    """(rows, cols) of a tile: as many whole blocks of the file as `max_pixels` allows, side by side first.

    A single block larger than `max_pixels` is cut, rows first: memory matters more than reading a
    block twice. With a `halo`, which counts in `max_pixels`, tiles are squares, since long ones would be
    mostly halo, and never smaller than the halo is wide.
    """
    if halo:
        side = max(isqrt(max_pixels) - 2 * halo, halo)
        return min(side, height), min(side, width)
    block_rows, block_cols = min(block_shape[0], height), min(block_shape[1], width)
    if block_rows * block_cols > max_pixels:
        cols = min(block_cols, max_pixels)
        return max(1, min(block_rows, max_pixels // cols)), cols
    cols = min(_whole_blocks(max_pixels // block_rows, block_cols), width)
    rows = min(_whole_blocks(max_pixels // cols, block_rows), height)
    return rows, cols


def _whole_blocks(length: int, block: int) -> int:
    return max(1, length // block) * block


def windows(area: Window, tile: tuple[int, int]) -> Iterator[Window]:
    """Cut `area` into tiles, row by row, at multiples of the tile shape counted from the raster's origin.

    Cutting at multiples keeps tiles on the file's blocks when `area` starts in the middle of one.
    """
    for row, rows in _spans(area.row, area.rows, tile[0]):
        for col, cols in _spans(area.col, area.cols, tile[1]):
            yield Window(row, col, rows, cols)


def _spans(start: int, length: int, step: int) -> Iterator[tuple[int, int]]:
    stop = start + length
    while start < stop:
        end = min((start // step + 1) * step, stop)
        yield start, end - start
        start = end
