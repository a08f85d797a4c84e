"""Types of values on the command line."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click


class Finite(click.types.FloatParamType):
    """A number that is neither infinite nor NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class FiniteRange(Finite, click.FloatRange):
    """A finite number in a range; to click, NaN is inside of any."""


class OutputPath(click.Path):
    """The path of a file or folder that a command writes; see `commands.FileCommand`."""

    def __init__(self, *, also: tuple[str, ...] = ()) -> None:
        """`also` are ends that follow the name of a file that is written beside it."""
        super().__init__(path_type=Path)
        self.also = also


FILE = click.Path(path_type=Path)
POSITIVE = FiniteRange(min=0, min_open=True)
