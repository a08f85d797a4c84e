"""Rectangles of pixels, and how a raster is cut into them."""

from __future__ import annotations

from typing import NamedTuple


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
