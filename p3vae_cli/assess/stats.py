"""`p3vae stats`: what a map holds in each zone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

from p3vae.cli.errors import LabelError
from p3vae.cli.rasters.areas import M2_PER_HECTARE, row_areas_m2
from p3vae.cli.rasters.maps import MapFile, read_map
from p3vae.cli.rasters.zones import Zone, read_zones
from p3vae.cli.records.staging import save
from p3vae.cli.tables import write_rows

Row = dict[str, Any]


def zone_statistics(path: Path, zones: Path, field: str | None) -> list[Row]:
    """One row per zone: pixels with a value and hectares; hectares of every class, or mean, std and range."""
    mapped = read_map(path)
    areas = row_areas_m2(mapped.grid)
    rows = [_row(mapped, zone, areas) for zone in read_zones(zones, mapped.grid, field)]
    if not any(row["pixels"] for row in rows):
        raise LabelError(
            "no zone falls on the map", path=zones, remedy="check the extents and the CRS of both"
        )
    return rows


def _row(mapped: MapFile, zone: Zone, areas: npt.NDArray[np.float64] | None) -> Row:
    kept = mapped.valid[zone.row, zone.col]
    row, values = zone.row[kept], mapped.values[zone.row[kept], zone.col[kept]]
    hectares = None if areas is None else areas[row] / M2_PER_HECTARE
    found: Row = {
        "zone": zone.name,
        "pixels": len(values),
        "hectares": None if hectares is None else float(hectares.sum()),
    }
    if mapped.categories is not None:
        for item in mapped.categories.items:
            here = values == item.value
            found[item.name] = int(here.sum()) if hectares is None else float(hectares[here].sum())
        return found
    if not len(values):
        return found | dict.fromkeys(("mean", "std", "minimum", "maximum"))
    measured = values.astype(np.float64)
    return found | {
        "mean": float(measured.mean()),
        "std": float(measured.std()),
        "minimum": float(measured.min()),
        "maximum": float(measured.max()),
    }


def table(rows: list[Row]) -> Table:
    """For people: a line per zone of a quantity, per zone and class of a class map."""
    made = Table(box=None, pad_edge=False)
    made.add_column("Zone")
    if "mean" in rows[0]:
        for name in list(rows[0])[1:]:
            made.add_column(name.capitalize(), justify="right", no_wrap=True)
        for row in rows:
            made.add_row(*(_text(value) for value in row.values()))
        return made
    area = "Pixels" if rows[0]["hectares"] is None else "Hectares"
    for name in ("Class", area, "Share"):
        made.add_column(name, justify="left" if name == "Class" else "right", no_wrap=True)
    for row in rows:
        total = row["pixels"] if area == "Pixels" else row["hectares"]
        found = [(name, value) for name, value in list(row.items())[3:] if value]
        for number, (name, value) in enumerate(sorted(found, key=lambda pair: -pair[1])):
            made.add_row(
                row["zone"] if number == 0 else "", name, _text(value), f"{100 * value / total:.1f} %"
            )
        if not found:
            made.add_row(row["zone"], "–", "–", "–")
    return made


def save_csv(rows: list[Row], path: Path, *, overwrite: bool, inputs: tuple[Path, ...]) -> None:
    """For spreadsheets."""
    lines = [list(rows[0]), *(list(row.values()) for row in rows)]
    save(path, lambda staged: write_rows(staged, lines), overwrite=overwrite, inputs=inputs)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return (
        f"{value:,.4g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )
