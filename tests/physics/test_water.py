"""Water and wet ground beside published numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3vae.physics.water import water_absorption, water_reflectance, wet_reflectance


def _ocean_colour_4(reflectance: np.ndarray) -> float:
    """Chlorophyll [mg m-3] by NASA's OC4 (O'Reilly et al. 1998, coefficients of version 6).

    `reflectance` is that at 443, 490, 510 and 555 nm.
    """
    ratio = np.log10(reflectance[:3].max() / reflectance[3])
    return float(10 ** np.polyval([-0.5683, -1.2259, 2.7218, -2.9940, 0.3272], ratio))


@pytest.mark.parametrize("chlorophyll", [0.1, 0.3, 1.0, 3.0, 10.0])
def test_an_empirical_algorithm_finds_the_chlorophyll_of_the_model(chlorophyll):
    nm = np.array([443.0, 490.0, 510.0, 555.0])
    seen = water_reflectance(nm, chlorophyll=chlorophyll, sediment=0.0, dissolved=0.02 * chlorophyll**0.6)
    assert chlorophyll / 2.5 < _ocean_colour_4(seen) < 2.5 * chlorophyll


def test_absorption_agrees_with_a_third_table():
    """Hale and Querry (1973): imaginary refractive index, 4πk/λ."""
    nm = np.array([850.0, 1000.0, 1200.0, 1600.0, 2000.0, 2200.0])
    index = np.array([2.93e-7, 2.89e-6, 9.89e-6, 8.55e-5, 1.10e-3, 2.89e-4])
    np.testing.assert_allclose(water_absorption(nm), 4e9 * np.pi * index / nm, rtol=0.25)


def test_sediment_brightens_red_and_not_the_short_wave_infrared():
    nm = np.array([670.0, 1650.0])
    clear, muddy = (water_reflectance(nm, sediment=sediment) for sediment in (1.0, 100.0))
    assert muddy[0] > 0.1 > clear[0]
    assert muddy[1] < 0.001


@pytest.mark.parametrize("dry", [0.2, 0.3, 0.4, 0.5])
def test_wet_ground_is_as_dark_as_angstrom_says(dry):
    """Ångström (1925): ρ / (n²(1 − ρ) + ρ), without what the surface itself reflects."""
    wet = wet_reflectance(np.array([500.0]), np.array([dry]), 0.1)
    assert wet[0] == pytest.approx(dry / (1.33**2 * (1 - dry) + dry), abs=0.02)


@given(dry=st.floats(0.02, 0.9), film=st.floats(0.0, 5.0), share=st.floats(0.0, 1.0), nm=st.floats(400, 2450))
def test_water_never_brightens_ground(dry, film, share, nm):
    wet = wet_reflectance(np.array([nm]), np.array([dry]), film, share)
    assert 0 <= wet[0] <= dry + 1e-12
