"""What is said about scenes: lines as they come, JSON for programs, a log, and a closing table."""

from __future__ import annotations

import importlib.metadata
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from rich.console import Console
from rich.table import Table

from p3vae.cli.console import note, stderr, stdout
from p3vae.cli.errors import InterruptedRunError, P3vaeError, UsageError
from p3vae.cli.records.manifest import finite
from p3vae.cli.run.lists import SomeScenesFailedError
from p3vae.cli.run.outcomes import Outcome
from p3vae.cli.run.settings import OutputSettings
from p3vae.cli.run.summaries import print_summary

_LONGEST_LINE = 10_000
"""Of a log, as far as it is looked at [bytes]."""


class Reporter:
    """Reports what becomes of the scenes of one call."""

    def __init__(self, command: str, scenes: Sequence[Path], outputs: OutputSettings) -> None:
        self._command, self._scenes, self._outputs = command, scenes, outputs
        self._outcomes: dict[Path, Outcome] = {}
        self._log: BinaryIO | None = None
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        if self._outputs.log_file is not None:
            try:
                _require_log(self._outputs.log_file)
                self._log = self._outputs.log_file.open("ab", buffering=0)
            except (OSError, ValueError) as error:
                raise UsageError(
                    f"cannot be written: {getattr(error, 'strerror', None) or error}",
                    path=self._outputs.log_file,
                    remedy="choose another --log-file",
                ) from error
        version = importlib.metadata.version("p3vae")
        self._note_down(
            {"event": "start", "command": self._command, "version": version, "scenes": len(self._scenes)}
        )
        return self

    def add(self, outcome: Outcome) -> None:
        """Report one scene."""
        self._outcomes[outcome.scene] = outcome
        self._note_down({"event": "scene", **outcome.as_record(), **_trace(outcome)})
        if self._outputs.as_json:
            stdout().out(json.dumps(finite(outcome.as_record())), highlight=False)
        elif outcome.shown is not None and self._shows_tables:
            print_summary(outcome.shown)
        self._say(outcome)

    @property
    def _shows_tables(self) -> bool:
        return not self._outputs.quiet and (len(self._scenes) == 1 or self._outputs.verbose)

    def _say(self, outcome: Outcome) -> None:
        """One line on stderr, where there are several scenes."""
        several = len(self._scenes) > 1
        if outcome.error is not None:
            if several and not outcome.fatal:
                note(f"Error: {outcome.error}")
        elif self._outputs.quiet or outcome.status == "not run":
            return
        elif several:
            note(f"{len(self._outcomes)} of {len(self._scenes)}: {outcome.scene} {_in_words(outcome)}")
        elif outcome.status != "done":
            note(f"{outcome.scene} {_in_words(outcome)}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for scene in self._scenes:
            if scene not in self._outcomes:
                self.add(Outcome(scene, "not run"))
        self._note_down({"event": "end" if error is None else "stopped", **self._counts()})
        if self._log is not None:
            self._log.close()
        if isinstance(error, InterruptedRunError | KeyboardInterrupt) and len(self._scenes) > 1:
            done = sum(outcome.status in ("done", "skipped") for outcome in self._outcomes.values())
            note(f"{done} of {len(self._scenes)} scenes are done; the same line goes on with the others")
        if error is None and len(self._scenes) > 1 and not self._outputs.quiet:
            self._print_closing_table(stderr() if self._outputs.as_json else stdout())

    @property
    def any_products(self) -> bool:
        """Whether any scene was mapped, now or before."""
        return any(outcome.status in ("done", "skipped") for outcome in self._outcomes.values())

    def raise_failures(self) -> None:
        """The error of a call of which scenes failed: a single scene's own, or how many there are."""
        errors = [outcome for outcome in self._outcomes.values() if outcome.error is not None]
        counts = self._counts()
        for outcome in errors:
            if outcome.error is not None and (outcome.fatal or len(self._scenes) == 1):
                raise outcome.error
        if errors and len(errors) + counts.get("not run", 0) < len(self._scenes):
            raise SomeScenesFailedError(f"{len(errors)} of {len(self._scenes)} scenes failed")
        if errors:
            raise P3vaeError(f"all {len(errors)} scenes failed" if len(errors) > 1 else "the scene failed")

    def _counts(self) -> dict[str, int]:
        return dict(Counter(outcome.status for outcome in self._outcomes.values()))

    def _note_down(self, record: Mapping[str, Any]) -> None:
        if self._log is not None:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            try:
                self._log.write(json.dumps(finite({"time": now, **record})).encode() + b"\n")
            except OSError as error:
                note(f"warning: {self._outputs.log_file} cannot be written: {error.strerror}")
                self._log.close()
                self._log = None

    def _print_closing_table(self, console: Console) -> None:
        table = Table(box=None, pad_edge=False)
        table.add_column("Scenes")
        for heading in ("Number", "Pixels", "Seconds"):
            table.add_column(heading, justify="right")
        for status, count in self._counts().items():
            records = [o.record for o in self._outcomes.values() if o.status == status]
            pixels = sum(record.get("pixels", 0) for record in records)
            seconds = sum(record.get("seconds", record.get("estimated_seconds", 0)) for record in records)
            table.add_row(
                status, f"{count:,}", f"{pixels:,}" * bool(pixels), f"{seconds:,.1f}" * bool(seconds)
            )
        table.add_row(
            "all, by the clock", f"{len(self._scenes):,}", "", f"{time.monotonic() - self._started:,.1f}"
        )
        console.print(table)
        size = sum(o.record.get("estimated_bytes", 0) for o in self._outcomes.values())
        if size:
            console.print(f"products before compression: {size / 1e9:,.2f} GB", highlight=False)


def _require_log(path: Path) -> None:
    """Refuse to add lines to a file that is no log of ours."""
    if not path.is_file() or path.stat().st_size == 0:
        return
    with path.open("rb") as file:
        first = file.readline(_LONGEST_LINE)
    try:
        known = "event" in json.loads(first)
    except (ValueError, TypeError, RecursionError):
        known = False
    if not known:
        raise UsageError("is no log of p3vae", path=path, remedy="choose another --log-file")


def _trace(outcome: Outcome) -> dict[str, str]:
    return {"traceback": outcome.trace} if outcome.trace else {}


def _in_words(outcome: Outcome) -> str:
    record = outcome.record
    if outcome.status == "done":
        return f"done in {record.get('seconds', 0.0):.1f} s"
    if outcome.status == "skipped":
        return "skipped, it is done already"
    return (
        f"to do: {record.get('pixels', 0):,} pixels, about {record.get('estimated_seconds', 0):,.1f} s of a "
        f"core and {record.get('estimated_bytes', 0) / 1e6:,.0f} MB before compression"
    )
