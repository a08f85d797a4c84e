"""CSV tables, in the one dialect that every option takes: commas, UTF-8 with or without a byte-order mark."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of cells that spreadsheets compute."""


def read_rows(path: Path) -> list[list[str]]:
    """Cells of every line that is not blank; ValueError for what is not CSV, OSError for what is no file."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            return [row for row in csv.reader(file) if any(map(str.strip, row))]
    except csv.Error as error:
        raise ValueError(str(error)) from error


def csv_line(cells: Sequence[object]) -> str:
    """One line of a table, without its end."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(map(_cell, cells))
    return text.getvalue()


def write_rows(path: Path, rows: Sequence[Sequence[object]]) -> None:
    """A CSV file of these lines, the heading first; None is an empty cell."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([map(_cell, row) for row in rows])


def _cell(value: object) -> object:
    """The value; before text that a spreadsheet would take for a formula, an apostrophe, as it shows none."""
    if not isinstance(value, str) or not value.lstrip().startswith(_FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def read_columns(path: Path, names: Sequence[str]) -> npt.NDArray[np.float64]:
    """Named columns (rows, names) of a table with a heading; ValueError where a column or number is missing.

    Columns of other names are left out.
    """
    heading, *rows = read_rows(path) or [[]]
    titles = [title.strip() for title in heading]
    missing = [name for name in names if name not in titles]
    if missing:
        raise ValueError(f"it has no column {missing[0]!r}")
    places = [titles.index(name) for name in names]
    if any(len(row) <= max(places) for row in rows):
        raise ValueError("a line lacks a value")
    return np.array([[float(row[place]) for place in places] for row in rows]).reshape(-1, len(names))
