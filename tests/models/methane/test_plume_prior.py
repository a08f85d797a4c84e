"""The prior of plumes: against brute-force integration, and on maps of known noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from p3vae.models.methane.plumes.prior import (
    HALO_PIXELS,
    PlumePrior,
    _log_bayes_factor,
    error_correlation,
    neighbourhood_mean,
)


def learned(ppm_m: np.ndarray, std: np.ndarray) -> PlumePrior:
    row, col = np.indices(ppm_m.shape).reshape(2, -1)
    return PlumePrior.learn(ppm_m.ravel(), std.ravel(), std.ravel() < 4000.0, row, col)


def noisy(seed: int, shape: tuple[int, int] = (120, 130)) -> tuple[np.ndarray, np.ndarray]:
    """A map without plume whose bright ground has a std of 500 and whose dark ground one of 8000 ppm m."""
    rng = np.random.default_rng(seed)
    std = np.where(rng.random(shape) < 0.03, 8000.0, 500.0)
    return std * rng.standard_normal(shape), std


@pytest.mark.parametrize(("mean", "std"), [(0.0, 500.0), (1500.0, 400.0), (-900.0, 300.0), (9000.0, 2000.0)])
def test_bayes_factor_is_that_of_brute_force(mean, std):
    spike, slab = 600.0, 5000.0

    def evidence(prior):
        return integrate.quad(
            lambda z: prior(z) * stats.norm.pdf(mean, z, std), -40_000, 40_000, points=[0, mean], limit=400
        )[0]

    without = evidence(lambda z: stats.norm.pdf(z, 0, spike))
    within = evidence(lambda z: 2 * stats.norm.pdf(z, 0, slab) * (z > 0))
    found = _log_bayes_factor(np.float64(mean), np.float64(std), spike, slab)
    assert found == pytest.approx(np.log(within / without), abs=2e-4)


def test_dark_ground_falls_to_zero_and_says_how_little_is_known():
    ppm_m, std = noisy(0)
    dark = std > 1000.0
    ppm_m[dark] += 14_000.0  # as estimates do that lean to the middle of a flat prior
    found, spread, sensitivity = learned(ppm_m, std).apply(ppm_m, std, ~dark)
    assert abs(found[dark].mean()) < 300.0
    assert found.std() < 1.1 * found[~dark].std()
    assert sensitivity[dark].max() < 0.1 < sensitivity[~dark].min()
    assert (np.abs(found) < 1.96 * spread).mean() > 0.95


def test_a_plume_is_kept_and_dividing_by_the_sensitivity_gives_the_estimate_back():
    ppm_m, std = noisy(1)
    plume = np.zeros_like(ppm_m)
    plume[40:60, 50:80] = 4000.0
    seen = ppm_m + plume
    prior = learned(seen, std)
    bright = std < 1000.0
    found, _, sensitivity = prior.apply(seen, std, bright)
    inside = (plume > 0) & bright
    assert found[inside].mean() == pytest.approx(4000.0, rel=0.05)
    off = (plume == 0) & bright
    assert found[off].std() < 0.8 * seen[off].std()
    np.testing.assert_allclose((found / sensitivity)[bright], seen[bright], atol=150.0)


def test_neighbours_raise_the_prior():
    """The same value, alone and amid a plume too faint for single pixels."""
    ppm_m, std = noisy(2)
    std[:] = 500.0
    ppm_m[30, 30] = ppm_m[90, 90] = 1200.0
    ppm_m[85:96, 80:101] += np.where(np.arange(21) == 10, 0.0, 1200.0)
    _, _, sensitivity = learned(ppm_m, std).apply(ppm_m, std, np.ones_like(std, bool))
    assert sensitivity[90, 90] > sensitivity[30, 30] + 0.1


def test_the_std_is_measured_on_the_scene():
    """A method that says 500 where its estimates scatter by 1000 about 300, without plume."""
    rng = np.random.default_rng(3)
    std = 500.0 * np.exp(0.1 * rng.standard_normal((150, 150)))
    ppm_m = 300.0 + 2.0 * std * rng.standard_normal(std.shape)
    found, spread, _ = learned(ppm_m, std).apply(ppm_m, std, np.ones_like(std, bool))
    assert abs(found.mean()) < 40.0
    assert 0.94 < (np.abs(found) < 1.96 * spread).mean() < 0.995


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(20, 90), st.integers(20, 90))
def test_tiles_with_a_halo_give_the_whole_map(seed, row, col):
    ppm_m, std = noisy(seed, (100, 100))
    prior, clear = learned(ppm_m, std), std < 1000.0
    whole = np.stack(prior.apply(ppm_m, std, clear))
    rows = slice(max(row - 20 - HALO_PIXELS, 0), row + HALO_PIXELS)
    cols = slice(max(col - 20 - HALO_PIXELS, 0), col + HALO_PIXELS)
    part = np.stack(prior.apply(ppm_m[rows, cols], std[rows, cols], clear[rows, cols]))
    inner = np.s_[:, row - 20 - rows.start : row - rows.start, col - 20 - cols.start : col - cols.start]
    np.testing.assert_allclose(part[inner], whole[:, row - 20 : row, col - 20 : col], rtol=1e-6)


def test_the_mean_around_a_pixel_scatters_as_its_std_says():
    rng = np.random.default_rng(5)
    std = 300.0 * np.exp(0.5 * rng.standard_normal((200, 200)))
    known = rng.random(std.shape) < 0.8
    around, error = neighbourhood_mean(std * rng.standard_normal(std.shape), std, known, 0.0)
    assert (around / error)[10:-10, 10:-10].std() == pytest.approx(1.0, abs=0.06)


def test_correlation_of_errors_is_found_from_scattered_pixels():
    rng = np.random.default_rng(6)
    shared = np.kron(rng.standard_normal((100, 100)), np.ones((4, 4)))
    errors = np.sqrt(0.3) * shared + np.sqrt(0.7) * rng.standard_normal(shared.shape)
    row, col = np.nonzero(rng.random(errors.shape) < 0.2)
    assert error_correlation(errors[row, col], row, col) == pytest.approx(0.3, abs=0.04)
    alone = rng.standard_normal(len(row))
    assert error_correlation(alone, row, col) < 0.03


def test_ground_that_was_not_learned_from_has_an_offset_and_a_scale_of_its_own():
    """Estimates over water that lean by 2000 ppm m and scatter twice as much as they say."""
    rng = np.random.default_rng(8)
    std = 500.0 * np.exp(0.05 * rng.standard_normal((100, 100)))
    water = np.zeros(std.shape, bool)
    water[:, :30] = True
    ppm_m = np.where(water, 2000.0 + 2.0 * std * rng.standard_normal(std.shape), 0.0)
    ppm_m += np.where(water, 0.0, std * rng.standard_normal(std.shape))
    row, col = np.indices(std.shape).reshape(2, -1)
    prior = PlumePrior.learn(ppm_m.ravel(), std.ravel(), ~water.ravel(), row, col)
    for ground, mean, scale in ((prior.other, 2000.0, 2.0), (prior.clear, 0.0, 1.0)):
        calibrated, spread = ground(np.array([2500.0]), np.array([500.0]))
        assert calibrated == pytest.approx(2500.0 - mean, abs=100.0)
        assert spread == pytest.approx(500.0 * scale, rel=0.15)
    found, _, _ = prior.apply(ppm_m, std, ~water)
    assert abs(found[water].mean()) < 50.0
    few = np.zeros(water.size, bool)
    few[:40] = True
    alike = PlumePrior.learn(ppm_m.ravel(), std.ravel(), ~few, row, col)
    assert alike.other is alike.clear


def test_the_usual_std_is_that_of_clear_pixels_without_plume():
    ppm_m, std = noisy(4)
    std[:] = 500.0
    ppm_m = 500.0 * np.random.default_rng(4).standard_normal(std.shape)
    prior = learned(ppm_m, std)
    _, spread, sensitivity = prior.apply(ppm_m, std, np.ones_like(std, bool))
    assert prior.typical_std == pytest.approx(np.median(spread), rel=0.02)
    assert np.median(sensitivity) == pytest.approx(1.5**2 / (1.0 + 1.5**2), rel=0.02)


def test_weight_and_slab_of_a_scene_are_those_its_plumes_were_drawn_with():
    """A tenth of the pixels under plumes whose strength is half a Gaussian of 6000 ppm m."""
    rng = np.random.default_rng(9)
    std = np.full((200, 200), 300.0)
    plume = rng.random(std.shape) < 0.1
    truth = np.where(plume, np.abs(6000.0 * rng.standard_normal(std.shape)), 0.0)
    prior = learned(truth + std * rng.standard_normal(std.shape), std)
    assert prior.weight == pytest.approx(0.1, rel=0.15)
    assert prior.slab_ppm_m == pytest.approx(6000.0, rel=0.1)


@pytest.mark.parametrize("correlation", [0.0, 0.4])
def test_the_std_of_a_mean_grows_with_errors_that_are_shared(correlation):
    """Errors that all pixels share by the square root of the correlation: the mean keeps that part."""
    rng = np.random.default_rng(11)
    std = np.full((40, 40), 200.0)
    sums = []
    for _ in range(400):
        errors = np.sqrt(correlation) * rng.standard_normal() + np.sqrt(
            1 - correlation
        ) * rng.standard_normal(std.shape)
        around, error = neighbourhood_mean(std * errors, std, np.ones_like(std, bool), correlation)
        sums.append(around[20, 20])
    assert np.std(sums) == pytest.approx(error[20, 20], rel=0.1)
