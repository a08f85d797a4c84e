"""What became of one scene of several."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from p3vae.cli.errors import InterruptedRunError, P3vaeError

Status = Literal["done", "skipped", "failed", "not run", "to do"]


@dataclass(frozen=True)
class Shown:
    """What is said about a mapped scene on a screen."""

    maps: Sequence[Mapping[str, Any]]
    """Their entries in the manifest."""
    folder: Path
    lines: Sequence[str]
    pixels: int
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """What became of a scene; small, and sent between processes."""

    scene: Path
    status: Status
    record: Mapping[str, Any] = field(default_factory=dict)
    """For `--json` and the log."""
    shown: Shown | None = None
    """What was made, for people, of a scene that is done."""
    error: P3vaeError | None = None
    """Why it failed."""
    trace: str = ""
    """Where the program made a mistake, for the log."""
    fatal: bool = False
    """Whether it would be the same for every other scene: a model that cannot be read."""

    def as_record(self) -> dict[str, Any]:
        """One line of JSON."""
        record: dict[str, Any] = {"scene": str(self.scene), "status": self.status, **self.record}
        if self.error is not None:
            record["error"] = str(self.error)
        return record


def failed(scene: Path, error: BaseException) -> Outcome:
    """The outcome of a scene that raised; what stops the whole run is raised again."""
    if isinstance(error, InterruptedRunError) or not isinstance(error, Exception):
        raise error
    if _struck(error):
        raise KeyboardInterrupt from error
    if isinstance(error, P3vaeError):
        return Outcome(scene, "failed", error=error)
    if isinstance(error, MemoryError):
        reason = P3vaeError("needs more memory than there is", path=scene, remedy="give a --mem-limit")
        return Outcome(scene, "failed", error=reason)
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        reason = P3vaeError("too many files are open", path=scene, remedy="raise the limit: ulimit -n 1024")
        return Outcome(scene, "failed", error=reason)
    reported = " ".join(f"{type(error).__name__}: {error}".split())
    reason = P3vaeError(
        f"internal error: {reported}", path=scene, remedy="--log-file keeps the details for a report"
    )
    return Outcome(scene, "failed", error=reason, trace="".join(traceback.format_exception(error)))


def _struck(error: BaseException) -> bool:
    """Whether it was a signal in the end: a compiled library struck while it is imported fails otherwise."""
    cause = error.__cause__ or error.__context__
    return cause is not None and (isinstance(cause, KeyboardInterrupt) or _struck(cause))
