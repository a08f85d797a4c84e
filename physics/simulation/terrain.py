"""How a height field meets the sun and the sky: incidence, cast shadow, sky view.

Arrays are north-up: rows run south, columns east. Slopes are height differences per unit of ground
distance [1], towards east and towards north. Azimuths are clockwise from north [degree].
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Field = npt.NDArray[np.float32]


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


def sunlit(
    height_m: Field, spacing_m: float, sun_zenith_deg: float, sun_azimuth_deg: float
) -> npt.NDArray[np.bool_]:
    """True where nothing stands between a cell and the sun, by marching every cell towards the sun.

    Nothing casts a shadow into the field from outside it. Resolved to one cell: average over finer cells
    for the lit fraction of a pixel.
    """
    rise_m = spacing_m / np.tan(np.radians(max(sun_zenith_deg, 1e-6)))
    relief_m = float(height_m.max() - height_m.min())
    steps = min(int(np.ceil(relief_m / rise_m)), sum(height_m.shape))
    lit = np.ones(height_m.shape, dtype=np.bool_)
    for distance, seen in _looking(height_m, sun_azimuth_deg, range(1, steps + 1)):
        lit &= seen <= height_m + np.float32(distance * rise_m)
    return lit


def sky_view(
    height_m: Field,
    slope_east: Field,
    slope_north: Field,
    spacing_m: float,
    *,
    azimuths: int = 16,
    reach: int = 60,
) -> Field:
    """Share of an isotropic sky's irradiance that reaches a tilted cell [1]; one on open flat ground.

    Per azimuth φ the horizon is at H from zenith (terrain within `reach` cells, or the cell's own plane);
    V = mean over φ of cosS sin²H + sinS cos(φ - A) (H - sinH cosH), S and A being slope and aspect
    (Dozier and Frew 1990, doi:10.1109/36.58986).
    """
    norm = np.sqrt(1 + slope_east**2 + slope_north**2)
    total = np.zeros(height_m.shape, dtype=np.float32)
    distances = np.unique(np.geomspace(1, reach, 1 + int(16 * np.log(reach))).round().astype(int))
    for azimuth_deg in np.arange(azimuths) * 360.0 / azimuths:
        azimuth = np.radians(azimuth_deg)
        own_rise = (slope_east * np.sin(azimuth) + slope_north * np.cos(azimuth)).astype(np.float32)
        horizon_tangent = np.maximum(own_rise, 0)
        for distance, seen in _looking(height_m, azimuth_deg, distances):
            rise = (seen - height_m) / np.float32(distance * spacing_m)
            np.maximum(horizon_tangent, rise, out=horizon_tangent)
        from_zenith = np.pi / 2 - np.arctan(horizon_tangent)
        sine, cosine = np.sin(from_zenith), np.cos(from_zenith)
        total += (sine**2 - own_rise * (from_zenith - sine * cosine)) / norm
    return np.clip(total / azimuths, 0, 1).astype(np.float32)


def _looking(
    height_m: Field, azimuth_deg: float, distances: npt.ArrayLike | range
) -> Iterator[tuple[float, Field]]:
    """For each distance [cells] the field as seen that far away towards an azimuth; -inf outside."""
    steps = np.asarray(distances, dtype=np.float64)
    if steps.size == 0:
        return
    azimuth = np.radians(azimuth_deg)
    margin = int(np.ceil(steps.max())) + 1
    padded = np.pad(height_m, margin, constant_values=-np.inf)
    rows, cols = height_m.shape
    for distance in steps:
        row = margin + round(-distance * np.cos(azimuth))
        col = margin + round(distance * np.sin(azimuth))
        yield float(distance), padded[row : row + rows, col : col + cols]
