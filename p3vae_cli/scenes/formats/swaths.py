"""Control points of a swath, and means over its fields of angles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rasterio.control import GroundControlPoint
from rasterio.crs import CRS

from p3vae.cli.scenes.base import FloatArray, Geolocator, Grid
from p3vae.cli.scenes.tiling import Window

_GCPS_PER_SIDE = 20
_LARGEST_LATITUDE, _LARGEST_LONGITUDE = 90.0, 360.0


def located_grid(locate: Geolocator, height: int, width: int) -> Grid:
    """A swath tied down by a lattice of the longitudes and latitudes of its pixels."""
    return Grid(width, height, CRS.from_epsg(4326), None, lattice(locate, height, width))


def lattice(locate: Geolocator, height: int, width: int) -> tuple[GroundControlPoint, ...]:
    """Control points at about 20 x 20 pixels of a swath, without those that have no place."""
    rows = np.unique(np.linspace(0, height - 1, _GCPS_PER_SIDE).round().astype(int))
    cols = np.unique(np.linspace(0, width - 1, _GCPS_PER_SIDE).round().astype(int))
    points = []
    for row in rows:
        lon, lat = locate(Window(int(row), 0, 1, width))
        points += [(int(row), int(col), float(lon[0, col]), float(lat[0, col])) for col in cols]
    return control_points([point for point in points if _is_place(*point[2:])])


def control_points(points: Sequence[tuple[int, int, float, float]]) -> tuple[GroundControlPoint, ...]:
    """From row, column, longitude and latitude [degree] of pixel centres."""
    return tuple(
        GroundControlPoint(row=row + 0.5, col=col + 0.5, x=lon, y=lat, id=str(number))
        for number, (row, col, lon, lat) in enumerate(points, start=1)
    )


def centre_of(grid: Grid) -> tuple[float | None, float | None]:
    """Mean longitude and latitude [degree] of the control points; None without any."""
    if not grid.gcps:
        return None, None
    return float(np.mean([point.x for point in grid.gcps])), float(np.mean([point.y for point in grid.gcps]))


def mean_azimuth(angles_deg: FloatArray) -> float | None:
    """Mean direction [degree], NaN left out; None without any."""
    known = np.radians(angles_deg[np.isfinite(angles_deg)])
    if not known.size:
        return None
    return float(np.degrees(np.arctan2(np.sin(known).mean(), np.cos(known).mean())) % 360.0)


def mean_angle(angles_deg: FloatArray) -> float | None:
    """Mean of angles [degree], NaN left out; None without any."""
    known = angles_deg[np.isfinite(angles_deg)]
    return float(known.mean()) if known.size else None


def _is_place(lon: float, lat: float) -> bool:
    return bool(abs(lat) <= _LARGEST_LATITUDE and abs(lon) <= _LARGEST_LONGITUDE)
