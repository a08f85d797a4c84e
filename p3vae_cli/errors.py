"""Every mistake a user can make, as one family of exceptions.

`main` turns any of them into a one-line message and an exit code; nothing else does.
"""

from __future__ import annotations

import enum
import re
from pathlib import Path


class ExitCode(enum.IntEnum):
    """What the shell sees."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    SOME_FAILED = 3
    STOPPED = 130
    """By Ctrl-C or SIGTERM, as a shell has it."""


_VALUE = r"[A-Z0-9][\w.,-]*|cpu|utm|reflectance|radiance|posterior|classifier"
_OPTION = re.compile(rf"((?:use|try|give) )?--(no-)?([a-z][a-z0-9-]*)(?: ({_VALUE})(?![\w]))?")


class P3vaeError(Exception):
    """A problem the user can act on: what is wrong, where, and what to do about it."""

    exit_code = ExitCode.FAILED

    def __init__(self, problem: str, *, path: str | Path | None = None, remedy: str = "") -> None:
        self.problem = problem
        self.path = path
        self.remedy = remedy
        super().__init__(str(self))

    def name_keywords(self) -> None:
        """Speak of keywords of Python in place of options."""
        self.problem, self.remedy = (_OPTION.sub(_keyword, text) for text in (self.problem, self.remedy))
        self.args = (str(self),)

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path is not None else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return _on_one_line(f"{where}{self.problem}{remedy}")


def _keyword(match: re.Match[str]) -> str:
    advice, no, name, value = match.groups()
    keyword = f"{advice or ''}{name.replace('-', '_')}"
    if no:
        return f"{keyword}=False"
    if value:
        return f"{keyword}={value if value.isupper() or value[0].isdigit() else repr(value)}"
    return f"{keyword}=True" if advice == "use " else keyword


def _on_one_line(text: str) -> str:
    """The text with an escape for each line end and control character: names of files may hold any."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class UsageError(P3vaeError):
    """An option that makes no sense by itself or with the others."""

    exit_code = ExitCode.USAGE


class SceneError(P3vaeError, OSError):
    """A scene that is missing, damaged, or lacks what is needed to use it."""


class UnclearSceneError(SceneError):
    """A scene that can be read, but does not say what its numbers mean."""


class BandMismatchError(P3vaeError):
    """A scene whose bands cannot feed a model."""


class LabelError(P3vaeError):
    """Labels that cannot be matched with the scene."""


class ModelFileError(P3vaeError, OSError):
    """A model file that is missing, damaged, foreign or too new."""


class ProductError(P3vaeError, OSError):
    """An output that cannot be written."""


class InterruptedRunError(P3vaeError):
    """The user or the system asked the run to stop."""

    exit_code = ExitCode.STOPPED
