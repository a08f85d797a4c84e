"""An assessment on the page: error matrix, accuracies, reliability curve."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.assess.assessment import Assessment, ClassAssessment
from p3vae.cli.assess.tables import hectare_format, record
from p3vae.cli.records.staging import save
from p3vae.cli.report import page
from p3vae.cli.report.charts import Axis, Line, line_chart
from p3vae.models.accuracy_intervals import Interval
from p3vae.models.metrics import Reliability

_FEWEST = 5
"""Samples that a point of the reliability curve needs."""


def save_html(found: Assessment, path: Path, *, overwrite: bool) -> None:
    """An assessment as a page of its own."""
    title = f"Assessment of {found.map.name}"
    content = assessment_section(found) if isinstance(found, ClassAssessment) else page.facts(record(found))
    text = page.page(title, [f"<h1>{escape(title)}</h1>", content]).encode()
    inputs = (found.map, found.reference)
    save(path, lambda staged: staged.write_bytes(text), overwrite=overwrite, inputs=inputs)


def assessment_section(found: ClassAssessment) -> str:
    """Everything `p3vae assess` found."""
    score, adjusted = found.score, found.adjusted
    text = f"Overall accuracy {score.overall:.3f}, kappa {score.kappa:.3f}, {found.counts.sum():,} samples."
    if adjusted is not None and found.intervals is not None:
        limits = _limits(found.intervals.overall, (), ".3f")
        text += f" Adjusted for the areas of the map: {adjusted.overall:.3f}, 95 % {limits}."
    parts = [f"<h3>Assessment by {escape(found.reference.name)}</h3><p>{text}</p>", _accuracies(found)]
    names = [item.name for item in found.classes]
    parts.append(matrix_table(names, found.counts, "Map \\ reference"))
    if found.reliability is not None:
        parts.append(reliability_figure(found.reliability))
    parts += [f'<p class="note">{escape(note)}</p>' for note in found.notes]
    return "".join(parts)


def matrix_table(names: Sequence[str], counts: npt.NDArray[Any], corner: str) -> str:
    """An error matrix."""
    rows = [
        [escape(name), *(f"<strong>{n}</strong>" if i == j else str(n) for j, n in enumerate(row))]
        for i, (name, row) in enumerate(zip(names, counts.tolist(), strict=True))
    ]
    return page.table((corner, *names), rows)


def reliability_figure(curve: Reliability) -> str:
    """Accuracy by confidence, with the line on which both agree."""
    known = curve.count >= _FEWEST
    x = np.concatenate([curve.confidence[known], [np.nan, 0.0, 1.0]])
    seen = np.concatenate([curve.accuracy[known], [np.nan] * 3])
    ideal = np.concatenate([np.full(int(known.sum()) + 1, np.nan), [0.0, 1.0]])
    lines = [Line("ideal", "currentColor", ideal, dashed=True), Line("found", "#d9822b", seen, marked=True)]
    chart = line_chart(
        x, lines, Axis("confidence", 0, 1), Axis("accuracy", 0, 1), "Reliability of the confidence"
    )
    error = curve.expected_calibration_error
    caption = f"Reliability: confidence differs from accuracy by {error:.3f} on average."
    return f'<div class="charts"><figure>{chart}<figcaption>{caption}</figcaption></figure></div>'


def _accuracies(found: ClassAssessment) -> str:
    adjusted, intervals = found.adjusted, found.intervals
    areas, form = found.mapped_ha, hectare_format(found)
    rows = []
    for index, item in enumerate(found.classes):
        users, producers = found.score.users[index], found.score.producers[index]
        cells = [f"{users:.3f}", f"{producers:.3f}", f"{found.score.f1[index]:.3f}", "", ""]
        if adjusted is not None and intervals is not None:
            cells[0] += f" ({_limits(intervals.users, index, '.3f')})"
            cells[1] = f"{adjusted.producers[index]:.3f} ({_limits(intervals.producers, index, '.3f')})"
        if areas is not None:
            cells[3] = f"{areas[index]:{form}}"
            if adjusted is not None and intervals is not None:
                total = found.estimated_ha or 0.0
                limits = _limits(intervals.share, index, form, total)
                cells[4] = f"{adjusted.share[index] * total:{form}} ({limits})"
        rows.append([f"{page.colour_box(item.color)}{escape(item.name)}", *(_known(cell) for cell in cells)])
    return page.table(
        ("Class", "User's (95 %)", "Producer's (95 %)", "F1", "Mapped ha", "Estimated ha (95 %)"), rows
    )


def _limits(interval: Interval, index: int | tuple[()], form: str, scale: float = 1.0) -> str:
    return f"{interval.low[index] * scale:{form}} to {interval.high[index] * scale:{form}}"


def _known(text: str) -> str:
    return text.replace("nan", "–")
