"""From labels and a scene to training spectra: which pixels, of which class, from which polygon."""

from __future__ import annotations

from pathlib import Path

from p3vae.cli.errors import LabelError, UsageError
from p3vae.cli.labels.draw import DrawnPixels, Samples, draw_pixels, draw_samples, read_pixels
from p3vae.cli.labels.pixels import LabelClass, LabelledPixels, NoLabelOnSceneError
from p3vae.cli.labels.raster import is_raster, raster_labels
from p3vae.cli.labels.vector import vector_labels
from p3vae.cli.scenes.base import Grid

__all__ = [
    "DrawnPixels",
    "LabelClass",
    "LabelledPixels",
    "NoLabelOnSceneError",
    "Samples",
    "draw_pixels",
    "draw_samples",
    "label_files",
    "read_labels",
    "read_pixels",
]

_SHAPEFILE = (".dbf", ".shx", ".prj", ".cpg")
"""Ends of the files that make up a shapefile with its .shp."""


def label_files(path: Path) -> tuple[Path, ...]:
    """The files that labels are read from: the given one, and those beside it that hold its classes."""
    if path.is_dir():  # a file geodatabase
        return tuple(sorted(file for file in path.rglob("*") if file.is_file()))
    beside = [path.with_name(f"{path.name}.aux.xml")]
    if path.suffix.lower() == ".shp":
        found = {file.suffix.lower(): file for file in path.parent.iterdir() if file.stem == path.stem}
        beside += [found[end] for end in _SHAPEFILE if end in found]
    return (path, *(file for file in beside if file.is_file()))


def read_labels(
    path: Path, grid: Grid, *, class_field: str | None = None, class_names: tuple[str, ...] = ()
) -> LabelledPixels:
    """Labels of any OGR or GDAL format as pixels of `grid`.

    `class_field` is the attribute of vector labels that names the class; `class_names` name the values of a
    label raster that has no categories, in ascending order.
    """
    try:
        path.stat()
    except OSError as error:
        raise LabelError(
            f"cannot be read: {error.strerror}", path=path, remedy="check the path given to --labels"
        ) from error
    if is_raster(path):
        if class_field is not None:
            raise UsageError("is a raster, which has no --class-field", path=path, remedy="leave it out")
        return raster_labels(path, grid, class_names)
    if class_names:
        raise UsageError(
            "holds polygons, which --class-names cannot name", path=path, remedy="give --class-field"
        )
    return vector_labels(path, grid, class_field)
