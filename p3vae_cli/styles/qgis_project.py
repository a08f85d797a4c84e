"""A QGIS project (`.qgz`) that shows products with their styles, written without QGIS.

Paths are relative to the project, so that its folder can be moved. A project that somebody saved from QGIS is
never replaced: ours carry the SHA-256 of their content as the comment of the zip archive.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from rasterio.crs import CRS
from rasterio.warp import transform_bounds

from p3vae.cli.rasters.files import gdal_environment
from p3vae.cli.rasters.maps import dataset_grid
from p3vae.cli.records.staging import Staging, writing
from p3vae.cli.scenes.base import Grid, reading
from p3vae.cli.scenes.drivers import open_geotiff

PROJECT = "p3vae.qgz"
_INSIDE = "p3vae.qgs"
_FIXED_DATE = (2000, 1, 1, 0, 0, 0)
Bounds = tuple[float, float, float, float]


@dataclass(frozen=True)
class ProjectLayer:
    """A file in a group of the layer tree."""

    path: Path
    title: str
    group: str
    visible: bool
    style: bytes
    """QML document."""
    layer: str | None = None
    """Layer of a vector file; None for a raster."""


def is_foreign(path: Path) -> bool:
    """True for a project that was not written here, or was changed since."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.comment.decode() != hashlib.sha256(archive.read(_INSIDE)).hexdigest()
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        return path.exists()


def write_project(folder: Path, layers: Sequence[ProjectLayer]) -> Path:
    """Write `folder`/p3vae.qgz; groups in the order of their first layer, layers from the top down."""
    document = project_document(folder, layers)
    with Staging(folder, [PROJECT], PROJECT, overwrite=True) as staging:
        with writing(folder / PROJECT), zipfile.ZipFile(staging.path(PROJECT), "w") as archive:
            entry = zipfile.ZipInfo(_INSIDE, _FIXED_DATE)
            archive.writestr(entry, document, zipfile.ZIP_DEFLATED)
            archive.comment = hashlib.sha256(document).hexdigest().encode()
        staging.commit()
    return folder / PROJECT


def project_document(folder: Path, layers: Sequence[ProjectLayer]) -> bytes:
    """The XML of the project."""
    rasters = {layer.path: _grid(layer.path) for layer in layers if layer.layer is None}
    crs = next((grid.crs for grid in rasters.values() if grid.crs is not None), None)
    root = ET.Element("qgis", projectname="p3vae", version="3.22.0")
    ET.SubElement(root, "title").text = "p3vae"
    _srs(ET.SubElement(root, "projectCrs"), crs)
    tree, maps = ET.SubElement(root, "layer-tree-group"), ET.Element("projectlayers")
    groups: dict[str, ET.Element] = {}
    grid = Grid(0, 0, None, None)
    for number, layer in enumerate(layers):
        if layer.group not in groups:
            groups[layer.group] = ET.SubElement(
                tree, "layer-tree-group", name=layer.group, expanded="1", checked="Qt::Checked"
            )
        grid = rasters.get(layer.path, grid)  # a vector layer lies where the raster before or after it does
        own = grid.crs or crs
        identity = f"p3vae_layer_{number:05d}"
        _tree_layer(groups[layer.group], layer, identity, folder)
        _map_layer(maps, layer, identity, folder, own)
    _canvas(root, crs, _extent(list(rasters.values()), crs))
    root.append(maps)
    properties = ET.SubElement(root, "properties")
    enabled = ET.SubElement(ET.SubElement(properties, "SpatialRefSys"), "ProjectionsEnabled", type="int")
    enabled.text = "1"
    ET.SubElement(ET.SubElement(properties, "Paths"), "Absolute", type="bool").text = "false"
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8")
    return b"<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n" + text + b"\n"


def _grid(path: Path) -> Grid:
    with gdal_environment(), reading(path), open_geotiff(path) as source:
        return dataset_grid(source)


def _source(layer: ProjectLayer, folder: Path) -> str:
    relative = Path(os.path.relpath(layer.path, folder)).as_posix()
    text = relative if relative.startswith("..") else f"./{relative}"
    return text if layer.layer is None else f"{text}|layername={layer.layer}"


def _tree_layer(group: ET.Element, layer: ProjectLayer, identity: str, folder: Path) -> None:
    ET.SubElement(
        group,
        "layer-tree-layer",
        id=identity,
        name=layer.title,
        source=_source(layer, folder),
        providerKey="gdal" if layer.layer is None else "ogr",
        checked="Qt::Checked" if layer.visible else "Qt::Unchecked",
        expanded="1" if layer.visible else "0",
    )


def _map_layer(maps: ET.Element, layer: ProjectLayer, identity: str, folder: Path, crs: CRS | None) -> None:
    style = ET.fromstring(layer.style)  # noqa: S314 - our own document
    element = ET.SubElement(maps, "maplayer", type="raster" if layer.layer is None else "vector")
    if layer.layer is not None:
        element.set("labelsEnabled", style.get("labelsEnabled", "0"))
    ET.SubElement(element, "id").text = identity
    ET.SubElement(element, "datasource").text = _source(layer, folder)
    ET.SubElement(element, "layername").text = layer.title
    _srs(ET.SubElement(element, "srs"), crs)
    provider = ET.SubElement(element, "provider", encoding="UTF-8")
    provider.text = "gdal" if layer.layer is None else "ogr"
    element.extend(style)


def _srs(parent: ET.Element, crs: CRS | None) -> None:
    system = ET.SubElement(parent, "spatialrefsys")
    if crs is None:
        return
    ET.SubElement(system, "wkt").text = crs.to_wkt()
    epsg = crs.to_epsg()
    if epsg is not None:
        ET.SubElement(system, "srid").text = str(epsg)
        ET.SubElement(system, "authid").text = f"EPSG:{epsg}"


def _canvas(root: ET.Element, crs: CRS | None, extent: Bounds | None) -> None:
    canvas = ET.SubElement(root, "mapcanvas", name="theMapCanvas")
    ET.SubElement(canvas, "units").text = "degrees" if crs is not None and crs.is_geographic else "meters"
    if extent is not None:
        element = ET.SubElement(canvas, "extent")
        for name, value in zip(("xmin", "ymin", "xmax", "ymax"), extent, strict=True):
            ET.SubElement(element, name).text = f"{value:.9g}" if abs(value) < 1000 else f"{value:.3f}"
    ET.SubElement(canvas, "projections").text = "1"
    _srs(ET.SubElement(canvas, "destinationsrs"), crs)


def _extent(grids: Sequence[Grid], crs: CRS | None) -> Bounds | None:
    """Of all rasters together, in the CRS of the project."""
    boxes = []
    for grid in grids:
        if grid.transform is not None:
            corners = [grid.transform @ (col, row) for col in (0, grid.width) for row in (0, grid.height)]
        elif grid.gcps:
            corners = [(point.x, point.y) for point in grid.gcps]
        else:
            continue
        x, y = zip(*corners, strict=True)
        box = (min(x), min(y), max(x), max(y))
        boxes.append(box if grid.crs in (crs, None) else transform_bounds(grid.crs, crs, *box))
    if not boxes:
        return None
    left, bottom, right, top = zip(*boxes, strict=True)
    return min(left), min(bottom), max(right), max(top)
