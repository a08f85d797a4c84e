"""The semi-supervised p3VAE objective and its parts, for any encoder and decoder."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.distributions import Beta, Dirichlet, kl_divergence


def spectral_angle(x: Tensor, y: Tensor) -> Tensor:
    """Angle between spectra (..., bands) [rad], with a finite gradient where they are parallel.

    2·atan2(‖u−v‖, ‖u+v‖) of the unit vectors equals arccos(u·v), whose gradient is infinite at zero.
    """
    u = x / x.norm(dim=-1, keepdim=True).clamp(min=1e-8)
    v = y / y.norm(dim=-1, keepdim=True).clamp(min=1e-8)
    apart = (u - v).square().sum(-1).add(1e-12).sqrt()
    together = (u + v).square().sum(-1).add(1e-12).sqrt()
    return 2 * torch.atan2(apart, together)


def spectral_misfit(x: Tensor, mean: Tensor, variance: float, angle_weight: float) -> Tensor:
    """−log p(x | ·) up to a constant: MSE/σ² + λ·angle, (...,) for spectra (..., bands)."""
    return (x - mean).square().mean(-1) / variance + angle_weight * spectral_angle(x, mean)


def mean_or_zero(values: Tensor) -> Tensor:
    """Mean of all values; zero without any."""
    return values.mean() if values.numel() else values.sum()


def absolute_misfit(x: Tensor, mean: Tensor) -> Tensor:
    """Mean absolute error (...,) of spectra (..., bands)."""
    return (x - mean).abs().mean(-1)


def labelled_cross_entropy(logits: Tensor, class_index: Tensor) -> Tensor:
    """Mean cross-entropy over the pixels whose class index (...,) is not negative; zero without any.

    `logits` are (..., classes).
    """
    known = class_index >= 0
    if not known.any():
        return logits.sum() * 0.0
    return F.cross_entropy(logits[known], class_index[known])


def irradiance_prior(cos_zenith: float, like: Tensor) -> Beta:
    """p(z) = Beta(1, (1 − cosΘ0)/cosΘ0), whose mean is the cosΘ0 of flat ground."""
    beta = max((1.0 - cos_zenith) / (cos_zenith + 1e-6), 1e-3)
    return Beta(like.new_tensor(1.0), like.new_tensor(beta))


def beta_kl(posterior: Beta, prior: Beta) -> Tensor:
    """KL(q ‖ p) of two Beta distributions, one value per sample."""
    return kl_divergence(posterior, prior)


def dirichlet_kl(posterior: Dirichlet, prior: Dirichlet) -> Tensor:
    """KL(q ‖ p) of two Dirichlet distributions, one value per sample (never broadcast over samples)."""
    shape = posterior.concentration.shape
    return kl_divergence(posterior, Dirichlet(prior.concentration.expand(shape), validate_args=False))


def gaussian_misfit(x: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """−log N(x; mean, std²) up to a constant, elementwise."""
    return 0.5 * ((x - mean) * torch.exp(-log_std)).square() + log_std


def gaussian_kl(mean: Tensor, std: Tensor, prior_mean: Tensor | float, prior_std: Tensor | float) -> Tensor:
    """KL(N(mean, std²) ‖ N(prior_mean, prior_std²)) [nat], elementwise."""
    ratio = (std / prior_std).square()
    return 0.5 * (ratio + ((mean - prior_mean) / prior_std).square() - 1.0 - torch.log(ratio))


def entropy(logits: Tensor) -> Tensor:
    """Entropy of a categorical distribution [nat], (samples,) for logits (samples, classes)."""
    log_probability = logits.log_softmax(-1)
    return -(log_probability.exp() * log_probability).sum(-1)


def unlabelled_bound(per_class: Tensor, logits: Tensor, entropy_weight: float) -> Tensor:
    """−U(x): the labelled bound averaged over q(y|x), less its entropy, (samples,).

    `per_class` holds −L(x, y) for every class, (samples, classes).
    """
    return (logits.softmax(-1) * per_class).sum(-1) - entropy_weight * entropy(logits)
