"""Closed forms of the objective against other computations of the same quantity."""

import math

import numpy as np
import torch
from scipy import integrate, stats
from torch.distributions import Beta, Dirichlet

from p3vae.paper.nn.losses import (
    beta_kl,
    dirichlet_kl,
    entropy,
    irradiance_prior,
    spectral_angle,
    spectral_misfit,
    unlabelled_bound,
)


def test_beta_kl_is_the_integral():
    q, p = stats.beta(2.0, 3.0), stats.beta(1.0, 0.5)
    expected, _ = integrate.quad(lambda z: q.pdf(z) * (q.logpdf(z) - p.logpdf(z)), 0, 1)
    found = beta_kl(
        Beta(torch.tensor([2.0]), torch.tensor([3.0])), Beta(torch.tensor(1.0), torch.tensor(0.5))
    )
    np.testing.assert_allclose(found, [expected], rtol=1e-5)


def test_dirichlet_kl_agrees_with_sampling_and_keeps_one_value_per_sample():
    q = Dirichlet(torch.tensor([[2.0, 1.0, 3.0], [1.0, 1.0, 1.0], [5.0, 0.5, 1.0]]))
    p = Dirichlet(torch.ones(3))
    found = dirichlet_kl(q, p)
    assert found.shape == (3,)
    torch.manual_seed(0)
    draws = q.sample((40_000,))
    sampled = (q.log_prob(draws) - p.log_prob(draws)).mean(0)
    np.testing.assert_allclose(found, sampled, atol=0.05)
    assert abs(float(found[1])) < 1e-5


def test_prior_has_the_mean_of_flat_ground():
    np.testing.assert_allclose(irradiance_prior(0.8, torch.zeros(1)).mean, 0.8, rtol=1e-5)


def test_angle_by_hand_and_finite_gradient_when_parallel():
    x = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(
        spectral_angle(x, torch.tensor([[0.0, 2.0], [3.0, 0.0]])), [math.pi / 2, math.pi / 4], rtol=1e-5
    )
    same = torch.tensor([[0.3, 0.4]], requires_grad=True)
    spectral_angle(same, torch.tensor([[0.3, 0.4]])).sum().backward()
    assert torch.isfinite(same.grad).all()


def test_misfit_adds_both_parts():
    value = spectral_misfit(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]), 0.5, 2.0)
    np.testing.assert_allclose(value, [1.0 / 0.5 + 2.0 * math.pi / 2], rtol=1e-5)


def test_unlabelled_bound_by_hand():
    logits = torch.log(torch.tensor([[0.25, 0.75]]))
    h = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    np.testing.assert_allclose(entropy(logits), [h], rtol=1e-5)
    found = unlabelled_bound(torch.tensor([[4.0, 8.0]]), logits, 0.1)
    np.testing.assert_allclose(found, [0.25 * 4 + 0.75 * 8 - 0.1 * h], rtol=1e-5)
