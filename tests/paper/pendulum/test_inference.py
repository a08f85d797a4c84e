"""The posterior of a few latent variables, where it is known exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from p3vae.paper.pendulum.inference import BoundedGaussian, infer
from p3vae.paper.pendulum.physics import observation_times, pendulum_acceleration, simulate_pendulums, swing

INFINITE = torch.tensor(torch.inf)


def unbounded(mean: list[float], std: list[float]) -> BoundedGaussian:
    limit = INFINITE.expand(len(mean))
    return BoundedGaussian(torch.tensor(mean), torch.tensor(std), -limit, limit)


def test_a_linear_decoder_has_the_gaussian_posterior_of_the_textbook() -> None:
    rng = np.random.default_rng(0)
    matrix, observed = rng.normal(size=(20, 3)), rng.normal(size=(4, 20))
    prior_mean, prior_std, noise = np.array([0.5, -1.0, 0.0]), np.array([1.0, 0.3, 2.0]), 0.4
    covariance = np.linalg.inv(matrix.T @ matrix / noise**2 + np.diag(prior_std**-2.0))
    mean = (covariance @ (matrix.T @ observed.T / noise**2 + (prior_mean / prior_std**2)[:, None])).T
    posterior = infer(
        lambda latents: latents @ torch.tensor(matrix.T).float(),
        torch.tensor(observed).float(),
        torch.zeros(4, 3),
        unbounded(prior_mean.tolist(), prior_std.tolist()),
        noise,
    )
    std = np.sqrt(np.diag(covariance))
    assert np.abs((posterior.mean.numpy() - mean) / std).max() < 0.1
    assert np.abs(posterior.std.numpy() / std - 1).max() < 0.15


def test_bounds_cut_the_posterior() -> None:
    """Without information beyond a half-Gaussian prior, the mean is √(2/π) and the deviation √(1 - 2/π)."""
    prior = BoundedGaussian(
        torch.zeros(2), torch.ones(2), torch.tensor([0.0, -torch.inf]), INFINITE.expand(2)
    )
    posterior = infer(lambda latents: 0.0 * latents, torch.zeros(1, 2), torch.ones(1, 2), prior, 1.0)
    assert posterior.mean[0].tolist() == pytest.approx([np.sqrt(2 / np.pi), 0.0], abs=0.08)
    assert posterior.std[0].tolist() == pytest.approx([np.sqrt(1 - 2 / np.pi), 1.0], abs=0.1)


def test_pendulums_are_found_within_their_stated_uncertainty() -> None:
    pendulums = simulate_pendulums(100, steps=50, max_xi=1.0, rng=np.random.default_rng(5))
    observed = torch.tensor(pendulums.angle).float()
    time = observation_times(50)

    def decode(latents: torch.Tensor) -> torch.Tensor:
        omega, xi, start = latents.unbind(-1)
        return swing(pendulum_acceleration(omega, xi), start, time)

    truth = torch.tensor(np.column_stack((pendulums.omega, pendulums.xi, pendulums.start))).float()
    guess = truth + 0.1 * torch.randn(truth.shape, generator=torch.Generator().manual_seed(0))
    prior = BoundedGaussian(
        torch.tensor([3.2, 0.5, 0.0]),
        torch.tensor([1.8, 0.866, 1.0]),
        torch.tensor([0.02, 0.0, -torch.inf]),
        torch.tensor([15.0, 5.0, torch.inf]),
    )
    posterior = infer(decode, observed, guess, prior, 0.05)
    within = ((posterior.mean - truth).abs() < 2.0 * posterior.std).float().mean(0)
    assert (within > 0.85).all()
    parts = zip(torch.split(observed, 70), torch.split(guess, 70), strict=True)
    split = torch.cat([infer(decode, *part, prior, 0.05).mean for part in parts])
    assert ((split - posterior.mean).abs() < 0.05 * posterior.std).all()
