"""Several scenes in one call: which they are."""

from __future__ import annotations

import codecs
import glob
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from p3vae.cli.errors import ExitCode, P3vaeError, UsageError

_LOOKED_AT = 4096
"""Of a list, for bytes that images have and names have not [bytes]."""
OnError = Literal["skip", "stop"]


class SomeScenesFailedError(P3vaeError):
    """Some scenes of several could not be mapped; the others were."""

    exit_code = ExitCode.SOME_FAILED


@dataclass(frozen=True)
class Shard:
    """One part of several into which scenes are dealt, for jobs that share a list."""

    number: int
    """From 1 on."""
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """From "2/8"."""
        number, slash, count = text.partition("/")
        if slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
            return cls(int(number), int(count))
        raise UsageError(f"--shard {text!r} is not I/N", remedy="1/8 to 8/8 are the parts of eight")

    def of(self, scenes: Sequence[Path]) -> list[Path]:
        """Every `count`-th scene: neighbours in a list, often alike in size, go to different parts."""
        return list(scenes[self.number - 1 :: self.count])


def expand_scenes(arguments: Sequence[str], *, null: bool = False) -> list[Path]:
    """Scene paths from what was typed: paths, unexpanded globs, `@list.txt`, and `-` for a list on stdin.

    With `null`, names in lists end with a zero byte, as `find -print0` writes them.
    """
    scenes = [path for argument in arguments for path in _expand(argument, null)]
    if not scenes:
        raise UsageError("no scene given", remedy="name at least one file, glob, @list.txt or - for stdin")
    return list(dict.fromkeys(scenes))


def _expand(argument: str, null: bool) -> list[Path]:
    if argument == "-":
        return _listed(sys.stdin.buffer.read() if sys.stdin else b"", null, "-")
    if argument.startswith("@"):
        listing = Path(argument[1:])
        try:
            return _listed(listing.read_bytes(), null, listing)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"no list of scenes: {reason}", path=listing) from error
    if glob.has_magic(argument) and not Path(argument).exists():
        matches = sorted(glob.glob(argument, recursive=True))
        if not matches:
            raise UsageError(f"no file matches {argument!r}")
        return [Path(match) for match in matches]
    return [Path(argument)]


def _listed(content: bytes, null: bool, source: str | Path) -> list[Path]:
    """Names as the file system has them, byte by byte: they need not be UTF-8."""
    if null:
        return [Path(os.fsdecode(name)) for name in content.split(b"\0") if name]
    if any(0 < byte < ord("\t") for byte in content[:_LOOKED_AT]):
        raise UsageError(
            "is no list of names", path=source, remedy="give one path per line, or the scene itself"
        )
    if b"\0" in content:
        raise UsageError("holds zero bytes", path=source, remedy="use -0 for the output of find -print0")
    lines = content.removeprefix(codecs.BOM_UTF8).split(b"\n")
    return [path for line in lines if (path := _named(os.fsdecode(line.removesuffix(b"\r")))) is not None]


def _named(line: str) -> Path | None:
    """A name of a list: as it is, if there is such a file, else without spaces around; # begins a comment."""
    if line.strip() and os.path.lexists(line):
        return Path(line)
    line = line.strip()
    return Path(line) if line and not line.startswith("#") else None
