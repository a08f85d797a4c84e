"""Finished maps, read back: values, grid, legend and unit of a raster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import rasterio

from p3vae.cli import class_colours as by_name
from p3vae.cli.errors import SceneError, UsageError
from p3vae.cli.rasters.areas import M2_PER_HECTARE, row_areas_m2
from p3vae.cli.rasters.files import gdal_environment
from p3vae.cli.scenes.base import Grid, reading, same_place
from p3vae.cli.scenes.class_rasters import category_names, class_colours
from p3vae.cli.scenes.drivers import open_geotiff
from p3vae.cli.styles.rasters import Categories, Category

UNKNOWN_NAME = "unknown"


@dataclass(frozen=True, eq=False)
class MapFile:
    """The first band of a raster."""

    path: Path
    grid: Grid
    values: npt.NDArray[Any]
    """(rows, cols)."""
    valid: npt.NDArray[np.bool_]
    """(rows, cols): True where the raster holds a value."""
    categories: Categories | None
    """Classes of a raster of whole numbers, those that are named or occur; None for a quantity."""
    description: str
    unit: str
    tags: Mapping[str, str]

    @property
    def classes(self) -> tuple[Category, ...]:
        """Classes of a class map without "unknown", in ascending order of value."""
        items = () if self.categories is None else self.categories.items
        return tuple(item for item in items if item.name.casefold() != UNKNOWN_NAME)

    def area_ha(self, value: int) -> float | None:
        """Area of a class [ha]; None for a map that is nowhere on Earth."""
        areas = row_areas_m2(self.grid)
        rows = ((self.values == value) & self.valid).sum(axis=1)
        return None if areas is None else float(rows @ areas) / M2_PER_HECTARE

    def pixels(self, value: int) -> int:
        """Pixels of a class."""
        return int(((self.values == value) & self.valid).sum())


def read_map(path: Path) -> MapFile:
    """A map of any GDAL format; whole numbers are classes, others a quantity."""
    with gdal_environment(), reading(path), open_geotiff(path) as source:
        if source.count > 1:
            raise UsageError(
                f"has {source.count} bands, and a map has one",
                path=path,
                remedy="give a map, or one band of it, e.g. with gdal_translate -b 1",
            )
        values = source.read(1)
        is_classes = np.issubdtype(values.dtype, np.integer)
        nodata = 0 if is_classes and source.nodata is None else source.nodata
        valid = np.isfinite(values) if nodata is None else np.isfinite(values) & (values != nodata)
        categories = _categories(path, source, np.unique(values[valid])) if is_classes else None
        return MapFile(
            path,
            dataset_grid(source),
            values,
            valid,
            categories,
            source.descriptions[0] or "",
            source.units[0] or "",
            source.tags(),
        )


def read_class_map(path: Path) -> MapFile:
    """A class map; an error for a raster of a quantity."""
    found = read_map(path)
    if found.categories is None:
        raise UsageError("holds a quantity, not classes", path=path, remedy="give a land-cover map")
    if not found.valid.any():
        raise SceneError("no pixel has a class", path=path, remedy="give another map")
    return found


def require_same_grid(first: MapFile, second: MapFile) -> None:
    """Refuse two maps whose pixels are not the same places."""
    here, there = first.grid, second.grid
    same = (here.width, here.height) == (there.width, there.height)
    if not same or (there.transform is not None and not same_place(there.crs, there.transform, here)):
        raise UsageError(
            f"is not on the grid of {first.path.name}", path=second.path, remedy="compare maps of one grid"
        )


def companion(path: Path, own: str, other: str) -> Path | None:
    """The map of another quantity beside a product: SCENE_own.tif to SCENE_other.tif, if it is there."""
    if not path.stem.endswith(own):
        return None
    found = path.with_name(f"{path.stem.removesuffix(own)}{other}{path.suffix}")
    return found if found.is_file() else None


def dataset_grid(source: rasterio.DatasetReader) -> Grid:
    """Where the pixels of an opened raster are."""
    points, points_crs = source.gcps
    if points:
        return Grid(source.width, source.height, points_crs, None, tuple(points))
    nowhere = source.crs is None and source.transform.is_identity
    return Grid(source.width, source.height, source.crs, None if nowhere else source.transform)


def _categories(path: Path, source: rasterio.DatasetReader, present: npt.NDArray[Any]) -> Categories:
    names, colours = category_names(path, source), class_colours(source)
    values = sorted({value for value, name in names.items() if name and value > 0} | set(map(int, present)))
    called = [names.get(value) or f"class {value}" for value in values]
    own = {name: colours.get(value) for value, name in zip(values, called, strict=True)}
    shown = by_name.class_colours(called, own)
    return Categories(tuple(Category(*item) for item in zip(values, called, shown, strict=True)))
