"""How vector products look in QGIS: colours by class, outlines with labels, readable field names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal
from xml.etree import ElementTree as ET

from p3vae.cli.colours import rgb_colour
from p3vae.cli.styles.rasters import Category, qml_text

Shape = Literal["fill", "marker"]

_TO_LABEL = Category(0, "to label", "#ff00aa")
PLUME_COLOUR = "215,48,31,255"
PLUME_LABEL = (
    "'Plume ' || \"plume\""
    " || coalesce('\\n' || format_number(\"ime_kg\", 0) || ' kg', '')"
    " || coalesce('\\n' || format_number(\"q_kg_h\", 0) || ' ± '"
    " || format_number(\"q_std_kg_h\", 0) || ' kg/h', '')"
)
"""A QGIS expression: name, mass and emission rate, where known."""
PLUME_ALIASES = {
    "id": "Identifier",
    "scene": "Scene",
    "time_utc": "Time [UTC]",
    "sensor": "Sensor",
    "gas": "Gas",
    "plume": "Plume",
    "probability": "Probability that it is a plume [1]",
    "false_plumes": "Expected false plumes as strong, per scene",
    "quality": "Quality",
    "spectrum": "What its spectrum looks like",
    "methane_log_ratio": "Log-likelihood ratio of methane [1]",
    "touches_edge": "Goes on beyond what is seen",
    "clear_share": "Share of clear pixels [1]",
    "pixels": "Pixels",
    "area_m2": "Area [m²]",
    "peak_ppm_m": "Peak [ppm m]",
    "peak_std_ppm_m": "Peak, standard deviation [ppm m]",
    "mean_ppm_m": "Mean [ppm m]",
    "peak_lon": "Longitude of the peak [°]",
    "peak_lat": "Latitude of the peak [°]",
    "source_lon": "Longitude of the likely source [°]",
    "source_lat": "Latitude of the likely source [°]",
    "direction_deg": "Direction of the plume [° from north, towards]",
    "ime_kg": "Mass [kg]",
    "ime_std_kg": "Mass, standard deviation [kg]",
    "ime_std_noise_kg": "Mass, error by noise of pixels [kg]",
    "ime_std_background_kg": "Mass, error by background [kg]",
    "ime_std_mask_kg": "Mass, error by choice of mask [kg]",
    "ime_std_absorption_kg": "Mass, error by absorption of methane [kg]",
    "q_kg_h": "Emission rate [kg/h]",
    "q_std_kg_h": "Emission rate, standard deviation [kg/h]",
    "q_std_ime_kg_h": "Emission rate, error by mass [kg/h]",
    "q_std_wind_kg_h": "Emission rate, error by wind [kg/h]",
    "wind_m_s": "Wind at 10 m [m/s]",
    "wind_std_m_s": "Wind at 10 m, standard deviation [m/s]",
    "wind_towards_deg": "Wind blows to [° from north]",
    "wind_source": "Source of the wind",
    "ueff_a": "U_eff = a wind + b: a [1]",
    "ueff_b": "U_eff = a wind + b: b [m/s]",
    "winds": "Emission rates by source of the wind [JSON]",
}


def plume_style() -> bytes:
    """Plumes as red outlines with mass and emission rate."""
    root = _root(labels=True)
    renderer = ET.SubElement(root, "renderer-v2", type="singleSymbol", symbollevels="0", enableorderby="0")
    symbols = ET.SubElement(renderer, "symbols")
    _symbol(symbols, "0", "fill", {"style": "no", "outline_color": PLUME_COLOUR, "outline_width": "0.6"})
    settings = ET.SubElement(ET.SubElement(root, "labeling", type="simple"), "settings")
    style = ET.SubElement(
        settings,
        "text-style",
        fieldName=PLUME_LABEL,
        isExpression="1",
        fontSize="9",
        fontSizeUnit="Point",
        textColor="120,20,10,255",
    )
    ET.SubElement(style, "text-buffer", bufferDraw="1", bufferSize="0.8", bufferColor="255,255,255,255")
    ET.SubElement(settings, "placement", placement="1", priority="9")
    ET.SubElement(settings, "rendering", displayAll="1", drawLabels="1")
    _aliases(root, PLUME_ALIASES)
    return qml_text(root)


def to_label_style(field: str, items: Sequence[Category]) -> bytes:
    """Points in the colours of their classes, pink before they have one; QGIS offers the names as a list."""
    root = ET.fromstring(class_style(field, [*items, _TO_LABEL], "marker"))  # noqa: S314 - our own document
    element = ET.SubElement(ET.SubElement(root, "fieldConfiguration"), "field", name=field)
    config = ET.SubElement(ET.SubElement(element, "editWidget", type="ValueMap"), "config")
    choices = ET.SubElement(ET.SubElement(config, "Option", type="Map"), "Option", type="List", name="map")
    for item in items:
        entry = ET.SubElement(choices, "Option", type="Map")
        ET.SubElement(entry, "Option", type="QString", name=item.name, value=item.name)
    return qml_text(root)


def class_style(field: str, items: Sequence[Category], shape: Shape = "fill") -> bytes:
    """Features in the colours of their classes."""
    root = _root(labels=False)
    renderer = ET.SubElement(
        root, "renderer-v2", type="categorizedSymbol", attr=field, symbollevels="0", enableorderby="0"
    )
    categories = ET.SubElement(renderer, "categories")
    symbols = ET.SubElement(renderer, "symbols")
    for number, item in enumerate(items):
        ET.SubElement(
            categories,
            "category",
            value="" if item is _TO_LABEL else item.name,
            label=item.name,
            symbol=str(number),
            render="true",
        )
        red, green, blue = rgb_colour(item.color)
        colours = {"color": f"{red},{green},{blue},150", "outline_color": f"{red},{green},{blue},255"}
        _symbol(symbols, str(number), shape, {**colours, "outline_width": "0.4", "style": "solid"})
    return qml_text(root)


def _root(*, labels: bool) -> ET.Element:
    return ET.Element(
        "qgis", version="3.22", styleCategories="AllStyleCategories", labelsEnabled="1" if labels else "0"
    )


def _symbol(symbols: ET.Element, name: str, shape: Shape, properties: Mapping[str, str]) -> None:
    symbol = ET.SubElement(symbols, "symbol", type=shape, name=name, alpha="1", clip_to_extent="1")
    kind = "SimpleFill" if shape == "fill" else "SimpleMarker"
    layer = ET.SubElement(symbol, "layer", {"class": kind, "enabled": "1", "pass": "0", "locked": "0"})
    for key, value in {"outline_style": "solid", "outline_width_unit": "MM", **properties}.items():
        ET.SubElement(layer, "prop", k=key, v=value)


def _aliases(root: ET.Element, aliases: Mapping[str, str]) -> None:
    element = ET.SubElement(root, "aliases")
    for index, (field, name) in enumerate(aliases.items()):
        ET.SubElement(element, "alias", index=str(index), field=field, name=name)
