"""The mixture of the ground: moments, shrinkage, clusters, and learning it from noisy pixels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture

from p3vae.models.methane.background.expectation import expectation
from p3vae.models.methane.background.features import Features, PixelFeatures
from p3vae.models.methane.background.gaussian import (
    PRIOR_PIXELS,
    PRIOR_SHARE,
    Background,
    Moments,
    continuum_clusters,
    joint,
    single_gaussian,
)
from p3vae.models.methane.background.noise import SensorNoise

Q, BANDS = 2, 4
SIZE = Q + BANDS
F64 = torch.float64


def draws(pixels: int, mean: np.ndarray, covariance: np.ndarray, seed: int) -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(seed).multivariate_normal(mean, covariance, pixels))


def as_features(values: torch.Tensor) -> PixelFeatures:
    return PixelFeatures(torch.ones(len(values), dtype=F64), values[:, :Q], values[:, Q:])


def covariance_of(seed: int) -> np.ndarray:
    root = np.random.default_rng(seed).standard_normal((SIZE, SIZE))
    return root @ root.T + np.eye(SIZE)


def test_moments_hold_what_the_posterior_leaves_open():
    """The law of total variance: that of the posterior means, and the mean posterior variance."""
    rng = np.random.default_rng(0)
    means, weight = rng.standard_normal((500, SIZE)), rng.uniform(0.0, 1.0, 500)
    left = covariance_of(1)
    moments = Moments.zero(1, SIZE)
    moments.add(0, torch.as_tensor(weight[:200]), torch.as_tensor(means[:200]), torch.as_tensor(left))
    more = Moments.zero(1, SIZE)
    more.add(0, torch.as_tensor(weight[200:]), torch.as_tensor(means[200:]), torch.as_tensor(left))
    found = (moments + more).background(Q)
    scatter = np.cov(means.T, aweights=weight, bias=True) + left
    count = weight.sum()
    shrunk = scatter * (count + PRIOR_PIXELS * PRIOR_SHARE) / (count + PRIOR_PIXELS)
    np.testing.assert_allclose(found.mean[0], np.average(means, axis=0, weights=weight))
    np.testing.assert_allclose(found.covariance[0], shrunk, rtol=1e-9)
    assert found.weight.tolist() == [1.0] and found.continuum_size == Q and found.components == 1


def test_a_rare_component_takes_its_covariance_from_all_and_a_usual_one_keeps_its_own():
    rng = np.random.default_rng(0)
    own = [0.5, 4.0]
    moments = Moments.zero(2, SIZE)
    for k, count in enumerate((100_000, 3)):
        values = own[k] * rng.standard_normal((count, SIZE))
        zeros = torch.zeros(SIZE, SIZE, dtype=F64)
        moments.add(k, torch.ones(count, dtype=F64), torch.as_tensor(values), zeros)
    found = moments.background(Q)
    np.testing.assert_allclose(found.covariance[0].diagonal(), own[0] ** 2, rtol=0.02)
    np.testing.assert_allclose(found.weight, [100_000 / 100_003, 3 / 100_003])
    expected = (3.0 * values.var(0) + 30.0 * 0.1 * own[0] ** 2) / 33.0
    np.testing.assert_allclose(found.covariance[1].diagonal(), expected, rtol=0.03)


def test_one_gaussian_without_its_noise():
    """Features come with a noise of variance one; what is left is the ground."""
    ground = covariance_of(3)
    mean = np.arange(SIZE, dtype=float)
    seen = draws(200_000, mean, ground + np.eye(SIZE), 4)
    found = single_gaussian(as_features(seen))
    np.testing.assert_allclose(found.mean[0], mean, atol=0.03)
    np.testing.assert_allclose(found.covariance[0], ground, atol=0.02 * ground.max())
    quiet = single_gaussian(as_features(draws(5000, mean, 0.5 * np.eye(SIZE), 5)))
    assert torch.linalg.eigvalsh(quiet.covariance[0]).min() > 0.0


def test_clusters_are_those_of_scikit_learns_mixture():
    rng = np.random.default_rng(0)
    kinds = [(-4.0, 1.0), (0.0, 0.5), (5.0, 2.0)]
    code = np.concatenate([m + s * rng.standard_normal((400, 3)) for m, s in kinds])
    share = continuum_clusters(torch.as_tensor(code), 3, seed=0).numpy()
    scaled = (code - code.mean(0)) / code.std(0)
    mixture = GaussianMixture(3, reg_covar=1e-2, tol=1e-9, max_iter=300, random_state=0, n_init=4).fit(scaled)
    expected = mixture.predict_proba(scaled)
    order = [int(np.argmax(share[:, k] @ expected)) for k in range(3)]
    assert sorted(order) == [0, 1, 2]
    np.testing.assert_allclose(share, expected[:, order], atol=0.02)
    np.testing.assert_allclose(share.sum(1), 1.0)


@pytest.fixture
def features() -> Features:
    """Bands that are features: three of the continuum, the first for brightness; then the absorbing."""
    eye = torch.eye(1 + Q, dtype=F64)
    noise = SensorNoise(torch.full((1 + Q + BANDS,), 1.0, dtype=F64), torch.zeros(1 + Q + BANDS, dtype=F64))
    noise.read[0] = 0.0
    return Features(
        torch.arange(1 + Q, 1 + Q + BANDS),
        torch.arange(1 + Q),
        torch.tensor([0]),
        torch.zeros(1 + Q, dtype=F64),
        eye[:, 1:],
        torch.ones(BANDS, dtype=F64),
        noise,
    )


def test_ground_is_learned_through_noise_as_strong_as_itself(features):
    """The truth is a fixed point: without the posterior covariance, moments would be a third too small."""
    ground, mean = covariance_of(7) / 2.0, np.linspace(-1.0, 1.0, SIZE)
    seen = draws(60_000, mean, ground + np.eye(SIZE), 8)
    truth = Background(
        torch.ones(1, dtype=F64), torch.as_tensor(mean[None]), torch.as_tensor(ground[None]), Q
    )
    moments = expectation(
        truth,
        features,
        torch.ones(1, BANDS, dtype=F64),
        torch.ones(1, dtype=F64),
        as_features(seen),
        torch.Generator().manual_seed(0),
    )
    found = moments.background(Q)
    assert float(moments.count) == pytest.approx(len(seen))
    np.testing.assert_allclose(found.mean[0], mean, atol=0.03)
    np.testing.assert_allclose(found.covariance[0], ground, atol=0.02 * ground.max())
    assert joint(as_features(seen)).shape == seen.shape


def test_ground_is_learned_under_plumes_whose_strength_is_unknown(features):
    """Two strengths of a plume, dealt at random: ground and its variability come out as without."""
    ground, mean = covariance_of(7) / 2.0, np.r_[0.0, 0.0, 40.0, 45.0, 50.0, 55.0]
    light = torch.tensor([[1.0] * BANDS, [0.9, 0.6, 0.8, 0.5]], dtype=F64)
    clean = draws(40_000, mean, ground, 8)
    strong = torch.rand(len(clean), 1, generator=torch.Generator().manual_seed(1)) < 0.5
    clean[:, Q:] *= torch.where(strong, light[1], light[0])
    seen = clean + draws(len(clean), np.zeros(SIZE), np.eye(SIZE), 9)
    truth = Background(
        torch.ones(1, dtype=F64), torch.as_tensor(mean[None]), torch.as_tensor(ground[None]), Q
    )
    moments = expectation(
        truth,
        features,
        light,
        torch.ones(1, dtype=F64),
        as_features(seen),
        torch.Generator().manual_seed(0),
    )
    found = moments.background(Q)
    np.testing.assert_allclose(found.mean[0], mean, atol=0.05)
    np.testing.assert_allclose(found.covariance[0], ground, atol=0.03 * ground.max())
