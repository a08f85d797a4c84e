"""Features of radiance: what noise adds to them, by many draws of one spectrum."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from p3vae.models.methane.background.features import DARKEST, Features
from p3vae.models.methane.background.gaussian import Background
from p3vae.models.methane.background.noise import SensorNoise
from p3vae.models.methane.background.posterior import PixelNoise

NM = np.r_[np.arange(1000.0, 1400.0, 25.0), np.arange(1500.0, 1640.0, 20.0), np.arange(2150.0, 2450.0, 20.0)]
ABSORBING = torch.as_tensor(NM > 2200.0)
DRAWS = 20_000
NOISE = SensorNoise(*(torch.full((len(NM),), variance, dtype=torch.float64) for variance in (4e-4, 3e-3)))


def ground(pixels: int, seed: int) -> torch.Tensor:
    """Radiance [W m-2 sr-1 um-1] of ground of three kinds of variation."""
    g = torch.Generator().manual_seed(seed)
    x = torch.as_tensor((NM - 1800.0) / 600.0)
    kinds = torch.stack([torch.ones_like(x), x, x**2])
    weight = torch.randn(pixels, 3, generator=g, dtype=torch.float64) * torch.tensor([0.0, 0.1, 0.05])
    weight[:, 0] += 1.0
    bright = torch.exp(0.3 * torch.randn(pixels, 1, generator=g, dtype=torch.float64))
    return 4.0 * bright * (weight @ kinds)


def with_noise(spectrum: torch.Tensor, noise: SensorNoise, seed: int = 0) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    draws = torch.randn(DRAWS, spectrum.shape[-1], generator=g, dtype=torch.float64)
    return spectrum + draws * noise.variance(spectrum).sqrt()


def chosen(noise: SensorNoise = NOISE) -> Features:
    return Features.choose(ground(3000, 0), noise, ABSORBING, torch.as_tensor(NM), code_size=6)


def of(features: Features, spectrum: torch.Tensor, noise: SensorNoise) -> tuple[PixelNoise, torch.Tensor]:
    """The model's noise of this very spectrum, and the covariance of its features over many draws."""
    clean = features(spectrum[None])
    mean = torch.cat([clean.continuum, clean.absorbing], 1)
    size = mean.shape[1]
    background = Background(
        torch.ones(1, dtype=torch.float64), mean, torch.zeros(1, size, size), features.basis.shape[1]
    )
    light = torch.ones(1, int(ABSORBING.sum()), dtype=torch.float64)
    model = PixelNoise.at(float(clean.brightness), background, features, light)
    seen = features(with_noise(spectrum, noise))
    return model, torch.cov(torch.cat([seen.continuum, seen.absorbing], 1).T)


def test_dividing_by_a_noisy_brightness_moves_all_absorbing_bands_together():
    """Covariance of 20,000 draws of one spectrum; elements are known to about a hundredth."""
    features = chosen()
    q = features.basis.shape[1]
    model, found = of(features, ground(1, 5)[0], NOISE)
    common, own = model.common[0, q:, q:], model.absorbing[0, 0]
    apart = ~torch.eye(len(own), dtype=torch.bool)
    np.testing.assert_allclose(found[q:, q:][apart].mean(), common[apart].mean(), rtol=0.03)
    np.testing.assert_allclose(found[q:, q:].diagonal(), common.diagonal() + own, rtol=0.05)
    assert common[apart].mean() > 0.05 * own.mean()


def test_noise_of_the_continuum_code_is_that_of_its_bands():
    """Only bands that are no measure of brightness are noisy here, so that brightness is exact."""
    wide = torch.as_tensor((NM > 1450.0) & (NM < 2200.0))
    features = chosen()
    assert set(features.brightness_bands.tolist()) == set(torch.where(wide & ~ABSORBING)[0].tolist())
    quiet = torch.where(wide, 0.0, 1.0).double()
    noise = SensorNoise(NOISE.read * quiet, NOISE.shot * quiet)
    spectrum = ground(1, 5)[0]
    brightness = spectrum[features.brightness_bands].mean()
    seen = features(with_noise(spectrum, noise)).continuum
    silent = Features(**{**vars(features), "noise": noise})
    expected = silent.continuum_noise(float(brightness), spectrum / brightness)
    np.testing.assert_allclose(torch.cov(seen.T), expected, atol=0.04 * float(expected.diagonal().mean()))


def test_features_are_white_at_the_mean_brightness_and_have_no_brightness_of_their_own():
    features, free = chosen(), ground(3000, 0)
    one = features(free)
    bright = features(7.0 * free)
    np.testing.assert_allclose(one.brightness, free[:, features.brightness_bands].mean(1))
    np.testing.assert_allclose(bright.brightness, 7.0 * one.brightness)
    np.testing.assert_allclose(bright.continuum, one.continuum, atol=1e-9)
    np.testing.assert_allclose(bright.absorbing, one.absorbing, rtol=1e-9)
    assert one.continuum.mean(0).abs().max() < 1e-9
    mean = free.mean(0)
    scale = mean[features.brightness_bands].mean()
    white = features.continuum_noise(float(scale), mean / scale)
    np.testing.assert_allclose(white, np.eye(len(white)), atol=1e-9)
    np.testing.assert_allclose(
        features.absorbing_noise(float(scale), (mean / scale)[ABSORBING] / features.unit), 1.0, rtol=1e-9
    )


def test_the_code_keeps_the_leading_components_of_the_whitened_bands():
    features, free = chosen(), ground(3000, 0)
    continuum = features.continuum_bands
    shape = free / free[:, features.brightness_bands].mean(1, keepdim=True)
    std = NOISE.variance(free.mean(0)).sqrt() / free[:, features.brightness_bands].mean()
    white = ((shape - shape.mean(0)) / std)[:, continuum].numpy()
    values = np.linalg.svd(white - white.mean(0), compute_uv=False) ** 2 / len(white)
    kept = features(free).continuum.var(0, unbiased=False)
    np.testing.assert_allclose(kept[:2], values[:2], rtol=1e-6)


def test_continuum_bands_begin_where_asked_if_enough_are_left():
    nm, free = torch.as_tensor(NM), ground(500, 0)
    few = Features.choose(free, NOISE, ABSORBING, nm, continuum_from_nm=1450.0)
    assert len(few.continuum_bands) == int((~ABSORBING).sum())  # ten bands would be too few
    some = Features.choose(free, NOISE, ABSORBING, nm, continuum_from_nm=1200.0)
    assert some.continuum_bands.tolist() == torch.where(~ABSORBING & (nm >= 1200.0))[0].tolist()
    with pytest.raises(ValueError, match="three bands"):
        Features.choose(free, NOISE, torch.as_tensor(NM > 1040.0), nm)


def test_darkness_has_a_floor():
    dark = chosen()(torch.zeros(2, len(NM), dtype=torch.float64))
    np.testing.assert_allclose(dark.brightness, DARKEST)
    assert torch.isfinite(dark.continuum).all() and torch.isfinite(dark.absorbing).all()
