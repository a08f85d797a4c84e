"""An assessment on the screen, as JSON and as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from p3vae.cli.assess.assessment import Assessment, ClassAssessment, QuantityAssessment
from p3vae.cli.rasters.areas import area_format
from p3vae.cli.records.staging import save
from p3vae.cli.styles.rasters import Category
from p3vae.cli.tables import write_rows
from p3vae.models.accuracy import Z_95
from p3vae.models.accuracy_intervals import Interval


def record(found: Assessment) -> dict[str, Any]:
    """Everything that was found, for JSON; shares and accuracies [1], intervals as half-widths."""
    return _quantity_record(found) if isinstance(found, QuantityAssessment) else _class_record(found)


def show(found: Assessment, console: Console) -> None:
    """Tables for people, 80 columns wide."""
    if isinstance(found, QuantityAssessment):
        console.print(_quantity_table(found))
        return
    console.print(_overall_line(found), highlight=False)
    console.print(_accuracy_table(found))
    areas = _area_table(found)
    if areas is not None:
        console.print(areas)
    console.print(_matrix_table(found))
    for line in [*_more_lines(found), *(f"Note: {note}" for note in found.notes)]:
        console.print(line, highlight=False, soft_wrap=True)


def save_csv(found: Assessment, path: Path, *, overwrite: bool) -> None:
    """One line per class and one for the whole map, or the scores of a quantity."""
    if isinstance(found, QuantityAssessment):
        scores = _quantity_record(found)
        rows: list[list[object]] = [list(scores), list(scores.values())]
    else:
        lines = _class_record(found)["classes"]
        names = [item.name for item in found.classes]
        rows = [[*lines[0], *(f"samples_reference_{name}" for name in names)]]
        rows += [[*line.values(), *counts] for line, counts in zip(lines, found.counts.tolist(), strict=True)]
    inputs = (found.map, found.reference)
    save(path, lambda staged: write_rows(staged, rows), overwrite=overwrite, inputs=inputs)


def _quantity_record(found: QuantityAssessment) -> dict[str, Any]:
    score = found.score
    return {
        "map": str(found.map),
        "reference": str(found.reference),
        "unit": found.unit,
        "pixels": found.pixels,
        "mae": score.mae,
        "rmse": found.rmse,
        "bias": score.bias,
        "slope": score.slope,
        "r_squared": found.r_squared,
        "correlation": score.correlation,
        "within_1_std": score.within_one_std if found.has_std else None,
        "within_1.96_std": score.within_95 if found.has_std else None,
    }


def _class_record(found: ClassAssessment) -> dict[str, Any]:
    score, adjusted = found.score, found.adjusted
    overall: dict[str, Any] = {"accuracy": score.overall, "kappa": score.kappa, "average_f1": _mean(score.f1)}
    if adjusted is not None and found.intervals is not None:
        overall |= {"area_adjusted": adjusted.overall, "area_adjusted_ci95": Z_95 * adjusted.overall_se}
        overall |= _limits("area_adjusted", found.intervals.overall)
    made: dict[str, Any] = {
        "map": str(found.map),
        "reference": str(found.reference),
        "samples": int(found.counts.sum()),
        "overall": overall,
        "classes": [_class_line(found, index) for index in range(len(found.classes))],
        "error_matrix": found.counts.tolist(),
    }
    if found.reliability is not None:
        curve = found.reliability
        made["reliability"] = {
            "expected_calibration_error": curve.expected_calibration_error,
            "confidence": curve.confidence.tolist(),
            "accuracy": curve.accuracy.tolist(),
            "samples": curve.count.tolist(),
        }
    if found.other is not None:
        made["compared_with"] = {
            "map": str(found.other.map),
            "samples": found.other.samples,
            "accuracy": found.other.overall,
            "accuracy_of_first": found.other.first_overall,
            "right_in_first_only": found.other.comparison.only_first,
            "right_in_second_only": found.other.comparison.only_second,
            "mcnemar_p": found.other.comparison.p_value,
        }
    return made | {"notes": list(found.notes)}


def _class_line(found: ClassAssessment, index: int) -> dict[str, Any]:
    score, adjusted, item = found.score, found.adjusted, found.classes[index]
    line: dict[str, Any] = {
        "class": item.name,
        "value": item.value,
        "mapped_pixels": int(found.mapped_pixels[index]),
        "mapped_ha": None if found.mapped_ha is None else float(found.mapped_ha[index]),
        "samples_map": int(found.counts[index].sum()),
        "samples_reference": int(found.counts[:, index].sum()),
        "users_accuracy": float(score.users[index]),
        "producers_accuracy": float(score.producers[index]),
        "f1": float(score.f1[index]),
    }
    if adjusted is not None and found.intervals is not None:
        total = found.estimated_ha
        share, share_ci = float(adjusted.share[index]), Z_95 * float(adjusted.share_se[index])
        line |= {
            "users_accuracy_ci95": Z_95 * float(adjusted.users_se[index]),
            **_limits("users_accuracy", found.intervals.users, index),
            "adjusted_producers_accuracy": float(adjusted.producers[index]),
            "adjusted_producers_accuracy_ci95": Z_95 * float(adjusted.producers_se[index]),
            **_limits("adjusted_producers_accuracy", found.intervals.producers, index),
            "adjusted_share": share,
            "adjusted_share_ci95": share_ci,
            **_limits("adjusted_share", found.intervals.share, index),
            "adjusted_ha": None if total is None else share * total,
            "adjusted_ha_ci95": None if total is None else share_ci * total,
            **_limits("adjusted_ha", found.intervals.share, index, total),
        }
    return line


def _limits(
    name: str, interval: Interval, index: int | tuple[()] = (), scale: float | None = 1.0
) -> dict[str, float | None]:
    """Both ends of an interval, times `scale`; None without one."""
    ends = (("low95", interval.low), ("high95", interval.high))
    return {f"{name}_{end}": None if scale is None else scale * float(limit[index]) for end, limit in ends}


def _overall_line(found: ClassAssessment) -> str:
    score, adjusted = found.score, found.adjusted
    line = f"Overall accuracy {score.overall:.3f}, kappa {score.kappa:.3f}, {found.counts.sum():,} samples"
    if adjusted is None or found.intervals is None:
        return line
    half, limits = _share(Z_95 * adjusted.overall_se), _range(found.intervals.overall, ())
    return f"{line}\nAdjusted for the areas of the map: {_share(adjusted.overall)} ± {half}, 95 % {limits}"


def _accuracy_table(found: ClassAssessment) -> RenderableType:
    """User's and producer's accuracy with their intervals, and F1."""
    adjusted, intervals = found.adjusted, found.intervals
    table = Table(box=None, pad_edge=False)
    table.add_column("Class")
    limit = () if intervals is None else ("95 %",)
    for heading in ("User's", *limit, "Producer's", *limit, "F1"):
        table.add_column(heading, justify="right", no_wrap=True)
    for index, item in enumerate(found.classes):
        producers = (found.score if adjusted is None else adjusted).producers[index]
        users = [_share(found.score.users[index])]
        right = [_share(producers)]
        if intervals is not None:
            users.append(_range(intervals.users, index))
            right.append(_range(intervals.producers, index))
        table.add_row(_class_name(item), *users, *right, _share(found.score.f1[index]))
    return table


def _area_table(found: ClassAssessment) -> RenderableType | None:
    """Hectares as mapped and as estimated; None without a place on Earth or without an estimate."""
    adjusted, areas, intervals = found.adjusted, found.mapped_ha, found.intervals
    total = found.estimated_ha
    if areas is None or total is None or adjusted is None or intervals is None:
        return None
    table = Table(box=None, pad_edge=False)
    table.add_column("Class")
    for heading in ("Mapped ha", "Estimated ha ± 1.96 SE", "95 %"):
        table.add_column(heading, justify="right", no_wrap=True)
    form = hectare_format(found)
    for index, item in enumerate(found.classes):
        share, error = adjusted.share[index] * total, Z_95 * adjusted.share_se[index] * total
        ends = (intervals.share.low[index] * total, intervals.share.high[index] * total)
        limits = " to ".join(f"{end:{form}}" for end in ends)
        estimated = f"{share:{form}} ± {_figure(error, form)}"
        table.add_row(_class_name(item), f"{areas[index]:{form}}", estimated, limits)
    return table


def _class_name(item: Category) -> Text:
    return Text.assemble(("■ ", item.color), item.name)


def hectare_format(found: ClassAssessment) -> str:
    """A format for areas that shows four digits of the whole map."""
    return "" if found.mapped_ha is None else area_format(float(found.mapped_ha.sum()))


def _matrix_table(found: ClassAssessment) -> RenderableType:
    table = Table(box=None, pad_edge=False)
    table.add_column("Map \\ reference")
    for number in range(len(found.classes)):
        table.add_column(str(number + 1), justify="right", no_wrap=True)
    table.add_column("all", justify="right", no_wrap=True)
    for number, (item, row) in enumerate(zip(found.classes, found.counts, strict=True)):
        cells = [Text(str(n), "bold" if column == number else "") for column, n in enumerate(row.tolist())]
        table.add_row(f"{number + 1} {item.name}", *cells, str(row.sum()))
    table.add_row("all", *map(str, found.counts.sum(axis=0).tolist()), str(found.counts.sum()))
    return table


def _more_lines(found: ClassAssessment) -> list[str]:
    lines = []
    if found.reliability is not None:
        error = found.reliability.expected_calibration_error
        lines.append(f"Confidence differs from accuracy by {error:.3f} on average (ECE)")
    if found.other is not None:
        other = found.other
        lines += [
            f"{other.map}: {other.overall:.3f} against {other.first_overall:.3f} "
            f"on the same {other.samples:,} samples",
            f"  right in one map only: {other.comparison.only_second} against "
            f"{other.comparison.only_first}, p = {other.comparison.p_value:.2g} (McNemar)",
        ]
    return lines


def _quantity_table(found: QuantityAssessment) -> RenderableType:
    unit = f" {found.unit}" if found.unit not in ("", "1") else ""
    score = found.score
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, text in (
        ("Pixels", f"{found.pixels:,}"),
        ("Mean absolute error", f"{score.mae:.4g}{unit}"),
        ("Root mean square error", f"{found.rmse:.4g}{unit}"),
        ("Bias (map − reference)", f"{score.bias:+.4g}{unit}"),
        ("Slope", _figure(score.slope, ".3f")),
        ("R²", _figure(found.r_squared, ".3f")),
    ):
        table.add_row(name, text)
    if found.has_std:
        table.add_row("Within ±1 std (expected 68 %)", f"{100 * score.within_one_std:.1f} %")
        table.add_row("Within ±1.96 std (expected 95 %)", f"{100 * score.within_95:.1f} %")
    return table


def _range(interval: Interval, index: int | tuple[()]) -> str:
    """Both ends, as ".621-.823"; empty without an interval."""
    low, high = float(interval.low[index]), float(interval.high[index])
    return f"{_share(low)}-{_share(high)}" if np.isfinite(low) else ""


def _share(value: float) -> str:
    """0.976 as .976, for narrow tables."""
    return _figure(value, ".3f").removeprefix("0")


def _figure(value: float, form: str) -> str:
    return format(value, form) if np.isfinite(value) else "–"


def _mean(values: Any) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")
