"""p3VAE for the pendulum, ours: the damping acts inside the ODE, solved by RK4.

    p(x | ω, ξ, ϑ0) = N(F[ϑ'' = f_I(ϑ; ω) - ξ ϑ'], σ²),   ϑ(0) = ϑ0, ϑ'(0) = 0
    q(ω, ξ, ϑ0 | x) = q(ω | x) q(ξ | x, ω) q(ϑ0 | x, ω)

z_I = ω is intrinsic and known for some training swings; z_E = ξ is environmental and never known.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from p3vae.paper.nn.layers import dense, frozen_copy
from p3vae.paper.nn.losses import gaussian_kl
from p3vae.paper.pendulum.inference import BoundedGaussian, infer
from p3vae.paper.pendulum.network import XI_PRIOR, Forecast, SemiSupervisedNetwork
from p3vae.paper.pendulum.physics import OBSERVED_STEPS, drag, observation_times, swing

START_PRIOR = (0.0, 1.0)
"""Mean and deviation of the Gaussian prior of ϑ(0) [rad]."""
SMALLEST_OMEGA = 0.02
"""ω [rad s-1] below which a swing looks still over any observed time."""

LATENTS = 3
"""ω, ξ and ϑ(0)."""
SWINGS_AT_ONCE = 1024
"""Swings whose posterior is drawn together: bounds the memory."""


class RestoringForce(nn.Module):
    """f_I: the unknown acceleration -ω² κ(ω, ϑ) ϑ [rad s-2], with κ > 0 learned by a network.

    Only what holds for any pendulum at all is built in. κ is positive: ϑ = 0 is the stable rest that the
    derivation of f_E asks for. It depends on ϑ²: a pendulum does not know left from right. ω² carries the
    unit: ω is the only quantity with time in it. The network, (ln ω, ϑ²) to ln κ, starts at κ = 1.
    """

    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.log_factor = dense(2, hidden, hidden, 1, activation=nn.SiLU)
        for parameter in self.log_factor[-1].parameters():
            nn.init.zeros_(parameter)

    def forward(self, log_omega: Tensor, angle: Tensor) -> Tensor:
        """Accelerations (...) at ln ω (...) and angles (...)."""
        # Runaway angles of an early, wrong guess would overflow the exponential.
        inputs = torch.stack((log_omega, angle.clamp(-4.0, 4.0).square()), dim=-1)
        return -angle * torch.exp(2.0 * log_omega + self.log_factor(inputs)[..., 0])


class PendulumP3Vae(SemiSupervisedNetwork):
    """Encoder, learned force, and the objective; see the module's text for p and q."""

    latent_names = ("omega", "xi")
    omega_prior: Tensor
    """Mean and deviation of the prior of ω [rad s-1], a Gaussian cut at zero, (2,)."""
    time: Tensor

    def __init__(self, *, stop_gradient: bool = True) -> None:
        super().__init__()
        self.stop_gradient = stop_gradient
        self.force = RestoringForce()
        self.log_noise = nn.Parameter(torch.tensor(math.log(0.1)))
        self.omega_encoder = dense(OBSERVED_STEPS, 256, 256, 256, 2, activation=nn.SiLU)
        self.environment_encoder = dense(OBSERVED_STEPS + 1, 256, 256, 256, 4, activation=nn.SiLU)
        self.register_buffer("omega_prior", torch.tensor([3.0, 2.0]))
        self.register_buffer("time", observation_times(OBSERVED_STEPS))

    def set_omega_prior(self, omega: Tensor) -> None:
        """Give the prior of ω the mean and deviation of the known ones among `omega` (swings,) [rad s-1]."""
        known = omega[torch.isfinite(omega)]
        self.omega_prior = torch.stack((known.mean(), known.std()))

    def decode(self, latents: Tensor, time: Tensor, *, frozen: bool = False) -> Tensor:
        """Angles (..., steps) [rad] of (ω, ξ, ϑ0), (..., 3); `frozen` spares the learned force."""
        omega, xi, start = latents.unbind(-1)
        force = frozen_copy(self.force) if frozen else self.force
        log_omega = torch.log(omega)

        def acceleration(now: Tensor, angle: Tensor, velocity: Tensor) -> Tensor:
            return torch.as_tensor(force(log_omega, angle) + drag(velocity, xi))

        return swing(acceleration, start, time, solver="rk4")

    def encode_omega(self, angle: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation of q(ω | x), each (batch,)."""
        mean, spread = self.omega_encoder(angle).unbind(-1)
        return softplus(mean) + SMALLEST_OMEGA, softplus(spread) + 1e-3

    def encode_environment(self, angle: Tensor, omega: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Mean and deviation of q(ξ | x, ω), then of q(ϑ0 | x, ω), each (batch,)."""
        inputs = torch.cat((angle, omega[:, None]), dim=-1)
        xi, xi_spread, start, start_spread = self.environment_encoder(inputs).unbind(-1)
        return softplus(xi), softplus(xi_spread) + 1e-3, angle[:, 0] + start, softplus(start_spread) + 1e-3

    def loss_terms(self, angle: Tensor, omega: Tensor) -> dict[str, Tensor]:
        return super().loss_terms(angle, omega) | {"sleep": self.sleep_term(angle)}

    def labelled_terms(self, angle: Tensor, omega: Tensor) -> dict[str, Tensor]:
        """-ELBO of log p(x, ω), and -log q(ω | x): the only terms that teach f_I."""
        mean, std = self.encode_omega(angle)
        supervised = _gaussian_nll(omega, mean, std)
        return {"labelled": self._negative_elbo(angle, omega).mean(), "omega": supervised.mean()}

    def unlabelled_terms(self, angle: Tensor) -> dict[str, Tensor]:
        """-ELBO of log p(x): teaches the encoder only, unless `stop_gradient` is off."""
        mean, std = self.encode_omega(angle)
        omega = self.draw(mean, std).clamp_min(SMALLEST_OMEGA)
        elbo = self._negative_elbo(angle, omega, frozen=self.stop_gradient)
        return {"unlabelled": (elbo + gaussian_kl(mean, std, *self.omega_prior)).mean()}

    def sleep_term(self, angle: Tensor) -> Tensor:
        """-log q of swings drawn from the model itself, whose latent variables are known.

        Teaches the encoder the whole range of the priors: dampings beyond those of the training swings.
        """
        with torch.no_grad():
            mean, std = self.omega_prior.tolist()
            omega = _cut_gaussian(angle[:, 0], mean, std, SMALLEST_OMEGA)
            xi = _cut_gaussian(angle[:, 0], *XI_PRIOR, 0.0)
            start = angle[torch.randperm(len(angle)), 0]
            clean = self.decode(torch.stack((omega, xi, start), dim=-1), self.time)
            drawn = clean + torch.exp(self.log_noise) * torch.randn_like(clean)
        xi_mean, xi_std, start_mean, start_std = self.encode_environment(drawn, omega)
        intrinsic = _gaussian_nll(omega, *self.encode_omega(drawn))
        environment = _gaussian_nll(xi, xi_mean, xi_std) + _gaussian_nll(start, start_mean, start_std)
        return (intrinsic + environment).mean()

    def forecast(self, angle: Tensor, steps: int) -> Forecast:
        """The encoder's guess is refined on each swing through the decoder before it is continued."""
        parts = [
            self._forecast(part, observation_times(steps)) for part in torch.split(angle, SWINGS_AT_ONCE)
        ]
        return Forecast(torch.cat([part.codes for part in parts]), torch.cat([part.angle for part in parts]))

    @torch.no_grad()
    def calibrate_noise(self, angle: Tensor) -> None:
        """Set σ to what refined latent variables leave unexplained of swings (batch, 50) [rad].

        During training σ also stands for the encoder's errors, which inference does not make.
        """
        left = (self.forecast(angle, OBSERVED_STEPS).angle - angle).square().mean()
        freedom = 1.0 - LATENTS / OBSERVED_STEPS
        self.log_noise.copy_(0.5 * torch.log(left / freedom))

    def guess(self, angle: Tensor) -> Tensor:
        """The encoder's own (ω, ξ, ϑ0), (batch, 3)."""
        omega, _ = self.encode_omega(angle)
        xi, _, start, _ = self.encode_environment(angle, omega)
        return torch.stack((omega, xi, start), dim=-1)

    def _forecast(self, angle: Tensor, time: Tensor) -> Forecast:
        def decode(latents: Tensor) -> Tensor:
            return self.decode(latents, self.time)

        noise = float(self.log_noise.exp())
        latents = infer(decode, angle, self.guess(angle), self._prior(), noise).mean
        return Forecast(latents[:, :2], self.decode(latents, time))

    def _prior(self) -> BoundedGaussian:
        mean, std = torch.tensor([self.omega_prior.tolist(), XI_PRIOR, START_PRIOR]).unbind(-1)
        lowest = torch.tensor([SMALLEST_OMEGA, 0.0, -torch.inf])
        return BoundedGaussian(mean, std, lowest, mean + 5.0 * std)

    def _negative_elbo(self, angle: Tensor, omega: Tensor, *, frozen: bool = False) -> Tensor:
        xi, xi_std, start, start_std = self.encode_environment(angle, omega)
        drawn = torch.stack((omega, self.draw(xi, xi_std).relu(), self.draw(start, start_std)), dim=-1)
        predicted = self.decode(drawn, self.time, frozen=frozen)
        log_noise = self.log_noise.detach() if frozen else self.log_noise
        likelihood = _gaussian_nll(angle, predicted, torch.exp(log_noise)).sum(-1)
        divergence = gaussian_kl(xi, xi_std, *XI_PRIOR) + gaussian_kl(start, start_std, *START_PRIOR)
        return likelihood + divergence


def _gaussian_nll(value: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    return 0.5 * ((value - mean) / std).square() + torch.log(std) + 0.5 * math.log(2.0 * math.pi)


def _cut_gaussian(like: Tensor, mean: float, std: float, lowest: float) -> Tensor:
    return nn.init.trunc_normal_(torch.empty_like(like), mean, std, lowest, mean + 5.0 * std)
