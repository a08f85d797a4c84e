"""Vector labels: polygons (or points) with a class name, as pixels of the scene.

Geometries are carried into pixel coordinates first, through the map transform or a swath's control points, so
that one rule serves both: a pixel belongs to a polygon when (nearly) all of it lies inside.
"""

from __future__ import annotations

import re
from pathlib import Path

import geopandas
import numpy as np
import numpy.typing as npt
import shapely
from affine import Affine
from rasterio import features
from shapely.geometry.base import BaseGeometry

from p3vae.cli.errors import LabelError
from p3vae.cli.labels.pixels import (
    MANY_CLASSES,
    MAX_CLASSES,
    LabelClass,
    LabelledPixels,
    NoLabelOnSceneError,
    names_alike,
)
from p3vae.cli.scenes.base import Grid
from p3vae.cli.scenes.masking import in_crs
from p3vae.cli.scenes.pixel_coordinates import PixelCoordinates
from p3vae.cli.scenes.vectors import read_polygons

SUBPIXELS = 4
"""A pixel's share inside a polygon is counted on a lattice of SUBPIXELS x SUBPIXELS points."""
PURE_SHARE = 0.99
"""Share that makes a pixel pure."""
MIXED_SHARE = 0.5
"""What is accepted from a polygon too small to hold a pure pixel."""

_COLOUR_FIELDS = ("color", "colour")
_HEX_COLOUR = re.compile(r"#[0-9a-fA-F]{6}")

PixelIndices = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def vector_labels(path: Path, grid: Grid, class_field: str | None) -> LabelledPixels:
    """Labels of a vector file of any CRS; ids 1 to N in the order of class names."""
    frame = _in_scene_crs(_read(path), grid, path)
    names = _class_names(frame, class_field, path)
    classes = tuple(
        LabelClass(id_, name, _colour(frame[names == name]))
        for id_, name in enumerate(sorted(set(names.dropna())), 1)
    )
    if len(classes) > MAX_CLASSES:
        raise LabelError(
            f"{len(classes)} classes in the field {names.name!r}",
            path=path,
            remedy="at most 255: is it the right field?",
        )
    ids = {entry.name: entry.id for entry in classes}
    to_pixels = PixelCoordinates(grid)
    drawn, impure, outside = [], 0, 0
    for number, (geometry, name) in enumerate(zip(frame.geometry, names, strict=True)):
        if geometry is None or geometry.is_empty or name not in ids:
            continue
        (rows, cols), pure = _covered(shapely.transform(geometry, to_pixels), grid)
        outside += len(rows) == 0
        impure += len(rows) > 0 and not pure
        drawn.append((rows, cols, np.full(len(rows), ids[name]), np.full(len(rows), number)))
    if frame.geom_type.isin(("LineString", "MultiLineString", "LinearRing")).all():
        raise LabelError("holds lines", path=path, remedy="give polygons or points")
    if not any(len(rows) for rows, *_ in drawn):
        raise NoLabelOnSceneError(
            "no label falls on the scene", path=path, remedy="check the extents and the CRS of both files"
        )
    row, col, class_id, group = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    kept, dropped = _one_class_each(row, col, class_id, grid)
    many = len(classes) > MANY_CLASSES
    notes = (
        *_notes(int(names.isna().sum()), impure, outside, dropped),
        *names_alike(classes),
        *((f"{len(classes)} classes in the field {names.name!r}: is it the right one?",) if many else ()),
    )
    everywhere = LabelledPixels(row, col, class_id, group, classes, notes)
    on_scene = everywhere.subset(np.arange(len(row)), "all lie outside the scene or cover no pixel")
    return on_scene.subset(kept, "all are claimed by another class too")


def _read(path: Path) -> geopandas.GeoDataFrame:
    frame = read_polygons(path, LabelError)
    if not isinstance(frame, geopandas.GeoDataFrame) or frame.empty:
        raise LabelError("holds no geometries", path=path)
    return frame


