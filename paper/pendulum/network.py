"""What the pendulum models have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

XI_PRIOR = (0.5, 0.866)
"""Mean and deviation of the Gaussian prior of ξ [s-1], as published."""


class Forecast(NamedTuple):
    """What a model makes of observed swings."""

    codes: Tensor
    """Posterior means of the latent variables, (swings, latents)."""
    angle: Tensor
    """Predicted angles from the first observation on [rad], (swings, steps)."""


class PendulumNetwork(nn.Module, ABC):
    """A variational autoencoder of pendulum swings."""

    latent_names: tuple[str, ...]
    """Names of the columns of `Forecast.codes`."""

    @abstractmethod
    def loss_terms(self, angle: Tensor, omega: Tensor) -> dict[str, Tensor]:
        """Named parts of the loss of swings (batch, 50) [rad]; `omega` (batch,) is nan where unknown.

        Draws latent variables from the posterior in training mode, and takes their means in evaluation mode.
        """

    @abstractmethod
    def forecast(self, angle: Tensor, steps: int) -> Forecast:
        """Latent variables of swings (swings, 50) [rad], and their angles over `steps`."""

    def draw(self, mean: Tensor, std: Tensor) -> Tensor:
        """A reparameterised draw in training mode, the mean in evaluation mode."""
        return mean + std * torch.randn_like(std) if self.training else mean


class SemiSupervisedNetwork(PendulumNetwork):
    """A model that knows ω of some swings, with a separate objective for those and for the others."""

    @abstractmethod
    def labelled_terms(self, angle: Tensor, omega: Tensor) -> dict[str, Tensor]:
        """Loss of swings (batch, 50) [rad] of known ω (batch,) [rad s-1]: what teaches the learned force."""

    @abstractmethod
    def unlabelled_terms(self, angle: Tensor) -> dict[str, Tensor]:
        """Loss of swings (batch, 50) [rad] of unknown ω: with stop-gradient it teaches encoders only."""

    def loss_terms(self, angle: Tensor, omega: Tensor) -> dict[str, Tensor]:
        known = torch.isfinite(omega)
        terms: dict[str, Tensor] = {}
        if known.any():
            terms |= self.labelled_terms(angle[known], omega[known])
        if not known.all():
            terms |= self.unlabelled_terms(angle[~known])
        return terms
