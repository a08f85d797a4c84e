"""How products look in QGIS: style files applied when the raster of the same base name is opened."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from p3vae.cli.colours import rgb_colour
from p3vae.cli.scenes.xml import parse_xml

_NOT_XML = re.compile("[^\\t\\n\\r -\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")

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


_DOCTYPE = b"<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n"


@dataclass(frozen=True)
class Category:
    """One class of a class map."""

    value: int
    name: str
    color: str
    """#rrggbb."""
    alpha: int = 255
    """0 lets what lies below shine through."""


@dataclass(frozen=True)
class Categories:
    """Legend of a class map."""

    items: tuple[Category, ...]

    def rgba(self) -> dict[int, tuple[int, int, int, int]]:
        """Colour table: value to (red, green, blue, alpha); 0 is transparent."""
        return {0: (0, 0, 0, 0)} | {item.value: (*rgb_colour(item.color), item.alpha) for item in self.items}

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
    shown_from: float | None = None
    """Lower values are transparent; None to show all."""


@dataclass(frozen=True)
class ColourImage:
    """A cube shown by three of its bands; without it QGIS would take the first three."""

    bands: tuple[int, int, int]
    """Red, green and blue, counted from 1."""
    minimum: float
    maximum: float


def true_colour(wavelength_nm: Sequence[float], minimum: float, maximum: float) -> ColourImage:
    """A cube in true colour, between two values."""
    red, green, blue = rgb_bands(wavelength_nm)
    return ColourImage((red + 1, green + 1, blue + 1), minimum, maximum)


Style = Categories | Ramp | ColourImage
_ROUNDING = 1e-9
_HEX_COLOUR = re.compile("#[0-9a-fA-F]{6}")


def side_files(raster: str, style: Style) -> tuple[str, ...]:
    """Names of the files beside a raster (.tif) that hold its style and, for a class map, its categories."""
    style_file = f"{raster.rpartition('.')[0]}.qml"
    return (style_file, f"{raster}.aux.xml") if isinstance(style, Categories) else (style_file,)


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
    return qml_text(root)


def qml_text(root: ET.Element) -> bytes:
    """The bytes of a QML document."""
    return _DOCTYPE + _text(root)


@dataclass(frozen=True)
class Stop:
    """A value of a colour ramp."""

    value: float
    color: str
    """#rrggbb."""
    alpha: int = 255


def read_ramp(path: Path) -> tuple[Stop, ...]:
    """The colours of a style of ours that shows a quantity, ascending; empty for any other."""
    try:
        items = _elements(path, "./pipe/rasterrenderer/rastershader/colorrampshader/item")
        stops = [
            Stop(float(item.attrib["value"]), item.attrib["color"], int(item.get("alpha", "255")))
            for item in items
        ]
    except (OSError, KeyError, ValueError):
        return ()
    ascending = len(stops) > 1 and all(a.value < b.value for a, b in itertools.pairwise(stops))
    return tuple(stops) if ascending and all(_HEX_COLOUR.fullmatch(stop.color) for stop in stops) else ()


def read_alphas(path: Path) -> dict[int, int]:
    """How opaque a style of ours shows each value of a class map, from 0 to 255; empty for any other."""
    try:
        entries = _elements(path, "./pipe/rasterrenderer/colorPalette/paletteEntry")
        return {int(entry.attrib["value"]): int(entry.attrib["alpha"]) for entry in entries}
    except (OSError, KeyError, ValueError):
        return {}


def _elements(path: Path, where: str) -> list[ET.Element]:
    """Elements of a style of ours; parse_xml refuses all declarations, so that of QGIS goes first."""
    return parse_xml(path.read_bytes().removeprefix(_DOCTYPE)).findall(where)


def ramp_stops(ramp: Ramp, data_range: tuple[float, float]) -> tuple[Stop, ...]:
    """The same of a ramp whose open ends come from the data."""
    low, high = ramp_range(ramp, data_range)
    colors = RAMPS[ramp.colormap]
    return tuple(Stop(low + (high - low) * k / (len(colors) - 1), color) for k, color in enumerate(colors))


TRUE_COLOUR_NM = (660.0, 560.0, 480.0)
"""Red, green and blue."""
_VISIBLE_TOLERANCE_NM = 60.0


