"""Distributions of latent variables with what a semi-supervised VAE asks of them.

Tensors are (samples, hypotheses, …): the hypotheses are classes that a sample might have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.special
import torch
from torch import Tensor
from torch.distributions import Beta, Dirichlet, Normal

from p3vae.paper.nn.losses import beta_kl, dirichlet_kl, gaussian_kl

_INSIDE = 1e-4


class Latents(Protocol):
    """q(z | x, y) beside its prior p(z)."""

    def rsample(self) -> Tensor:
        """A draw that lets gradients through, (samples, hypotheses, latents)."""

    def mean(self) -> Tensor:
        """(samples, hypotheses, latents)."""

    def kl(self) -> Tensor:
        """KL(q ‖ p), (samples, hypotheses)."""

    def at(self, uniform: Tensor) -> Tensor:
        """The draw that belongs to uniform numbers (latents,), by inversion: the same for every sample."""

    def log_ratio(self, values: Tensor) -> Tensor:
        """log p(z)/q(z), (samples, hypotheses)."""

    def width(self) -> int:
        """Number of uniform numbers that a draw needs."""


@dataclass(frozen=True, eq=False)
class LightAndMixing:
    """z ~ Beta and v ~ Dirichlet; values are [z, v_1 … v_K]."""

    light: Tensor
    """Concentrations of z, (samples, hypotheses, 2)."""
    mixing: Tensor
    """Concentrations of v, (samples, hypotheses, K)."""
    prior: Beta
    """p(z); p(v) is uniform on the simplex."""

    def _q(self) -> tuple[Beta, Dirichlet]:
        z = Beta(self.light[..., 0], self.light[..., 1], validate_args=False)
        return z, Dirichlet(self.mixing, validate_args=False)

    def rsample(self) -> Tensor:
        """A draw of both."""
        q_z, q_v = self._q()
        return torch.cat([q_z.rsample().clamp(_INSIDE, 1 - _INSIDE)[..., None], q_v.rsample()], -1)

    def mean(self) -> Tensor:
        """Means of both."""
        q_z, q_v = self._q()
        return torch.cat([q_z.mean[..., None], q_v.mean], -1)

    def kl(self) -> Tensor:
        """Sum of the two divergences."""
        q_z, q_v = self._q()
        return beta_kl(q_z, self.prior) + dirichlet_kl(
            q_v, Dirichlet(torch.ones_like(self.mixing), validate_args=False)
        )

    def at(self, uniform: Tensor) -> Tensor:
        """A draw by the inverse distribution functions of Beta and Gamma."""
        a, b = self.light.cpu().double().numpy().transpose(2, 0, 1)
        z = scipy.special.betaincinv(a, b, float(uniform[0])).clip(1e-3, 1 - 1e-3)
        gammas = scipy.special.gammaincinv(self.mixing.cpu().double().numpy(), uniform[1:].double().numpy())
        v = (gammas + 1e-12) / (gammas + 1e-12).sum(-1, keepdims=True)
        v = v.clip(1e-6) / v.clip(1e-6).sum(-1, keepdims=True)
        return self.light.new_tensor(np.concatenate([z[..., None], v], -1))

    def log_ratio(self, values: Tensor) -> Tensor:
        """Of both, up to the constant density of p(v)."""
        q_z, q_v = self._q()
        z, v = values[..., 0], values[..., 1:]
        ratio: Tensor = self.prior.log_prob(z) - q_z.log_prob(z) - q_v.log_prob(v)  # type: ignore[no-untyped-call]
        return ratio

    def width(self) -> int:
        """One for z, one for each spectrum."""
        return 1 + self.mixing.shape[-1]


@dataclass(frozen=True, eq=False)
class Gaussian:
    """z ~ N(mean, diag(exp(log_std))²) beside N(0, I)."""

    location: Tensor
    log_std: Tensor

    def rsample(self) -> Tensor:
        """A draw."""
        return self.location + self.log_std.exp() * torch.randn_like(self.location)

    def mean(self) -> Tensor:
        """The location."""
        return self.location

    def kl(self) -> Tensor:
        """KL to the standard normal."""
        return gaussian_kl(self.location, self.log_std.exp(), 0.0, 1.0).sum(-1)

    def at(self, uniform: Tensor) -> Tensor:
        """A draw by the inverse normal distribution function."""
        normal: Tensor = torch.special.ndtri(uniform)
        return self.location + self.log_std.exp() * normal.to(self.location)

    def log_ratio(self, values: Tensor) -> Tensor:
        """Log of standard normal over posterior."""
        own = Normal(self.location, self.log_std.exp())
        standard = Normal(torch.zeros_like(values), torch.ones_like(values))
        ratio: Tensor = (standard.log_prob(values) - own.log_prob(values)).sum(-1)  # type: ignore[no-untyped-call]
        return ratio

    def width(self) -> int:
        """One per latent."""
        return self.location.shape[-1]
