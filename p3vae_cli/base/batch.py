"""Several scenes in one call: which they are, and what happens when one of them fails."""

from __future__ import annotations

import codecs
import glob
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from p3vae.cli.base.errors import ExitCode, InterruptedRunError, P3vaeError, UsageError

Done = TypeVar("Done")
OnError = Literal["skip", "stop"]


class SomeScenesFailedError(P3vaeError):
    """Some scenes of several could not be mapped; the others were."""

    exit_code = ExitCode.SOME_FAILED


def expand_scenes(arguments: Sequence[str]) -> list[Path]:
    """Scene paths from what was typed: paths, unexpanded globs, `@list.txt`, and `-` for a list on stdin."""
    scenes = [path for argument in arguments for path in _expand(argument)]
    if not scenes:
        raise UsageError("no scene given", remedy="name at least one file, glob, @list.txt or - for stdin")
    return list(dict.fromkeys(scenes))


def _expand(argument: str) -> list[Path]:
    if argument == "-":
        return _listed(sys.stdin.buffer.read() if sys.stdin else b"")
    if argument.startswith("@"):
        listing = Path(argument[1:])
        try:
            return _listed(listing.read_bytes())
        except OSError as error:
            raise UsageError(f"no list of scenes: {error.strerror}", path=listing) from error
    if glob.has_magic(argument) and not Path(argument).exists():
        matches = sorted(glob.glob(argument, recursive=True))
        if not matches:
            raise UsageError(f"no file matches {argument!r}")
        return [Path(match) for match in matches]
    return [Path(argument)]


def _listed(content: bytes) -> list[Path]:
    """Names as the file system has them, byte by byte: they need not be UTF-8."""
    lines = os.fsdecode(content.removeprefix(codecs.BOM_UTF8)).splitlines()
    return [Path(line.strip()) for line in lines if line.strip() and not line.startswith("#")]


def _unexpected(scene: Path, error: Exception) -> P3vaeError:
    reported = " ".join(f"{type(error).__name__}: {error}".split())
    return P3vaeError(f"failed in a way that nobody foresaw: {reported}", path=scene)


def for_each_scene(
    scenes: Sequence[Path],
    act: Callable[[Path], Done],
    on_done: Callable[[Path, Done], None],
    report: Callable[[P3vaeError], None],
    on_error: OnError = "skip",
) -> None:
    """Call `act` on every scene and `on_done` on what it made.

    A failure is reported, and unless `on_error` is "stop", the next scene is tried.

    A single scene raises its own error; of several, some failures raise `SomeScenesFailedError`. A mistake
    of the program in one scene is no reason to lose the others.
    """
    failures: list[P3vaeError] = []
    for scene in scenes:
        try:
            done = act(scene)
        except InterruptedRunError:
            raise
        except Exception as error:
            if len(scenes) == 1 or on_error == "stop":
                raise
            failures.append(error if isinstance(error, P3vaeError) else _unexpected(scene, error))
            report(failures[-1])
        else:
            on_done(scene, done)
    if failures and len(failures) < len(scenes):
        raise SomeScenesFailedError(f"{len(failures)} of {len(scenes)} scenes failed")
    if failures:
        raise P3vaeError(f"all {len(scenes)} scenes failed")