def rgb_bands(wavelength_nm: Sequence[float]) -> tuple[int, int, int]:
    """Indices of the bands nearest to red, green and blue; evenly spaced ones, longest first, without any."""
    count = len(wavelength_nm)
    nearest = [min(range(count), key=lambda k: abs(wavelength_nm[k] - colour)) for colour in TRUE_COLOUR_NM]
    gaps = [abs(wavelength_nm[k] - colour) for k, colour in zip(nearest, TRUE_COLOUR_NM, strict=True)]
    if max(gaps) > _VISIBLE_TOLERANCE_NM:
        return (5 * count) // 6, count // 2, count // 6
    return nearest[0], nearest[1], nearest[2]


def category_document(categories: Categories) -> bytes:
    """The GDAL side file (`X.tif.aux.xml`) that carries category names."""
    root = ET.Element("PAMDataset")
    names = ET.SubElement(ET.SubElement(root, "PAMRasterBand", band="1"), "CategoryNames")
    for name in categories.names():
        ET.SubElement(names, "Category").text = name
    return _text(root)


def _text(root: ET.Element) -> bytes:
    for element in root.iter():
        element.text = None if element.text is None else _legible(element.text)
        element.attrib.update({name: _legible(value) for name, value in element.attrib.items()})
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="utf-8")
    return text + b"\n"


def _legible(text: str) -> str:
    """The text with a mark for each character that XML does not allow."""
    return _NOT_XML.sub("\ufffd", text)


def _paletted(pipe: ET.Element, categories: Categories) -> None:
    renderer = ET.SubElement(pipe, "rasterrenderer", type="paletted", band="1", opacity="1", alphaBand="-1")
    palette = ET.SubElement(renderer, "colorPalette")
    for item in categories.items:
        ET.SubElement(
            palette,
            "paletteEntry",
            value=str(item.value),
            color=item.color,
            alpha=str(item.alpha),
            label=item.name,
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
    for value, color, alpha in _stops(ramp, low, high):
        ET.SubElement(
            shader,
            "item",
            value=_number(value),
            color=color,
            alpha=str(alpha),
            label=f"{figure(value)}{ramp.suffix}",
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


def _stops(ramp: Ramp, low: float, high: float) -> list[tuple[float, str, int]]:
    """(value, colour, alpha) of the items: transparent up to `shown_from`, opaque from there on."""
    colors = RAMPS[ramp.colormap]
    step = (high - low) / (len(colors) - 1)
    stops = [(low + step * position, color, 255) for position, color in enumerate(colors)]
    if ramp.shown_from is None or not low < ramp.shown_from < high:
        return stops
    shown = [stop for stop in stops if stop[0] > ramp.shown_from]
    before, after = (rgb_colour(colors[len(colors) - len(shown) + k]) for k in (-1, 0))
    share = 1.0 - (shown[0][0] - ramp.shown_from) / step
    mixed = "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in zip(before, after, strict=True))
    edge = ramp.shown_from
    return [(low, mixed, 0), (edge - 1e-6 * (high - low), mixed, 0), (edge, mixed, 255), *shown]


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


def figure(value: float) -> str:
    """A number of a legend: four digits, thousands with commas, no powers of ten below a million."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.4g}"


def ramp_range(ramp: Ramp, data_range: tuple[float, float]) -> tuple[float, float]:
    """Values of the first and last colour; never equal, or QGIS would draw nothing.

    Ends taken from the data are widened to round numbers, so that scenes alike have legends alike.
    """
    low = data_range[0] if ramp.minimum is None else ramp.minimum
    high = data_range[1] if ramp.maximum is None else ramp.maximum
    if not high > low:
        return low, low + 1.0
    step = _round_step(high - low)
    if ramp.minimum is None:
        low = math.floor(low / step + _ROUNDING) * step
    if ramp.maximum is None:
        high = math.ceil(high / step - _ROUNDING) * step
    return low, high


def _round_step(span: float) -> float:
    """A round number, of which about four make up `span`."""
    power = 10.0 ** math.floor(math.log10(span / 4))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= span / 4)


def _number(value: float) -> str:
    return f"{value:.9g}"


def _rgba_text(color: str) -> str:
    return ",".join(str(part) for part in (*rgb_colour(color), 255))
