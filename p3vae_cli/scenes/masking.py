"""A scene with some of its pixels left out: by a mask, by polygons, or by the product's own flags."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import rasterio
import shapely
from affine import Affine
from pyproj.exceptions import ProjError
from rasterio import features
from rasterio.crs import CRS
from rasterio.errors import RasterioError

from p3vae.cli.errors import P3vaeError, UsageError
from p3vae.cli.scenes.base import BandIndex, CubeReader, Grid, OrthoGrid, Scene, reading, same_place
from p3vae.cli.scenes.drivers import ForeignFileError, open_dataset
from p3vae.cli.scenes.flags import Flags
from p3vae.cli.scenes.pixel_coordinates import PixelCoordinates
from p3vae.cli.scenes.tiling import Window
from p3vae.cli.scenes.vectors import read_polygons

if TYPE_CHECKING:
    from geopandas import GeoDataFrame


class Mask(Protocol):
    """Which pixels stay."""

    def kept(self, window: Window) -> npt.NDArray[np.bool_]:
        """(rows, cols): True where pixels stay."""


@dataclass(frozen=True)
class _MaskedReader:
    reader: CubeReader
    mask: Mask

    def read(self, window: Window, bands: BandIndex) -> npt.NDArray[np.float32]:
        values = self.reader.read(window, bands)
        values[~self.mask.kept(window)] = np.nan
        return values

    def close(self) -> None:
        self.reader.close()


def masked(scene: Scene, mask: Path) -> Scene:
    """`scene` without the pixels where the raster `mask` is zero or nodata, or outside its polygons."""
    kept = read_mask(mask, scene.grid, scene.ortho)
    return replace(scene, reader=_MaskedReader(scene.reader, kept))


@dataclass(frozen=True, eq=False)
class _NotFlagged:
    flags: Flags

    def kept(self, window: Window) -> npt.NDArray[np.bool_]:
        return ~self.flags.at(window)


def unflagged(scene: Scene) -> Scene:
    """`scene` without the pixels that its product flags as cloud or cirrus."""
    if scene.flags is None:
        return scene
    return replace(scene, reader=_MaskedReader(scene.reader, _NotFlagged(scene.flags)))


def read_mask(mask: Path, grid: Grid, ortho: OrthoGrid | None = None) -> Mask:
    """A mask of pixels of `grid`, from a raster on that grid, or on a swath's map grid, or from polygons."""
    try:
        mask.stat()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", path=mask, remedy="check the path") from error
    if mask.is_dir():  # a geodatabase
        return _PolygonMask(_pixel_polygons(mask, grid))
    not_a_raster = (RasterioError, ForeignFileError)
    with suppress(*not_a_raster), open_dataset(mask) as source:  # it may be polygons then
        if source.count:
            if ortho is not None and _fits(source, ortho.grid):
                return _OrthoMask(_kept(source), ortho)
            _require_grid(source, mask, grid)
            return _RasterMask(mask)
    return _PolygonMask(_pixel_polygons(mask, grid))


def _require_grid(source: rasterio.DatasetReader, mask: Path, grid: Grid) -> None:
    problem = ""
    if source.shape != (grid.height, grid.width):
        problem = f"has {source.width} x {source.height} pixels, the scene {grid.width} x {grid.height}"
    elif not same_place(source.crs, source.transform, grid):
        problem = "lies elsewhere than the scene, or has another CRS"
    if problem:
        raise UsageError(problem, path=mask, remedy="give a mask on the scene's grid, or polygons")


@dataclass(frozen=True)
class _RasterMask:
    path: Path

    def kept(self, window: Window) -> npt.NDArray[np.bool_]:
        with reading(self.path), open_dataset(self.path) as source:
            return _kept(source, window)


@dataclass(frozen=True, eq=False)
class _OrthoMask:
    """A mask on the map grid of a swath: a pixel stays if the map has it where the pixel lies."""

    kept_on_map: npt.NDArray[np.bool_]
    ortho: OrthoGrid

    def kept(self, window: Window) -> npt.NDArray[np.bool_]:
        row, col = self.ortho.map_pixels(window)
        return np.asarray((row >= 0) & self.kept_on_map[row, col])


def _kept(source: rasterio.DatasetReader, window: Window | None = None) -> npt.NDArray[np.bool_]:
    """Where a raster is neither zero nor missing."""
    values = source.read(1, window=None if window is None else window.slices, masked=True).filled(0)
    return np.asarray((values != 0) & ~np.isnan(values))


def _fits(source: rasterio.DatasetReader, grid: Grid) -> bool:
    on_map = source.shape == (grid.height, grid.width) and source.crs is not None
    return bool(on_map and same_place(source.crs, source.transform, grid))


@dataclass(frozen=True)
class _PolygonMask:
    shapes: list[shapely.Geometry]

    def kept(self, window: Window) -> npt.NDArray[np.bool_]:
        inside = features.rasterize(
            self.shapes,
            out_shape=(window.rows, window.cols),
            transform=Affine.translation(window.col, window.row),
            dtype="uint8",
        )
        return np.asarray(inside == 1)


def _pixel_polygons(path: Path, grid: Grid) -> list[shapely.Geometry]:
    import geopandas  # slow to import, and most runs have no polygons

    frame = read_polygons(path, UsageError)
    if isinstance(frame, geopandas.GeoDataFrame):
        frame = frame[~(frame.geometry.isna() | frame.geometry.is_empty)]
    if not isinstance(frame, geopandas.GeoDataFrame) or frame.empty:
        raise UsageError("holds no geometries", path=path, remedy="give polygons, or a raster")
    if grid.crs is not None and frame.crs is not None:
        frame = in_crs(frame, grid.crs, path, UsageError)
    to_pixels = PixelCoordinates(grid)
    return [shapely.transform(geometry, to_pixels) for geometry in frame.geometry]


def in_crs(frame: GeoDataFrame, crs: CRS, path: Path, refused: type[P3vaeError]) -> GeoDataFrame:
    """The geometries of the file `path` in another CRS, without those too far away to have a place in it."""
    try:
        moved = frame.to_crs(crs.to_wkt())
    except ProjError as error:
        raise refused(
            f"its CRS, {frame.crs.name}, has no place in that of the scene",
            path=path,
            remedy="give it in the scene's CRS",
        ) from error
    reachable = ~np.isinf(moved.bounds).any(axis=1)
    if not reachable.any():
        raise refused(
            f"coordinates do not fit its CRS, {frame.crs.name}",
            path=path,
            remedy="assign the CRS they are in, e.g. with ogr2ogr -a_srs",
        )
    return moved[reachable]
