"""Zones of a map: the pixels whose centres lie in each polygon of a vector file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import geopandas
import numpy as np
import numpy.typing as npt
import shapely
from affine import Affine
from rasterio import features

from p3vae.cli.errors import LabelError
from p3vae.cli.scenes.base import Grid
from p3vae.cli.scenes.masking import in_crs
from p3vae.cli.scenes.pixel_coordinates import PixelCoordinates
from p3vae.cli.scenes.vectors import read_polygons


@dataclass(frozen=True, eq=False)
class Zone:
    """A polygon; its pixels are (pixels,) each."""

    name: str
    row: npt.NDArray[np.int64]
    col: npt.NDArray[np.int64]


def read_zones(path: Path, grid: Grid, field: str | None) -> Iterator[Zone]:
    """Zones in the order of the file, named by `field` or numbered from 1; zones may overlap."""
    frame = read_polygons(path, LabelError)
    fields = [str(name) for name in frame.columns if name != "geometry"]
    if field is not None and field not in fields:
        raise LabelError(
            f"has no field {field!r}", path=path, remedy=f"--zone-field may be: {', '.join(fields)}"
        )
    if frame.empty or not isinstance(frame, geopandas.GeoDataFrame):
        raise LabelError("holds no polygons", path=path)
    if grid.crs is not None:
        if frame.crs is None:
            raise LabelError("has no CRS", path=path, remedy="assign one, e.g. with ogr2ogr -a_srs")
        frame = in_crs(frame, grid.crs, path, LabelError)
    if not (frame.geometry.area > 0).any():
        raise LabelError("holds points or lines, no polygons", path=path, remedy="give zones as polygons")
    to_pixels = PixelCoordinates(grid)
    names = frame[field].astype(str) if field else [str(number) for number in range(1, len(frame) + 1)]
    for name, geometry in zip(names, frame.geometry, strict=True):
        yield Zone(name, *_inside(geometry, to_pixels, grid))


def _inside(
    geometry: shapely.Geometry | None, to_pixels: PixelCoordinates, grid: Grid
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    nothing = np.empty(0, np.int64), np.empty(0, np.int64)
    if geometry is None or geometry.is_empty or geometry.area == 0:
        return nothing
    shape = shapely.transform(geometry, to_pixels)
    left, top = (max(int(np.floor(value)), 0) for value in shape.bounds[:2])
    right, bottom = (
        min(int(np.ceil(shape.bounds[2])), grid.width),
        min(int(np.ceil(shape.bounds[3])), grid.height),
    )
    if right <= left or bottom <= top:
        return nothing
    inside = features.rasterize(
        [shape],
        out_shape=(bottom - top, right - left),
        transform=Affine.translation(left, top),
        dtype="uint8",
    )
    row, col = np.nonzero(inside)
    return row + top, col + left
