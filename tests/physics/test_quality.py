"""Quality classes on made-up spectra; the blackbody sun against laws it must obey."""

from __future__ import annotations

import numpy as np
import pytest

from p3vae.physics.quality import (
    SUN_KELVIN,
    Quality,
    planck_radiance,
    quality_classes,
    top_of_atmosphere_reflectance,
)

WAVELENGTH_NM = np.arange(410.0, 2450.0, 10.0)
SUN_RADIUS_KM, ASTRONOMICAL_UNIT_KM = 695_700.0, 149_597_870.7


def sunlight(reflectance, zenith_deg=30.0):
    """Radiance [W m-2 sr-1 um-1] of ground lit by a 5772 K sun of the right size."""
    solid_angle = np.pi * (SUN_RADIUS_KM / ASTRONOMICAL_UNIT_KM) ** 2
    sun = planck_radiance(WAVELENGTH_NM, 5772.0) * solid_angle
    return reflectance * sun * np.cos(np.radians(zenith_deg)) / np.pi


@pytest.mark.parametrize("kelvin", [300.0, 1800.0, 5772.0])
def test_planck_peaks_where_wien_says_and_sums_to_stefan_boltzmann(kelvin):
    wien_nm = 2.897771955e6 / kelvin
    wavelength = np.geomspace(0.05 * wien_nm, 200 * wien_nm, 40_001)
    radiance = planck_radiance(wavelength, kelvin)
    assert wavelength[radiance.argmax()] == pytest.approx(wien_nm, rel=1e-3)
    total = np.trapezoid(radiance, wavelength * 1e-3)
    assert total == pytest.approx(5.670374419e-8 * kelvin**4 / np.pi, rel=1e-3)


def test_the_sun_sends_the_solar_constant():
    """The irradiance that makes a white surface white, summed over the spectrum, is 1361 W m-2."""
    wavelength = np.geomspace(100.0, 1e6, 40_001)
    sent = np.pi / top_of_atmosphere_reflectance(np.ones_like(wavelength), wavelength, 0.0)
    assert np.trapezoid(sent, wavelength * 1e-3) == pytest.approx(1361.0, rel=2e-3)
    assert SUN_KELVIN == 5772.0


def test_reflectance_of_sunlit_ground_comes_back_at_any_sun():
    for zenith in (0.0, 30.0, 70.0):
        found = top_of_atmosphere_reflectance(sunlight(0.3, zenith), WAVELENGTH_NM, zenith)
        np.testing.assert_allclose(found, 0.3, rtol=2e-3)


def spectra():
    bright_visible = np.where(WAVELENGTH_NM < 1000, 0.6, 0.1)  # snow
    lake = np.where(WAVELENGTH_NM < 700, 0.06, 0.005)
    soil = 0.1 + 0.25 * (WAVELENGTH_NM - 400) / 2000
    flame = planck_radiance(WAVELENGTH_NM, 1800.0) * 2e-3
    return {
        "soil": (sunlight(soil), Quality.CLEAR),
        "snow": (sunlight(bright_visible), Quality.CLEAR),
        "cloud": (sunlight(np.full_like(WAVELENGTH_NM, 0.6)), Quality.CLOUD),
        "lake": (sunlight(lake), Quality.WATER),
        "flare over soil": (sunlight(soil) + flame, Quality.FLARE),
        "flare over water": (sunlight(lake) + flame, Quality.FLARE),
    }


@pytest.mark.parametrize("name", list(spectra()))
def test_classes(name):
    radiance, expected = spectra()[name]
    assert quality_classes(radiance[None], WAVELENGTH_NM, 30.0).tolist() == [expected]


def test_without_visible_bands_nothing_is_called_cloud():
    swir = WAVELENGTH_NM > 1500
    radiance = np.stack([spectra()[name][0] for name in ("cloud", "lake", "flare over soil")])
    found = quality_classes(radiance[:, swir], WAVELENGTH_NM[swir], 30.0)
    assert found.tolist() == [Quality.CLEAR, Quality.WATER, Quality.FLARE]


def test_every_class_has_a_colour_of_its_own():
    assert len({quality.colour for quality in Quality}) == len(Quality)


def test_missing_bands_are_saturation_and_a_missing_pixel_is_nothing():
    soil = spectra()["soil"][0]
    some, none = np.stack([soil, soil])
    some[WAVELENGTH_NM > 2300] = np.nan
    none[:] = np.nan
    found = quality_classes(np.stack([soil, some, none]), WAVELENGTH_NM, 30.0)
    assert found.tolist() == [Quality.CLEAR, Quality.SATURATED, 0]
