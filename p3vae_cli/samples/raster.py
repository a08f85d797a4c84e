"""Label rasters: pixel values are class ids, 0 and nodata are unlabelled."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import rasterio
from rasterio._err import CPLE_BaseError
from rasterio.enums import Resampling
from rasterio.errors import RasterioError
from rasterio.vrt import WarpedVRT
from scipy import ndimage

from p3vae.cli.base.errors import LabelError
from p3vae.cli.samples.pixels import MAX_CLASSES, LabelClass, LabelledPixels, NoLabelOnSceneError
from p3vae.cli.scenes.base import Grid, reading, same_place


def is_raster(path: Path) -> bool:
    """True when GDAL sees at least one band in the file (a GeoPackage of polygons has none)."""
    try:
        with rasterio.open(path) as source:
            return bool(source.count)
    except RasterioError:
        return False


def raster_labels(path: Path, grid: Grid, class_names: tuple[str, ...]) -> LabelledPixels:
    """Labels of a raster on the scene's grid, or brought to it by nearest neighbour."""
    with reading(path), rasterio.open(path) as source:
        values = _on_grid(source, grid, path)
        nodata = source.nodata
        colours = _colours(source)
    unlabelled = ~np.isfinite(values) if nodata is None else ~np.isfinite(values) | (values == nodata)
    values = np.where(unlabelled, 0, values)
    if values.dtype.kind not in "iu" and (values.dtype.kind != "f" or np.any(np.mod(values, 1))):
        raise LabelError(
            "a label raster must hold whole numbers", path=path, remedy="use class ids from 1 to 255"
        )
    labels = values.astype(np.int64)
    ids = [int(value) for value in np.unique(labels) if value != 0]
    _require_ids(ids, path)
    names = _names(ids, _category_names(path), class_names, path)
    classes = tuple(LabelClass(id_, name, colours.get(id_)) for id_, name in zip(ids, names, strict=True))
    row, col = np.nonzero(labels)
    return LabelledPixels(row, col, labels[row, col], _patches(labels, ids)[row, col], classes)


def _on_grid(source: rasterio.DatasetReader, grid: Grid, path: Path) -> npt.NDArray[np.generic]:
    if source.shape == (grid.height, grid.width) and same_place(source.crs, source.transform, grid):
        return np.asarray(source.read(1))
    if grid.transform is None or grid.crs is None or source.crs is None:
        raise LabelError(
            f"its {source.width} x {source.height} pixels are not the scene's {grid.width} x {grid.height}",
            path=path,
            remedy="give labels on the scene's grid, or vector labels",
        )
    try:
        with WarpedVRT(
            source,
            crs=grid.crs,
            transform=grid.transform,
            width=grid.width,
            height=grid.height,
            resampling=Resampling.nearest,
            nodata=source.nodata if source.nodata is not None else 0,
        ) as warped:
            return np.asarray(warped.read(1))
    except CPLE_BaseError as error:
        raise LabelError(
            "its CRS has no place in that of the scene",
            path=path,
            remedy="give labels on the scene's grid, or vector labels in its CRS",
        ) from error


def _require_ids(ids: list[int], path: Path) -> None:
    if not ids:
        raise NoLabelOnSceneError(
            "no labelled pixel falls on the scene", path=path, remedy="0 and nodata count as unlabelled"
        )
    if ids[0] < 0 or ids[-1] > MAX_CLASSES:
        raise LabelError(
            f"class ids go from {ids[0]} to {ids[-1]}", path=path, remedy="use ids from 1 to 255"
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


def _category_names(path: Path) -> dict[int, str]:
    """GDAL's category names: rasterio does not expose them, the auxiliary file holds them by index."""
    auxiliary = path.with_name(path.name + ".aux.xml")
    if not auxiliary.is_file():
        return {}
    try:
        root = ElementTree.parse(auxiliary).getroot()  # noqa: S314 - a local file of the user's own; no entities are fetched
    except ElementTree.ParseError:
        return {}
    names = root.findall("./PAMRasterBand/CategoryNames/Category")
    return {index: (name.text or "").strip() for index, name in enumerate(names)}


def _colours(source: rasterio.DatasetReader) -> dict[int, str]:
    try:
        table = source.colormap(1)
    except ValueError:
        return {}
    return {value: "#{:02x}{:02x}{:02x}".format(*rgba[:3]) for value, rgba in table.items()}


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
