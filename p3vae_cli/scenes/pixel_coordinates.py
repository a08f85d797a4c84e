"""From the ground to pixels, for map grids and swaths alike."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from rasterio.transform import AffineTransformer, GCPTransformer

from p3vae.cli.errors import UsageError
from p3vae.cli.scenes.base import Grid


class PixelCoordinates:
    """Map coordinates (n, 2) in a grid's CRS to pixel coordinates (col, row), whole numbers at corners."""

    def __init__(self, grid: Grid) -> None:
        if grid.transform is not None:
            self._transformer = AffineTransformer(grid.transform)
        elif grid.gcps:
            self._transformer = GCPTransformer(list(grid.gcps), tps=True)
        else:
            raise UsageError("the scene is not georeferenced, so polygons cannot be laid on it")

    def __call__(self, coordinates: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Fractional (col, row) of every point."""
        rows, cols = self._transformer.rowcol(coordinates[:, 0], coordinates[:, 1], op=lambda value: value)
        return np.column_stack([cols, rows])
