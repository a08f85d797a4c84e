"""Baselines of p3VAE for methane, on backgrounds with known statistics."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from p3vae.models.methane.background.covariance import MIN_SHRINKAGE, shrunk_covariance
from p3vae.models.methane.baselines.matched_filter import MatchedFilter
from p3vae.models.methane.baselines.optimal_estimation import OptimalEstimation
from p3vae.models.methane.types import PlumeOptics
from p3vae.physics.methane import MethaneAbsorption, air_mass_factor
from p3vae.physics.spectral_response import Bands

BANDS = Bands.from_centres(np.arange(1900.0, 2451.0, 15.0), np.full(37, 12.0))


def optics(max_ppm_m: float = 2e4, centres: np.ndarray | None = None) -> PlumeOptics:
    curves = MethaneAbsorption.load().band_transmittance(BANDS, centres_nm=centres)
    return PlumeOptics(curves, air_mass_factor(30.0), torch.as_tensor(BANDS.wavelength_nm), max_ppm_m)


def ground(pixels: int, seed: int) -> torch.Tensor:
    """Smooth Gaussian background of rank three, varying brightness, and 0.2 % noise."""
    g = torch.Generator().manual_seed(seed)
    x = torch.linspace(-1, 1, len(BANDS), dtype=torch.float64)
    shapes = torch.stack([torch.ones_like(x), 0.2 * x, 0.1 * torch.sin(4 * x)])
    weights = torch.randn(pixels, 3, generator=g, dtype=torch.float64) * 0.1
    weights[:, 0] += 1.0
    clean = weights @ shapes * (8.0 - 2.0 * x)
    return clean + 0.01 * torch.randn(clean.shape, generator=g, dtype=torch.float64)


@pytest.mark.parametrize("variant", ["classic", "log"])
def test_filter_is_unbiased_without_plume_and_its_std_is_right(variant):
    found = MatchedFilter.fit(ground(4000, 0), optics(), variant=variant).invert(ground(4000, 1))
    assert abs(found.ppm_m.mean().item()) < 3 * found.std.mean().item() / np.sqrt(4000)
    assert found.ppm_m.std().item() == pytest.approx(found.std.mean().item(), rel=0.1)


def test_log_filter_recovers_a_weak_plume():
    plume = torch.full((2000,), 1000.0, dtype=torch.float64)
    seen = ground(2000, 1) * optics().transmittance(plume)
    found = MatchedFilter.fit(ground(4000, 0), optics(), variant="log").invert(seen)
    assert found.ppm_m.mean().item() == pytest.approx(1000.0, rel=0.05)


def test_sparse_filter_silences_the_background_and_keeps_the_plume():
    scene = ground(4000, 2)
    plume = torch.zeros(4000, dtype=torch.float64)
    plume[:100] = 4000.0
    scene = scene * optics().transmittance(plume)
    sparse = MatchedFilter.fit(scene, optics(), variant="mag1c").invert(scene).ppm_m
    classic = MatchedFilter.fit(scene, optics(), variant="classic").invert(scene).ppm_m
    assert (sparse >= 0).all()
    assert sparse[100:].std() < 0.7 * classic[100:].std()
    assert (sparse[:100] - 4000).abs().mean() < (classic[:100] - 4000).abs().mean()
    assert sparse[:100].mean().item() == pytest.approx(4000.0, rel=0.15)


def test_columns_have_statistics_of_their_own():
    columns = torch.arange(40).repeat_interleave(100)
    g = torch.Generator().manual_seed(5)
    stripes = 1.0 + 0.02 * torch.randn(40, len(BANDS), generator=g, dtype=torch.float64)
    scene = ground(4000, 3) * stripes[columns]
    per_column = MatchedFilter.fit(scene, optics(), detector_column=columns)
    together = MatchedFilter.fit(scene, optics())
    assert per_column.invert(scene, columns).ppm_m.std() < 0.5 * together.invert(scene).ppm_m.std()
    with pytest.raises(ValueError, match="detector column"):
        per_column.invert(scene)


def test_few_pixels_per_column_share_statistics():
    columns = torch.arange(40).repeat_interleave(20)
    found = MatchedFilter.fit(ground(800, 4), optics(), detector_column=columns)
    assert 1 < len(found.statistics) < 40


def test_columns_without_background_pixels_share_their_neighbours_statistics():
    centres = np.tile(BANDS.wavelength_nm, (40, 1))
    columns = torch.arange(30).repeat_interleave(100)
    found = MatchedFilter.fit(ground(3000, 4), optics(centres=centres), detector_column=columns)
    beyond = found.invert(ground(100, 5), torch.full((100,), 39))
    np.testing.assert_allclose(beyond.ppm_m, found.invert(ground(100, 5), torch.full((100,), 29)).ppm_m)


@pytest.mark.parametrize("variant", ["classic", "log", "mag1c"])
def test_a_stuck_band_is_not_listened_to(variant):
    def stuck(pixels: int, seed: int) -> torch.Tensor:
        scene = ground(pixels, seed)
        scene[:, 27] = 3.0
        return scene

    found = MatchedFilter.fit(stuck(4000, 0), optics(), variant=variant).invert(stuck(500, 1))
    healthy = MatchedFilter.fit(ground(4000, 0), optics(), variant=variant).invert(ground(500, 1))
    assert found.std.mean().item() == pytest.approx(healthy.std.mean().item(), rel=0.2)


def test_singular_covariance_is_shrunk_never_refused():
    base = ground(20, 0)
    doubled = torch.cat([base, base], 1)
    covariance, share = shrunk_covariance(doubled - doubled.mean(0))
    assert share >= MIN_SHRINKAGE
    assert torch.linalg.eigvalsh(covariance).min() > 0


def test_leave_one_out_likelihood_is_the_real_one():
    x = torch.randn(12, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    _, chosen = shrunk_covariance(x)

    def direct(share: float) -> float:
        cost = 0.0
        for i in range(len(x)):
            rest = torch.cat([x[:i], x[i + 1 :]])
            s = rest.T @ rest / len(rest)
            full = x.T @ x / len(x)
            c = (1 - share) * s + share * torch.diag(full.diagonal())
            cost += float(torch.logdet(c) + x[i] @ torch.linalg.solve(c, x[i]))
        return cost

    shares = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
    assert chosen == min(shares, key=direct)


def test_jacobian_of_optimal_estimation_by_finite_differences():
    method = OptimalEstimation.fit(ground(500, 0), optics(), prior_mean=5e3, prior_std=5e3)
    background = ground(3, 1)
    z = torch.tensor([10.0, 4e3, 1.5e4], dtype=torch.float64)
    _, jacobian = method.forward_model(background, z)
    above, _ = method.forward_model(background, z + 1.0)
    below, _ = method.forward_model(background, z - 1.0)
    assert jacobian.numpy() == pytest.approx(((above - below) / 2.0).numpy(), rel=1e-4, abs=1e-12)


def test_optimal_estimation_recovers_strong_plumes_with_an_honest_std():
    truth = torch.linspace(2e3, 1.8e4, 600, dtype=torch.float64)
    seen = ground(600, 1) * optics().transmittance(truth)
    found = OptimalEstimation.fit(ground(3000, 0), optics(), prior_mean=1e4, prior_std=6e3).invert(seen)
    z = (found.ppm_m - truth) / found.std
    assert 0.85 < (z.abs() < 1.96).double().mean().item() <= 1.0
    assert (found.ppm_m - truth).abs().mean() < 600
    assert ((found.sensitivity > 0) & (found.sensitivity < 1)).all()


def test_optimal_estimation_without_signal_returns_the_prior():
    method = OptimalEstimation.fit(ground(500, 0), optics(), prior_mean=7e3, prior_std=1e-3)
    found = method.invert(ground(10, 1))
    assert found.ppm_m.numpy() == pytest.approx(np.full(10, 7e3), rel=1e-6)


def test_brightness_of_the_ground_is_no_error_of_optimal_estimation():
    """Se is that of shapes: the same ground under any light has the same errors, and the same estimates."""
    bright = torch.exp(torch.randn(1500, 1, generator=torch.Generator().manual_seed(9), dtype=torch.float64))
    plain, lit = (
        OptimalEstimation.fit(seen, optics(), prior_mean=5e3, prior_std=5e3)
        for seen in (ground(1500, 0), bright * ground(1500, 0))
    )
    torch.testing.assert_close(lit.whitening, plain.whitening, rtol=1e-6, atol=1e-6)
    seen = ground(50, 1) * optics().transmittance(torch.full((50,), 3000.0, dtype=torch.float64))
    dim, usual = lit.invert(0.2 * seen), plain.invert(seen)
    np.testing.assert_allclose(dim.ppm_m, usual.ppm_m, rtol=1e-6)
    np.testing.assert_allclose(dim.std, usual.std, rtol=1e-6)


def test_ground_without_any_colour_is_ground_too():
    """Only noise differs between bands: what counts is how much light pixels send."""
    g = torch.Generator().manual_seed(4)
    level = torch.exp(0.3 * torch.randn(2000, 1, generator=g, dtype=torch.float64))
    grey = level * (5.0 + 0.02 * torch.randn(2000, len(BANDS), generator=g, dtype=torch.float64))
    seen = grey[1500:] * optics().transmittance(torch.full((500,), 3000.0, dtype=torch.float64))
    found = OptimalEstimation.fit(grey[:1500], optics(), prior_mean=5e3, prior_std=5e3).invert(seen)
    error = (found.ppm_m - 3000.0) / found.std
    assert abs(error.mean().item()) < 0.2 and error.std().item() < 1.2
    least = 0.004 / optics().slope[optics().absorbing].norm()  # of a pixel whose ground is known, ppm m
    assert least < found.std.mean() < 2.2 * least  # two pixels are noisy, and lines saturate by a quarter


@pytest.mark.parametrize("prior_std", [100.0, 300.0, 3000.0])
def test_optimal_estimation_weighs_truth_and_prior_by_its_sensitivity(prior_std):
    """Of ground that it knows, without noise: z = k truth + (1 - k) prior, std^2 = (1 - k) prior_std^2."""
    library, truth, prior = ground(3000, 0), 2000.0, 500.0
    method = OptimalEstimation.fit(library, optics(), prior_mean=prior, prior_std=prior_std)
    plume = torch.full((200,), truth, dtype=torch.float64)
    found = method.invert(library[:200] * optics().transmittance(plume))
    k = found.sensitivity.numpy()
    np.testing.assert_allclose(found.ppm_m, k * truth + (1.0 - k) * prior, rtol=0.02)
    np.testing.assert_allclose(found.std, prior_std * np.sqrt(1.0 - k), rtol=1e-6)
    assert 0.01 < k.mean() < 0.999


@pytest.mark.parametrize("variant", ["classic", "log", "mag1c"])
def test_a_pixel_does_not_depend_on_its_company(variant):
    scene = ground(600, 6)
    scene[::7] *= 1e-4
    scene[:300] *= 3.0
    fitted = MatchedFilter.fit(ground(2000, 0), optics(), variant=variant)
    together = fitted.invert(scene).ppm_m
    apart = torch.cat([fitted.invert(part).ppm_m for part in torch.split(scene, 100)])
    np.testing.assert_allclose(apart, together, rtol=1e-9)


def published_mag1c(x: np.ndarray, template: np.ndarray, rounds: int) -> np.ndarray:
    """Algorithm 1 of Foote et al. (2020), with explicit inverses; template per 1e5 ppm m."""
    mu = x.mean(0)
    r = x @ mu / (mu @ mu)
    target = template * mu
    inverse = np.linalg.inv(np.cov(x.T, bias=True))
    alpha = np.maximum((x - mu) @ inverse @ target / (r * (target @ inverse @ target)), 0.0)
    for _ in range(rounds):
        penalty = 1.0 / (r * (alpha + 1e-9))
        left = x - np.outer(r * alpha, target)
        mu = left.mean(0)
        target = template * mu
        inverse = np.linalg.inv(np.cov(left.T, bias=True))
        power = max(target @ inverse @ target, 1.0)
        alpha = np.maximum(((x - mu) @ inverse @ target - penalty) / (r * power), 0.0)
    return 1e5 * alpha


def test_mag1c_is_the_published_algorithm():
    plume = torch.zeros(3000, dtype=torch.float64)
    plume[:200] = torch.linspace(500.0, 8000.0, 200, dtype=torch.float64)
    scene = ground(3000, 7) * optics().transmittance(plume)
    found = MatchedFilter.fit(scene, optics(), variant="mag1c")
    used = np.flatnonzero((BANDS.wavelength_nm >= 2122.0) & (BANDS.wavelength_nm <= 2488.0))
    np.testing.assert_array_equal(found.bands, used)
    ppm_m = torch.tensor([0.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0, 16_000.0], dtype=torch.float64)
    log_light = np.log(optics().transmittance(ppm_m).numpy()[:, used])
    template = 1e5 * np.polyfit(ppm_m.numpy(), log_light, 1)[0]
    expected = published_mag1c(scene.numpy()[:, used], template, 30)
    np.testing.assert_allclose(found.invert(scene).ppm_m, expected, rtol=1e-3, atol=1.0)
