"""Where the sun stands, and the direct and diffuse spectral irradiance it gives on flat ground."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pvlib

from p3vae.physics.spectral_response import BandCoverageError, Bands, gaussian_average_matrix

Spectrum = npt.NDArray[np.float64]

STANDARD_PRESSURE_PA = 101325.0
NM_PER_UM = 1000.0
AEROSOL_OPTICAL_DEPTH = 0.35
"""Assumed at 500 nm [1] where nothing is known of the air."""


@dataclass(frozen=True, eq=False)
class SpectralIrradiance:
    """Direct and diffuse irradiance on flat ground, as the atmospheric correction assumes them."""

    wavelength_nm: Spectrum
    """Ascending, [nm]."""
    direct: Spectrum
    """I_dir, on the horizontal plane [W m-2 um-1]."""
    diffuse: Spectrum
    """I_dif, on the horizontal plane [W m-2 um-1]."""
    sun_zenith_deg: float
    """Solar zenith angle Θ0 [degree]."""

    def __post_init__(self) -> None:
        for name in ("wavelength_nm", "direct", "diffuse"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        if not self.wavelength_nm.shape == self.direct.shape == self.diffuse.shape:
            raise ValueError("wavelengths, direct and diffuse irradiance must have one length")
        if self.wavelength_nm.ndim != 1 or np.any(np.diff(self.wavelength_nm) <= 0):
            raise ValueError("wavelengths of the irradiance must be strictly ascending")
        if not all(np.all(np.isfinite(part) & (part >= 0)) for part in (self.direct, self.diffuse)):
            raise ValueError("irradiance must be finite and not negative")
        _require_zenith(self.sun_zenith_deg)

    @property
    def total(self) -> Spectrum:
        """I_dir + I_dif [W m-2 um-1]."""
        return self.direct + self.diffuse

    @property
    def direct_ratio(self) -> Spectrum:
        """a(λ) = I_dir / cosΘ0 / (I_dir + I_dif) [1]: a surface facing the sun, relative to flat ground.

        With z the shadow fraction times the cosine of the incidence angle and g(z) the share of the sky
        seen, apparent reflectance is (z·a + g(z)·b) times true reflectance.
        """
        cos_zenith = float(np.cos(np.radians(self.sun_zenith_deg)))
        return self._share(self.direct, where_dark=1.0) / cos_zenith

    @property
    def diffuse_ratio(self) -> Spectrum:
        """b(λ) = I_dif / (I_dir + I_dif) [1]."""
        return self._share(self.diffuse, where_dark=0.0)

    def at(self, bands: Bands) -> SpectralIrradiance:
        """Averages over Gaussian bands; the table must reach over every good band."""
        half = bands.fwhm_nm / 2
        missing = bands.good & (
            (bands.wavelength_nm + half < self.wavelength_nm[0])
            | (bands.wavelength_nm - half > self.wavelength_nm[-1])
        )
        if missing.any():
            lost = bands.wavelength_nm[missing]
            raise BandCoverageError(((float(lost.min()), float(lost.max())),))
        weights = gaussian_average_matrix(self.wavelength_nm, bands.wavelength_nm, bands.fwhm_nm)
        return SpectralIrradiance(
            bands.wavelength_nm, self.direct @ weights, self.diffuse @ weights, self.sun_zenith_deg
        )

    def _share(self, part: Spectrum, where_dark: float) -> Spectrum:
        total = self.total
        share = np.full_like(total, where_dark)
        return np.divide(part, total, out=share, where=total > 0)


def clear_sky_irradiance(
    bands: Bands,
    sun_zenith_deg: float,
    *,
    aerosol_optical_depth: float = AEROSOL_OPTICAL_DEPTH,
    water_vapour_cm: float = 1.0,
    ground_albedo: float = 0.3,
    ozone_cm: float = 0.3,
    pressure_pa: float = STANDARD_PRESSURE_PA,
    day_of_year: int = 172,
) -> SpectralIrradiance:
    """Clear-sky irradiance on flat ground, averaged over `bands`, by SPECTRL2 (Bird and Riordan 1984) [1].

    Aerosol optical depth is that at 500 nm [1]; water vapour and ozone are vertical columns [cm]
    (atm-cm for ozone). SPECTRL2 has 122 wavelengths from 300 to 4000 nm: right for land cover, far too
    coarse to resolve gas absorption.

    References
    ----------
    .. [1] R. Bird, C. Riordan, NREL TR-215-2436 (1984), doi:10.2172/5986936.
    """
    spectra = _spectrl2(
        sun_zenith_deg,
        ground_albedo=ground_albedo,
        surface_pressure=pressure_pa,
        precipitable_water=water_vapour_cm,
        ozone=ozone_cm,
        aerosol_turbidity_500nm=aerosol_optical_depth,
        dayofyear=day_of_year,
    )
    table = SpectralIrradiance(
        spectra["wavelength"],
        np.ravel(spectra["poa_direct"]) * NM_PER_UM,
        np.ravel(spectra["dhi"]) * NM_PER_UM,
        sun_zenith_deg,
    )
    return table.at(bands)


def clear_sky_transmittance(
    bands: Bands,
    zenith_deg: float,
    *,
    aerosol_optical_depth: float = 0.0,
    water_vapour_cm: float = 1.0,
    ozone_cm: float = 0.3,
    pressure_pa: float = STANDARD_PRESSURE_PA,
) -> Spectrum:
    """Direct transmittance of the whole atmosphere along a zenith angle [1], (bands,), by SPECTRL2.

    Gases and molecular scattering only, unless an aerosol optical depth at 500 nm is given.
    """
    spectra = _spectrl2(
        zenith_deg,
        ground_albedo=0.0,
        surface_pressure=pressure_pa,
        precipitable_water=water_vapour_cm,
        ozone=ozone_cm,
        aerosol_turbidity_500nm=aerosol_optical_depth,
        dayofyear=1,
    )
    transmittance = np.ravel(spectra["dni"]) / np.ravel(spectra["dni_extra"])
    weights = gaussian_average_matrix(spectra["wavelength"], bands.wavelength_nm, bands.fwhm_nm)
    return np.asarray(transmittance @ weights)


def _spectrl2(zenith_deg: float, **atmosphere: float) -> dict[str, Spectrum]:
    _require_zenith(zenith_deg)
    airmass = float(pvlib.atmosphere.get_relative_airmass(zenith_deg, model="kastenyoung1989"))
    spectra: dict[str, Spectrum] = pvlib.spectrum.spectrl2(
        apparent_zenith=zenith_deg,
        aoi=zenith_deg,
        surface_tilt=0.0,
        relative_airmass=airmass,
        **atmosphere,
    )
    return spectra


def sun_position(time: datetime, longitude_deg: float, latitude_deg: float) -> tuple[float, float]:
    """Solar zenith and azimuth [degree], azimuth clockwise from north; a time without zone is UTC."""
    position = pvlib.solarposition.get_solarposition(time, latitude_deg, longitude_deg)
    return float(position["zenith"].iloc[0]), float(position["azimuth"].iloc[0])


def _require_zenith(sun_zenith_deg: float) -> None:
    if not 0.0 <= sun_zenith_deg < 90.0:
        raise ValueError(f"sun zenith must be from 0 to below 90 degrees, got {sun_zenith_deg:g}")
