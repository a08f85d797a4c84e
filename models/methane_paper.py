"""p3VAE for methane as published, kept for comparison (`preset paper`).

Radiance is scaled to [0, 1] per band; z_I ~ N(0, I) of 32 dimensions is encoded from the bands without
absorption, z_E ~ Beta scaled to [0, z_max] from the absorbing bands and z_I; f_E is Beer-Lambert with one
coefficient per band. Plume-free pixels train everything with z_E = 0; pixels under a plume train the encoders
only (the decoder is frozen for them). Estimates are the mean and spread of the Beta posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributions import Beta, Normal, kl_divergence

from p3vae.models.methane_types import MethaneEstimate, PlumeOptics

Z_I_SIZE = 32
HIDDEN = 256
CONCENTRATION_FLOOR = 0.1


@dataclass(frozen=True)
class PaperSettings:
    """Hyperparameters as published."""

    epochs: int = 100
    batch: int = 64
    learning_rate: float = 1e-3
    kl_weight: float = 1e-4
    max_ppm_m: float = 1.2e5
    seed: int = 0


class PaperMethaneVAE(nn.Module):
    """q(z_I | x), q(z_E | x, z_I), f_I and the constant-absorption f_E."""

    low: Tensor
    span: Tensor
    depth_per_ppm_m: Tensor
    absorbing: Tensor

    def __init__(self, radiance: Tensor, optics: PlumeOptics, max_ppm_m: float) -> None:
        super().__init__()
        self.max_ppm_m = max_ppm_m
        self.register_buffer("low", radiance.amin(0).float())
        self.register_buffer("span", (radiance.amax(0) - radiance.amin(0)).clamp(min=1e-6).float())
        self.register_buffer("depth_per_ppm_m", optics.slope.float())
        self.register_buffer("absorbing", optics.absorbing)
        absorbing, clear = int(optics.absorbing.sum()), int((~optics.absorbing).sum())
        self.encode_ground = _network(clear, 2 * Z_I_SIZE)
        self.encode_plume = _network(absorbing + Z_I_SIZE, 2)
        self.decode_ground = _network(Z_I_SIZE, absorbing + clear)

    def ground(self, scaled: Tensor) -> Normal:
        """q(z_I | x)."""
        mean, spread = self.encode_ground(scaled[:, ~self.absorbing]).chunk(2, 1)
        return Normal(mean, nn.functional.softplus(spread) + 1e-4)

    def plume(self, scaled: Tensor, z_i: Tensor) -> Beta:
        """q(z_E / z_max | x, z_I)."""
        heads = self.encode_plume(torch.cat([scaled[:, self.absorbing], z_i], 1))
        a, b = (CONCENTRATION_FLOOR + torch.relu(heads)).unbind(1)
        return Beta(a, b)

    def decode(self, z_i: Tensor, ppm_m: Tensor) -> Tensor:
        """f_E(f_I(z_I), z_E), scaled radiance (pixels, bands); Beer-Lambert acts before the scaling."""
        ground = self.low + self.span * torch.sigmoid(self.decode_ground(z_i))
        return (ground * torch.exp(-ppm_m[:, None] * self.depth_per_ppm_m) - self.low) / self.span

    def scale(self, radiance: Tensor) -> Tensor:
        """Radiance to [0, 1] per band."""
        return (radiance.float() - self.low) / self.span

    @torch.no_grad()
    def invert(self, radiance: Tensor, detector_column: Tensor | None = None) -> MethaneEstimate:
        """Mean and standard deviation of q(z_E | x, z_I) at the mean of z_I; one response for all columns."""
        scaled = self.scale(radiance)
        posterior = self.plume(scaled, self.ground(scaled).mean)
        std = posterior.stddev * self.max_ppm_m
        return MethaneEstimate(
            posterior.mean * self.max_ppm_m, std, 1.0 - 12.0 * posterior.variance.clamp(max=1 / 12)
        )


def fit_paper(
    plume_free: Tensor,
    unlabelled: Tensor,
    optics: PlumeOptics,
    settings: PaperSettings | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> PaperMethaneVAE:
    """Train on plume-free pixels and on pixels under plumes, both radiance (pixels, bands)."""
    chosen = settings or PaperSettings()
    with torch.random.fork_rng():
        torch.manual_seed(chosen.seed)
        model = PaperMethaneVAE(torch.cat([plume_free, unlabelled]), optics, chosen.max_ppm_m)
        free, under = model.scale(plume_free), model.scale(unlabelled)
        optimiser = torch.optim.Adam(model.parameters(), lr=chosen.learning_rate)
        for epoch in range(chosen.epochs):
            for rows in torch.split(torch.randperm(len(under)), chosen.batch):
                labelled = torch.randint(len(free), (chosen.batch,))
                optimiser.zero_grad()
                _plume_free_loss(model, free[labelled], chosen.kl_weight).backward()  # type: ignore[no-untyped-call]
                _step_without_decoder(model, under[rows], chosen.kl_weight)
                nn.utils.clip_grad_norm_(model.parameters(), 10.0)
                optimiser.step()
            progress(epoch + 1, chosen.epochs)
    return model.eval()


def _plume_free_loss(model: PaperMethaneVAE, x: Tensor, kl_weight: float) -> Tensor:
    """-ELBO of ln p(x, z_E = 0)."""
    q = model.ground(x)
    reconstructed = model.decode(q.rsample(), torch.zeros(len(x)))
    prior = Normal(torch.zeros(()), torch.ones(()))
    loss: Tensor = ((x - reconstructed) ** 2).mean() + kl_weight * kl_divergence(q, prior).sum(1).mean()
    return loss


def _step_without_decoder(model: PaperMethaneVAE, x: Tensor, kl_weight: float) -> None:
    """Add the gradient of -ELBO of ln p(x), stopped at the parameters of f_I."""
    before = [None if p.grad is None else p.grad.clone() for p in model.decode_ground.parameters()]
    q_ground = model.ground(x)
    z_i = q_ground.rsample()
    q_plume = model.plume(x, z_i)
    share = q_plume.rsample().clamp(1e-6, 1.0 - 1e-6)
    reconstructed = model.decode(z_i, share * model.max_ppm_m)
    prior = Normal(torch.zeros(()), torch.ones(()))
    flat = Beta(torch.ones(()), torch.ones(()))
    kl = kl_divergence(q_ground, prior).sum(1).mean() + kl_divergence(q_plume, flat).mean()
    (((x - reconstructed) ** 2).mean() + kl_weight * kl).backward()  # type: ignore[no-untyped-call]
    for parameter, gradient in zip(model.decode_ground.parameters(), before, strict=True):
        parameter.grad = gradient


def _network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, outputs)
    )
