"""p3VAE for methane as published, kept for comparison (`preset paper`).

Radiance is scaled to [0, 1] per band; z_I ~ N(0, I) of 32 dimensions is encoded from the bands without
absorption, z_E ~ Beta scaled to [0, z_max] from the absorbing bands and z_I; f_E is Beer-Lambert with one
coefficient per band. Plume-free pixels train everything with z_E = 0; pixels under a plume train the encoders
only (the decoder is frozen for them). Estimates are the mean and spread of the Beta posterior. Concentrations
start near one instead of anywhere; published runs left that to chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributions import Beta, Normal, kl_divergence

from p3vae.models.methane.types import MethaneEstimate, PlumeOptics
from p3vae.models.nn.trainer import Optimisation, train
from p3vae.paper.nn.layers import dense, frozen_call

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
        self.encode_ground = dense(clear, HIDDEN, HIDDEN, 2 * Z_I_SIZE)
        self.encode_plume = dense(absorbing + Z_I_SIZE, HIDDEN, HIDDEN, 2)
        self.decode_ground = dense(Z_I_SIZE, HIDDEN, HIDDEN, absorbing + clear)
        # A relu that begins as zero for every spectrum never learns: published runs with such a start failed.
        nn.init.constant_(self.encode_plume[-1].bias, 1.0)  # type: ignore[arg-type]

    def ground(self, scaled: Tensor) -> Normal:
        """q(z_I | x)."""
        mean, spread = self.encode_ground(scaled[:, ~self.absorbing]).chunk(2, 1)
        return Normal(mean, nn.functional.softplus(spread) + 1e-4)

    def plume(self, scaled: Tensor, z_i: Tensor) -> Beta:
        """q(z_E / z_max | x, z_I)."""
        heads = self.encode_plume(torch.cat([scaled[:, self.absorbing], z_i], 1))
        a, b = (CONCENTRATION_FLOOR + torch.relu(heads)).unbind(1)
        return Beta(a, b)

    def decode(self, z_i: Tensor, ppm_m: Tensor, *, frozen: bool = False) -> Tensor:
        """f_E(f_I(z_I), z_E), scaled radiance (pixels, bands); Beer-Lambert acts before the scaling.

        `frozen` keeps gradients away from the parameters of f_I while letting them through to z_I.
        """
        logits = frozen_call(self.decode_ground, z_i) if frozen else self.decode_ground(z_i)
        ground = self.low + self.span * torch.sigmoid(logits)
        return (ground * torch.exp(-ppm_m[:, None] * self.depth_per_ppm_m) - self.low) / self.span

    def plume_free_loss(self, x: Tensor, kl_weight: float) -> Tensor:
        """-ELBO of ln p(x, z_E = 0)."""
        ground = self.ground(x)
        reconstructed = self.decode(ground.rsample(), torch.zeros_like(x[:, 0]))
        return _misfit(x, reconstructed) + kl_weight * kl_divergence(ground, _standard(x)).sum(1).mean()

    def under_plume_loss(self, x: Tensor, kl_weight: float) -> Tensor:
        """-ELBO of ln p(x), stopped at the parameters of f_I."""
        ground = self.ground(x)
        z_i = ground.rsample()
        plume = self.plume(x, z_i)
        share = plume.rsample().clamp(1e-6, 1.0 - 1e-6)
        reconstructed = self.decode(z_i, share * self.max_ppm_m, frozen=True)
        flat = Beta(torch.ones_like(x[0, 0]), torch.ones_like(x[0, 0]))
        kl = kl_divergence(ground, _standard(x)).sum(1).mean() + kl_divergence(plume, flat).mean()
        return _misfit(x, reconstructed) + kl_weight * kl

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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(chosen.seed)
        model = PaperMethaneVAE(torch.cat([plume_free, unlabelled]), optics, chosen.max_ppm_m)
    free, under = model.scale(plume_free), model.scale(unlabelled)

    def batches(epoch: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        for rows in torch.split(torch.randperm(len(under), generator=generator), chosen.batch):
            yield free[torch.randint(len(free), (chosen.batch,), generator=generator)], under[rows]

    def loss(batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        known = model.plume_free_loss(batch[0], chosen.kl_weight)
        unknown = model.under_plume_loss(batch[1], chosen.kl_weight)
        return {"total": known + unknown, "plume_free": known, "under_plume": unknown}

    rate = chosen.learning_rate
    train(
        model,
        batches,
        loss,
        Optimisation(chosen.epochs, rate, lowest_rate=rate, warmup_steps=0, clip_norm=10.0),
        seed=chosen.seed,
        on_epoch=lambda done: progress(done.epoch, chosen.epochs),
    )
    return model


def fit_preset(
    plume_free: Tensor,
    under_plume: Tensor,
    optics: PlumeOptics,
    *,
    max_ppm_m: float,
    seed: int,
    progress: Callable[[int, int], None],
) -> PaperMethaneVAE:
    """What `invert-methane --preset paper` learns: as published, but for the largest enhancement [ppm m]."""
    settings = PaperSettings(max_ppm_m=max_ppm_m, seed=seed)
    return fit_paper(plume_free, under_plume, optics, settings, progress)


def _misfit(x: Tensor, reconstructed: Tensor) -> Tensor:
    return ((x - reconstructed) ** 2).mean()


def _standard(x: Tensor) -> Normal:
    return Normal(torch.zeros_like(x[0, 0]), torch.ones_like(x[0, 0]))
