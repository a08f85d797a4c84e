"""The published networks: where gradients may go, and samplers by inversion."""

import numpy as np
import pytest
import torch
from scipy import stats

from p3vae.models.landcover_published import (
    PublishedOptions,
    PublishedP3VAE,
    _inverse_beta,
    _inverse_dirichlet,
)
from p3vae.models.networks import contiguous_segments


def network(**options) -> PublishedP3VAE:
    torch.manual_seed(0)
    return PublishedP3VAE(
        (20, 15),
        3,
        4,
        torch.linspace(0.7, 1.1, 35),
        torch.linspace(0.4, 0.1, 35),
        0.8,
        PublishedOptions(**options),
    )


def decoder_gradient(net: PublishedP3VAE) -> float:
    torch.manual_seed(1)
    net.unlabelled_loss(torch.rand(6, 35)).backward()
    return sum(float(p.grad.abs().sum()) for p in net.decoder.parameters() if p.grad is not None)


@pytest.mark.parametrize("physics", [True, False])
def test_stop_gradient_shields_the_decoder_and_only_it(physics):
    net = network(stop_gradient=True, physics=physics)
    assert decoder_gradient(net) == 0.0
    encoders = [
        *net.light_encoder.parameters(),
        *net.mixing_encoder.parameters(),
        *net.classifier.parameters(),
    ]
    assert sum(float(p.grad.abs().sum()) for p in encoders if p.grad is not None) > 0
    assert decoder_gradient(network(stop_gradient=False, physics=physics)) > 0


def test_physics_scales_the_spectrum_with_light():
    net = network()
    y, v = torch.eye(3)[:1], torch.full((1, 4), 0.25)
    dark, bright = (net.decode(y, torch.tensor([z]), v) for z in (0.1, 0.9))
    expected = (0.9 * net.direct_ratio + 1.1 * net.diffuse_ratio) / (
        0.1 * net.direct_ratio + 0.3 * net.diffuse_ratio
    )
    np.testing.assert_allclose((bright / dark)[0].detach(), expected, rtol=1e-4)


def test_inversion_samplers_follow_their_distributions():
    uniform = np.linspace(0.005, 0.995, 100)
    draws = torch.cat([_inverse_beta(torch.tensor([[2.0, 5.0]]), float(u)) for u in uniform])
    assert stats.kstest(draws.numpy(), stats.beta(2.0, 5.0).cdf).statistic < 0.02
    concentration = torch.tensor([[1.0, 2.0, 3.0]])
    rng = np.random.default_rng(0)
    mixtures = torch.cat(
        [_inverse_dirichlet(concentration, torch.as_tensor(rng.random(3))) for _ in range(4000)]
    )
    np.testing.assert_allclose(mixtures.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(mixtures.mean(0), [1 / 6, 2 / 6, 3 / 6], atol=0.02)


def test_segments_end_at_gaps():
    assert contiguous_segments(torch.tensor([1.0, 2.0, 3.0, 7.0, 8.0, 20.0])) == (3, 2, 1)
