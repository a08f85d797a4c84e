"""Pixels on which a methane retrieval cannot be trusted, by their spectra: cloud, water, flare and so on."""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pvlib

CLOUD_VISIBLE, CLOUD_SWIR = 0.45, 0.35
WATER_SWIR = 0.02
FLARE_RATIO = 1.5
"""A flare is brighter at 2.3 um than at 1.6 um relative to sunlight by more than any ground."""


class Quality(enum.IntEnum):
    """Value in the quality map; 0 is nodata."""

    CLEAR = 1
    CLOUD = 2
    WATER = 3
    FLARE = 4
    SATURATED = 5

    @property
    def colour(self) -> str:
        """#rrggbb for a legend."""
        return {1: "#7fa87f", 2: "#f2f2f2", 3: "#2b5f9e", 4: "#e4572e", 5: "#8e44ad"}[self.value]

    @property
    def label(self) -> str:
        """For a legend. Deep shadow and fresh snow are as dark as water in the short-wave infrared."""
        names = {3: "water, deep shadow or snow", 5: "saturated in some bands"}
        return names.get(self.value, self.name.lower())


@lru_cache
def _sunlight() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Wavelength [nm] and irradiance above the atmosphere [W m-2 um-1] at mean distance (ASTM G173-03)."""
    table = pvlib.spectrum.get_reference_spectra(standard="ASTM G173-03")["extraterrestrial"]
    return table.index.to_numpy(np.float64), 1e3 * table.to_numpy(np.float64)


def top_of_atmosphere_reflectance(
    radiance: npt.NDArray[np.floating[Any]],
    wavelength_nm: npt.NDArray[np.float64],
    sun_zenith_deg: float,
) -> npt.NDArray[np.float64]:
    """π L / (E_sun cosΘ0) [1] of radiance (..., bands) [W m-2 sr-1 um-1], the sun at its mean distance."""
    sun = np.interp(wavelength_nm, *_sunlight())
    return np.asarray(np.pi * radiance / (sun * np.cos(np.radians(sun_zenith_deg))))


def quality_classes(
    radiance: npt.NDArray[np.floating[Any]],
    wavelength_nm: npt.NDArray[np.float64],
    sun_zenith_deg: float,
) -> npt.NDArray[np.uint8]:
    """`Quality` of each spectrum (pixels, bands) [W m-2 sr-1 um-1], by the windows its bands allow.

    Cloud: bright at 650 nm and at 1650 nm alike. Water: dark at 1650 and 2200 nm. Flare: 2300 nm brighter,
    relative to the sun, than 1650 nm by half. Saturated: some bands are missing (NaN), others are not;
    0 where all are missing.
    """
    visible, near, middle, far = (
        _window(radiance, wavelength_nm, sun_zenith_deg, *window)
        for window in ((630, 680), (1620, 1680), (2180, 2230), (2280, 2320))
    )
    found = np.full(len(radiance), Quality.CLEAR, np.uint8)
    found[(near < WATER_SWIR) & (middle < WATER_SWIR)] = Quality.WATER
    found[(visible > CLOUD_VISIBLE) & (near > CLOUD_SWIR)] = Quality.CLOUD
    found[(far > FLARE_RATIO * near) & (far > 0.1)] = Quality.FLARE
    missing = np.isnan(radiance)
    found[missing.any(axis=1)] = Quality.SATURATED
    found[missing.all(axis=1)] = 0
    return found


def _window(
    radiance: npt.NDArray[np.floating[Any]],
    wavelength_nm: npt.NDArray[np.float64],
    sun_zenith_deg: float,
    low: float,
    high: float,
) -> npt.NDArray[np.float64]:
    """Mean reflectance over a window; NaN, which passes no test, where the sensor has no band in it."""
    inside = (wavelength_nm >= low) & (wavelength_nm <= high)
    if not inside.any():
        return np.full(len(radiance), np.nan)
    reflectance = top_of_atmosphere_reflectance(radiance[:, inside], wavelength_nm[inside], sun_zenith_deg)
    return np.asarray(reflectance.mean(axis=1))
