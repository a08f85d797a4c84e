"""The pendulum models as published: an ODE VAE, φ-VAE (Takeishi & Kalousis 2021) and p3VAE.

All integrate by Euler steps of the observation interval from the first, noisy angle, and reconstruct by
the sum of squares over time. ξ has the prior N(0.5, 0.866²) [s-1].
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from p3vae.paper.nn.layers import dense, frozen_copy
from p3vae.paper.nn.losses import gaussian_kl
from p3vae.paper.pendulum.network import XI_PRIOR, Forecast, PendulumNetwork, SemiSupervisedNetwork
from p3vae.paper.pendulum.physics import OBSERVED_STEPS, damp, drag, observation_times, swing

WEAK_KL = math.exp(-9.0)
"""Weight of the KL terms of the two baselines: the noise variance their authors assume."""
P3VAE_KL = 0.01
_OBSERVED = observation_times(OBSERVED_STEPS)


class _Gaussian(NamedTuple):
    mean: Tensor
    std: Tensor


class _GaussianEncoder(nn.Module):
    """Features of a swing, and a mean and a deviation head on them."""

    def __init__(self, latents: int, *, positive: bool = False) -> None:
        super().__init__()
        self.positive = positive
        self.features = nn.Sequential(dense(OBSERVED_STEPS, 128, 128, 256, activation=nn.ELU), nn.ELU())
        self.mean = dense(256, 64, 32, latents, activation=nn.ELU)
        self.log_variance = dense(256, 64, 32, latents, activation=nn.ELU)

    def forward(self, angle: Tensor) -> _Gaussian:
        """q(z | x), mean and deviation (batch, latents)."""
        features = self.features(angle)
        mean = self.mean(features)
        return _Gaussian(
            softplus(mean) if self.positive else mean, torch.exp(0.5 * self.log_variance(features))
        )


class OdeVae(PendulumNetwork):
    """ϑ'' = NN(z, ϑ, ϑ', t) with z in R²: no physics but the order of the equation."""

    latent_names = ("z1", "z2")

    def __init__(self) -> None:
        super().__init__()
        self.encoder = _GaussianEncoder(2)
        self.right_side = dense(5, 64, 64, 1, activation=nn.ELU)

    def decode(self, z: Tensor, start: Tensor, time: Tensor) -> Tensor:
        """Angles (batch, steps) of codes (batch, 2) and first angles (batch,)."""

        def acceleration(now: Tensor, angle: Tensor, velocity: Tensor) -> Tensor:
            inputs = (*z.unbind(-1), angle, velocity, now.expand_as(angle))
            return torch.as_tensor(self.right_side(torch.stack(inputs, dim=-1))[:, 0])

        return swing(acceleration, start, time, solver="euler")

    def loss_terms(self, angle: Tensor, omega: Tensor) -> dict[str, Tensor]:
        q: _Gaussian = self.encoder(angle)
        predicted = self.decode(self.draw(*q), angle[:, 0], _OBSERVED)
        divergence = WEAK_KL * gaussian_kl(*q, 0.0, 1.0).sum(-1)
        return {"reconstruction": _squares(predicted, angle), "kl": divergence.mean()}

    def forecast(self, angle: Tensor, steps: int) -> Forecast:
        z = self.encoder(angle).mean
        return Forecast(z, self.decode(z, angle[:, 0], observation_times(steps)))


class PhiVae(PendulumNetwork):
    """ϑ'' = -ξ ϑ' + NN(z_A, ϑ): physics and network added inside the ODE, with three regularisers."""

    latent_names = ("z_A", "xi")

    def __init__(self) -> None:
        super().__init__()
        self.auxiliary_encoder = _GaussianEncoder(1)
        self.cleaner = dense(OBSERVED_STEPS + 1, 128, 128, OBSERVED_STEPS, activation=nn.ELU)
        self.xi_encoder = _GaussianEncoder(1, positive=True)
        self.force = dense(2, 64, 64, 1, activation=nn.ELU)

    def encode(self, angle: Tensor) -> tuple[_Gaussian, _Gaussian, Tensor]:
        """q(z_A | x), q(ξ | u) and u, the swing without what the physics does not know (batch, 50)."""
        q_auxiliary = self.auxiliary_encoder(angle)
        cleaned = angle + self.cleaner(torch.cat((angle, q_auxiliary.mean), dim=-1))
        return q_auxiliary, self.xi_encoder(cleaned), cleaned

    def decode(self, z: Tensor, xi: Tensor, start: Tensor, time: Tensor) -> Tensor:
        """Angles (batch, steps) of z_A, ξ and first angles, each (batch,)."""

        def acceleration(now: Tensor, angle: Tensor, velocity: Tensor) -> Tensor:
            learned = self.force(torch.stack((z, angle), dim=-1))[:, 0]
            return torch.as_tensor(learned + drag(velocity, xi))

        return swing(acceleration, start, time, solver="euler")

    def loss_terms(self, angle: Tensor, omega: Tensor) -> dict[str, Tensor]:
        q_auxiliary, q_xi, cleaned = self.encode(angle)
        z, xi = self.draw(*q_auxiliary)[:, 0], self.draw(*q_xi)[:, 0]
        predicted = self.decode(z, xi, angle[:, 0], _OBSERVED)
        # Drag alone cannot move a pendulum that starts at rest, so the physics-only swing is constant.
        physics_only = angle[:, :1].expand_as(angle)
        some_xi = torch.rand_like(angle[:, :1])
        divergence = gaussian_kl(*q_auxiliary, 0.0, 1.0) + gaussian_kl(*q_xi, *XI_PRIOR)
        return {
            "reconstruction": _squares(predicted, angle),
            "kl": WEAK_KL * divergence.sum(-1).mean(),
            "cleaner": 1e-3 * _squares(cleaned, physics_only),
            "xi": 0.1 * _squares(self.xi_encoder(physics_only).mean, some_xi),
            "network": 0.01 * 0.5 * _squares(predicted, physics_only),
        }

    def forecast(self, angle: Tensor, steps: int) -> Forecast:
        q_auxiliary, q_xi, _ = self.encode(angle)
        z, xi = q_auxiliary.mean[:, 0], q_xi.mean[:, 0]
        predicted = self.decode(z, xi, angle[:, 0], observation_times(steps))
        return Forecast(torch.stack((z, xi), dim=-1), predicted)


class PublishedP3Vae(SemiSupervisedNetwork):
    """x = exp(-ξ t) F[ϑ'' = NN(ω, ϑ)], ω partly supervised, f_I taught by labelled swings only."""

    latent_names = ("omega", "xi")

    def __init__(self, *, stop_gradient: bool = True) -> None:
        super().__init__()
        self.stop_gradient = stop_gradient
        self.omega_encoder = dense(OBSERVED_STEPS, 256, 256, 256, 2, activation=nn.ReLU)
        self.xi_encoder = dense(OBSERVED_STEPS + 1, 256, 256, 256, 2, activation=nn.ReLU)
        self.force = dense(2, 64, 64, 1, activation=nn.ELU)

    def encode_omega(self, angle: Tensor) -> _Gaussian:
        """q(ω | x), each (batch,)."""
        mean, spread = self.omega_encoder(angle).unbind(-1)
        return _Gaussian(mean, 0.01 + softplus(spread))

    def encode_xi(self, angle: Tensor, omega: Tensor) -> _Gaussian:
        """q(ξ | x, ω), each (batch,)."""
        mean, spread = self.xi_encoder(torch.cat((angle, omega[:, None]), dim=-1)).unbind(-1)
        return _Gaussian(softplus(mean), softplus(spread) + 1e-6)

    def decode(
        self, omega: Tensor, xi: Tensor, start: Tensor, time: Tensor, *, frozen: bool = False
    ) -> Tensor:
        """Angles (batch, steps) of ω, ξ and first angles, each (batch,); `frozen` spares the network."""
        force = frozen_copy(self.force) if frozen else self.force

        def acceleration(now: Tensor, angle: Tensor, velocity: Tensor) -> Tensor:
            return torch.as_tensor(force(torch.stack((omega, angle), dim=-1))[:, 0])

        return damp(swing(acceleration, start, time, solver="euler"), xi.abs(), time)

    def labelled_terms(self, angle: Tensor, omega: Tensor) -> dict[str, Tensor]:
        """Reconstruction from the true ω, and the absolute error of its encoder."""
        error = (omega - self.encode_omega(angle).mean).abs().mean()
        return {"labelled": self._negative_elbo(angle, omega), "omega": error}

    def unlabelled_terms(self, angle: Tensor) -> dict[str, Tensor]:
        """Reconstruction from the encoded ω."""
        omega = self.draw(*self.encode_omega(angle)).relu()
        return {"unlabelled": self._negative_elbo(angle, omega, frozen=self.stop_gradient)}

    def forecast(self, angle: Tensor, steps: int) -> Forecast:
        omega = self.encode_omega(angle).mean.relu()
        xi = self.encode_xi(angle, omega).mean
        predicted = self.decode(omega, xi, angle[:, 0], observation_times(steps))
        return Forecast(torch.stack((omega, xi), dim=-1), predicted)

    def _negative_elbo(self, angle: Tensor, omega: Tensor, *, frozen: bool = False) -> Tensor:
        q = self.encode_xi(angle, omega)
        predicted = self.decode(omega, self.draw(*q), angle[:, 0], _OBSERVED, frozen=frozen)
        return _squares(predicted, angle) + P3VAE_KL * gaussian_kl(*q, *XI_PRIOR).mean()


def _squares(predicted: Tensor, angle: Tensor) -> Tensor:
    return (predicted - angle).square().sum(-1).mean()
