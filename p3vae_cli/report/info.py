"""What `p3vae info` reports about a scene, as plain values (for JSON) and as a screen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table

from p3vae.cli.run.fitness import fit_commands, fit_line, unfit_lines
from p3vae.cli.scenes.base import UNITS, Grid, OrthoGrid, Scene
from p3vae.cli.scenes.tiling import Window, tile_shape
from p3vae.physics.spectral_response import Bands

SAMPLED_PIXELS = 250_000
"""Scenes larger than this are sampled, not read, to estimate their share of valid pixels."""
SAMPLED_VALUES = 10**8
"""Values that may be decoded for that: a window costs the whole block of the file in which it lies."""
_TILE_PIXELS = 4096


def summarise(scene: Scene) -> dict[str, Any]:
    """Everything known about a scene, ready for JSON; angles [deg], wavelengths [nm]."""
    acquisition = scene.acquisition
    return {
        "path": str(scene.path),
        "product": scene.product,
        "level": scene.level,
        "width": scene.grid.width,
        "height": scene.grid.height,
        "crs": _crs_text(scene.grid) if scene.grid.transform is not None else None,
        "georeferencing": _georeferencing(scene.grid, scene.ortho),
        "bounds": _bounds(scene.grid),
        "pixel_size": _pixel_size(scene.grid),
        "quantity": scene.quantity,
        "flags": list(scene.flags.names) if scene.flags else [],
        "unit": UNITS[scene.quantity],
        "sun_zenith_deg": acquisition.sun_zenith_deg,
        "sun_azimuth_deg": acquisition.sun_azimuth_deg,
        "view_zenith_deg": acquisition.view_zenith_deg,
        "time": acquisition.time.isoformat() if acquisition.time else None,
        "longitude_deg": acquisition.longitude_deg,
        "latitude_deg": acquisition.latitude_deg,
        "bands": [
            {"wavelength_nm": float(centre), "fwhm_nm": float(width), "good": bool(good)}
            for centre, width, good in zip(
                scene.bands.wavelength_nm, scene.bands.fwhm_nm, scene.bands.good, strict=True
            )
        ],
        "valid_fraction": valid_fraction(scene),
        "commands": fit_commands(scene),
    }


def valid_fraction(scene: Scene) -> float:
    """Share of pixels with a value in every good band, from about `SAMPLED_PIXELS` of them."""
    height, width = scene.grid.height, scene.grid.width
    rows, cols = tile_shape(height, width, scene.block_shape, _TILE_PIXELS)
    across = -(-width // cols)
    count = across * -(-height // rows)
    block = max(rows * cols, math.prod(scene.block_shape)) * len(scene.bands)
    step = max(1, height * width // SAMPLED_PIXELS, -(-count * block // SAMPLED_VALUES))
    valid = seen = 0
    for number in range(min(step // 2, count - 1), count, step):
        row, col = number // across * rows, number % across * cols
        tile = scene.read(Window(row, col, min(rows, height - row), min(cols, width - col)))
        valid, seen = valid + int(tile.valid.sum()), seen + tile.valid.size
    return valid / seen


def render(summary: dict[str, Any]) -> RenderableType:
    """A table for people."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    level = f" {summary['level']}" if summary["level"] else ""
    table.add_row("Scene", str(summary["path"]))
    table.add_row("Product", f"{summary['product']}{level}")
    table.add_row("Size", f"{summary['width']} x {summary['height']} pixels")
    table.add_row("Georeferencing", summary["georeferencing"])
    if summary["bounds"]:
        table.add_row(
            "Bounds",
            ", ".join(f"{value:.6g}" if abs(value) <= 360 else f"{value:.2f}" for value in summary["bounds"]),
        )
    if summary["pixel_size"]:
        table.add_row("Pixel size", " x ".join(f"{value:g}" for value in summary["pixel_size"]))
    for line in _band_lines(summary["bands"]):
        table.add_row(*line)
    table.add_row("Quantity", f"{summary['quantity']} [{summary['unit']}]")
    table.add_row("Sun", _angles(summary["sun_zenith_deg"], summary["sun_azimuth_deg"]))
    table.add_row("View zenith", _degrees(summary["view_zenith_deg"]))
    table.add_row("Time", summary["time"] or "unknown")
    table.add_row("Place", _place(summary["longitude_deg"], summary["latitude_deg"]))
    if summary["flags"]:
        table.add_row("Flagged", f"{' and '.join(summary['flags'])} by the product, see --quality-mask")
    table.add_row("Nodata", f"{100 * (1 - summary['valid_fraction']):.1f} % of pixels")
    table.add_row("Fit for", fit_line(summary["commands"]))
    for reason in unfit_lines(summary["commands"]):
        table.add_row("Not fit for", reason)
    for verdict in summary["models"]:
        table.add_row(
            "Model", f"{verdict['model']}: {'fits' if verdict['applicable'] else 'no'}, {verdict['reason']}"
        )
    return Group(table)