def _in_scene_crs(frame: geopandas.GeoDataFrame, grid: Grid, path: Path) -> geopandas.GeoDataFrame:
    if grid.crs is None:
        return frame
    if frame.crs is None:
        raise LabelError("has no CRS", path=path, remedy="assign one, e.g. with ogr2ogr -a_srs")
    return in_crs(frame, grid.crs, path, LabelError)


def _class_names(frame: geopandas.GeoDataFrame, class_field: str | None, path: Path) -> geopandas.GeoSeries:
    fields = [name for name in frame.columns if name != frame.geometry.name]
    chosen = class_field or ("class" if "class" in fields else None)
    if chosen is None or chosen not in fields:
        problem = f"has no field {chosen!r}" if chosen else "the field that names the class is not given"
        raise LabelError(
            problem, path=path, remedy=f"--class-field may be: {', '.join(fields) or 'none there'}"
        )
    names = frame[chosen].map(_class_name, na_action="ignore")
    if names.isna().all():
        raise LabelError(
            f"the field {chosen!r} is empty", path=path, remedy="name another one with --class-field"
        )
    return names


def _class_name(value: object) -> str | None:
    """As text; whole numbers beside missing ones are read as 1.0, 2.0, ..."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip() or None


def _colour(rows: geopandas.GeoDataFrame) -> str | None:
    for field in rows.columns:
        if str(field).lower() in _COLOUR_FIELDS:
            value = str(rows[field].iloc[0])
            return value.lower() if _HEX_COLOUR.fullmatch(value) else None
    return None


def _covered(geometry: BaseGeometry, grid: Grid) -> tuple[PixelIndices, bool]:
    """Pixels of a geometry in pixel coordinates, and whether they are pure."""
    nothing = (np.empty(0, np.int64), np.empty(0, np.int64))
    xmin, ymin, xmax, ymax = geometry.bounds
    col, row = max(int(np.floor(xmin)), 0), max(int(np.floor(ymin)), 0)
    cols, rows = min(int(np.ceil(xmax)), grid.width) - col, min(int(np.ceil(ymax)), grid.height) - row
    if geometry.geom_type in ("Point", "MultiPoint"):
        return _containing(geometry, grid), True
    if cols <= 0 or rows <= 0:
        return nothing, False
    lattice = features.rasterize(
        [geometry],
        out_shape=(rows * SUBPIXELS, cols * SUBPIXELS),
        transform=Affine(1 / SUBPIXELS, 0, col, 0, 1 / SUBPIXELS, row),
        dtype="uint8",
    )
    share = lattice.reshape(rows, SUBPIXELS, cols, SUBPIXELS).mean(axis=(1, 3))
    pure = bool((share >= PURE_SHARE).any())
    inside_row, inside_col = np.nonzero(share >= (PURE_SHARE if pure else MIXED_SHARE))
    return (inside_row + row, inside_col + col), pure


def _containing(points: BaseGeometry, grid: Grid) -> PixelIndices:
    cols, rows = np.floor(shapely.get_coordinates(points)).astype(np.int64).T
    inside = (cols >= 0) & (rows >= 0) & (cols < grid.width) & (rows < grid.height)
    return rows[inside], cols[inside]


def _one_class_each(
    row: npt.NDArray[np.int64], col: npt.NDArray[np.int64], class_id: npt.NDArray[np.int64], grid: Grid
) -> tuple[npt.NDArray[np.int64], int]:
    """Indices of pixels to keep, each once, and how many were dropped because two classes claim them."""
    pixel = row * grid.width + col
    order = np.lexsort((class_id, pixel))
    _, first, counts = np.unique(pixel[order], return_index=True, return_counts=True)
    lowest, highest = class_id[order][first], class_id[order][first + counts - 1]
    return order[first[lowest == highest]], int((lowest != highest).sum())


def _notes(nameless: int, impure: int, outside: int, dropped: int) -> tuple[str, ...]:
    notes = (
        (nameless, f"{nameless} label geometries without a class were left out"),
        (outside, f"{outside} label geometries lie outside the scene or cover no pixel"),
        (impure, f"{impure} polygons hold no pure pixel: pixels half inside were taken"),
        (dropped, f"{dropped} pixels claimed by two classes were left out"),
    )
    return tuple(text for count, text in notes if count)
