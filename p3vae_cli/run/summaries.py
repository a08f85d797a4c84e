"""What a run made, as tables for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from p3vae.cli.console import stdout
from p3vae.cli.run.outcomes import Shown


def print_summary(shown: Shown) -> None:
    """Classes, maps with their figures, speed, and what was found in them."""
    table = Table(box=None, pad_edge=False)
    table.add_column("Map", overflow="fold")
    for heading in ("Mean", "Range"):
        table.add_column(heading, no_wrap=True)
    for record in shown.maps:
        table.add_row(str(shown.folder / record["file"]), *_figures(record))
    console = stdout()
    for record in shown.maps:
        if record.get("classes"):
            console.print(_class_table(record))
    console.print(table)
    rate = shown.pixels / max(shown.seconds, 1e-9)
    console.print(f"{shown.pixels:,} pixels in {shown.seconds:.1f} s ({rate:,.0f} pixels/s)", highlight=False)
    for line in shown.lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _figures(record: Mapping[str, Any]) -> tuple[str, str]:
    bands = record.get("statistics", ())
    if len(bands) != 1 or not bands[0]["count"]:
        return "", ""
    unit = f" {record['unit']}" if record["unit"] not in ("", "1") else ""
    of = bands[0]
    return f"{of['mean']:.4g}{unit}", f"{of['minimum']:.4g} to {of['maximum']:.4g}{unit}"


def _class_table(record: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("Class")
    table.add_column("Pixels", justify="right")
    table.add_column("Hectares", justify="right")
    table.add_column("Share", justify="right")
    for extent in record["classes"]:
        hectares = "" if extent["hectares"] is None else f"{extent['hectares']:,.2f}"
        name = Text.assemble(("■ ", extent["color"]), extent["name"])
        table.add_row(name, f"{extent['pixels']:,}", hectares, f"{100 * extent['share']:.1f} %")
    return table
