"""From a folder of products to a QGIS project beside them."""

from __future__ import annotations

from pathlib import Path

from p3vae.cli.errors import ProductError
from p3vae.cli.rasters.pictures import raster_style
from p3vae.cli.report.runs import SceneProducts, read_runs
from p3vae.cli.styles.qgis_project import PROJECT, ProjectLayer, is_foreign, write_project
from p3vae.cli.styles.titles import LAND_COVER_POLYGONS, ordered, title_of
from p3vae.cli.styles.vectors import plume_style

VISIBLE = ("plumes", "landcover", "methane", "irradiance", "brightness")
"""Of the layers of a scene, the first of these that is there is shown, and its plumes."""
_VECTORS = {".gpkg"}
_READ_BY_QGIS = {".tif", ".tiff", ".img", ".bsq", ".bil", ".bip", ".dat"}


def save_project(folder: Path) -> Path:
    """Write p3vae.qgz into a folder of products; refuses to replace one that was edited in QGIS."""
    entries = read_runs(folder)
    if is_foreign(folder / PROJECT):
        raise ProductError(
            "was saved from QGIS and would be lost", path=folder / PROJECT, remedy="rename it first"
        )
    return write_project(folder, [layer for entry in entries for layer in _layers(entry)])


def _layers(entry: SceneProducts) -> list[ProjectLayer]:
    """From the top down: plumes, maps, and the scene itself at the bottom."""
    shown = next((key for key in VISIBLE[1:] if key in entry.products), None)
    layers = []
    for key in ordered(list(entry.products)):
        path = entry.products[key]
        style = path.with_suffix(".qml")
        if path.suffix == ".tif" and style.is_file():
            visible = key == shown
            layers.append(ProjectLayer(path, title_of(key), entry.name, visible, style.read_bytes()))
        elif key == "plumes" and path.suffix in _VECTORS:
            layers.append(ProjectLayer(path, title_of(key), entry.name, True, plume_style(), "plumes"))
        elif key == LAND_COVER_POLYGONS and style.is_file():
            layers.append(
                ProjectLayer(path, title_of(key), entry.name, False, style.read_bytes(), "landcover")
            )
    style_of_scene = raster_style(entry.scene) if entry.scene.suffix.lower() in _READ_BY_QGIS else None
    if style_of_scene is not None:
        layers.append(ProjectLayer(entry.scene, "Scene, true colour", entry.name, True, style_of_scene))
    return layers
