"""Spectra of the classes of a map: what the scene shows, and what the model holds."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from p3vae.cli.labels import draw_pixels
from p3vae.cli.rasters.maps import MapFile
from p3vae.cli.report.charts import Axis, Line, Values, line_chart, with_gaps
from p3vae.cli.report.scenes import MappedScene
from p3vae.cli.scenes.base import UNITS

if TYPE_CHECKING:
    from p3vae.models.landcover.model import LandCoverModel

DRAWN_PIXELS = 20_000
WIDEST_GAP_NM = 60.0
"""Wider gaps between bands are left open in a chart [nm]."""
_VISIBLE = 0.01
_SPREAD = (10.0, 50.0, 90.0)


def class_charts(source: MappedScene, mapped: MapFile, model: LandCoverModel | None) -> str:
    """Median and spread of every class in the scene, with the latent spectra of the model."""
    scene, area = source.scene, source.area
    drawn = draw_pixels(scene, DRAWN_PIXELS, seed=0)
    good = np.flatnonzero(scene.bands.good)
    row, col = drawn.row - area.row, drawn.col - area.col
    inside = (row >= 0) & (row < area.rows) & (col >= 0) & (col < area.cols)
    spectra, x = drawn.spectra[inside][:, good], scene.bands.wavelength_nm[good]
    values = np.where(mapped.valid, mapped.values, 0)[row[inside], col[inside]]
    latent = _latent(model)
    top = float(np.nanpercentile(spectra, 99.5)) if len(spectra) else 1.0
    y_axis = Axis(f"{scene.quantity} [{UNITS[scene.quantity]}]", 0.0, max(top, 1e-6))
    figures = []
    for item in mapped.classes:
        own = spectra[values == item.value]
        if not len(own):
            continue
        low, middle, high = np.percentile(own, _SPREAD, axis=0)
        places, middle_line = with_gaps(x, middle, WIDEST_GAP_NM)
        band = with_gaps(x, low, WIDEST_GAP_NM)[1], with_gaps(x, high, WIDEST_GAP_NM)[1]
        lines = [Line(f"{item.name}: median of the scene", item.color, middle_line, band)]
        axis = Axis("wavelength [nm]", float(x[0]), float(x[-1]))
        lines += [_on(places, line) for line in latent.get(item.name, ())]
        chart = line_chart(places, [_clipped(line, y_axis) for line in lines], axis, y_axis, item.name)
        figures.append(
            f"<figure>{chart}<figcaption>{escape(item.name)}, {len(own):,} pixels</figcaption></figure>"
        )
    return f'<div class="charts">{"".join(figures)}</div>'


def _latent(model: LandCoverModel | None) -> dict[str, list[tuple[Values, Values]]]:
    """Wavelengths [nm] and reflectance of the latent spectra, by class name."""
    spectra = None if model is None else model.latent_spectra()
    if model is None or spectra is None:
        return {}
    x = model.bands.wavelength_nm
    return {
        name: [(x, line) for line in distinct(lines)]
        for name, lines in zip(model.legend.names, spectra, strict=True)
    }


def distinct(spectra: Any) -> Values:
    """The first of a class's spectra (spectra, bands), and those that differ from it by more than 1 %."""
    lines: Values = np.asarray(spectra, np.float64)
    size = np.sqrt((lines[0] ** 2).mean())
    apart = np.sqrt(((lines - lines[0]) ** 2).mean(axis=1)) > _VISIBLE * size
    return lines[[True, *apart[1:].tolist()]]


def _on(places: Values, latent: tuple[Values, Values]) -> Line:
    """A latent spectrum at the places of a chart, NaN kept."""
    y = np.interp(places, *latent, left=np.nan, right=np.nan)
    return Line(
        "latent spectrum of the model", "currentColor", np.where(np.isnan(places), np.nan, y), dashed=True
    )


def _clipped(line: Line, axis: Axis) -> Line:
    band = None if line.band is None else tuple(np.clip(edge, axis.low, axis.high) for edge in line.band)
    return Line(line.label, line.colour, np.clip(line.y, axis.low, axis.high), band, line.dashed, line.marked)  # type: ignore[arg-type]
