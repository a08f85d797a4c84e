"""The semi-supervised VAEs: where gradients may go, samplers by inversion, one hypothesis like many."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import Beta

from p3vae.models.landcover.estimator import Frame
from p3vae.models.landcover.types import ClassLegend, TrainingSettings
from p3vae.paper.landcover.gaussian import GaussianVAE
from p3vae.paper.landcover.guided import GuidedVAE
from p3vae.paper.landcover.network import SpectraBatch
from p3vae.paper.landcover.published import PublishedP3VAE
from p3vae.paper.nn.latents import Gaussian, LightAndMixing
from p3vae.paper.nn.layers import contiguous_segments
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands

BANDS = Bands.from_centres(np.concatenate([np.arange(20) * 10.0 + 500, np.arange(15) * 10.0 + 1000]))
LEGEND = ClassLegend((1, 2, 3), ("a", "b", "c"), ((0, 0, 0),) * 3)


def network(kind=PublishedP3VAE, **settings):
    torch.manual_seed(0)
    wave = BANDS.wavelength_nm
    light = SpectralIrradiance(wave, np.linspace(900, 1100, 35), np.linspace(400, 100, 35), 37.0)
    return kind(Frame(LEGEND, BANDS, light, TrainingSettings(**settings)))


def gradient(module) -> float:
    return sum(float(p.grad.abs().sum()) for p in module.parameters() if p.grad is not None)


@pytest.mark.parametrize("kind", [PublishedP3VAE, GuidedVAE, GaussianVAE])
def test_stop_gradient_shields_the_decoder_and_only_it(kind):
    for stop in (True, False):
        net = network(kind, stop_gradient=stop)
        torch.manual_seed(1)
        batch = SpectraBatch(torch.rand(4, 35), torch.arange(4) % 3, torch.rand(6, 35), 0)
        net.losses(batch)["unlabelled"].backward()
        assert (gradient(net.decoder) == 0.0) == stop
        assert all(gradient(part) > 0 for name, part in net.named_children() if name != "decoder")


@pytest.mark.parametrize("offset", [0.2, 0.6])
def test_physics_scales_the_spectrum_with_light(offset):
    net = network(sky_offset=offset)
    y = torch.eye(3)[None, :1]
    dark, bright = (
        net.decode(y, torch.tensor([[[z, 0.25, 0.25, 0.25, 0.25]]]), net.light) for z in (0.1, 0.9)
    )
    direct, diffuse = net.light
    expected = (0.9 * direct + (0.9 + offset) * diffuse) / (0.1 * direct + (0.1 + offset) * diffuse)
    np.testing.assert_allclose((bright / dark)[0, 0].detach(), expected, rtol=1e-4)


def test_every_class_at_once_is_each_class_alone():
    net = network().eval()
    x, every = torch.rand(4, 35), torch.eye(3)[None]
    together = net.encode(net.embed(x), every)
    for k in range(3):
        alone = net.encode(net.embed(x), every[:, k : k + 1].expand(4, 1, 3))
        torch.testing.assert_close(together.light[:, k : k + 1], alone.light)
        torch.testing.assert_close(together.mixing[:, k : k + 1], alone.mixing)


def test_inversion_samplers_follow_their_distributions():
    uniform = np.linspace(0.005, 0.995, 100)
    light, mixing = torch.tensor([[[2.0, 5.0]]]), torch.tensor([[[1.0, 2.0, 3.0]]])
    q = LightAndMixing(light, mixing, Beta(torch.tensor(1.0), torch.tensor(0.5)))
    draws = torch.cat([q.at(torch.tensor([u, 0.5, 0.5, 0.5]))[0] for u in uniform])
    assert stats.kstest(draws[:, 0].numpy(), stats.beta(2.0, 5.0).cdf).statistic < 0.02
    rng = np.random.default_rng(0)
    mixtures = torch.cat([q.at(torch.as_tensor(rng.random(4)))[0] for _ in range(3000)])[:, 1:]
    np.testing.assert_allclose(mixtures.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(mixtures.mean(0), [1 / 6, 2 / 6, 3 / 6], atol=0.02)
    normal = Gaussian(torch.tensor([[[1.0]]]), torch.tensor([[[0.5]]]))
    draws = torch.cat([normal.at(torch.tensor([u]))[0] for u in uniform])
    assert stats.kstest(draws[:, 0].numpy(), stats.norm(1.0, np.exp(0.5)).cdf).statistic < 0.02


def test_ratio_of_prior_and_posterior_averages_to_one():
    """E_q[p/q] = 1 for any two densities on one support; the constant left out is that of p(v) = Γ(3) = 2."""
    torch.manual_seed(0)
    q = LightAndMixing(
        torch.full((20_000, 1, 2), 1.5),
        torch.full((20_000, 1, 3), 1.3),
        Beta(torch.tensor(1.0), torch.tensor(0.9)),
    )
    assert float(q.log_ratio(q.rsample()).exp().mean()) == pytest.approx(0.5, rel=0.05)
    normal = Gaussian(torch.full((20_000, 1, 2), 0.2), torch.full((20_000, 1, 2), 0.1))
    assert float(normal.log_ratio(normal.rsample()).exp().mean()) == pytest.approx(1.0, rel=0.05)


def test_segments_end_at_gaps():
    assert contiguous_segments(np.array([1.0, 2.0, 3.0, 7.0, 8.0, 20.0])) == (3, 2, 1)
