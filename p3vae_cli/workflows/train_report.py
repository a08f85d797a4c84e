"""What a person sees while a model is trained, and when it is done."""

from __future__ import annotations

import math
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from p3vae.cli.base.console import stderr, stdout

if TYPE_CHECKING:
    from p3vae.models.landcover.model import LandCoverModel
    from p3vae.models.landcover.types import EpochReport


class TrainingProgress:
    """A bar with epochs, losses, validation F1 if any and time left on stderr; silent when no terminal."""

    def __init__(self, *, show: bool | None = None) -> None:
        console = stderr()
        self._bar = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not (console.is_terminal if show is None else show),
        )
        self._task = self._bar.add_task("looking at the labels", total=None)

    def epoch(self, report: EpochReport) -> None:
        """Show one epoch."""
        reported = [f"{name} {value:.3g}" for name, value in report.losses.items()]
        if not math.isnan(report.validation_f1):
            reported.append(f"F1 {report.validation_f1:.3f}")
        self._bar.update(
            self._task,
            total=report.epochs,
            completed=report.epoch,
            description="  ".join(reported),
        )

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()


def report(model: LandCoverModel, path: Path) -> None:
    """The outcome of a training as a table on stdout."""
    summary = model.summary
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
    console = stdout()
    console.print(table)
    alone = f" (classifier alone {summary.classifier_f1:.3f})" if len(model.methods) > 1 else ""
    console.print(
        f"Average F1 {summary.average_f1:.3f}{alone}, {len(model.bands)} bands, {summary.epochs} epochs",
        highlight=False,
    )
    if summary.adopted:
        found = ", ".join(summary.adopted)
        console.print(f"Unlabelled ground added a spectrum to: {found}", markup=False, highlight=False)
    for warning in summary.warnings:
        console.print(f"Note: {warning}", markup=False, highlight=False)
    console.print(f"Model: {path}", markup=False, highlight=False, soft_wrap=True)
