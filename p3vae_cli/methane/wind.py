"""Wind for emission rates: a number, a table with a line for each scene, or a field that is interpolated."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rasterio.warp import transform as transform_points

from p3vae.cli.errors import UsageError
from p3vae.cli.methane.settings import WindSource
from p3vae.cli.methane.wind_fields import wind_at
from p3vae.cli.methane.wind_netcdf import is_netcdf
from p3vae.cli.rasters.areas import to_map
from p3vae.cli.scenes.base import Grid, Scene
from p3vae.cli.tables import read_rows

COLUMNS = ("scene", "wind_m_s")
REMEDY = "columns scene (file name), wind_m_s and, if known, wind_std_m_s and source"


@dataclass(frozen=True)
class SceneWind:
    """10 m wind at a place of a scene."""

    m_s: float
    std_m_s: float | None = None
    source: str | None = None
    towards_deg: float | None = None
    """Where it blows to, clockwise from north."""


Place = tuple[float, float]
"""Longitude and latitude [degree]."""
WindOver = Callable[[Place | None], SceneWind]
"""The wind at a place of a scene; None is its centre."""


def wind_over(source: WindSource, scene: Scene) -> WindOver:
    """The wind of a source over a scene; UsageError where a file has none for all of it."""
    if not isinstance(source.value, Path):
        given = SceneWind(source.value, source="--wind")
    elif _is_field(source.value):
        return _field_over(source.value, scene)
    else:
        given = _of_table(source.value, scene.path)
    return lambda place: given


def _is_field(path: Path) -> bool:
    try:
        return is_netcdf(path)
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}", path=path, remedy="give a speed, a CSV or a NetCDF file"
        ) from error


def _field_over(path: Path, scene: Scene) -> WindOver:
    """Interpolated in a field, which must cover every corner of the scene."""
    acquired = scene.acquisition
    time, longitude, latitude = acquired.time, acquired.longitude_deg, acquired.latitude_deg
    if time is None or longitude is None or latitude is None:
        missing = "time" if time is None else "place"
        raise UsageError(
            f"is of no use for a scene whose {missing} is unknown", path=path, remedy="give --wind as a speed"
        )
    for corner in corners(scene.grid):
        wind_at(path, *corner, time)

    def wind(place: Place | None) -> SceneWind:
        vector = wind_at(path, *(place or (longitude, latitude)), time)
        return SceneWind(vector.m_s, source=path.name, towards_deg=vector.towards_deg)

    return wind


def corners(grid: Grid) -> Sequence[Place]:
    """Longitudes and latitudes [degree] between which a scene lies; none for one that is nowhere."""
    if grid.crs is None:
        return ()
    if grid.transform is None:
        x, y = np.array([(point.x, point.y) for point in grid.gcps]).T
    else:
        pixels = np.array([(col, row) for col in (0, grid.width) for row in (0, grid.height)], np.float64)
        x, y = to_map(grid, pixels).T
    lon, lat = transform_points(grid.crs, "EPSG:4326", list(x), list(y))
    return [(west_east, south_north) for west_east in _ends(lon) for south_north in _ends(lat)]


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return float(min(values)), float(max(values))


def _of_table(path: Path, scene: Path) -> SceneWind:
    table = _read(path)
    for name in (scene.name, scene.stem):
        if name in table:
            return table[name]
    raise UsageError(f"has no wind for the scene {scene.name}", path=path, remedy="add a line")


def _read(path: Path) -> dict[str, SceneWind]:
    try:
        heading, *rows = [[cell.strip() for cell in row] for row in read_rows(path)] or [[]]
        missing = [name for name in COLUMNS if name not in heading]
        if missing:
            raise ValueError(f"it has no column {missing[0]!r}")
        table = {}
        for row in rows:
            cells = dict(zip(heading, row, strict=False))
            std = cells.get("wind_std_m_s")
            table[cells["scene"]] = SceneWind(
                _speed(cells.get("wind_m_s", "")),
                _speed(std) if std else None,
                cells.get("source") or path.name,
            )
        return table
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot be read as a wind table: {error}", path=path, remedy=REMEDY) from error


def _speed(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value >= 0.0):
        raise ValueError(f"{text} is no wind speed")
    return value
