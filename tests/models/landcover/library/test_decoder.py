"""The prior of light: draws and another sun."""

from __future__ import annotations

import numpy as np
import pytest

from p3vae.models.landcover.library.decoder import LightPrior


def test_draws_have_the_moments_of_the_mixture_and_no_negative_light():
    prior = LightPrior(
        np.array([[0.8, 1.0], [0.0, 0.5]]), np.array([[0.05, 0.1], [0.2, 0.05]]), np.array([0.7, 0.3])
    )
    z, w = prior.sample(200_000, np.random.default_rng(0)).T
    assert z.min() == 0.0 and w.min() > 0.0
    shade = z[z < 0.55]
    assert len(shade) / len(z) == pytest.approx(0.3, abs=0.005)
    assert (shade == 0.0).mean() == pytest.approx(0.5, abs=0.01)  # half of the draws about zero are below it
    positive = shade[shade > 0.0]
    assert positive.mean() == pytest.approx(0.2 * np.sqrt(2 / np.pi), rel=0.02)  # of half a Gaussian
    lit = z > 0.6
    assert z[lit].mean() == pytest.approx(0.8, abs=0.002) and z[lit].std() == pytest.approx(0.05, rel=0.03)
    assert w[lit].mean() == pytest.approx(1.0, abs=0.002) and w[lit].std() == pytest.approx(0.1, rel=0.03)


def test_another_sun_moves_the_direct_light_of_flat_ground_alone():
    prior = LightPrior.broad(0.9)
    moved = prior.under(0.4)
    np.testing.assert_array_equal(moved.mean[0], [0.4, 1.0])
    np.testing.assert_array_equal(prior.mean[0], [0.9, 1.0])
    np.testing.assert_array_equal(moved.mean[1:], prior.mean[1:])
    np.testing.assert_array_equal(moved.std, prior.std)
    np.testing.assert_array_equal(moved.weight, prior.weight)
    assert moved.adjacency_std == prior.adjacency_std


def test_flat_ground_alone_has_the_light_of_the_sun_and_the_whole_sky():
    prior = LightPrior.flat(0.7, std=0.02)
    z, w = prior.sample(50_000, np.random.default_rng(1)).T
    assert (z.mean(), w.mean()) == pytest.approx((0.7, 1.0), abs=1e-3)
    assert (z.std(), w.std()) == pytest.approx((0.02, 0.02), rel=0.02)
