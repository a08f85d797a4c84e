"""Charts as files: an HTML page, or a PNG by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from p3vae.cli.errors import P3vaeError, UsageError
from p3vae.cli.records.staging import save
from p3vae.cli.report import page
from p3vae.cli.report.charts import Axis, Line, Values, line_chart

FIGURE_SUFFIXES = (".html", ".png")


@dataclass(frozen=True, eq=False)
class Chart:
    """Lines over one axis."""

    title: str
    x: Values
    lines: tuple[Line, ...]
    x_axis: Axis
    y_axis: Axis


def save_charts(
    charts: Sequence[Chart],
    path: Path,
    title: str,
    *,
    overwrite: bool,
    inputs: tuple[Path, ...] = (),
    content: str = "",
) -> None:
    """Write charts as a page, below the HTML `content`, or as a picture without it."""
    if path.suffix.lower() not in FIGURE_SUFFIXES:
        raise UsageError(
            f"is neither {' nor '.join(FIGURE_SUFFIXES)}", path=path, remedy="choose one of them"
        )

    def write(staged: Path) -> None:
        if path.suffix.lower() == ".png":
            _save_png(charts, staged)
            return
        figures = "".join(f"<figure>{_legend(chart)}{_svg(chart)}</figure>" for chart in charts)
        body = [f"<h1>{escape(title)}</h1>", content, f'<div class="charts">{figures}</div>']
        staged.write_text(page.page(title, body), encoding="utf-8")

    save(path, write, overwrite=overwrite, inputs=inputs)


def _svg(chart: Chart) -> str:
    return line_chart(chart.x, chart.lines, chart.x_axis, chart.y_axis, chart.title)


def _legend(chart: Chart) -> str:
    entries = [f"{page.colour_box(line.colour)}{escape(line.label)}" for line in chart.lines]
    return f"<figcaption><strong>{escape(chart.title)}</strong><br>{' &ensp; '.join(entries)}</figcaption>"


def _save_png(charts: Sequence[Chart], path: Path) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise P3vaeError(
            "a PNG needs matplotlib", path=path, remedy="pip install 'p3vae[plot]', or choose .html"
        ) from error
    figure = Figure(figsize=(8, 3.2 * len(charts)), layout="constrained")
    for place, chart in zip(figure.subplots(len(charts), squeeze=False)[:, 0], charts, strict=True):
        for line in chart.lines:
            colour = "black" if line.colour == "currentColor" else line.colour
            style = "--" if line.dashed else "-"
            place.plot(chart.x, line.y, style, color=colour, label=line.label)
            if line.band is not None:
                place.fill_between(chart.x, *line.band, color=colour, alpha=0.2)
        place.set(title=chart.title, xlabel=chart.x_axis.label, ylabel=chart.y_axis.label)
        place.legend(fontsize="small")
    figure.savefig(path, dpi=120)
