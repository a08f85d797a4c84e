"""Screens: results on stdout, progress on stderr."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichBar
from rich.text import Text

_UNFOLDED = 500


def stdout() -> Console:
    """Where results go, as they are: brackets are no markup, and no line is folded for a program."""
    return Console(width=None if sys.stdout.isatty() else _UNFOLDED, markup=False, emoji=False)


def stderr() -> Console:
    """Where progress and notes go."""
    return Console(stderr=True, markup=False, emoji=False)


def note(message: str) -> None:
    """One line for a person, beside the results."""
    stderr().print(message, markup=False, highlight=False, soft_wrap=True)


_silencing = threading.RLock()


@contextmanager
def silent_libraries() -> Iterator[None]:
    """Keep what compiled libraries print on the screen by themselves; Python's own stderr goes on.

    libtiff prints a line for every write that fails, beside the error that is raised. One thread at a time
    may do so: others that come meanwhile are served already.
    """
    if not _silencing.acquire(blocking=False):
        yield
        return
    shown = sys.stderr
    try:
        with _moved_stderr():
            yield
    finally:
        sys.stderr = shown
        _silencing.release()


@contextmanager
def _moved_stderr() -> Iterator[None]:
    """The file descriptor 2 leads nowhere; `sys.stderr`, where it wrote there, has another one."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        if _descriptor(sys.stderr) == 2:
            sys.stderr = os.fdopen(kept, "w", buffering=1, errors="backslashreplace", closefd=False)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None


class _PixelRate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{_short(speed)} pixels/s")


class RichProgress:
    """Percent, pixels per second and time left on stderr; silent when stderr is no terminal."""

    def __init__(self, label: str, *, show: bool | None = None) -> None:
        """`show` overrides the look at stderr (`--progress` / `--no-progress`)."""
        console = stderr()
        self._bar = RichBar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            _PixelRate(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not (console.is_terminal if show is None else show),
        )
        self._task = self._bar.add_task(label, total=None)

    def begin(self, total_pixels: int) -> None:
        """Show the bar."""
        self._bar.update(self._task, total=total_pixels)
        self._bar.start()

    def advance(self, pixels: int) -> None:
        """Move the bar."""
        self._bar.advance(self._task, pixels)

    def end(self) -> None:
        """Take the bar away."""
        self._bar.stop()


class StepProgress:
    """Steps done of steps to do, on stderr; the bar appears with the first step and goes with the last."""

    def __init__(self, label: str, *, show: bool | None = None) -> None:
        self._label, self._show = label, show
        self._bar: RichBar | None = None

    def step(self, done: int, total: int) -> None:
        """`done` of `total` steps are done."""
        if self._bar is None:
            console = stderr()
            self._bar = RichBar(
                console=console,
                transient=True,
                disable=not (console.is_terminal if self._show is None else self._show),
            )
            self._bar.add_task(self._label)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done, total=total)
        if done >= total:
            self._stop()

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()


def _short(number: float) -> str:
    """12345.0 as 12.3 k."""
    for factor, prefix in ((1e6, " M"), (1e3, " k")):
        if number >= factor:
            return f"{number / factor:.1f}{prefix}"
    return f"{number:.0f}"
