"""f_E against numbers worked out by hand, and its inverse."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.irradiance import (
    apparent_reflectance,
    irradiance_ratio,
    relight_spectra,
    relit_reflectance,
    sky_from_sun,
)


@pytest.fixture
def irradiance() -> SpectralIrradiance:
    return SpectralIrradiance(
        np.array([500.0, 1600.0]), np.array([900.0, 180.0]), np.array([300.0, 20.0]), 60.0
    )


def test_ratios_by_hand(irradiance):
    # 900/0.5/1200 = 1.5, 180/0.5/200 = 1.8; 300/1200 = 0.25, 20/200 = 0.1
    ratio = irradiance_ratio(
        np.array([0.4]), np.array([0.8]), irradiance.direct_ratio, irradiance.diffuse_ratio
    )
    np.testing.assert_allclose(ratio, [[0.4 * 1.5 + 0.8 * 0.25, 0.4 * 1.8 + 0.8 * 0.1]])


def test_flat_sunlit_ground_is_unchanged(irradiance):
    rho = np.array([[0.2, 0.5]])
    seen = apparent_reflectance(
        rho, np.array([0.5]), np.array([1.0]), irradiance.direct_ratio, irradiance.diffuse_ratio
    )
    np.testing.assert_allclose(seen, rho)


def test_published_skylight_guess():
    np.testing.assert_allclose(sky_from_sun(np.array([0.0, 0.5])), [0.2, 0.7])
    np.testing.assert_allclose(sky_from_sun(np.array([0.5]), offset=0.6), [1.1])


@given(z=st.floats(0.0, 1.0), w=st.floats(0.1, 1.1), rho=st.floats(0.01, 0.9))
def test_relighting_undoes_the_layer(z, w, rho):
    direct, diffuse = np.array([0.9, 1.1]), np.array([0.4, 0.25])
    spectra = np.full((1, 2), rho)
    lit = (np.array([z]), np.array([w]), direct, diffuse)
    np.testing.assert_allclose(
        relit_reflectance(apparent_reflectance(spectra, *lit), *lit), spectra, rtol=1e-9
    )


def test_darkness_is_not_divided_out(irradiance):
    relit = relight_spectra(np.full((1, 2), 0.01, np.float32), np.zeros(1), np.zeros(1), irradiance)
    assert np.isfinite(relit).all()
    np.testing.assert_allclose(relit, 0.01 / 0.02, rtol=1e-5)


def test_tensors_and_gradients():
    z = torch.tensor([0.3], requires_grad=True)
    seen = apparent_reflectance(
        torch.full((1, 2), 0.5), z, torch.ones(1), torch.tensor([1.0, 2.0]), torch.ones(2)
    )
    seen.sum().backward()
    assert z.grad is not None
    np.testing.assert_allclose(z.grad, [0.5 * 3.0])
