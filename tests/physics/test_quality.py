"""Quality classes on made-up spectra; the sun against the irradiances used for Landsat."""

from __future__ import annotations

import numpy as np
import pytest

from p3vae.physics.quality import Quality, quality_classes, top_of_atmosphere_reflectance

WAVELENGTH_NM = np.arange(410.0, 2450.0, 10.0)


def sent_by_sun(wavelength_nm):
    """Irradiance [W m-2 um-1] that makes a white surface white."""
    return np.pi / top_of_atmosphere_reflectance(np.ones_like(wavelength_nm), wavelength_nm, 0.0)


def sunlight(reflectance, zenith_deg=30.0):
    """Radiance [W m-2 sr-1 um-1] of sunlit ground."""
    return reflectance * sent_by_sun(WAVELENGTH_NM) * np.cos(np.radians(zenith_deg)) / np.pi


def flame():
    """Radiance [W m-2 sr-1 um-1] of a pixel of which two thousandths burn at 1800 K, by Planck's law."""
    metres = WAVELENGTH_NM * 1e-9
    return 2e-3 * 1.191042972e-22 / metres**5 / np.expm1(1.438776877e-2 / (metres * 1800.0))


@pytest.mark.parametrize(
    ("low_nm", "high_nm", "published"), [(630, 690, 1533.0), (1550, 1750, 230.8), (2080, 2350, 84.9)]
)
def test_the_sun_is_as_bright_as_landsat_sees_it(low_nm, high_nm, published):
    """Solar irradiance of ETM+ bands 3, 5 and 7 [W m-2 um-1] (Chander et al. 2009)."""
    assert sent_by_sun(np.arange(low_nm, high_nm + 1.0)).mean() == pytest.approx(published, rel=0.06)


def test_reflectance_of_sunlit_ground_comes_back_at_any_sun():
    for zenith in (0.0, 30.0, 70.0):
        found = top_of_atmosphere_reflectance(sunlight(0.3, zenith), WAVELENGTH_NM, zenith)
        np.testing.assert_allclose(found, 0.3, rtol=2e-3)


def spectra():
    bright_visible = np.where(WAVELENGTH_NM < 1000, 0.6, 0.1)  # snow
    lake = np.where(WAVELENGTH_NM < 700, 0.06, 0.005)
    soil = 0.1 + 0.25 * (WAVELENGTH_NM - 400) / 2000
    return {
        "soil": (sunlight(soil), Quality.CLEAR),
        "snow": (sunlight(bright_visible), Quality.CLEAR),
        "cloud": (sunlight(np.full_like(WAVELENGTH_NM, 0.6)), Quality.CLOUD),
        "lake": (sunlight(lake), Quality.WATER),
        "flare over soil": (sunlight(soil) + flame(), Quality.FLARE),
        "flare over water": (sunlight(lake) + flame(), Quality.FLARE),
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
