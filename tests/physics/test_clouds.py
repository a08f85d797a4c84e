"""Clouds against Mie theory and limits of radiative transfer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import spherical_jn, spherical_yn

from p3vae.physics.clouds import cloud_over, co_albedo
from p3vae.physics.snow import snow_albedo
from p3vae.physics.water import water_absorption

NM = np.arange(420.0, 2440.0, 20.0)


def mie_albedo(size: float, index: complex) -> float:
    """Single-scattering albedo of a sphere of a size parameter: Bohren and Huffman 1983, 4.61, 4.62, 4.88."""
    last = int(size + 4 * size ** (1 / 3) + 2)
    inside = size * index
    ratio = np.zeros(int(abs(inside)) + last + 16, complex)  # Dₙ, downwards
    for n in range(len(ratio) - 1, 0, -1):
        ratio[n - 1] = n / inside - 1 / (ratio[n] + n / inside)
    order = np.arange(1, last + 1)
    j, y = spherical_jn(np.arange(last + 1), size), spherical_yn(np.arange(last + 1), size)
    psi, xi = size * j, size * (j + 1j * y)
    d = ratio[1 : last + 1]
    a, b = (
        (f * psi[1:] - psi[:-1]) / (f * xi[1:] - xi[:-1])
        for f in (d / index + order / size, d * index + order / size)
    )
    weight = 2 * order + 1
    scattered = (weight * (abs(a) ** 2 + abs(b) ** 2)).sum()
    return float(scattered / (weight * (a + b).real).sum())


@pytest.mark.parametrize(("nm", "refractive"), [(1640.0, 1.317), (2130.0, 1.295)])
@pytest.mark.parametrize("radius_um", [6.0, 10.0, 20.0])
def test_droplets_absorb_as_mie_theory_says(nm, refractive, radius_um):
    """Real refractive index of water: Hale and Querry 1973."""
    imaginary = water_absorption(np.array([nm]))[0] * nm * 1e-9 / (4 * np.pi)
    radii = radius_um * np.linspace(0.95, 1.05, 15)  # ripples of single sizes average out
    exact = np.mean([1 - mie_albedo(2e3 * np.pi * r / nm, refractive + 1j * imaginary) for r in radii])
    assert co_albedo(np.array([nm]), radius_um)[0] == pytest.approx(exact, rel=0.3)


def test_a_cloud_without_absorption_loses_no_light():
    """Over white ground all light comes back, whatever lies between (at 450 nm, where water is clear)."""
    for depth in (0.3, 3.0, 30.0):
        assert cloud_over(np.array([450.0]), np.ones(1), depth)[0] == pytest.approx(1.0, abs=2e-3)


def test_no_cloud_shows_the_ground_and_a_thick_one_hides_it():
    ground = np.linspace(0.05, 0.6, len(NM))
    np.testing.assert_allclose(cloud_over(NM, ground, 0.0), ground, atol=1e-12)
    dark, bright = (cloud_over(NM, np.full(len(NM), value), 60.0) for value in (0.02, 0.6))
    assert np.abs(dark - bright).max() < 0.12
    assert dark[NM < 700].min() > 0.8


def test_ice_is_darker_than_water_at_1600_nm_and_both_are_brighter_than_snow():
    nm = np.array([1600.0])
    water, ice = cloud_over(nm, 0 * nm, 20.0, 10.0), cloud_over(nm, 0 * nm, 20.0, 30.0, "ice")
    assert snow_albedo(nm, 30.0)[0] < ice[0] < water[0]


@given(
    depth=st.floats(0, 100),
    radius=st.floats(3, 80),
    ground=st.floats(0, 1),
    phase=st.sampled_from(["water", "ice"]),
)
def test_reflectance_lies_between_zero_and_one_and_grows_with_the_ground(depth, radius, ground, phase):
    found = cloud_over(NM, np.full(len(NM), ground), depth, radius, phase)
    darker = cloud_over(NM, np.full(len(NM), 0.9 * ground), depth, radius, phase)
    assert (found >= -1e-9).all() and (found <= 1 + 1e-9).all()
    assert (darker <= found + 1e-9).all()
