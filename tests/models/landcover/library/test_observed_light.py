"""Observed light against the same posterior written out as one Gaussian."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from p3vae.models.landcover.library.decoder import LightPrior, SpectralLibrary
from p3vae.models.landcover.library.solver import PosteriorSolver

BANDS, PIXELS = 10, 30
ERROR, SKY_ERROR = 0.08, 0.1


@pytest.fixture(scope="module")
def library() -> SpectralLibrary:
    rng = np.random.default_rng(0)
    mean = rng.uniform(0.1, 0.5, (2, BANDS))
    return SpectralLibrary(
        mean, 0.02 * rng.standard_normal((2, 1, BANDS)), 0.01 * mean[:1], np.full(BANDS, 1e-3)
    )


@pytest.fixture(scope="module")
def light() -> np.ndarray:
    return np.stack([np.linspace(0.7, 1.1, BANDS), np.linspace(0.5, 0.1, BANDS)])


@pytest.fixture(scope="module")
def spectra() -> np.ndarray:
    return np.random.default_rng(1).uniform(0.05, 0.5, (PIXELS, BANDS)).astype(np.float32)


@pytest.fixture(scope="module")
def observed() -> np.ndarray:
    """Columns: direct light, its precision, sky light, its precision, spread of brightness."""
    rng = np.random.default_rng(2)
    same = np.ones(PIXELS)
    columns = [rng.uniform(0, 1, PIXELS), same / ERROR**2, rng.uniform(0.5, 1.1, PIXELS), same / SKY_ERROR**2]
    return np.stack([*columns, 0 * same], 1).astype(np.float32)


def written_out(library, light, prior, index):
    """Mean and covariance of (x, c, h, z, w) of a class."""
    rho = library.mean[index]
    jacobian = np.stack([light[0] * rho, light[1] * rho], 1)
    level = prior.mean[0] @ light
    variable = np.concatenate([level * library.directions[index], level * library.factors])
    spread = np.diag(np.square(prior.std[0]))
    to = np.concatenate([jacobian, np.eye(2), np.eye(2)])
    covariance = to @ spread @ to.T
    covariance[:BANDS, :BANDS] += variable.T @ variable + np.diag(library.noise)
    covariance[BANDS, BANDS] += ERROR**2
    covariance[BANDS + 1, BANDS + 1] += SKY_ERROR**2
    return np.concatenate([level * rho, prior.mean[0], prior.mean[0]]), covariance


def test_light_and_classes_are_those_of_one_gaussian(library, light, spectra, observed):
    prior = LightPrior(np.array([[0.6, 0.9]]), np.array([[0.2, 0.15]]), np.ones(1))
    found = PosteriorSolver.build(library, prior, light).solve(
        torch.from_numpy(spectra), torch.from_numpy(observed)
    )
    data = np.concatenate([spectra, observed[:, [0, 2]]], 1)
    known = BANDS + 2
    log_joint, means, variances = [], [], []
    for index in range(2):
        mean, covariance = written_out(library, light, prior, index)
        log_joint.append(multivariate_normal(mean[:known], covariance[:known, :known]).logpdf(data))
        gain = covariance[known:, :known] @ np.linalg.inv(covariance[:known, :known])
        means.append(mean[known:] + (data - mean[:known]) @ gain.T)
        variances.append((covariance[known:, known:] - gain @ covariance[:known, known:])[0, 0])
    odds = log_joint[1] - log_joint[0]
    np.testing.assert_allclose(found.logits[:, 1] - found.logits[:, 0], odds, rtol=1e-3, atol=0.02)
    # Of each class alone, where the weights play no part.
    for index in range(2):
        alone = SpectralLibrary(
            library.mean[[index]], library.directions[[index]], library.factors, library.noise
        )
        one = PosteriorSolver.build(alone, prior, light).solve(
            torch.from_numpy(spectra), torch.from_numpy(observed)
        )
        np.testing.assert_allclose(one.sun, np.maximum(means[index][:, 0], 0), atol=2e-3)
        np.testing.assert_allclose(one.sky, means[index][:, 1], atol=2e-3)
        np.testing.assert_allclose(one.sun_std, np.sqrt(variances[index]), rtol=0.02)


def test_no_observation_is_one_of_infinite_error_to_the_bit(library, light, spectra, observed):
    """Whatever its value; beside pixels that are observed."""
    prior = LightPrior.broad(0.8)
    solver = PosteriorSolver.build(library, prior, light, level=0.13)
    alone = solver.solve(torch.from_numpy(spectra))
    nothing = observed.copy()
    nothing[:15, [1, 3]] = 0
    both = solver.solve(torch.from_numpy(spectra), torch.from_numpy(nothing))
    for name in ("logits", "sun", "sun_std", "sky", "distance"):
        one, other = getattr(alone, name), getattr(both, name)
        np.testing.assert_array_equal(one[:15], other[:15], err_msg=name)
        assert name == "distance" or (one[15:] != other[15:]).any()


def test_without_error_the_light_is_what_was_observed(library, light, spectra, observed):
    sure = observed.copy()
    sure[:, 1] = 1e8
    found = PosteriorSolver.build(library, LightPrior.broad(0.8), light).solve(
        torch.from_numpy(spectra), torch.from_numpy(sure)
    )
    np.testing.assert_allclose(found.sun, sure[:, 0], atol=1e-3)
