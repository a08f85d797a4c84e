"""How ground meets the sun and the sky: slopes, incidence, cast shadow, sky view, from heights of cells.

How cells lie on the ground is told by `steps_m`, a matrix (2, 2): metres towards east (first row) and towards
north (second row) per column and per row. `north_up` makes that of a grid whose rows run south. Slopes are
height differences per ground distance [1], towards east and towards north. Azimuths are clockwise from north
[degree].
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Field = npt.NDArray[np.float32]
Steps = npt.NDArray[np.float64]

CIRCUMSOLAR_SHARE = 0.15
"""Of diffuse light: it comes from around the sun, so that what turns away from the sun loses it [1]."""
AZIMUTHS = 8
REACH = 100
"""How far the horizon of the sky is looked for [cells]."""
_STRIP = 128
"""Rows that are worked on at once."""


class TerrainLight(NamedTuple):
    """What terrain says of light, (rows, cols) each; NaN where heights are missing."""

    incidence: Field
    """Cosine of the angle between sun and normal of the ground [1]; zero in cast shadow."""
    sky_view: Field
    """Share of the light of an even sky [1]."""
    shadow: Field
    """1 where ground that faces the sun lies in the shadow of other ground, else 0 [1]."""


def north_up(spacing_m: float) -> Steps:
    """Square cells, rows running south."""
    return np.array([[spacing_m, 0.0], [0.0, -spacing_m]])


def terrain_light(
    height_m: Field, steps_m: Steps, sun_zenith_deg: float, sun_azimuth_deg: float
) -> TerrainLight:
    """Incidence, sky view and cast shadow of every cell; heights may be NaN.

    One pass in strips of rows; besides the heights and the three results, memory is that of a strip.
    """
    known = np.where(np.isnan(height_m), np.nanmin(height_m), height_m)  # what is lowest casts no shadow
    found = TerrainLight(*(np.empty(height_m.shape, np.float32) for _ in range(3)))
    for start in range(0, len(height_m), _STRIP):
        rows = slice(start, min(start + _STRIP, len(height_m)))
        east, north = slopes(height_m, steps_m, rows)
        incidence = incidence_cosine(east, north, sun_zenith_deg, sun_azimuth_deg)
        lit = sunlit(known, steps_m, sun_zenith_deg, sun_azimuth_deg, rows)
        missing = np.isnan(incidence)
        found.incidence[rows] = incidence * lit
        found.shadow[rows] = np.where(missing, np.nan, (incidence > 0) & ~lit)
        view = sky_view(known, east, north, steps_m, rows=rows)
        found.sky_view[rows] = np.where(missing, np.nan, view)
    return found


def slopes(height_m: Field, steps_m: Steps, rows: slice = slice(None)) -> tuple[Field, Field]:
    """Slopes towards east and north of some rows, by differences between the cells on either side.

    At an edge of the field the difference to the only neighbour.
    """
    first, last, _ = rows.indices(len(height_m))
    around = slice(max(first - 1, 0), min(last + 1, len(height_m)))
    inner = slice(first - around.start, last - around.start)
    gradient: list[Field] = list(np.gradient(height_m[around]))
    per_row, per_col = gradient[0][inner], gradient[1][inner]
    inverse = np.linalg.inv(steps_m).astype(np.float32)  # columns and rows per metre east and north
    east = per_col * inverse[0, 0] + per_row * inverse[1, 0]
    north = per_col * inverse[0, 1] + per_row * inverse[1, 1]
    return east, north


def incidence_cosine(
    slope_east: npt.NDArray[np.floating],
    slope_north: npt.NDArray[np.floating],
    sun_zenith_deg: float,
    sun_azimuth_deg: float,
) -> npt.NDArray[np.floating]:
    """Cosine of the angle between sun and surface normal [1]; zero where the surface faces away."""
    zenith, azimuth = np.radians(sun_zenith_deg), np.radians(sun_azimuth_deg)
    towards_sun = slope_east * np.sin(azimuth) + slope_north * np.cos(azimuth)
    cosine = (np.cos(zenith) - np.sin(zenith) * towards_sun) / np.sqrt(1 + slope_east**2 + slope_north**2)
    return np.asarray(np.maximum(cosine, 0))


def sky_light(
    view: npt.NDArray[np.floating], direct: npt.NDArray[np.floating], cos_zenith: float
) -> npt.NDArray[np.floating]:
    """Diffuse light over that of open flat ground [1], w = (1 - k) V + k z/cosΘ0.

    V is the sky view, z the direct light δ cosΘ, k the circumsolar share (Hay and Davies 1980).
    """
    share = np.float32(CIRCUMSOLAR_SHARE)
    return np.asarray((1 - share) * view + share * direct / np.float32(cos_zenith))


def sunlit(
    height_m: Field,
    steps_m: Steps,
    sun_zenith_deg: float,
    sun_azimuth_deg: float,
    rows: slice = slice(None),
) -> npt.NDArray[np.bool_]:
    """True in some rows where nothing stands between a cell and the sun, by marching towards the sun.

    Nothing casts a shadow into the field from outside it. Resolved to one cell: average over finer cells
    for the lit fraction of a pixel.
    """
    here = height_m[rows]
    lit = np.ones(here.shape, dtype=np.bool_)
    rise = 1 / np.tan(np.radians(max(sun_zenith_deg, 1e-6)))
    reach_m = float(height_m.max() - height_m.min()) / rise
    steps = min(int(np.ceil(reach_m / _cell_m(steps_m))), sum(height_m.shape))
    for distance_m, inside, seen in _looking(height_m, steps_m, sun_azimuth_deg, range(1, steps + 1), rows):
        lit[inside] &= seen <= here[inside] + np.float32(distance_m * rise)
    return lit


def sky_view(
    height_m: Field,
    slope_east: Field,
    slope_north: Field,
    steps_m: Steps,
    *,
    azimuths: int = AZIMUTHS,
    reach: int = REACH,
    rows: slice = slice(None),
) -> Field:
    """Share of an isotropic sky's irradiance that reaches a tilted cell [1]; one on open flat ground.

    Slopes are those of `rows`. Per azimuth φ the horizon is at H from zenith (terrain within `reach` cells,
    or the cell's own plane); V = mean over φ of cosS sin²H + sinS cos(φ - A) (H - sinH cosH), S and A being
    slope and aspect (Dozier and Frew 1990, doi:10.1109/36.58986).
    """
    here = height_m[rows]
    norm = np.sqrt(1 + slope_east**2 + slope_north**2)
    total = np.zeros(here.shape, dtype=np.float32)
    distances = np.unique(np.geomspace(1, reach, 1 + int(8 * np.log(reach))).round().astype(int))
    for azimuth_deg in (np.arange(azimuths) + 0.5) * 360.0 / azimuths:
        azimuth = np.radians(azimuth_deg)
        own_rise = slope_east * np.float32(np.sin(azimuth)) + slope_north * np.float32(np.cos(azimuth))
        tangent = np.maximum(own_rise, 0)
        for distance_m, inside, seen in _looking(height_m, steps_m, float(azimuth_deg), distances, rows):
            rise = seen - here[inside]
            rise *= np.float32(1 / distance_m)
            np.fmax(tangent[inside], rise, out=tangent[inside])
        # H = π/2 − arctan t, sin H = 1/√(1 + t²), cos H = t/√(1 + t²).
        squared = 1 / (1 + tangent * tangent)
        total += (
            squared - own_rise * (np.float32(np.pi / 2) - np.arctan(tangent) - tangent * squared)
        ) / norm
    return np.clip(total / azimuths, 0, 1)


def _cell_m(steps_m: Steps) -> float:
    """Side of a square as large as a cell [m]."""
    return float(np.sqrt(abs(np.linalg.det(steps_m))))


def _looking(
    height_m: Field, steps_m: Steps, azimuth_deg: float, distances: npt.ArrayLike | range, rows: slice
) -> Iterator[tuple[float, tuple[slice, slice], Field]]:
    """For each distance [cells]: it in metres, which cells of `rows` see so far, and the height there.

    The nearest cell stands for a place, and its own distance counts.
    """
    azimuth, cell = np.radians(azimuth_deg), _cell_m(steps_m)
    towards = np.linalg.inv(steps_m) @ (np.sin(azimuth), np.cos(azimuth)) * cell
    first, last, _ = rows.indices(len(height_m))
    height, width = height_m.shape
    for distance in np.asarray(distances, dtype=np.float64):
        right, down = (round(float(part)) for part in distance * towards)
        top, bottom = max(first, -down), min(last, height - down)
        left, end = max(0, -right), min(width, width - right)
        if top < bottom and left < end:
            metres = float(np.hypot(*(steps_m @ (right, down))))
            seen = height_m[top + down : bottom + down, left + right : end + right]
            yield metres or cell, (slice(top - first, bottom - first), slice(left, end)), seen
