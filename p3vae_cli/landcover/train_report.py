"""What a person sees while a model is trained, and when it is done."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from p3vae.cli.console import stderr, stdout
from p3vae.cli.landcover.doubtful import polygon_number
from p3vae.cli.records.manifest import finite

if TYPE_CHECKING:
    from p3vae.models.landcover.model import LandCoverModel
    from p3vae.models.landcover.types import DoubtfulPolygon, EpochReport

_SHOWN_DOUBTFUL = 8


class TrainingProgress:
    """A bar with epochs, losses, validation F1 if any and time left on stderr; silent when no terminal."""

    def __init__(self, *, show: bool | None = None) -> None:
        console = stderr()
        self._bar = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not (console.is_terminal if show is None else show),
        )
        self._task = self._bar.add_task("", total=None)

    def step(self, name: str) -> None:
        """Show what is going on."""
        self._bar.update(self._task, total=None, description=name)

    def epoch(self, report: EpochReport) -> None:
        """Show one epoch, or a step that has none."""
        if not report.epochs:
            self.step(report.step)
            return
        reported = [f"{name} {value:.3g}" for name, value in report.losses.items()]
        if not math.isnan(report.validation_f1):
            reported.append(f"F1 {report.validation_f1:.3f}")
        self._bar.update(
            self._task,
            total=report.epochs,
            completed=report.epoch,
            description="  ".join([report.step, *reported]),
        )

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


def report(model: LandCoverModel, path: Path) -> None:
    """The outcome of a training as tables on stdout."""
    summary, console = model.summary, stdout()
    table = Table(box=None, pad_edge=False)
    table.add_column("Class")
    for heading in ("Validation pixels", "Precision", "Recall", "F1"):
        table.add_column(heading, justify="right")
    for score in summary.scores:
        table.add_row(
            score.name,
            str(score.samples),
            *(f"{value:.3f}" for value in (score.precision, score.recall, score.f1)),
        )
    console.print(table)
    console.print(_confusion_table(model))
    if summary.doubtful:
        console.print(_doubtful_table(summary.doubtful))
    lines = [
        f"Average F1 {summary.average_f1:.3f}, accuracy {summary.accuracy:.3f}, "
        f"log loss {summary.log_loss:.3f}, calibration error {summary.calibration_error:.3f}, "
        f"{len(model.bands)} bands",
        "These are scores of held-out polygons, which are purer than the pixels of a map.",
        *(f"Note: {warning}" for warning in summary.warnings),
        f"Model: {path}",
    ]
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def report_json(model: LandCoverModel, path: Path) -> None:
    """The same as one line of JSON on stdout."""
    record = {"model": str(path), "estimator": model.settings.model, "bands": len(model.bands)}
    stdout().out(json.dumps(finite(record | asdict(model.summary))), highlight=False)


def _doubtful_table(doubtful: Sequence[DoubtfulPolygon]) -> Table:
    """The labels that the other labels contradict most."""
    table = Table(box=None, pad_edge=False, title="Labels to look at again", title_justify="left")
    table.add_column("Labelled")
    table.add_column("Others say")
    for heading in ("Probability of its label", "Pixels", "Polygon"):
        table.add_column(heading, justify="right")
    for one in doubtful[:_SHOWN_DOUBTFUL]:
        number = str(polygon_number(one))
        table.add_row(one.label, one.likelier, f"{one.probability:.2f}", str(one.pixels), number)
    if len(doubtful) > _SHOWN_DOUBTFUL:
        table.add_row(f"and {len(doubtful) - _SHOWN_DOUBTFUL} more (--doubtful FILE writes all)")
    return table


def _confusion_table(model: LandCoverModel) -> Table:
    """Validation pixels by true class (rows) and predicted class (columns, numbered as the rows)."""
    table = Table(box=None, pad_edge=False)
    table.add_column("True \\ predicted")
    numbers = [str(number) for number in range(1, len(model.legend) + 1)]
    for number in numbers:
        table.add_column(number, justify="right")
    rows = zip(numbers, model.legend.names, model.summary.confusion, strict=True)
    for number, name, counts in rows:
        table.add_row(f"{number} {name}", *(str(count) if count else "·" for count in counts))
    return table
