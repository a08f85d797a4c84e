"""What the page says about each scene."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from p3vae.cli.errors import ProductError
from p3vae.cli.rasters.maps import UNKNOWN_NAME, MapFile, read_map
from p3vae.cli.rasters.pictures import (
    class_picture,
    cube_picture,
    quantity_picture,
    scale_of,
    scene_picture,
)
from p3vae.cli.report import page
from p3vae.cli.report.runs import SceneProducts
from p3vae.cli.report.scenes import open_mapped
from p3vae.cli.report.spectra import class_charts
from p3vae.cli.scenes.pixel_coordinates import PixelCoordinates
from p3vae.cli.scenes.vectors import read_polygons
from p3vae.cli.styles.rasters import Stop
from p3vae.cli.styles.titles import ordered, title_of

if TYPE_CHECKING:
    from p3vae.models.landcover.model import LandCoverModel

_RESULTS = ("landcover", "methane", "irradiance", "brightness")
"""Maps whose pixels with a value are the results of a scene; the first that is there counts."""
_LEFT_OUT = ("probabilities", "fractions", "fractions_std", "plumes")
_ONE_OF_MANY = 320
"""Largest side of a picture where there are several scenes [pixels]."""
_CROP = 12
"""Pixels around a plume in its picture."""
_MOST_PLUMES = 30


@dataclass(frozen=True)
class Extras:
    """What a report may show beside the products."""

    model: LandCoverModel | None = None
    assessments: Mapping[str, str] | None = None
    """HTML by name of the scene."""


def section(entry: SceneProducts, extras: Extras, *, of: int) -> str:
    """Everything about one scene, as HTML; `of` scenes are on the page."""
    size = page.LARGEST_PICTURE if of == 1 else _ONE_OF_MANY
    heading = f"<h2>{escape(entry.name)}</h2>" if of > 1 else ""
    maps = {key: read_map(path) for key, path in entry.products.items() if _is_map(key, path)}
    parts = [f'<section id="{escape(entry.name, quote=True)}">{heading}', _summary(entry, maps)]
    mapped, problem = open_mapped(entry, _shape(maps))
    try:
        base = None if mapped is None else scene_picture(mapped.scene, size, mapped.area, mapped.onto)
        if mapped is None:
            parts.append(_note(f"No quick-look and no spectra, because {problem}"))
        if entry.missing:
            parts.append(_note(f"Listed, but gone: {', '.join(entry.missing)}"))
        parts.append(page.viewer(entry.name, base, _layers(entry, maps, size)))
        landcover = maps.get("landcover")
        if landcover is not None and mapped is not None and mapped.onto is None and of == 1:
            parts.append("<h3>Spectra of the classes</h3>")
            parts.append(_spectra_caption(extras.model))
            parts.append(class_charts(mapped, landcover, extras.model))
    finally:
        if mapped is not None:
            mapped.scene.close()
    if extras.assessments and entry.name in extras.assessments:
        parts.append(extras.assessments[entry.name])
    parts += [_plume_gallery(entry, maps), _settings(entry), "</section>"]
    return "".join(parts)


def _is_map(key: str, path: Path) -> bool:
    return path.suffix == ".tif" and key not in _LEFT_OUT and key != "relit"


def _shape(maps: Mapping[str, MapFile]) -> tuple[int, int]:
    """Rows and columns of the maps; none if there are none."""
    first = next(iter(maps.values()), None)
    return (0, 0) if first is None else (first.grid.height, first.grid.width)


def _summary(entry: SceneProducts, maps: Mapping[str, MapFile]) -> str:
    latest = entry.runs[0]
    scene = latest["scene"]
    words = [
        " ".join(str(scene.get(key) or "") for key in ("product", "level")).strip(),
        f"{latest.get('pixels', 0):,} pixels",
        f"{latest.get('valid_pixels', 0):,} with data",
    ]
    zenith = latest.get("settings", {}).get("sun_zenith_deg")
    if zenith is not None:
        words.append(f"sun {zenith:.1f}° from the zenith")
    lines = [f'<p class="soft">{escape(", ".join([*words, *_place(maps)]))}</p>']
    lines.append(f'<p class="soft">{escape(", ".join(_results(latest, maps)))}</p>')
    share = next((r["results"]["out_of_distribution"] for r in entry.runs if _share(r) is not None), None)
    if share is not None:
        lines.append(f"<p>{100 * share:.1f} % of the pixels are unlike anything the model learned.</p>")
    return "".join(lines)


def _place(maps: Mapping[str, MapFile]) -> list[str]:
    """When and where: time of acquisition, CRS and size of a pixel."""
    first = next(iter(maps.values()), None)
    if first is None:
        return []
    time, grid = first.tags.get("ACQUISITION_TIME"), first.grid
    words = [f"taken {time[:16].replace('T', ' ')} UTC"] if time else ["time unknown"]
    if grid.crs is None or grid.transform is None:
        return [*words, "on the grid of the detector" if grid.gcps else "without a place on Earth"]
    size, degrees = abs(grid.transform.a), grid.crs.is_geographic
    return [*words, f"{grid.crs.to_string()}, pixels of {size:.3g} {'°' if degrees else 'm'}"]


def _results(latest: Mapping[str, Any], maps: Mapping[str, MapFile]) -> list[str]:
    """How many pixels have a result, how sure they are, and by which program when."""
    words = []
    shown = next((maps[key] for key in _RESULTS if key in maps), None)
    if shown is not None:
        have, of = int(shown.valid.sum()), latest.get("valid_pixels", 0)
        without = f", {of - have:,} of those with data have none" if of > have else ""
        words.append(f"{have:,} pixels with a result{without}")
    confidence = maps.get("confidence")
    if confidence is not None and confidence.valid.any():
        words.append(f"mean confidence {float(confidence.values[confidence.valid].mean()):.2f}")
    made = str(latest.get("time", ""))[:16].replace("T", " ")
    return [*words, f"made by p3vae {latest.get('p3vae_version')} on {made} UTC"]


def _share(run: Mapping[str, Any]) -> float | None:
    results = run.get("results")
    share = results.get("out_of_distribution") if isinstance(results, Mapping) else None
    return share if isinstance(share, float | int) else None


def _layers(entry: SceneProducts, maps: Mapping[str, MapFile], size: int) -> list[page.Layer]:
    layers = []
    for key in ordered([*maps, *(["relit"] if "relit" in entry.products else [])]):
        title = title_of(key)
        if key == "relit":
            image = cube_picture(entry.products[key], size)
            layers.append(page.Layer(key, title, image, '<p class="soft">reflectance, true colour</p>'))
        else:
            layers.append(_layer(key, title, maps[key], size))
    return layers


def _layer(key: str, title: str, mapped: MapFile, size: int) -> page.Layer:
    if mapped.categories is not None:
        return page.Layer(key, title, class_picture(mapped, size), _class_legend(mapped))
    scale = scale_of(mapped)
    legend = _bar(mapped, scale)
    return page.Layer(key, title, quantity_picture(mapped, scale, size), legend)


def _bar(mapped: MapFile, scale: Sequence[Stop]) -> str:
    highest = float(mapped.values[mapped.valid].max()) if mapped.valid.any() else None
    return page.colour_bar(scale, mapped.unit, mapped.description, highest)


def _class_legend(mapped: MapFile) -> str:
    assert mapped.categories is not None
    total = int(mapped.valid.sum())
    rows = []
    for item in mapped.categories.items:
        pixels, area = mapped.pixels(item.value), mapped.area_ha(item.value)
        share = f"{100 * pixels / max(total, 1):.1f} %"
        name = f"<em>{escape(item.name)}</em>" if item.name == UNKNOWN_NAME else escape(item.name)
        rows.append([f"{page.colour_box(item.color)}{name}", "–" if area is None else f"{area:,.2f}", share])
    return page.table(("Class", "ha", "Share"), rows)


def _spectra_caption(model: LandCoverModel | None) -> str:
    text = "Line: median of the pixels of a class. Shaded: from the 10th to the 90th percentile."
    if model is not None and model.latent_spectra() is not None:
        text += " Dashed: what the model holds for the class, in the mean light of its training pixels."
    return f'<p class="soft">{text}</p>'


def _plume_gallery(entry: SceneProducts, maps: Mapping[str, MapFile]) -> str:
    methane, polygons = maps.get("methane"), entry.products.get("plumes")
    if methane is None:
        return ""
    rows: Sequence[Mapping[str, Any]] = entry.plumes
    if not rows or polygons is None:
        return "<h3>Plumes</h3><p>No plume was found.</p>"
    shapes = read_polygons(polygons, ProductError)
    scale, to_pixels = scale_of(methane), PixelCoordinates(methane.grid)
    whole = quantity_picture(methane, scale, max(methane.values.shape))
    figures = []
    for row, shape in list(zip(rows, shapes.geometry, strict=False))[:_MOST_PLUMES]:
        west, south, east, north = shape.bounds
        corners = to_pixels(np.array([[west, south], [west, north], [east, south], [east, north]]))
        left, top = np.maximum(np.floor(corners.min(axis=0)).astype(int) - _CROP, 0)
        right, bottom = np.ceil(corners.max(axis=0)).astype(int) + _CROP
        picture = page.data_uri(whole[top:bottom, left:right])
        figures.append(
            f'<figure><img src="{picture}" alt="plume"><figcaption>{_plume_text(row)}</figcaption></figure>'
        )
    bar = _bar(methane, scale)
    return f'<h3>Plumes</h3>{bar}<div class="gallery">{"".join(figures)}</div>'


def _plume_text(row: Mapping[str, Any]) -> str:
    words = [f"<strong>Plume {escape(str(row.get('plume')))}</strong>"]
    for name, value, error, unit in (
        ("peak", "peak_ppm_m", "", "ppm·m"),
        ("mass", "ime_kg", "ime_std_kg", "kg"),
        ("emission", "q_kg_h", "q_std_kg_h", "kg/h"),
    ):
        found, spread = row.get(value), row.get(error)
        if isinstance(found, int | float):
            plus_minus = f" ± {spread:,.0f}" if isinstance(spread, int | float) else ""
            words.append(f"{name} {found:,.0f}{plus_minus} {unit}")
    return "<br>".join(words)


def _settings(entry: SceneProducts) -> str:
    keys = ("command", "time", "p3vae_version", "model_sha256", "settings")
    parts = []
    for run in entry.runs:
        title = (
            f"Settings of {str(run.get('command', 'a run')).partition(' ')[2].partition(' ')[0] or 'a run'}"
        )
        parts.append(page.folded(title, page.facts({key: run.get(key) for key in keys})))
    return "".join(parts)


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'
