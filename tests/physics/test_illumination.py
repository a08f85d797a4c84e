"""Irradiance and sun position against pvlib, energy balance and astronomy."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pvlib
import pytest

from p3vae.physics.illumination import (
    SpectralIrradiance,
    clear_sky_irradiance,
    clear_sky_transmittance,
    sun_position,
)
from p3vae.physics.spectral_response import BandCoverageError, Bands

BANDS = Bands.from_centres(np.arange(400.0, 2451.0, 10.0))


def test_clear_sky_equals_spectrl2_at_its_own_wavelengths():
    reference = pvlib.spectrum.spectrl2(
        apparent_zenith=30.0,
        aoi=30.0,
        surface_tilt=0.0,
        ground_albedo=0.3,
        surface_pressure=101325.0,
        relative_airmass=float(pvlib.atmosphere.get_relative_airmass(30.0)),
        precipitable_water=1.0,
        ozone=0.3,
        aerosol_turbidity_500nm=0.35,
        dayofyear=172,
    )
    chosen = np.isin(reference["wavelength"], [550.0, 1240.0, 1558.0, 2198.0])
    narrow = Bands.from_centres(reference["wavelength"][chosen], np.full(4, 1e-3))
    irradiance = clear_sky_irradiance(narrow, 30.0)
    direct = reference["dni"][chosen, 0] * 1000 * np.cos(np.radians(30.0))
    np.testing.assert_allclose(irradiance.direct, direct, rtol=1e-3)
    np.testing.assert_allclose(irradiance.diffuse, reference["dhi"][chosen, 0] * 1000, rtol=1e-3)


def test_broadband_sum_is_that_of_a_clear_day():
    """Global irradiance at 30 degrees zenith is 850 to 1050 W m-2; 400-2450 nm hold over 85 % of it."""
    total = np.trapezoid(clear_sky_irradiance(BANDS, 30.0).total, BANDS.wavelength_nm / 1000)
    assert 720 < total < 1050


def test_ratios_make_flat_ground_one():
    irradiance = clear_sky_irradiance(BANDS, 48.0)
    flat = np.cos(np.radians(48.0)) * irradiance.direct_ratio + irradiance.diffuse_ratio
    np.testing.assert_allclose(flat, 1.0, rtol=1e-12)


def test_more_aerosol_moves_light_from_direct_to_diffuse():
    clear, hazy = (clear_sky_irradiance(BANDS, 30.0, aerosol_optical_depth=depth) for depth in (0.1, 0.5))
    assert np.all(hazy.direct < clear.direct)
    assert np.all(hazy.diffuse_ratio > clear.diffuse_ratio)


def test_sky_is_blue():
    ratio = clear_sky_irradiance(BANDS, 30.0).diffuse_ratio
    assert ratio[0] > 0.4
    assert ratio[-1] < 0.1


def test_water_vapour_darkens_only_its_bands():
    dry, wet = (clear_sky_transmittance(BANDS, 0.0, water_vapour_cm=water) for water in (0.5, 3.0))
    loss = 1 - wet / dry
    assert loss[np.argmin(np.abs(BANDS.wavelength_nm - 1130))] > 0.15
    assert loss[np.argmin(np.abs(BANDS.wavelength_nm - 1050))] < 0.02


def test_an_oblique_ray_crosses_as_many_atmospheres_as_its_path_is_long():
    """Lambert and Beer: at 60 degrees twice as many, in windows where nothing saturates."""
    windows = Bands.from_centres(np.array([550.0, 780.0, 870.0, 1040.0, 1240.0, 1640.0]), np.full(6, 10.0))
    for depth in (0.0, 0.3):
        down, oblique = (
            clear_sky_transmittance(windows, zenith, aerosol_optical_depth=depth) for zenith in (0.0, 60.0)
        )
        np.testing.assert_allclose(oblique, down**2, rtol=0.02)


def test_molecules_scatter_as_rayleigh_found():
    """Vertical optical depths of a pure atmosphere at 1013 hPa (Bodhaine et al. 1999): 0.0973 at 550 nm."""
    clear = clear_sky_transmittance(
        Bands.from_centres(np.array([450.0, 550.0]), np.full(2, 5.0)), 0.0, ozone_cm=0.0, water_vapour_cm=0.0
    )
    np.testing.assert_allclose(-np.log(clear), [0.2209, 0.0973], rtol=0.03)


def test_band_average_of_a_straight_table_is_its_value_at_the_centre():
    table = SpectralIrradiance(
        np.array([300.0, 3000.0]), np.array([300.0, 3000.0]), np.array([3.0, 30.0]), 20.0
    )
    averaged = table.at(BANDS)
    np.testing.assert_allclose(averaged.direct, BANDS.wavelength_nm, rtol=1e-9)
    np.testing.assert_allclose(averaged.diffuse, BANDS.wavelength_nm / 100, rtol=1e-9)


def test_a_table_that_ends_early_is_refused():
    table = SpectralIrradiance(np.array([400.0, 1000.0]), np.ones(2), np.ones(2), 20.0)
    with pytest.raises(BandCoverageError, match="1010-2450"):
        table.at(BANDS)


def test_dark_bands_have_finite_ratios():
    dark = SpectralIrradiance(np.array([500.0, 600.0]), np.zeros(2), np.zeros(2), 60.0)
    np.testing.assert_allclose(dark.direct_ratio, 2.0)
    np.testing.assert_allclose(dark.diffuse_ratio, 0.0)


def test_solstice_noon_at_the_tropic_has_the_sun_overhead():
    zenith, _ = sun_position(datetime(2024, 6, 20, 12, 2), 0.0, 23.437)
    assert zenith < 0.6


def test_equinox_noon_zenith_is_the_latitude_and_the_sun_stands_south():
    zenith, azimuth = sun_position(datetime(2024, 3, 20, 12, 7, tzinfo=UTC), 0.0, 43.6)
    assert zenith == pytest.approx(43.6, abs=0.3)
    assert azimuth == pytest.approx(180.0, abs=1.0)


def test_time_zones_are_honoured():
    utc = datetime(2024, 4, 2, 10, 30, tzinfo=UTC)
    paris = utc.astimezone(timezone(timedelta(hours=2)))
    assert sun_position(utc, 1.4, 43.6) == pytest.approx(sun_position(paris, 1.4, 43.6))
    assert sun_position(utc.replace(tzinfo=None), 1.4, 43.6) == pytest.approx(sun_position(utc, 1.4, 43.6))


@pytest.mark.parametrize("zenith", [-1.0, 90.0, np.nan])
def test_a_sun_below_the_horizon_is_refused(zenith):
    with pytest.raises(ValueError, match="sun zenith"):
        clear_sky_irradiance(BANDS, zenith)


@pytest.mark.parametrize("direct", [[-1.0, 1.0], [np.nan, 1.0], [1.0]])
def test_impossible_irradiance_is_refused(direct):
    with pytest.raises(ValueError, match="irradiance"):
        SpectralIrradiance(np.array([500.0, 600.0]), np.array(direct), np.ones(2), 30.0)