def _crs_text(grid: Grid) -> str | None:
    if grid.crs is None:
        return None
    epsg = grid.crs.to_epsg()
    return f"EPSG:{epsg}" if epsg else str(grid.crs.to_wkt())


def _georeferencing(grid: Grid, ortho: OrthoGrid | None) -> str:
    if grid.transform is not None:
        return f"map grid, {_crs_name(grid)}"
    if ortho is not None:
        size = f"{ortho.grid.width} x {ortho.grid.height} pixels"
        return f"swath, its products on a map grid of {size}, {_crs_name(ortho.grid)}"
    return f"swath, {len(grid.gcps)} control points, {_crs_name(grid)}" if grid.gcps else "none"


def _crs_name(grid: Grid) -> str:
    text = _crs_text(grid)
    return "unknown CRS" if text is None else text.split('"')[1] if '"' in text else text


def _bounds(grid: Grid) -> list[float] | None:
    if grid.transform is not None:
        corners = [
            grid.transform @ corner
            for corner in ((0, 0), (grid.width, 0), (0, grid.height), (grid.width, grid.height))
        ]
    elif grid.gcps:
        corners = [(point.x, point.y) for point in grid.gcps]
    else:
        return None
    xs, ys = zip(*corners, strict=True)
    return [float(min(xs)), float(min(ys)), float(max(xs)), float(max(ys))]


def _pixel_size(grid: Grid) -> list[float] | None:
    if grid.transform is None:
        return None
    t = grid.transform
    return [float(np.hypot(t.a, t.d)), float(np.hypot(t.b, t.e))]


def _band_lines(bands: list[dict[str, Any]]) -> list[tuple[str, str]]:
    table = Bands(
        np.array([b["wavelength_nm"] for b in bands]),
        np.array([b["fwhm_nm"] for b in bands]),
        np.array([b["good"] for b in bands]),
    )
    span = f"{table.wavelength_nm[0]:.1f} - {table.wavelength_nm[-1]:.1f} nm"
    widths = f"{table.fwhm_nm.min():.1f} - {table.fwhm_nm.max():.1f} nm wide"
    lines = [("Bands", f"{len(table)}, {span}, {widths}")]
    if not table.good.all():
        lines.append(("Bad bands", f"{(~table.good).sum()}: {_runs(table)}"))
    return lines


def _runs(bands: Bands) -> str:
    """The bad bands as wavelength ranges [nm]."""
    bad = np.flatnonzero(~bands.good)
    runs = np.split(bad, np.flatnonzero(np.diff(bad) > 1) + 1)
    return (
        ", ".join(f"{bands.wavelength_nm[run[0]]:.0f}-{bands.wavelength_nm[run[-1]]:.0f}" for run in runs)
        + " nm"
    )


def _degrees(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}°"


def _angles(zenith: float | None, azimuth: float | None) -> str:
    return f"zenith {_degrees(zenith)}, azimuth {_degrees(azimuth)}"


def _place(longitude: float | None, latitude: float | None) -> str:
    if longitude is None or latitude is None:
        return "unknown"
    north, east = "N" if latitude >= 0 else "S", "E" if longitude >= 0 else "W"
    return f"{abs(latitude):.4f}° {north}, {abs(longitude):.4f}° {east}"
