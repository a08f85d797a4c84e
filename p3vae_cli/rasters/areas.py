"""Areas on the ground: of pixels, and of the classes of a map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import shapely
from pyproj import Geod
from rasterio.transform import AffineTransformer, GCPTransformer

from p3vae.cli.scenes.base import Grid

WGS84 = Geod(ellps="WGS84")
M2_PER_HECTARE = 1e4
_DIGITS_HECTARES, _DIGITS_SHARE = 4, 6

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ClassExtent:
    """How much of a map one class covers."""

    id: int
    """Value in the map."""
    name: str
    color: str
    """#rrggbb."""
    pixels: int
    hectares: float | None
    """None for a map that is nowhere on Earth."""
    share: float
    """Of the pixels that have a class [1]."""

    @classmethod
    def of_rows(
        cls,
        id_: int,
        name: str,
        color: str,
        rows: npt.NDArray[np.int64],
        row_areas: FloatArray | None,
        mapped: int,
    ) -> ClassExtent:
        """From pixels of the class per row, areas of a pixel per row [m2] and the pixels of all classes."""
        pixels = int(rows.sum())
        hectares = None
        if row_areas is not None:
            hectares = round(float(rows @ row_areas) / M2_PER_HECTARE, _DIGITS_HECTARES)
        return cls(id_, name, color, pixels, hectares, round(pixels / max(mapped, 1), _DIGITS_SHARE))


def row_areas_m2(grid: Grid) -> FloatArray | None:
    """Area of a pixel in every row [m2], (height,); None without a projected or geographic CRS.

    In degrees it is that of the row's middle pixel on the ellipsoid; in a swath, the mean over all pixels.
    """
    if grid.crs is None or not (grid.crs.is_geographic or grid.crs.is_projected):
        return None
    if grid.transform is None or grid.crs.is_projected:
        area = pixel_area_m2(grid)
        return None if area is None else np.full(grid.height, area)
    col = np.tile(grid.width // 2 + np.array([0, 1, 1, 0]), grid.height)
    row = (np.arange(grid.height)[:, None] + np.array([0, 0, 1, 1])).ravel()
    rings = to_map(grid, np.column_stack([col, row]).astype(np.float64)).reshape(grid.height, 4, 2)
    return np.array([abs(WGS84.polygon_area_perimeter(*ring.T)[0]) for ring in rings])


def pixel_area_m2(grid: Grid) -> float | None:
    """Mean area of a pixel on the ground [m2]; None for a grid that is nowhere."""
    if grid.crs is None:
        return None
    if grid.transform is None:
        corners = to_map(
            grid, np.array([[0, 0], [grid.width, 0], [grid.width, grid.height], [0, grid.height]], float)
        )
        if grid.crs.is_geographic:
            area = abs(WGS84.polygon_area_perimeter(corners[:, 0], corners[:, 1])[0])
        else:
            area = shapely.Polygon(corners).area * grid.crs.linear_units_factor[1] ** 2
        return float(area / (grid.width * grid.height))
    area = abs(grid.transform.determinant)
    if grid.crs.is_geographic:
        x, y = grid.transform @ (grid.width / 2, grid.height / 2)
        dx, dy = abs(grid.transform.a) / 2, abs(grid.transform.e) / 2
        cell = [(x - dx, y - dy), (x + dx, y - dy), (x + dx, y + dy), (x - dx, y + dy)]
        return abs(WGS84.polygon_area_perimeter([x for x, _ in cell], [y for _, y in cell])[0])
    return float(area * grid.crs.linear_units_factor[1] ** 2)


def to_map(grid: Grid, pixels: FloatArray) -> FloatArray:
    """Pixel coordinates (col, row), whole numbers at corners, to map coordinates."""
    if grid.transform is not None:
        transformer = AffineTransformer(grid.transform)
    else:
        transformer = GCPTransformer(list(grid.gcps), tps=True)
    x, y = transformer.xy(pixels[:, 1], pixels[:, 0], offset="ul")
    return np.column_stack([x, y])


def area_format(total: float) -> str:
    """A format that shows four digits of the largest area."""
    return f",.{int(np.clip(4 - np.ceil(np.log10(max(total, 1e-9))), 0, 4))}f"
