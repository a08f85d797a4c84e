"""Swath products on a north-up UTM grid, for those who prefer a map to control points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import rasterio
from affine import Affine
from rasterio.control import GroundControlPoint
from rasterio.crs import CRS
from rasterio.enums import Resampling
from rasterio.warp import calculate_default_transform, reproject
from rasterio.warp import transform as transform_points

from p3vae.cli.base.tiling import Window, windows
from p3vae.cli.products.rasters import RasterSink
from p3vae.cli.products.styles import Categories
from p3vae.cli.scenes.base import Grid
from p3vae.cli.scenes.utm import utm_epsg

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


def resample(source: Path, sink: RasterSink) -> None:
    """Warp a swath raster onto the grid of `sink`, strip by strip: nearest for classes, else bilinear."""
    grid = sink.grid
    rows = max(1, _STRIP_PIXELS // grid.width)
    with rasterio.open(source) as swath:
        for window in windows(Window(0, 0, grid.height, grid.width), (rows, grid.width)):
            strip = [_warp(swath, band, window, sink) for band in range(1, swath.count + 1)]
            sink.write(window, np.stack(strip))


def _warp(swath: Any, band: int, window: Window, sink: RasterSink) -> npt.NDArray[Any]:
    values = np.full((window.rows, window.cols), sink.nodata, dtype=sink.dtype)
    points, crs = swath.gcps
    grid, classes = sink.grid, isinstance(sink.spec.style, Categories)
    assert grid.transform is not None, "the target is a map grid"
    reproject(
        rasterio.band(swath, band),
        values,
        gcps=points,
        src_crs=crs,
        src_nodata=sink.nodata,
        dst_crs=grid.crs,
        dst_transform=grid.transform @ Affine.translation(window.col, window.row),
        dst_nodata=sink.nodata,
        resampling=Resampling.nearest if classes else Resampling.bilinear,
        SRC_METHOD=_THROUGH_POINTS,
    )
    return values


def _utm_crs(swath: Grid) -> CRS:
    centre = np.mean([(point.x, point.y) for point in swath.gcps], axis=0)
    lon, lat = (
        part[0] for part in transform_points(swath.crs, CRS.from_epsg(4326), [centre[0]], [centre[1]])
    )
    return CRS.from_epsg(utm_epsg(lon, lat))
