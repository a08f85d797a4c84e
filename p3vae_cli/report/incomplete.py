"""What `p3vae info` says about a raster that is no scene yet: what is stored, and which option is missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from p3vae.cli.errors import P3vaeError
from p3vae.cli.scenes.drivers import ForeignFileError
from p3vae.cli.scenes.stored import StoredValues, stored_values

_LARGEST_REFLECTANCE, _LARGEST_PERCENT = 2.0, 100.0


def describe(path: Path, problem: P3vaeError, drivers: Sequence[str]) -> dict[str, Any]:
    """What is stored in a file that cannot be opened as a scene; raises `problem` if it is no raster."""
    try:
        found = stored_values(path, drivers)
    except (ForeignFileError, OSError):
        raise problem from None
    return {
        "path": str(path),
        "problem": problem.problem,
        "remedy": problem.remedy,
        "width": found.grid.width,
        "height": found.grid.height,
        "bands": found.bands,
        "stored_as": found.dtype,
        "nodata": found.nodata,
        "minimum": found.minimum,
        "median": found.median,
        "maximum": found.maximum,
        "sampled_values": found.sampled,
        "looks_like": _guess(found),
    }


def render_incomplete(record: dict[str, Any]) -> RenderableType:
    """A table for people."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("File", record["path"])
    table.add_row("Size", f"{record['width']} x {record['height']} pixels, {_bands(record['bands'])}")
    table.add_row("Stored as", record["stored_as"])
    nodata = "not stated" if record["nodata"] is None else f"{record['nodata']:g}"
    table.add_row("Nodata", nodata)
    if record["sampled_values"]:
        values = [f"{name} {record[name]:.6g}" for name in ("minimum", "median", "maximum")]
        table.add_row("Values", f"{', '.join(values)} (of {record['sampled_values']:,} sampled)")
    table.add_row("Looks like", record["looks_like"])
    table.add_row("Not a scene", f"{record['problem']}: {record['remedy']}")
    return table


def _bands(count: int) -> str:
    return "1 band" if count == 1 else f"{count} bands"


def _guess(found: StoredValues) -> str:
    missing = (
        "" if found.suspect is None else f"; if {found.suspect:g} means no data, --nodata {found.suspect:g}"
    )
    if not found.sampled:
        return "nothing: no value was seen but nodata"
    if found.bands == 1:
        return 'a map with one band, no spectrum: see "p3vae stats --help"'
    if abs(found.median) <= _LARGEST_REFLECTANCE:
        return f"reflectance from 0 to 1{missing}"
    if found.median < _LARGEST_PERCENT:
        return f"reflectance in percent (--scale 0.01) or radiance (--quantity radiance){missing}"
    return (
        f"reflectance times 10,000 (--scale 1e-4) or radiance (--quantity radiance --scale FACTOR){missing}"
    )
