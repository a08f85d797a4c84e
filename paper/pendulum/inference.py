"""The posterior of a swing's few latent variables, by Gauss-Newton steps and importance sampling.

An encoder only guesses; the differentiable decoder can check. From the guess, damped Gauss-Newton steps
climb to the most probable latent variables, and weighted draws around them give the posterior's mean.
Deterministic, and up to rounding the same however swings are split over calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

Decode = Callable[[Tensor], Tensor]
"""Latent variables (..., latents) to observations (..., steps)."""

_ROUNDS = 15
_SHIFT = 1e-3
"""Step of the numerical slopes, in units of the latent variables: far below what noise lets one see."""
_DRAWS = 64
_SCALES = (1.0, 2.0)
"""Half of the draws follow the Gaussian at the mode, half one wider by this: tails are then covered."""


@dataclass(frozen=True, eq=False)
class BoundedGaussian:
    """Independent Gaussian priors, cut at `lowest` and `highest`; every field (latents,)."""

    mean: Tensor
    std: Tensor
    lowest: Tensor
    highest: Tensor

    def energy(self, latents: Tensor) -> Tensor:
        """-log density of (..., latents) up to a constant, (...); infinite beyond the bounds."""
        inside = ((latents >= self.lowest) & (latents <= self.highest)).all(-1)
        energy = 0.5 * ((latents - self.mean) / self.std).square().sum(-1)
        return torch.where(inside, energy, torch.inf)

    def clamp(self, latents: Tensor) -> Tensor:
        """The nearest latent variables within the bounds."""
        return torch.minimum(torch.maximum(latents, self.lowest), self.highest)


class Posterior(NamedTuple):
    """Moments of the posterior, each (swings, latents)."""

    mean: Tensor
    std: Tensor


@torch.no_grad()
def infer(decode: Decode, observed: Tensor, guess: Tensor, prior: BoundedGaussian, noise: float) -> Posterior:
    """The posterior of latent variables (swings, latents) given observations (swings, steps).

    `noise` is the standard deviation of the observations around `decode`.
    """
    energy = _Energy(decode, observed, prior, noise)
    mode = _climb(energy, prior.clamp(guess))
    curvature, _ = energy.quadratic(mode)
    factor = torch.linalg.cholesky(torch.linalg.inv(curvature))
    offsets, log_density = _standard_draws(guess.shape[-1])
    draws = mode + torch.einsum("nij,kj->kni", factor.to(mode.dtype), offsets.to(mode.dtype))
    weights = torch.softmax(-energy(draws) - log_density[:, None], dim=0)[..., None]
    mean = (weights * draws).sum(0)
    return Posterior(mean, (weights * (draws - mean).square()).sum(0).sqrt())


@dataclass(frozen=True, eq=False)
class _Energy:
    """-log p(observed, latents) up to a constant."""

    decode: Decode
    observed: Tensor
    prior: BoundedGaussian
    noise: float

    def __call__(self, latents: Tensor) -> Tensor:
        # Draws beyond the bounds count for nothing, but what is decoded must make sense.
        misfit = (self.decode(self.prior.clamp(latents)) - self.observed) / self.noise
        energy = 0.5 * misfit.square().sum(-1) + self.prior.energy(latents)
        return torch.nan_to_num(energy, nan=torch.inf)

    def quadratic(self, latents: Tensor) -> tuple[Tensor, Tensor]:
        """Gauss-Newton curvature (swings, latents, latents) and gradient (swings, latents), in float64.

        Slopes are differences: all shifted swings decoded in one go cost less than forward-mode derivatives.
        """
        shifts = torch.cat((torch.zeros(1, latents.shape[-1]), _SHIFT * torch.eye(latents.shape[-1])))
        decoded = self.decode(latents + shifts[:, None]).double() / self.noise
        jacobian = ((decoded[1:] - decoded[0]) / _SHIFT).movedim(0, -1)
        misfit = decoded[0] - self.observed / self.noise
        precision = self.prior.std.double() ** -2
        gradient = torch.einsum("nsi,ns->ni", jacobian, misfit) + precision * (latents - self.prior.mean)
        return jacobian.mT @ jacobian + torch.diag(precision), gradient


def _climb(energy: _Energy, latents: Tensor) -> Tensor:
    """Levenberg-Marquardt, each swing with its own damping; latents that get worse are not taken."""
    lowest = energy(latents)
    damping = torch.full_like(lowest, 1e-2)
    for _ in range(_ROUNDS):
        curvature, gradient = energy.quadratic(latents)
        diagonal = torch.diagonal(curvature, dim1=-2, dim2=-1)
        damped = curvature + torch.diag_embed(damping[:, None] * diagonal)
        step = -torch.linalg.solve(damped, gradient).to(latents.dtype)
        proposal = energy.prior.clamp(latents + step)
        proposed = energy(proposal)
        better = proposed < lowest
        latents = torch.where(better[:, None], proposal, latents)
        lowest = torch.where(better, proposed, lowest)
        damping = torch.where(better, 0.3 * damping, 4.0 * damping).clamp(1e-6, 1e6)
    return latents


def _standard_draws(latents: int) -> tuple[Tensor, Tensor]:
    """Quasi-random draws (draws, latents) from a mixture of two centred Gaussians, and its log density.

    Each draw has its opposite, so the mean of a symmetric posterior is exact. The first and the second half
    of a Sobol sequence are each balanced (odd and even members are not), hence one scale for each half.
    """
    uniform = SobolEngine(latents, scramble=True, seed=0).draw(_DRAWS // 2).double()  # type: ignore[no-untyped-call]
    normal = torch.special.ndtri(uniform.clamp(1e-6, 1.0 - 1e-6))
    scale = torch.tensor(_SCALES, dtype=torch.float64).repeat_interleave(len(normal) // len(_SCALES))
    draws = torch.cat((scale[:, None] * normal, -scale[:, None] * normal))
    squares = draws.square().sum(-1)
    components = [-0.5 * squares / s**2 - latents * math.log(s) for s in _SCALES]
    return draws, torch.logsumexp(torch.stack(components), dim=0).float()
