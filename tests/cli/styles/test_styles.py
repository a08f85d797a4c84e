"""QGIS styles: well formed, complete, with explicit ranges."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np
import pytest

from p3vae.cli.rasters.pictures import coloured
from p3vae.cli.styles.rasters import (
    RAMPS,
    Categories,
    Category,
    ColourImage,
    Ramp,
    category_document,
    read_ramp,
    style_document,
)

CLASSES = Categories((Category(1, "Tile & brick", "#c81e1e"), Category(3, "Wasser ü", "#0000ff")))


def test_a_class_map_lists_its_classes():
    renderer = ET.fromstring(style_document(CLASSES)).find("pipe/rasterrenderer")
    assert renderer.get("type") == "paletted"
    entries = [(e.get("value"), e.get("color"), e.get("label")) for e in renderer.iter("paletteEntry")]
    assert entries == [("1", "#c81e1e", "Tile & brick"), ("3", "#0000ff", "Wasser ü")]


def test_a_cube_is_shown_by_three_of_its_bands():
    renderer = ET.fromstring(style_document(ColourImage((30, 20, 10), 0.0, 0.4))).find("pipe/rasterrenderer")
    assert renderer.get("type") == "multibandcolor"
    assert [renderer.get(f"{name}Band") for name in ("red", "green", "blue")] == ["30", "20", "10"]
    assert [e.text for e in renderer.iter("maxValue")] == ["0.4"] * 3


def test_category_names_are_counted_from_zero():
    names = [e.text or "" for e in ET.fromstring(category_document(CLASSES)).iter("Category")]
    assert names == ["", "Tile & brick", "", "Wasser ü"]


def test_category_names_are_those_of_the_first_band():
    """As GDAL writes and reads them (PAM)."""
    root = ET.fromstring(category_document(CLASSES))
    assert root.tag == "PAMDataset" and [band.get("band") for band in root.iter("PAMRasterBand")] == ["1"]


@pytest.mark.parametrize("colormap", RAMPS)
@pytest.mark.parametrize("start", [0.7, 3.1, 6.6])
def test_a_ramp_that_begins_later_keeps_its_colours(colormap, start, tmp_path):
    stops = []
    for shown in (None, start):
        style = tmp_path / f"{shown}.qml"
        style.write_bytes(style_document(Ramp(0.0, 8.0, colormap, shown_from=shown)))
        stops.append(read_ramp(style))
    values = np.array([[start, *np.linspace(start, 8.0, 30)]])
    whole, part = (coloured(values, each).astype(int) for each in stops)
    assert np.abs(whole[..., :3] - part[..., :3]).max() <= 2 and (part[..., 3] == 255).all()
    assert (coloured(np.array([[0.0, 0.9 * start]]), stops[1])[..., 3] == 0).all()


@pytest.mark.parametrize("colormap", RAMPS)
def test_a_ramp_spans_its_range_evenly(colormap):
    root = ET.fromstring(style_document(Ramp(0.0, 2.0, colormap, " ppm·m"), (5.0, 6.0)))
    renderer = root.find("pipe/rasterrenderer")
    shader = root.find("pipe/rasterrenderer/rastershader/colorrampshader")
    assert (renderer.get("classificationMin"), renderer.get("classificationMax")) == ("0", "2")
    assert (shader.get("minimumValue"), shader.get("maximumValue")) == ("0", "2")
    values = [float(item.get("value")) for item in shader.iter("item")]
    assert values == pytest.approx([2.0 * i / (len(values) - 1) for i in range(len(values))])
    legend = shader.find("rampLegendSettings")
    assert (legend.get("useContinuousLegend"), legend.get("suffix")) == ("1", " ppm·m")


def test_open_ends_come_from_the_data_and_never_coincide():
    for data_range, expected in (((1.0, 3.0), ("1", "3")), ((2.0, 2.0), ("2", "3"))):
        renderer = ET.fromstring(style_document(Ramp(), data_range)).find("pipe/rasterrenderer")
        assert (renderer.get("classificationMin"), renderer.get("classificationMax")) == expected


@pytest.mark.parametrize("colormap", ["viridis", "cividis", "inferno", "gray"])
def test_lightness_grows_along_the_ramp(colormap):
    def luminance(color):
        red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    steps = [luminance(color) for color in RAMPS[colormap]]
    assert steps == sorted(steps)
