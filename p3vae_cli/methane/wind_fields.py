"""10 m wind from a reanalysis in NetCDF (ERA5, GEOS), interpolated linearly in space and time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

from p3vae.cli.errors import SceneError, UsageError
from p3vae.cli.methane.wind_netcdf import Variable, open_netcdf
from p3vae.cli.scenes.metadata import utc_time

FloatArray = npt.NDArray[np.float64]

_COMPONENTS = (("u10", "v10"), ("U10M", "V10M"), ("10u", "10v"))
"""Names of the eastward and the northward wind at 10 m."""
_LATITUDE, _LONGITUDE, _TIME = ("latitude", "lat"), ("longitude", "lon"), ("valid_time", "time")
_METRES_PER_SECOND = ("", "m s**-1", "m s-1", "m/s", "m s^-1")
_SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
_CALENDARS = ("", "standard", "gregorian", "proleptic_gregorian")
_REACH_S = 1800.0
"""How far beyond the first and last time their wind is taken [s]: hourly means stand for the hour around."""
_REMEDY = "give u10 and v10 (or U10M and V10M) by time, latitude and longitude"

Bracket = list[tuple[int, float]]
"""Indices on an axis with their weights, which add up to 1."""


@dataclass(frozen=True)
class WindVector:
    """Wind at 10 m."""

    east_m_s: float
    north_m_s: float

    @property
    def m_s(self) -> float:
        """Speed."""
        return float(np.hypot(self.east_m_s, self.north_m_s))

    @property
    def towards_deg(self) -> float:
        """Where it blows to, clockwise from north."""
        return float(np.degrees(np.arctan2(self.east_m_s, self.north_m_s)) % 360.0)


def wind_at(path: Path, longitude_deg: float, latitude_deg: float, time: datetime) -> WindVector:
    """The wind at a place and a time (UTC); UsageError where the file does not cover them."""
    with _problems_of(path), open_netcdf(path) as variables:
        east, north = _components(variables)
        axes = [_axis_kind(name, length) for name, length in zip(east.dimensions, east.shape, strict=True)]
        found = {
            "lat": _place(_values(variables, _LATITUDE, east), latitude_deg, "latitude"),
            "lon": _longitude(_values(variables, _LONGITUDE, east), longitude_deg),
            "time": _moment(variables, east, time),
            "other": [(0, 1.0)],
        }
        brackets = [found[kind] for kind in axes]
        vector = WindVector(*(_interpolated(component, brackets) for component in (east, north)))
        if not np.isfinite(vector.m_s):
            raise ValueError(f"has no wind (NaN) at {longitude_deg:.3f}, {latitude_deg:.3f}")
        return vector


@contextmanager
def _problems_of(path: Path) -> Iterator[None]:
    """One family of errors, about the file."""
    try:
        yield
    except SceneError as error:
        raise UsageError(error.problem, path=path, remedy=_REMEDY) from error
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise UsageError(str(error), path=path, remedy=_REMEDY) from error


def _components(variables: Mapping[str, Variable]) -> tuple[Variable, Variable]:
    pair = next((pair for pair in _COMPONENTS if all(name in variables for name in pair)), None)
    if pair is None:
        raise ValueError(f"has no 10 m wind, only {', '.join(sorted(variables)) or 'nothing'}"[:200])
    east, north = (variables[name] for name in pair)
    if east.shape != north.shape or east.dimensions != north.dimensions:
        raise ValueError(f"{pair[0]} and {pair[1]} differ in size")
    for name, component in zip(pair, (east, north), strict=True):
        if component.words("units") not in _METRES_PER_SECOND:
            raise ValueError(f"{name} is in {component.words('units')!r}, not in m s-1")
    return east, north


def _axis_kind(name: str, length: int) -> str:
    for kind, names in (("lat", _LATITUDE), ("lon", _LONGITUDE), ("time", _TIME)):
        if name in names:
            return kind
    if length == 1:
        return "other"
    raise ValueError(f"its wind has a dimension {name!r} of {length} values, where one must be selected")


def _values(variables: Mapping[str, Variable], names: tuple[str, ...], wind: Variable) -> FloatArray:
    """The coordinates of the axis of one of these names."""
    name = next((name for name in wind.dimensions if name in names), None)
    if name is None or name not in variables:
        raise ValueError(f"its wind has no {names[0]}")
    return variables[name].read([slice(None)])


def _place(axis: FloatArray, value: float, name: str) -> Bracket:
    """Between the two nearest values of an axis, which may descend."""
    order = np.argsort(axis)
    ascending = axis[order]
    if not np.isfinite(axis).all() or not ascending[0] <= value <= ascending[-1]:
        raise ValueError(
            f"does not cover {name} {value:.3f}, it has {ascending[0]:.3f} to {ascending[-1]:.3f}"
        )
    upper = int(np.clip(np.searchsorted(ascending, value), 1, len(axis) - 1)) if len(axis) > 1 else 0
    lower = max(upper - 1, 0)
    span = ascending[upper] - ascending[lower]
    share = float((value - ascending[lower]) / span) if span > 0 else 0.0
    return [(int(order[lower]), 1.0 - share), (int(order[upper]), share)]


def _longitude(axis: FloatArray, value: float) -> Bracket:
    """The same on a circle: from -180 or from 0, and across the seam of a field around the Earth."""
    turned = axis.min() + (value - axis.min()) % 360.0
    if len(axis) > 1 and turned > axis.max():
        gap = 360.0 - (axis.max() - axis.min())
        if gap <= 1.5 * float(np.median(np.abs(np.diff(axis)))):
            share = float((turned - axis.max()) / gap)
            return [(int(axis.argmax()), 1.0 - share), (int(axis.argmin()), share)]
        turned -= 360.0 * (turned - axis.max() > 180.0)
    return _place(axis, turned, "longitude")


def _moment(variables: Mapping[str, Variable], wind: Variable, time: datetime) -> Bracket:
    """Between two times of the file, or at its only one."""
    along = next((name for name in wind.dimensions if name in _TIME), None)
    name = next((n for n in _TIME if n in variables and variables[n].dimensions in ((along,), ())), None)
    if name is None:
        raise ValueError("its wind has no time")
    times = np.atleast_1d(_seconds(variables[name]))
    sought, early, late = time.timestamp(), float(times.min()), float(times.max())
    if not (np.isfinite(times).all() and early - _REACH_S <= sought <= late + _REACH_S):
        known = " to ".join(_iso(each) for each in dict.fromkeys((early, late)))
        raise ValueError(f"does not cover {_iso(sought)}, it has {known}")
    return _place(times, float(np.clip(sought, early, late)), "time")


def _seconds(variable: Variable) -> FloatArray:
    """Times in seconds since 1970."""
    units = variable.words("units")
    match = re.fullmatch(r"(second|minute|hour|day)s?\s+since\s+(\d{4}-\d{2}-\d{2}.*)", units.strip())
    start = None if match is None else utc_time(match[2].strip())
    if match is None or start is None:
        raise ValueError(f"its times are in {units[:60]!r}")
    if variable.words("calendar") not in _CALENDARS:
        raise ValueError(f"its times are of the calendar {variable.words('calendar')!r}")
    values = variable.read([slice(None)] * len(variable.shape))
    return np.asarray(start.timestamp() + values * _SECONDS[match[1]])


def _interpolated(component: Variable, brackets: list[Bracket]) -> float:
    total = 0.0
    for corner in product(*brackets):
        weight = float(np.prod([share for _, share in corner]))
        if weight > 0:
            total += weight * float(component.read([index for index, _ in corner]))
    return total


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%MZ") if np.isfinite(seconds) else "NaN"
