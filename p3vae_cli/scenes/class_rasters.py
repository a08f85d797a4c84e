"""Names and colours that a raster file gives its classes."""

from __future__ import annotations

import json
from pathlib import Path

import rasterio

from p3vae.cli.colours import hex_colour
from p3vae.cli.scenes.xml import parse_xml

CLASS_NAMES_TAG = "CLASS_NAMES"
"""Tag of our class maps: a JSON object of names by value, which stays when the .tif travels alone."""


def category_names(path: Path, source: rasterio.DatasetReader) -> dict[int, str]:
    """Names by value: GDAL's categories, which its auxiliary file holds by index, or else our own tag."""
    auxiliary = path.with_name(path.name + ".aux.xml")
    try:
        root = parse_xml(auxiliary.read_bytes())
    except (OSError, ValueError):
        return _tagged_names(source)
    names = root.findall("./PAMRasterBand/CategoryNames/Category")
    found = {index: (name.text or "").strip() for index, name in enumerate(names)}
    return found or _tagged_names(source)


def _tagged_names(source: rasterio.DatasetReader) -> dict[int, str]:
    try:
        return {int(value): str(name) for value, name in json.loads(source.tags()[CLASS_NAMES_TAG]).items()}
    except (KeyError, ValueError, AttributeError):
        return {}


def class_colours(source: rasterio.DatasetReader) -> dict[int, str]:
    """Colours (#rrggbb) by value; empty without a colour table."""
    try:
        table = source.colormap(1)
    except ValueError:
        return {}
    return {value: hex_colour(rgba) for value, rgba in table.items()}
