"""Light as terrain tells it: one more noisy observation of the same light that the spectra show.

    c = z + e,  e ~ N(0, s²)        h = w + d,  d ~ N(0, t²)

c is the cosine of incidence, zero in cast shadow, h the diffuse light by the sky view. Given spectra x, light
(z, w) is Gaussian under every class y and component j of its prior, with covariance K, so that

    p(c, h | x, y, j) = N((c, h); (z, w), K + diag(s², t²))

weighs classes and components, and the mean of (z, w) moves by the gain of Kalman (1960,
doi:10.1115/1.3662552). The brightness of a class is known to a relative standard deviation λ only, which
light shares: K = cov(z, w | x, y, j) + λ² (z, w)ᵀ(z, w). No observation is one of precision 1/s² = 0.

Two explanations of a dark spectrum, dark ground and little light, differ by the sum of small differences in
hundreds of bands, of which spectra are too sure. Where light was observed, the weights of the pairs (y, j) in
the posterior of light are therefore p(x | y, j)^(1/T) p(c, h | x, y, j), with T = 10.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class ObservedLight(NamedTuple):
    """Of pixels, (pixels,) each."""

    direct: Tensor
    """c [1]."""
    direct_precision: Tensor
    """1/s² [1]; zero where nothing was observed."""
    sky: Tensor
    """h [1]."""
    sky_precision: Tensor
    """1/t² [1]; zero where nothing was observed."""
    spread: Tensor
    """λ [1], where c was observed."""


SOFTENING = 10.0
"""T."""


class LightGivenSpectra(NamedTuple):
    """Of pairs of component and class: constants (pairs,) but for the means, (pixels, pairs)."""

    sun: Tensor
    """Mean of z."""
    sky: Tensor
    """Mean of w."""
    sun_variance: Tensor
    covariance: Tensor
    sky_variance: Tensor


class LightGivenBoth(NamedTuple):
    """After the observation, (pixels, pairs)."""

    log_factor: Tensor
    """log p(c, h | x, y, j) + log s + log t + log 2π."""
    sun: Tensor
    sky: Tensor
    kept: Tensor
    """Variance of z over that before."""
    surprise: Tensor
    """c less its expectation, in standard deviations [1]."""


def observe(light: LightGivenSpectra, seen: ObservedLight, level: Tensor) -> LightGivenBoth:
    """One observation after the other: first h, then c. `level` is λ, (pixels, 1)."""
    c, p, h, q = (values[:, None] for values in seen[:4])
    sun, sky = light.sun, light.sky
    relative = level * sun
    variance = relative.square().add_(light.sun_variance)
    shared = (relative * sky).mul_(level).add_(light.covariance)
    scale = sky.square().mul_(level.square()).add_(light.sky_variance).mul_(q).add_(1)
    innovation = h - sky
    pull = innovation * q / scale
    log_factor = (innovation * pull).add_(scale.log()).mul_(-0.5)
    part = shared.square().mul_(q).div_(scale)
    left = variance - part
    new_sun = sun + shared * pull
    new_sky = sky + (scale - 1) * innovation / scale
    shared = shared / scale
    scale = (left * p).add_(1)
    innovation = c - new_sun
    pull = innovation * p / scale
    log_factor.sub_((innovation * pull).add_(scale.log()).mul_(0.5))
    surprise = innovation * (p / scale).sqrt()
    kept = (left / variance).div_(scale)
    return LightGivenBoth(log_factor, new_sun.add_(left * pull), new_sky.add_(shared * pull), kept, surprise)
