"""The posterior of a plume against one dense Gaussian per component, and integrals done by SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import integrate
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from p3vae.models.methane.background.features import Features, PixelFeatures
from p3vae.models.methane.background.gaussian import Background
from p3vae.models.methane.background.noise import SensorNoise
from p3vae.models.methane.background.posterior import (
    ConcentrationGrid,
    EvidenceTables,
    PixelNoise,
    bin_of,
    choose_brightness_bins,
    groups,
)

Q, BANDS, NODES = 3, 4, 5
SIZE = Q + BANDS
F64 = torch.float64
LIGHT = torch.exp(-torch.linspace(0.0, 1.0, NODES, dtype=F64)[:, None] * torch.tensor([0.2, 0.5, 0.9, 0.1]))
BINS = torch.tensor([0.5, 2.0, 8.0], dtype=F64)


@pytest.fixture(scope="module")
def features() -> Features:
    """Four continuum bands, the first two for brightness, and four absorbing ones."""
    rng = np.random.default_rng(0)
    noise = SensorNoise(torch.full((4 + BANDS,), 1e-4, dtype=F64), torch.full((4 + BANDS,), 2e-4, dtype=F64))
    return Features(
        torch.arange(4, 4 + BANDS),
        torch.arange(4),
        torch.tensor([0, 1]),
        torch.ones(4, dtype=F64),
        torch.as_tensor(80.0 * rng.standard_normal((4, Q))),
        torch.full((BANDS,), 0.01, dtype=F64),
        noise,
    )


@pytest.fixture(scope="module")
def background() -> Background:
    """Two kinds of ground, each far more variable than the noise in every direction."""
    rng = np.random.default_rng(1)
    roots = 12.0 * rng.standard_normal((2, SIZE, SIZE))
    mean = np.concatenate([5.0 * rng.standard_normal((2, Q)), rng.uniform(80.0, 120.0, (2, BANDS))], 1)
    covariance = roots @ roots.transpose(0, 2, 1) + 150.0 * np.eye(SIZE)
    weight = torch.tensor([0.7, 0.3], dtype=F64)
    return Background(weight, torch.as_tensor(mean), torch.as_tensor(covariance), Q)


def dense(background: Background, noise: PixelNoise, node: int, k: int):
    """Mean and covariance of continuum code and absorbing bands under a plume, as one Gaussian."""
    light = np.r_[np.ones(Q), LIGHT[node].numpy()]
    covariance = (background.covariance[k] + noise.common[k]).numpy() * np.outer(light, light)
    covariance[:Q, :Q] += noise.continuum.numpy()
    covariance[Q:, Q:] += np.diag(noise.absorbing[k, node].numpy())
    return light * background.mean[k].numpy(), covariance


@pytest.mark.parametrize("brightness", [0.4, 2.5, 8.0])
def test_evidence_is_that_of_the_dense_gaussians(features, background, brightness):
    tables = EvidenceTables.tabulate(background, features, LIGHT, BINS)
    assert tables.nodes == NODES and tables.projection.shape == (BANDS, BANDS)
    nearest = float(BINS[(BINS.log() - np.log(brightness)).abs().argmin()])
    noise = PixelNoise.at(nearest, background, features, LIGHT)
    rng = np.random.default_rng(2)
    pixels = np.concatenate(
        [rng.multivariate_normal(*dense(background, noise, node, k), 20) for node in (0, 3) for k in (0, 1)]
    )
    expected = np.stack(
        [
            [
                np.log(background.weight[k].item())
                + multivariate_normal(*dense(background, noise, node, k)).logpdf(pixels)
                for node in range(NODES)
            ]
            for k in (0, 1)
        ]
    ).transpose(2, 0, 1)  # (pixels, components, nodes)
    seen = torch.as_tensor(pixels)
    spectra = PixelFeatures(torch.full((len(pixels),), brightness, dtype=F64), seen[:, :Q], seen[:, Q:])
    found = tables.log_likelihood(spectra).double().numpy()
    together = tables.log_evidence(spectra).double().numpy()
    kept = np.isfinite(found)
    relative = expected - expected.max((1, 2), keepdims=True)
    np.testing.assert_allclose(found[kept], relative[kept], rtol=1e-3, atol=0.02)
    whole = logsumexp(expected, axis=1)
    np.testing.assert_allclose(together, whole - whole.max(1, keepdims=True), rtol=2e-3, atol=0.03)


def test_a_pixel_belongs_to_components_that_its_continuum_allows(features, background):
    """Those left out have a continuum that is e^5 times less likely, whatever their absorbing bands."""
    tables = EvidenceTables.tabulate(background, features, LIGHT, BINS)
    seen = background.mean[:1].clone()
    seen[:, :Q] += 1e3
    spectra = PixelFeatures(torch.full((1,), 2.0, dtype=F64), seen[:, :Q], seen[:, Q:])
    noise = PixelNoise.at(2.0, background, features, LIGHT)
    fits = []
    for k in (0, 1):
        mean, covariance = dense(background, noise, 0, k)
        fits.append(
            np.log(background.weight[k].item())
            + multivariate_normal(mean[:Q], covariance[:Q, :Q]).logpdf(seen[0, :Q].numpy())
        )
    assert abs(fits[0] - fits[1]) > 5.0
    kept = torch.isfinite(tables.log_likelihood(spectra)).any(2)[0].tolist()
    assert kept == [fits[0] > fits[1], fits[1] > fits[0]]


def test_directions_are_those_in_which_ground_or_plume_exceed_the_noise(features, background):
    """Without plume: four where ground varies in four bands, one (its mean) where it does not vary."""
    plain = torch.ones(1, BANDS, dtype=F64)
    varied = EvidenceTables.tabulate(background, features, plain, BINS)
    quiet = Background(background.weight[:1], background.mean[:1], background.covariance[:1] * 1e-6, Q)
    assert varied.projection.shape == (BANDS, BANDS)
    assert EvidenceTables.tabulate(quiet, features, plain, BINS).projection.shape == (BANDS, 1)
    plumes = EvidenceTables.tabulate(quiet, features, LIGHT, BINS).projection
    assert 1 < plumes.shape[1] < BANDS
    direction = EvidenceTables.tabulate(quiet, features, plain, BINS).projection[:, 0].double()
    noise = PixelNoise.at(float(BINS[-1]), quiet, features, plain).absorbing[0, 0]
    assert torch.cosine_similarity(direction * noise, quiet.mean[0, Q:], dim=0).abs() > 0.999
    assert (direction.square() * noise).sum() == pytest.approx(1.0, rel=1e-4)  # in units of the noise


@pytest.mark.parametrize(("mean", "std"), [(2000.0, 600.0), (9000.0, 1500.0), (-300.0, 800.0)])
def test_moments_of_a_log_posterior_are_those_of_the_integral(mean, std):
    grid = ConcentrationGrid.uniform(0.0, 10_000.0, 40)
    log = -0.5 * ((grid.nodes - mean) / std) ** 2 + 0.1 * torch.sin(grid.nodes / 2000.0)
    found, spread = grid.summarise(log[None])

    def density(z):
        return np.exp(-0.5 * ((z - mean) / std) ** 2 + 0.1 * np.sin(z / 2000.0))

    first, second, total = (
        integrate.quad(lambda z, p=power: z**p * density(z), 0.0, 10_000.0, limit=200)[0]
        for power in (1, 2, 0)
    )
    exact = first / total
    assert found.item() == pytest.approx(exact, rel=0.01, abs=15.0)
    assert spread.item() == pytest.approx(np.sqrt(second / total - exact**2), rel=0.02)


def test_the_fine_grid_interpolates_cubics_exactly():
    grid = ConcentrationGrid.uniform(-1000.0, 5000.0, 13)
    assert grid.fine[0] == -1000.0 and grid.fine[-1] == 5000.0 and len(grid.fine) == 12 * 6 + 1

    def cubic(z):
        return 1e-9 * z**3 - 2e-6 * z**2 + 1e-3 * z + 3.0

    torch.testing.assert_close(cubic(grid.nodes) @ grid.upsample, cubic(grid.fine))


def test_brightness_goes_to_the_nearest_bin_in_ratio():
    found = bin_of(torch.tensor([0.01, 0.99, 1.01, 3.9, 4.1, 99.0]), torch.tensor([0.5, 2.0, 8.0]))
    assert found.tolist() == [0, 0, 1, 1, 2, 2]


def test_bins_span_usual_brightness_and_reach_into_deep_shadow():
    brightness = torch.exp(0.4 * torch.randn(50_000, generator=torch.Generator().manual_seed(0)))
    few, bins = choose_brightness_bins(brightness)
    low, high = np.quantile(brightness.numpy(), [0.005, 0.99])
    assert (few[0].item(), few[-1].item()) == pytest.approx((low, high), rel=1e-3)
    assert (bins[3].item(), bins[-1].item()) == pytest.approx((low, high), rel=1e-3)
    np.testing.assert_allclose(bins[:3] / bins[3], [1 / 18, 1 / 6, 1 / 2], rtol=1e-6)
    np.testing.assert_allclose(np.diff(np.log(bins[3:].numpy())), np.log(high / low) / 6, rtol=1e-3)


def test_groups_hold_every_row_once():
    keys = torch.tensor([4, 1, 4, 4, 0, 1])
    found = {key: sorted(rows.tolist()) for key, rows in groups(keys)}
    assert found == {0: [4], 1: [1, 5], 4: [0, 2, 3]}
