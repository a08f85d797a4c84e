"""An explanation of a pixel on the screen, as JSON, and as charts."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from rich.text import Text

from p3vae.cli.landcover.explain import ClassFit, Explanation
from p3vae.cli.report import page
from p3vae.cli.report.charts import Axis, Line, with_gaps
from p3vae.cli.report.figure import Chart, save_charts
from p3vae.cli.report.spectra import WIDEST_GAP_NM

_BLOCKS = "▁▂▃▄▅▆▇█"
_COLUMNS = 60
_KNOWN = 0.75
"""Probability from which on one hypothesis about light decides."""
_HEADINGS = ("Class", "Prob.", "Residual", "Direct", "Sky", "Variability [std]")


def record(found: Explanation) -> dict[str, Any]:
    """For JSON."""
    return {
        "scene": str(found.scene),
        "pixel": [found.place.col, found.place.row],
        "x": found.x,
        "y": found.y,
        "irradiance": found.irradiance,
        "irradiance_std": found.irradiance_std,
        "misfit": found.misfit,
        "lit_like_labels": found.known_light,
        "averages_neighbours": found.averaged,
        "unknown": None if found.misfit is None else found.misfit > 1,
        "classes": [_fit_record(fit, found) for fit in found.fits],
        "second_class_fits_worst_nm": found.against,
        "wavelength_nm": found.wavelength_nm.tolist(),
        "observed": found.observed.tolist(),
    }


def show(found: Explanation, console: Console) -> None:
    """For people, 80 columns wide."""
    for line in _headlines(found):
        console.print(line, highlight=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for heading in _headings(found):
        table.add_column(heading, justify="left" if heading == "Class" else "right", no_wrap=True)
    for fit in found.fits:
        table.add_row(Text.assemble(("■ ", fit.colour), fit.name), *_cells(fit, found))
    console.print(table)
    top = max(
        found.observed.max(), *(fit.spectrum.max() for fit in found.fits if fit.spectrum is not None), 0
    )
    first, last = found.wavelength_nm[0], found.wavelength_nm[-1]
    console.print(f"Spectra from {first:.0f} to {last:.0f} nm, up to {top:.2f}:", highlight=False)
    for name, values in (("observed", found.observed), *_fitted(found)):
        console.print(f"{_sparkline(values, float(top))}  {name}", highlight=False, soft_wrap=True)
    for line in _reasons(found):
        console.print(line, highlight=False, soft_wrap=True)


def save(found: Explanation, path: Path, *, overwrite: bool) -> None:
    """Observed and fitted spectra, and their differences, as HTML or PNG."""
    pair = [fit for fit in found.fits[:2] if fit.spectrum is not None]
    x, observed = with_gaps(found.wavelength_nm, found.observed, WIDEST_GAP_NM)
    fitted = [
        Line(
            f"{fit.name}, fitted",
            fit.colour,
            with_gaps(found.wavelength_nm, _of(fit), WIDEST_GAP_NM)[1],
            dashed=k > 0,
        )
        for k, fit in enumerate(pair)
    ]
    residuals = [Line(line.label, line.colour, observed - line.y, dashed=line.dashed) for line in fitted]
    across = Axis("wavelength [nm]", float(found.wavelength_nm[0]), float(found.wavelength_nm[-1]))
    lines = (Line("observed", "currentColor", observed), *fitted)
    charts = [
        Chart(
            "Spectrum",
            x,
            lines,
            across,
            Axis.around("reflectance [1]", *(line.y for line in lines), zero=True),
        )
    ]
    if residuals:
        y_axis = Axis.around("observed − fitted [1]", *(line.y for line in residuals))
        charts.append(Chart("Residual", x, tuple(residuals), across, y_axis))
    title = f"Pixel {found.place.col},{found.place.row} of {found.scene.name}"
    text = [*_headlines(found)[1:], *_reasons(found)]
    rows = [[f"{page.colour_box(f.colour)}{escape(f.name)}", *_cells(f, found)] for f in found.fits]
    content = "".join(f"<p>{escape(line)}</p>" for line in text) + page.table(_headings(found), rows)
    save_charts(charts, path, title, overwrite=overwrite, inputs=(found.scene,), content=content)


def _headlines(found: Explanation) -> list[str]:
    place = "" if found.x is None else f" at {found.x:.8g}, {found.y:.8g}"
    lines = [f"Pixel {found.place.col},{found.place.row} of {found.scene.name}{place}"]
    if found.irradiance is not None:
        lines.append(
            f"Direct light {found.irradiance:.3f} ± {found.irradiance_std:.3f} "
            "(1 faces the sun, 0 is full shadow)"
        )
    if found.misfit is not None:
        kind = "unlike anything the model learned" if found.misfit > 1 else "like what the model learned"
        lines.append(f"Misfit {found.misfit:.2f}: {kind} (unknown above 1)")
    if found.known_light is not None:
        lines.append(_hypothesis(found.known_light))
    if found.averaged:
        lines.append("Probabilities are averaged over the pixel and its neighbours")
    return lines


def _hypothesis(known_light: float) -> str:
    """Which of the two hypotheses about light decides."""
    if known_light >= _KNOWN:
        return f"Lit as the labels are, with probability {known_light:.2f}: the classifier decides"
    if known_light <= 1 - _KNOWN:
        return (
            f"Light that no label shows (lit as they are with probability {known_light:.2f}): physics decides"
        )
    return f"Lit as the labels are, with probability {known_light:.2f}: classifier and physics both count"


def _headings(found: Explanation) -> tuple[str, ...]:
    """Without those of fits where the model makes none."""
    return _HEADINGS if any(fit.spectrum is not None for fit in found.fits) else _HEADINGS[:2]


def _reasons(found: Explanation) -> list[str]:
    """Where the second class fits worse."""
    span, (first, second) = found.against, found.fits[:2]
    if span is None:
        return ["This model gives probabilities, but no fitted spectra."]
    inside = (found.wavelength_nm >= span[0]) & (found.wavelength_nm <= span[1])
    seen, one, two = (float(np.mean(v[inside])) for v in (found.observed, _of(first), _of(second)))
    return [
        f"Why not {second.name}: from {span[0]:.0f} to {span[1]:.0f} nm the pixel shows {seen:.3f}, "
        f"{first.name} gives {one:.3f} and {second.name} {two:.3f}"
    ]


def _cells(fit: ClassFit, found: Explanation) -> list[str]:
    rms, codes = fit.rms(found.observed), fit.codes
    cells = [f"{fit.probability:.3f}", "" if rms is None else f"{rms:.4f}", "", "", ""]
    if codes is not None:
        lights = 0 if found.irradiance is None else 2
        cells[2 : 2 + lights] = [f"{code:.2f}" for code in codes[:lights]]
        cells[4] = " ".join(f"{code:+.1f}" for code in codes[lights : lights + 3])
    return cells[: len(_headings(found)) - 1]


def _fit_record(fit: ClassFit, found: Explanation) -> dict[str, Any]:
    made: dict[str, Any] = {"class": fit.name, "probability": fit.probability}
    if fit.spectrum is not None and fit.codes is not None:
        made |= {
            "rms_residual": fit.rms(found.observed),
            "codes": fit.codes.tolist(),
            "fitted": fit.spectrum.tolist(),
        }
    return made


def _fitted(found: Explanation) -> list[tuple[str, npt.NDArray[np.float64]]]:
    return [(f"{fit.name}, fitted", fit.spectrum) for fit in found.fits[:2] if fit.spectrum is not None]


def _of(fit: ClassFit) -> npt.NDArray[np.float64]:
    assert fit.spectrum is not None
    return fit.spectrum


def _sparkline(values: npt.NDArray[np.float64], top: float) -> str:
    columns = np.array_split(values, min(_COLUMNS, len(values)))
    heights = [int(np.clip(part.mean() / max(top, 1e-9), 0, 0.999) * len(_BLOCKS)) for part in columns]
    return "".join(_BLOCKS[height] for height in heights)
