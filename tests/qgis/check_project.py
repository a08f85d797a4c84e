"""Opens a project and its rasters with real QGIS and prints what it sees as JSON; run by QGIS's own Python.

QT_QPA_PLATFORM=offscreen /usr/bin/python3 tests/qgis/check_project.py OUT/p3vae.qgz [PICTURE.png]
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from qgis.core import (
    QgsApplication,
    QgsMapRendererParallelJob,
    QgsMapSettings,
    QgsPointXY,
    QgsProject,
    QgsRasterLayer,
    QgsRectangle,
    QgsVectorLayer,
)
from qgis.PyQt.QtCore import QSize
from qgis.PyQt.QtGui import QColor


def rendered(layers, extent, crs, size):
    settings = QgsMapSettings()
    settings.setLayers(layers)
    settings.setExtent(extent)
    settings.setDestinationCrs(crs)
    settings.setOutputSize(size)
    settings.setBackgroundColor(QColor(255, 255, 255, 0))
    job = QgsMapRendererParallelJob(settings)
    job.start()
    job.waitForFinished()
    return job.renderedImage()


def colour_at(layer, col, row):
    """Colour that QGIS draws at the centre of a pixel, alone and magnified."""
    extent, width, height = layer.extent(), layer.width(), layer.height()
    dx, dy = extent.width() / width, extent.height() / height
    centre = QgsPointXY(extent.xMinimum() + (col + 0.5) * dx, extent.yMaximum() - (row + 0.5) * dy)
    box = QgsRectangle(centre.x() - dx / 4, centre.y() - dy / 4, centre.x() + dx / 4, centre.y() + dy / 4)
    image = rendered([layer], box, layer.crs(), QSize(9, 9))
    colour = image.pixelColor(4, 4)
    return [colour.red(), colour.green(), colour.blue(), colour.alpha()]


def described(layer):
    found = {"name": layer.name(), "valid": layer.isValid(), "crs": layer.crs().authid()}
    if isinstance(layer, QgsRasterLayer):
        found["renderer"] = layer.renderer().type()
        found["legend"] = [label for label, _ in layer.legendSymbologyItems()]
        found["colours"] = {f"{c},{r}": colour_at(layer, c, r) for c, r in ((10, 10), (30, 20), (40, 40))}
    elif isinstance(layer, QgsVectorLayer):
        found["renderer"] = layer.renderer().type()
        found["features"] = layer.featureCount()
        found["labels"] = layer.labelsEnabled()
        found["categories"] = categories_of(layer)
        found["choices"] = [name for entry in choices_of(layer) for name in entry]
        found["aliases"] = [layer.attributeAlias(k) for k in range(layer.fields().count())]
    return found


def categories_of(layer):
    renderer = layer.renderer()
    if renderer.type() != "categorizedSymbol":
        return []
    return [each.label() for each in renderer.categories()]


def choices_of(layer):
    """What QGIS offers where the class of a feature is typed."""
    setup = layer.editorWidgetSetup(layer.fields().indexOf("class"))
    return setup.config().get("map", []) if setup.type() == "ValueMap" else []


def main() -> None:
    application = QgsApplication([], False)
    application.initQgis()
    path, *picture = sys.argv[1:]
    project = QgsProject.instance()
    read = project.read(path)
    root = project.layerTreeRoot()
    layers = [described(node.layer()) for node in root.findLayers()]
    alone = {}
    for raster in sorted(Path(path).parent.glob("*.tif")):
        alone[raster.name] = described(QgsRasterLayer(str(raster), raster.stem))
    for vector in sorted(Path(path).parent.glob("*.gpkg")):
        alone[vector.name] = described(QgsVectorLayer(str(vector), vector.stem, "ogr"))
    shown = [layer for layer in root.layerOrder() if root.findLayer(layer).isVisible()]
    if picture:
        extent = QgsRectangle()
        for layer in shown:
            extent.combineExtentWith(layer.extent())
        rendered(shown, extent, project.crs(), QSize(900, 700)).save(picture[0])
    groups = [group.name() for group in root.findGroups()]
    print(
        json.dumps(
            {
                "read": read,
                "crs": project.crs().authid(),
                "groups": groups,
                "visible": [layer.name() for layer in shown],
                "layers": layers,
                "alone": alone,
            }
        )
    )
    sys.stdout.flush()
    os._exit(0)  # QGIS often crashes when it is taken down without a window


main()
