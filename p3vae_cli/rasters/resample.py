"""Maps of a swath brought onto a map grid: through control points to UTM, or through the file's own table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
from affine import Affine
from rasterio.control import GroundControlPoint
from rasterio.crs import CRS
from rasterio.enums import Resampling
from rasterio.warp import calculate_default_transform, reproject
from rasterio.warp import transform as transform_points

from p3vae.cli.rasters.files import RasterSink
from p3vae.cli.rasters.grids import subgrid, whole
from p3vae.cli.scenes.base import Grid, OrthoGrid, Pixels, Scene
from p3vae.cli.scenes.drivers import open_geotiff
from p3vae.cli.scenes.tiling import Window, windows
from p3vae.cli.scenes.utm import utm_epsg
from p3vae.cli.styles.rasters import Categories

Array = npt.NDArray[Any]

_STRIP_PIXELS = 2**22
_THROUGH_POINTS = "GCP_TPS"  # thin-plate splines pass through every control point; a polynomial does not


def utm_grid(swath: Grid, pixel_size: float | None = None) -> Grid:
    """The UTM grid that holds a swath, its pixel edges at multiples of `pixel_size` [m].

    By default the pixel size is the swath's own, to two digits.
    """
    crs = _utm_crs(swath)
    # GDAL reads a missing height as text it cannot parse.
    points = [GroundControlPoint(row=p.row, col=p.col, x=p.x, y=p.y, z=p.z or 0.0) for p in swath.gcps]

    def fitted(resolution: float | None) -> tuple[Affine, int, int]:
        found: tuple[Affine, int, int] = calculate_default_transform(
            swath.crs,
            crs,
            swath.width,
            swath.height,
            gcps=points,
            resolution=resolution,
            SRC_METHOD=_THROUGH_POINTS,
        )
        return found

    size = pixel_size or float(f"{fitted(None)[0].a:.2g}")
    transform, width, height = fitted(size)
    left, top = np.floor(transform.c / size) * size, np.ceil(transform.f / size) * size
    # One more pixel on each far side, because the near edges moved by up to one pixel.
    return Grid(width + 1, height + 1, crs, Affine(size, 0.0, left, 0.0, -size, top))


class SwathMap(Protocol):
    """How the maps of a swath, or of a window of it, come onto a map grid."""

    @property
    def grid(self) -> Grid:
        """The map grid."""

    def values(self, swath: Array, window: Window, nodata: float, *, nearest: bool) -> Array:
        """A window of the map of `swath` (rows, cols); classes are to be taken from the nearest pixel."""


@dataclass(frozen=True)
class ThroughPoints:
    """By warping with the control points of the swath."""

    grid: Grid
    swath: Grid

    def values(self, swath: Array, window: Window, nodata: float, *, nearest: bool) -> Array:
        """By thin-plate splines through all control points."""
        assert self.grid.transform is not None, "the target is a map grid"
        values = np.full((window.rows, window.cols), nodata, dtype=swath.dtype)
        reproject(
            swath,
            values,
            gcps=list(self.swath.gcps),
            src_crs=self.swath.crs,
            src_nodata=nodata,
            dst_crs=self.grid.crs,
            dst_transform=self.grid.transform @ Affine.translation(window.col, window.row),
            dst_nodata=nodata,
            resampling=Resampling.nearest if nearest else Resampling.bilinear,
            SRC_METHOD=_THROUGH_POINTS,
        )
        return values


@dataclass(frozen=True)
class ThroughTable:
    """By the table of the file, which names one pixel of the swath for each of the map."""

    grid: Grid
    table: OrthoGrid
    origin: tuple[int, int]
    """Where `grid` begins on the grid of the table."""
    area: Window
    """The part of the swath that was mapped."""

    @classmethod
    def of(cls, table: OrthoGrid, area: Window) -> Self:
        """The smallest part of the table's grid that shows all of `area`."""
        everything = cls(table.grid, table, (0, 0), area)
        rows, cols = np.zeros(table.grid.height, np.bool_), np.zeros(table.grid.width, np.bool_)
        for strip in _strips(table.grid):
            shown = everything.pixels(strip)[0] >= 0
            rows[strip.slices[0]], cols = shown.any(axis=1), cols | shown.any(axis=0)
        if not rows.any():
            return everything
        (top, bottom), (left, right) = (
            (int(k[0]), int(k[-1]) + 1) for k in map(np.flatnonzero, (rows, cols))
        )
        part = Window(top, left, bottom - top, right - left)
        return cls(subgrid(table.grid, part), table, (top, left), area)

    def pixels(self, window: Window) -> Pixels:
        """The pixel of `area` that each pixel of a window of the map shows; -1 for none."""
        there = window._replace(row=window.row + self.origin[0], col=window.col + self.origin[1])
        row, col = self.table.swath_pixels(there)
        row, col = row - self.area.row, col - self.area.col
        none = (row < 0) | (col < 0) | (row >= self.area.rows) | (col >= self.area.cols)
        row[none] = col[none] = -1
        return row, col

    def values(self, swath: Array, window: Window, nodata: float, *, nearest: bool) -> Array:
        """The table always names the nearest pixel."""
        row, col = self.pixels(window)
        return np.where(row >= 0, swath[row, col], np.asarray(nodata, swath.dtype))


def swath_map(
    scene: Scene, area: Window, grid: Grid, *, utm: bool, pixel_size: float | None
) -> SwathMap | None:
    """How maps of an area of a scene, which lie on `grid`, come onto a map grid; None if they stay there."""
    if grid.transform is not None:
        return None
    if utm:
        return ThroughPoints(utm_grid(grid, pixel_size), grid)
    if scene.ortho is None:
        return None
    if area == whole(scene.grid):
        return ThroughTable(scene.ortho.grid, scene.ortho, (0, 0), area)
    return ThroughTable.of(scene.ortho, area)


def resample(source: Path, sink: RasterSink, onto: SwathMap) -> None:
    """Bring a swath raster onto the map grid of `sink`, strip by strip."""
    nearest = isinstance(sink.spec.style, Categories)
    with open_geotiff(source) as swath:
        for window in _strips(sink.grid):
            strip = [
                onto.values(swath.read(band), window, sink.nodata, nearest=nearest) for band in swath.indexes
            ]
            sink.write(window, np.stack(strip))


def on_map(swath: Array, onto: SwathMap, nodata: float) -> Array:
    """Classes (rows, cols) of a swath on the map grid."""
    strips = [onto.values(swath, window, nodata, nearest=True) for window in _strips(onto.grid)]
    return np.concatenate(strips)


def _strips(grid: Grid) -> Iterator[Window]:
    rows = max(1, _STRIP_PIXELS // grid.width)
    return windows(Window(0, 0, grid.height, grid.width), (rows, grid.width))


def _utm_crs(swath: Grid) -> CRS:
    centre = np.mean([(point.x, point.y) for point in swath.gcps], axis=0)
    lon, lat = (
        part[0] for part in transform_points(swath.crs, CRS.from_epsg(4326), [centre[0]], [centre[1]])
    )
    return CRS.from_epsg(utm_epsg(lon, lat))
