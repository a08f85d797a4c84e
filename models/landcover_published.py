"""The land-cover p3VAE as published, and its twin without physics: networks, objective, sampled posterior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.special
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Beta, Dirichlet

from p3vae.models.networks import LatentSpectra, LightEncoder, MixingEncoder, SegmentClassifier
from p3vae.models.objective import (
    beta_kl,
    dirichlet_kl,
    irradiance_prior,
    spectral_misfit,
    unlabelled_bound,
)
from p3vae.physics.irradiance import apparent_reflectance, sky_from_sun


@dataclass(frozen=True)
class PublishedOptions:
    """Constants of the published objective."""

    variance: float = 1.0
    """σ²."""
    angle_weight: float = 1.0
    """λ."""
    kl_weight: float = 1e-4
    """β."""
    entropy_weight: float = 1e-2
    physics: bool = True
    stop_gradient: bool = True
    draws: int = 5


class PublishedP3VAE(nn.Module):
    """q(y|x), q(z|x,y), q(v|x,y) and f_E∘f_I; physical constants are buffers and travel with the weights."""

    direct_ratio: Tensor
    diffuse_ratio: Tensor
    cos_zenith: Tensor

    def __init__(
        self,
        segments: tuple[int, ...],
        classes: int,
        mixtures: int,
        direct_ratio: Tensor,
        diffuse_ratio: Tensor,
        cos_zenith: float,
        options: PublishedOptions,
    ) -> None:
        super().__init__()
        bands = sum(segments)
        self.options, self.classes = options, classes
        self.classifier = SegmentClassifier(segments, classes)
        self.light_encoder = LightEncoder(bands, classes)
        self.mixing_encoder = MixingEncoder(bands, classes, mixtures)
        self.decoder = LatentSpectra(classes if options.physics else classes + 1, bands, mixtures)
        self.register_buffer("direct_ratio", direct_ratio.float())
        self.register_buffer("diffuse_ratio", diffuse_ratio.float())
        self.register_buffer("cos_zenith", torch.tensor(cos_zenith))

    def decode(self, y: Tensor, z: Tensor, v: Tensor, *, frozen: bool = False) -> Tensor:
        """Mean spectra (samples, bands) of one-hot classes, light (samples,) and mixing (samples, K).

        `frozen` keeps the gradient away from f_I while letting it through to z and v.
        """
        inputs = y if self.options.physics else torch.cat([y, z[:, None]], 1)
        if frozen:
            parameters = {name: value.detach() for name, value in self.decoder.named_parameters()}
            spectra = torch.func.functional_call(self.decoder, parameters, (inputs,))
        else:
            spectra = self.decoder(inputs)
        reflectance: Tensor = (v[..., None] * spectra).sum(1)
        if not self.options.physics:
            return reflectance
        light = (z, sky_from_sun(z), self.direct_ratio, self.diffuse_ratio)
        seen: Tensor = apparent_reflectance(reflectance, *light)
        return seen

    def bound(self, x: Tensor, y: Tensor, *, frozen: bool = False) -> Tensor:
        """−L(x, y), one reparametrised draw, (samples,)."""
        options = self.options
        light = self.light_encoder(x, y)
        q_z = Beta(light[:, 0], light[:, 1])
        q_v = Dirichlet(self.mixing_encoder(x, y))
        z = q_z.rsample().clamp(1e-4, 1 - 1e-4)
        v = q_v.rsample()
        p_z = irradiance_prior(float(self.cos_zenith), x)
        p_v = Dirichlet(torch.ones_like(v[0]))
        kl = beta_kl(q_z, p_z) + dirichlet_kl(q_v, p_v)
        misfit = spectral_misfit(
            x, self.decode(y, z, v, frozen=frozen), options.variance, options.angle_weight
        )
        return misfit + options.kl_weight * kl

    def labelled_loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Bound and cross-entropy of labelled spectra, batch means."""
        return self.bound(x, F.one_hot(y, self.classes).float()).mean(), F.cross_entropy(
            self.classifier(x), y
        )

    def unlabelled_loss(self, x: Tensor) -> Tensor:
        """−U(x) with every class enumerated, batch mean."""
        repeated = x.repeat_interleave(self.classes, 0)
        y = torch.eye(self.classes, device=x.device).repeat(len(x), 1)
        bounds = self.bound(repeated, y, frozen=self.options.stop_gradient).view(len(x), self.classes)
        return unlabelled_bound(bounds, self.classifier(x), self.options.entropy_weight).mean()

    def losses(self, batch: tuple[Tensor, Tensor, Tensor]) -> Mapping[str, Tensor]:
        """Terms for a batch of labelled spectra, their classes, and unlabelled spectra."""
        x, y, unlabelled = batch
        bound, supervised = self.labelled_loss(x, y)
        rest = self.unlabelled_loss(unlabelled) if len(unlabelled) else bound.new_zeros(())
        return {
            "total": bound + supervised + rest,
            "labelled": bound,
            "supervised": supervised,
            "unlabelled": rest,
        }

    @torch.no_grad()
    def importance_posterior(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """log p(x|y) (samples, classes), mean and std of z (samples,) by importance sampling.

        As published: a class is drawn from q(y|x), z and v from the encoders given that class, and every
        class is decoded with them. All pixels share their random numbers, by inversion, so the result does
        not depend on how pixels are split over calls.
        """
        generator = torch.Generator().manual_seed(5)
        cumulative = self.classifier(x).softmax(1).cumsum(1)
        mixtures = self.decoder.mixtures
        weights, lights = [], []
        p_z = irradiance_prior(float(self.cos_zenith), x)
        for _ in range(self.options.draws):
            uniform = torch.rand(2 + mixtures, generator=generator).clamp(1e-3, 1 - 1e-3)
            drawn = (uniform[0].to(x.device) > cumulative).sum(1).clamp(max=self.classes - 1)
            y = F.one_hot(drawn, self.classes).float()
            light, concentration = self.light_encoder(x, y), self.mixing_encoder(x, y)
            z = _inverse_beta(light, float(uniform[1])).clamp(1e-3, 1 - 1e-3)
            v = _inverse_dirichlet(concentration, uniform[2:]).clamp(min=1e-6)
            v = v / v.sum(1, keepdim=True)
            q_z, q_v = Beta(light[:, 0], light[:, 1]), Dirichlet(concentration)
            ratio: Tensor = p_z.log_prob(z) - q_z.log_prob(z) - q_v.log_prob(v)  # type: ignore[no-untyped-call]
            scores = [self._score(x, k, z, v) for k in range(self.classes)]
            weights.append(ratio[:, None] + torch.stack(scores, 1))
            lights.append(z)
        z_draws = torch.stack(lights, 1)
        return torch.stack(weights).logsumexp(0), z_draws.mean(1), z_draws.std(1)

    def _score(self, x: Tensor, index: int, z: Tensor, v: Tensor) -> Tensor:
        y = F.one_hot(torch.full((len(x),), index, device=x.device), self.classes).float()
        return -spectral_misfit(x, self.decode(y, z, v), self.options.variance, self.options.angle_weight)


def _inverse_beta(concentration: Tensor, uniform: float) -> Tensor:
    values = concentration.cpu().numpy().astype(np.float64)
    return concentration.new_tensor(scipy.special.betaincinv(values[:, 0], values[:, 1], uniform))


def _inverse_dirichlet(concentration: Tensor, uniform: Tensor) -> Tensor:
    values = concentration.cpu().numpy().astype(np.float64)
    gammas = scipy.special.gammaincinv(values, uniform.numpy().astype(np.float64)) + 1e-12
    return concentration.new_tensor(gammas / gammas.sum(1, keepdims=True))
