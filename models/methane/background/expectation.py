"""The expectation step that learns the background: moments of pixels whose concentration is unknown."""

from __future__ import annotations

import torch
from torch import Tensor

from p3vae.models.methane.background.features import Features, PixelFeatures
from p3vae.models.methane.background.gaussian import Background, Moments, joint
from p3vae.models.methane.background.posterior import CHUNK, EvidenceTables, PixelNoise, bin_of, groups

KEYS_AT_ONCE = 32
"""Pairs of brightness and concentration whose regressions are held in memory."""
LEAST_SHARE = 1e-3
"""Of a pixel in a component, below which it is not counted there."""


def expectation(
    background: Background,
    features: Features,
    transmittance: Tensor,
    brightness_bins: Tensor,
    spectra: PixelFeatures,
    generator: torch.Generator,
    *,
    share: Tensor | None = None,
) -> Moments:
    """Posterior moments of the background; arguments as of `EvidenceTables.tabulate`.

    Each pixel's concentration is drawn from its posterior: with its mode instead, the background would
    be credited with too little variance in the direction of a plume. `share` (pixels, K') deals the
    pixels of a one-component background out to K' new components.
    """
    tables = EvidenceTables.tabulate(background, features, transmittance, brightness_bins)
    own, node = _drawn(tables, spectra, generator)
    weights = own if share is None else share
    key = bin_of(spectra.brightness, brightness_bins)[:, None] * len(transmittance) + node
    noises = [PixelNoise.at(float(value), background, features, transmittance) for value in brightness_bins]
    x = joint(spectra).double()
    moments = Moments.zero(weights.shape[1], x.shape[1])
    for target in range(weights.shape[1]):
        k = target if share is None else 0
        used = torch.where(weights[:, target] > LEAST_SHARE)[0]
        dealt = groups(key[used, k])
        for start in range(0, len(dealt), KEYS_AT_ONCE):
            some = dealt[start : start + KEYS_AT_ONCE]
            keys = torch.tensor([group for group, _ in some])
            regressions = zip(*_gains(background, transmittance, noises, k, keys), strict=True)
            for (_, rows), (gain, left, mean) in zip(some, regressions, strict=True):
                pixels = used[rows]
                b = background.mean[k] + (x[pixels] - mean) @ gain
                moments.add(target, weights[pixels, target], b, left)
    return moments


def _drawn(
    tables: EvidenceTables, spectra: PixelFeatures, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Share of each pixel in the components, and a node drawn for each, (pixels, components) both."""
    shares, nodes = [], []
    for rows in torch.split(torch.arange(len(spectra)), CHUNK):
        log_joint = tables.log_likelihood(spectra.at(rows))
        shares.append(torch.logsumexp(log_joint, 2).softmax(1).double())
        uniform = torch.rand(log_joint.shape, generator=generator).clamp_(min=1e-20)
        nodes.append((log_joint - uniform.log_().neg_().log_()).argmax(2))
    return torch.cat(shares), torch.cat(nodes)


def _gains(
    background: Background, transmittance: Tensor, noises: list[PixelNoise], k: int, keys: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Regression of b on x, what it leaves unexplained, and the mean of x, per (bin, node)."""
    brightness_bin, node = keys // len(transmittance), keys % len(transmittance)
    q, mu, cov = background.continuum_size, background.mean[k], background.covariance[k]
    light = torch.cat([torch.ones(len(keys), q, dtype=torch.float64), transmittance[node]], 1)
    shared = light[:, :, None] * cov
    total = shared * light[:, None, :]
    total[:, :q, :q] += torch.stack([noise.continuum for noise in noises])[brightness_bin]
    absorbing = torch.stack([noise.absorbing[k] for noise in noises])
    total.diagonal(dim1=1, dim2=2)[:, q:] += absorbing[brightness_bin, node]
    gain = torch.linalg.solve(total, shared)
    return gain, cov - shared.transpose(1, 2) @ gain, light * mu
