"""Label rasters: pixel values are class ids, 0 and nodata are unlabelled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import rasterio
from rasterio.enums import Resampling
from rasterio.errors import RasterioError
from rasterio.vrt import WarpedVRT
from scipy import ndimage

from p3vae.cli.errors import LabelError
from p3vae.cli.labels.pixels import (
    MANY_CLASSES,
    MAX_CLASSES,
    LabelClass,
    LabelledPixels,
    NoLabelOnSceneError,
    names_alike,
)
from p3vae.cli.scenes.base import Grid, reading, same_place
from p3vae.cli.scenes.class_rasters import category_names, class_colours
from p3vae.cli.scenes.drivers import ForeignFileError, open_dataset, open_geotiff
from p3vae.cli.scenes.gdal import GdalError, gdal_errors


def is_raster(path: Path) -> bool:
    """True when GDAL sees at least one band in the file (a GeoPackage of polygons has none)."""
    try:
        with open_dataset(path) as source:
            return bool(source.count)
    except (RasterioError, ForeignFileError, IsADirectoryError):
        return False


def raster_labels(path: Path, grid: Grid, class_names: tuple[str, ...]) -> LabelledPixels:
    """Labels of a raster on the scene's grid, or brought to it by nearest neighbour."""
    with reading(path), open_dataset(path) as source:
        if source.count > 1:
            raise LabelError(
                f"has {source.count} bands, and class ids fill one",
                path=path,
                remedy="keep the one that holds them, e.g. with gdal_translate -b 1",
            )
        values = _on_grid(source, grid, path)
        nodata, resampled = source.nodata, resampling_note(source, grid, "by nearest neighbour")
        categories, colours = category_names(path, source), class_colours(source)
    unlabelled = ~np.isfinite(values) if nodata is None else ~np.isfinite(values) | (values == nodata)
    values = np.where(unlabelled, 0, values)
    if values.dtype.kind not in "iu" and (values.dtype.kind != "f" or np.any(np.mod(values, 1))):
        raise LabelError(
            "a label raster must hold whole numbers", path=path, remedy="use class ids from 1 to 255"
        )
    ids = [int(value) for value in np.unique(values) if value != 0]
    _require_ids(ids, path)
    labels = values.astype(np.int64)
    names = _names(ids, categories, class_names, path)
    classes = tuple(LabelClass(id_, name, colours.get(id_)) for id_, name in zip(ids, names, strict=True))
    row, col = np.nonzero(labels)
    notes = (*names_alike(classes), *resampled)
    if len(ids) > MANY_CLASSES:
        notes += (f"its {len(ids)} different values look like measurements, not classes",)
    return LabelledPixels(row, col, labels[row, col], _patches(labels, ids)[row, col], classes, notes)


def _on_grid(
    source: rasterio.DatasetReader, grid: Grid, path: Path, *, continuous: bool = False
) -> npt.NDArray[Any]:
    """The first band on `grid`: as it is, or resampled, by nearest neighbour unless it is `continuous`."""
    if source.shape == (grid.height, grid.width) and same_place(source.crs, source.transform, grid):
        return np.asarray(source.read(1))
    if grid.transform is None or grid.crs is None or source.crs is None:
        raise LabelError(
            _why_not_the_grid(source, grid),
            path=path,
            remedy="give labels on the scene's grid, or vector labels",
        )
    try:
        with (
            gdal_errors(),
            WarpedVRT(
                source,
                crs=grid.crs,
                transform=grid.transform,
                width=grid.width,
                height=grid.height,
                resampling=_resampling(source, grid) if continuous else Resampling.nearest,
                nodata=source.nodata if source.nodata is not None else (np.nan if continuous else 0),
                dtype="float64" if continuous else None,
            ) as warped,
        ):
            return np.asarray(warped.read(1))
    except GdalError as error:
        raise LabelError(
            "its CRS has no place in that of the scene",
            path=path,
            remedy="give labels on the scene's grid, or vector labels in its CRS",
        ) from error


def _why_not_the_grid(source: rasterio.DatasetReader, grid: Grid) -> str:
    if (source.crs is None) != (grid.crs is None):
        return (
            "has a CRS and the scene has none"
            if source.crs is not None
            else "has no CRS and the scene has one"
        )
    return f"its {source.width} x {source.height} pixels are not the scene's {grid.width} x {grid.height}"


def resampling_note(source: rasterio.DatasetReader, grid: Grid, how: str) -> tuple[str, ...]:
    """What was done to a raster whose pixels are not those of the grid."""
    if source.shape == (grid.height, grid.width) and same_place(source.crs, source.transform, grid):
        return ()
    assert grid.transform is not None
    own, other = f"{abs(source.transform.a):g}", f"{abs(grid.transform.a):g}"
    if own == other:
        return (f"its pixels lie between those of the map: resampled {how}",)
    return (f"its pixels of {own} are brought to those of the map, {other}, {how}",)


def quantity_on_grid(path: Path, grid: Grid) -> tuple[npt.NDArray[np.float64], tuple[str, ...]]:
    """The values of a raster of some quantity on `grid`, (rows, cols), NaN where it has none; and notes."""
    with reading(path), open_geotiff(path) as source:
        if category_names(path, source):
            raise LabelError(
                "holds classes, and the map a quantity", path=path, remedy="give a reference of that quantity"
            )
        how = "by their mean" if _resampling(source, grid) == Resampling.average else "by interpolation"
        notes = resampling_note(source, grid, how)
        values = _on_grid(source, grid, path, continuous=True).astype(np.float64)
        known = values if source.nodata is None else np.where(values == source.nodata, np.nan, values)
        return known, notes


def _resampling(source: rasterio.DatasetReader, grid: Grid) -> Resampling:
    """Finer pixels are averaged, others interpolated."""
    if grid.transform is None:
        return Resampling.bilinear
    finer = source.crs == grid.crs and abs(source.transform.determinant) < abs(grid.transform.determinant)
    return Resampling.average if finer else Resampling.bilinear


def _require_ids(ids: list[int], path: Path) -> None:
    if not ids:
        raise NoLabelOnSceneError(
            "no labelled pixel falls on the scene", path=path, remedy="0 and nodata count as unlabelled"
        )
    if len(ids) > MAX_CLASSES:
        raise LabelError(
            f"its {len(ids)} different values look like measurements, not classes",
            path=path,
            remedy="give a raster of class ids from 1 to 255",
        )
    if ids[0] < 0 or ids[-1] > MAX_CLASSES:
        raise LabelError(
            f"class ids go from {ids[0]:g} to {ids[-1]:g}", path=path, remedy="use ids from 1 to 255"
        )


def _names(ids: list[int], categories: dict[int, str], class_names: tuple[str, ...], path: Path) -> list[str]:
    if class_names:
        if len(class_names) != len(ids):
            raise LabelError(
                f"{len(class_names)} class names for {len(ids)} classes ({', '.join(map(str, ids))})",
                path=path,
                remedy="give --class-names one name per value, in ascending order",
            )
        return list(class_names)
    return [categories.get(id_) or f"class {id_}" for id_ in ids]


def _patches(labels: npt.NDArray[np.int64], ids: list[int]) -> npt.NDArray[np.int64]:
    """A number per connected patch of one class, so that neighbours are never split over a fold."""
    patches = np.zeros_like(labels)
    eight = np.ones((3, 3))
    count = 0
    for id_ in ids:
        numbered, found = ndimage.label(labels == id_, structure=eight)
        patches[numbered > 0] = numbered[numbered > 0] + count
        count += found
    return patches
