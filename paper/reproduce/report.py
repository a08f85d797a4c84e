"""A finished table: on the screen, as Markdown and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from p3vae.cli.console import stdout
from p3vae.paper.reproduce.tables import Column, Row, Table, score_name

_UNBOUNDED = 1000

Records = Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
"""(experiment, model) to the records of its runs."""


@dataclass(frozen=True)
class Cell:
    """One number of the table."""

    published: float | None
    values: Mapping[int, float]
    """By seed."""

    @property
    def mean(self) -> float | None:
        """Over the seeds."""
        return fmean(self.values.values()) if self.values else None

    @property
    def std(self) -> float | None:
        """Over the seeds; None for a single one."""
        return stdev(self.values.values()) if len(self.values) > 1 else None

    def lines(self, form: str) -> tuple[str, str, str]:
        """Published, here, difference; empty where there is none."""
        if self.mean is None:
            return _number(self.published, form), "", ""
        spread = "" if self.std is None else f" ± {self.std:{form.replace('+', '')}}"
        difference = None if self.published is None else self.mean - self.published
        signed = form if form.startswith("+") else f"+{form}"
        return _number(self.published, form), f"{self.mean:{form}}{spread}", _number(difference, signed)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"


@dataclass(frozen=True)
class Result:
    """A table filled with what the runs gave."""

    table: Table
    cells: Mapping[Row, tuple[Cell, ...]]
    p_values: Mapping[Row, float]
    """Of equal means with the last row, in the judged column."""
    header: tuple[str, ...]
    """What was run: seeds, data, budget."""


def fill(table: Table, records: Records, header: tuple[str, ...]) -> Result:
    """Collect the numbers of a table; rows and columns without any are left out."""
    cells = {
        row: tuple(_cell(table, row, k, records) for k in range(len(table.columns))) for row in table.rows
    }
    filled = {row: line for row, line in cells.items() if any(cell.values for cell in line)}
    met = [k for k in range(len(table.columns)) if any(line[k].values for line in filled.values())]
    narrowed = replace(table, columns=tuple(table.columns[k] for k in met))
    kept = {row: tuple(line[k] for k in met) for row, line in filled.items()}
    return Result(narrowed, kept, _p_values(narrowed, kept), header)


def _cell(table: Table, row: Row, position: int, records: Records) -> Cell:
    name = score_name(table.columns[position], row)
    runs = records.get((row.experiment, row.model), ())
    found = {run["seed"]: float(run["scores"][name]) for run in runs if name in run["scores"]}
    values = {seed: value for seed, value in found.items() if math.isfinite(value)}
    return Cell(row.published[position] if position < len(row.published) else None, values)


def _p_values(table: Table, cells: Mapping[Row, tuple[Cell, ...]]) -> dict[Row, float]:
    """Paired by seed."""
    from p3vae.paper.metrics import paired_p_value

    reference = table.rows[-1]
    titles = [column.title for column in table.columns]
    if table.judged not in titles or reference not in cells:
        return {}
    position = titles.index(table.judged)
    best = cells[reference][position].values
    p_values: dict[Row, float] = {}
    for row in cells:
        values = cells[row][position].values
        common = sorted(values.keys() & best.keys())
        p = paired_p_value([values[seed] for seed in common], [best[seed] for seed in common])
        if row.model != reference.model and math.isfinite(p):
            p_values[row] = p
    return p_values


def show(result: Result) -> None:
    """Print to stdout; a table that is too wide comes in pieces."""
    console = stdout()
    count = len(result.table.columns)
    pieces = [result]
    while len(pieces) < count and any(_width(piece) > console.width for piece in pieces):
        share = -(-count // (len(pieces) + 1))
        pieces = [_piece(result, range(count)[start : start + share]) for start in range(0, count, share)]
    for number, piece in enumerate(pieces, start=1):
        screen = _screen(piece)
        screen.title = escape(result.table.title) if number == 1 else None
        screen.caption = escape("; ".join(result.header)) if number == len(pieces) else None
        console.print(screen)


def _piece(result: Result, columns: range) -> Result:
    """Some columns of the table."""
    table = replace(result.table, columns=tuple(result.table.columns[k] for k in columns))
    cells = {row: tuple(line[k] for k in columns) for row, line in result.cells.items()}
    judged = any(column.title == table.judged for column in table.columns)
    return Result(table, cells, result.p_values if judged else {}, result.header)


def _width(result: Result) -> int:
    """Characters it needs on a line."""
    return Console(width=_UNBOUNDED).measure(_screen(result)).maximum


def _screen(result: Result) -> RichTable:
    titles = [escape(column.title) for column in result.table.columns]
    screen = RichTable(box=box.SIMPLE_HEAD)
    screen.add_column("model", no_wrap=True)
    screen.add_column("", no_wrap=True)
    for title in [*titles, "p"] if result.p_values else titles:
        screen.add_column(title, justify="right", no_wrap=True)
    for line in _lines(result):
        screen.add_row(*line[: len(screen.columns)], end_section=line[1] == "difference")
    return screen


def _lines(result: Result) -> list[list[str]]:
    """Three lines per row that has published figures, one for the others."""
    out: list[list[str]] = []
    for row, cells in result.cells.items():
        reported = [cell.lines(column.form) for cell, column in zip(cells, result.table.columns, strict=True)]
        published, here, difference = (list(line) for line in zip(*reported, strict=True))
        p = result.p_values.get(row)
        chance = "" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"
        if any(published):
            out.append([row.title, "published", *published, ""])
            out.append(["", "here", *here, chance])
            out.append(["", "difference", *difference, ""])
        else:
            out.append([row.title, "here", *here, chance])
    return out


def markdown(result: Result, command: str) -> str:
    """The page of one table."""
    columns = ["model", "", *(column.title for column in result.table.columns)]
    if result.p_values:
        columns.append("p")
    lines = [f"# {result.table.title}", "", f"`{command}`", "", f"{'; '.join(result.header)}.", ""]
    lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [f"| {' | '.join(line[: len(columns)])} |" for line in _lines(result)]
    if result.p_values:
        lines += ["", f"p: of equal means with {result.table.rows[-1].title}, in the column "
                  f"“{result.table.judged}”; Student's paired t-test over seeds."]  # fmt: skip
    for note in result.table.notes:
        lines += ["", note]
    return "\n".join(lines) + "\n"


def as_json(result: Result, command: str) -> str:
    """Every number, with the seeds it comes from."""
    rows = [
        {
            "model": row.title,
            "experiment": row.experiment,
            "variant": row.model,
            "p_value": result.p_values.get(row),
            "columns": [
                _told(column, cell) for column, cell in zip(result.table.columns, cells, strict=True)
            ],
        }
        for row, cells in result.cells.items()
    ]
    reported = {
        "table": result.table.name,
        "command": command,
        "notes": [*result.header, *result.table.notes],
    }
    return json.dumps(reported | {"rows": rows}, indent=1, ensure_ascii=False) + "\n"


def _told(column: Column, cell: Cell) -> dict[str, Any]:
    return {
        "title": column.title,
        "score": column.score,
        "published": cell.published,
        "mean": cell.mean,
        "std": cell.std,
        "values": {str(seed): value for seed, value in cell.values.items()},
    }


def write(result: Result, folder: Path, command: str) -> list[Path]:
    """JSON and Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{result.table.name}.json", folder / f"{result.table.name}.md"]
    paths[0].write_text(as_json(result, command))
    paths[1].write_text(markdown(result, command))
    return paths
