"""How products look in QGIS: style files applied when the raster of the same base name is opened."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree as ET

RAMPS: dict[str, tuple[str, ...]] = {
    "viridis": (
        "#440154",
        "#472d7b",
        "#3b528b",
        "#2c728e",
        "#21918c",
        "#28ae80",
        "#5ec962",
        "#addc30",
        "#fde725",
    ),
    "cividis": (
        "#00224e",
        "#1f3a6d",
        "#434e6c",
        "#5f636e",
        "#7d7c78",
        "#9b9476",
        "#bcae6c",
        "#dfcb57",
        "#fee838",
    ),
    "inferno": (
        "#000004",
        "#210c4a",
        "#57106e",
        "#8a226a",
        "#bc3754",
        "#e45a31",
        "#f98e09",
        "#f9cb35",
        "#fcffa4",
    ),
    "gray": ("#000000", "#404040", "#808080", "#c0c0c0", "#ffffff"),
}
"""Evenly spaced colour stops: nine-point approximations of the perceptually uniform maps of these names."""


@dataclass(frozen=True)
class Category:
    """One class of a class map."""

    value: int
    name: str
    color: str
    """#rrggbb."""


@dataclass(frozen=True)
class Categories:
    """Legend of a class map."""

    items: tuple[Category, ...]

    def rgba(self) -> dict[int, tuple[int, int, int, int]]:
        """Colour table: value to (red, green, blue, alpha); 0 is transparent."""
        return {0: (0, 0, 0, 0)} | {item.value: (*_rgb(item.color), 255) for item in self.items}

    def names(self) -> list[str]:
        """Names by value, from 0 on; empty where no class has that value."""
        by_value = {item.value: item.name for item in self.items}
        return [by_value.get(value, "") for value in range(max(by_value, default=-1) + 1)]


@dataclass(frozen=True)
class Ramp:
    """Legend of a continuous quantity."""

    minimum: float | None = None
    """Value of the first colour; None to take it from the data."""
    maximum: float | None = None
    """Value of the last colour; None to take it from the data."""
    colormap: str = "viridis"
    """A key of `RAMPS`."""
    suffix: str = ""
    """Shown after the numbers of the legend, e.g. " ppm·m"."""


@dataclass(frozen=True)
class ColourImage:
    """A cube shown by three of its bands; without it QGIS would take the first three."""

    bands: tuple[int, int, int]
    """Red, green and blue, counted from 1."""
    minimum: float
    maximum: float


Style = Categories | Ramp | ColourImage


def style_document(style: Style, data_range: tuple[float, float] = (0.0, 1.0)) -> bytes:
    """The QML document of a style; `data_range` serves the ends that a ramp leaves open."""
    root = ET.Element("qgis", version="3.22", styleCategories="AllStyleCategories")
    pipe = ET.SubElement(root, "pipe")
    if isinstance(style, Categories):
        _paletted(pipe, style)
    elif isinstance(style, ColourImage):
        _multiband(pipe, style)
    else:
        _pseudocolor(pipe, style, data_range)
    header = b"<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n"
    return header + _text(root)


def category_document(categories: Categories) -> bytes:
    """The GDAL side file (`X.tif.aux.xml`) that carries category names."""
    root = ET.Element("PAMDataset")
    names = ET.SubElement(ET.SubElement(root, "PAMRasterBand", band="1"), "CategoryNames")
    for name in categories.names():
        ET.SubElement(names, "Category").text = name
    return _text(root)


def _text(root: ET.Element) -> bytes:
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8")
    return text + b"\n"


def _paletted(pipe: ET.Element, categories: Categories) -> None:
    renderer = ET.SubElement(pipe, "rasterrenderer", type="paletted", band="1", opacity="1", alphaBand="-1")
    palette = ET.SubElement(renderer, "colorPalette")
    for item in categories.items:
        ET.SubElement(
            palette, "paletteEntry", value=str(item.value), color=item.color, alpha="255", label=item.name
        )


def _multiband(pipe: ET.Element, image: ColourImage) -> None:
    names = ("red", "green", "blue")
    renderer = ET.SubElement(pipe, "rasterrenderer", type="multibandcolor", opacity="1", alphaBand="-1")
    for name, band in zip(names, image.bands, strict=True):
        renderer.set(f"{name}Band", str(band))
    for name in names:
        stretch = ET.SubElement(renderer, f"{name}ContrastEnhancement")
        ET.SubElement(stretch, "minValue").text = _number(image.minimum)
        ET.SubElement(stretch, "maxValue").text = _number(image.maximum)
        ET.SubElement(stretch, "algorithm").text = "StretchToMinimumMaximum"


def _pseudocolor(pipe: ET.Element, ramp: Ramp, data_range: tuple[float, float]) -> None:
    low, high = ramp_range(ramp, data_range)
    colors = RAMPS[ramp.colormap]
    renderer = ET.SubElement(
        pipe,
        "rasterrenderer",
        type="singlebandpseudocolor",
        band="1",
        opacity="1",
        alphaBand="-1",
        classificationMin=_number(low),
        classificationMax=_number(high),
    )
    shader = ET.SubElement(
        ET.SubElement(renderer, "rastershader"),
        "colorrampshader",
        colorRampType="INTERPOLATED",
        classificationMode="1",
        clip="0",
        minimumValue=_number(low),
        maximumValue=_number(high),
        labelPrecision="4",
    )
    _color_ramp(shader, colors)
    for position, color in enumerate(colors):
        value = low + (high - low) * position / (len(colors) - 1)
        ET.SubElement(
            shader,
            "item",
            value=_number(value),
            color=color,
            alpha="255",
            label=f"{value:.4g}{ramp.suffix}",
        )
    ET.SubElement(
        shader,
        "rampLegendSettings",
        useContinuousLegend="1",
        orientation="2",
        direction="0",
        prefix="",
        suffix=ramp.suffix,
        minimumLabel="",
        maximumLabel="",
    )


def _color_ramp(shader: ET.Element, colors: tuple[str, ...]) -> None:
    """QGIS draws the continuous legend from this element, the raster from the items."""
    element = ET.SubElement(shader, "colorramp", type="gradient", name="[source]")
    stops = ":".join(
        f"{position / (len(colors) - 1):.6g};{_rgba_text(color)}"
        for position, color in enumerate(colors[1:-1], start=1)
    )
    options = {
        "color1": _rgba_text(colors[0]),
        "color2": _rgba_text(colors[-1]),
        "discrete": "0",
        "rampType": "gradient",
        "stops": stops,
    }
    holder = ET.SubElement(element, "Option", type="Map")
    for name, value in options.items():
        ET.SubElement(holder, "Option", type="QString", name=name, value=value)
        ET.SubElement(element, "prop", k=name, v=value)


def ramp_range(ramp: Ramp, data_range: tuple[float, float]) -> tuple[float, float]:
    """Values of the first and last colour; never equal, or QGIS would draw nothing."""
    low = data_range[0] if ramp.minimum is None else ramp.minimum
    high = data_range[1] if ramp.maximum is None else ramp.maximum
    return (low, high) if high > low else (low, low + 1.0)


def _number(value: float) -> str:
    return f"{value:.9g}"


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _rgba_text(color: str) -> str:
    return ",".join(str(part) for part in (*_rgb(color), 255))
