"""The land-cover p3VAE as published: Beta light, Dirichlet mixing, latent spectra, physics layer.

It departs from the published runs where those were left to chance or worked against themselves:
concentrations start near one instead of anywhere; dropout is off at inference, whose draws are the same for
every pixel; a KL is one number per sample. The L2 penalty of 1e-2 on classifier and encoders is left out:
as a weight decay of that size it keeps the classifier from learning (q(y|x) .62 instead of .76 on one scene).
The entropy has the weight of the published text: with the ten times smaller one of the published code, three
of ten runs made up their mind about unlabelled spectra too early and stayed with it.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from p3vae.models.landcover.estimator import Frame, SpectraArray
from p3vae.paper.landcover.semi_supervised import Objective, SemiSupervisedVAE
from p3vae.paper.nn.latents import LightAndMixing
from p3vae.paper.nn.layers import ClassConditioned, SpectralFeatures, dense
from p3vae.paper.nn.losses import irradiance_prior
from p3vae.physics.irradiance import apparent_reflectance, sky_from_sun

_LIGHT_FLOOR, _MIXING_FLOOR = 0.1, 1e-3
"""Smallest concentrations."""


class PublishedP3VAE(SemiSupervisedVAE):
    """q(z|x,y) = Beta, q(v|x,y) = Dirichlet, x = f_E(Σ_k v_k ρ_k(y), z)."""

    supported_options: ClassVar[frozenset[str]] = frozenset({"stop_gradient", "sky_offset"})
    gives_irradiance = True
    objective = Objective(entropy_weight=0.1)

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        bands, mixtures = len(frame.bands), frame.settings.spectra_per_class
        self.cos_zenith = frame.cos_zenith
        self.light_encoder = ClassConditioned(bands, self.classes, (256,), 2)
        self.features = SpectralFeatures(bands)
        self.mixing_encoder = ClassConditioned(self.features.width, self.classes, (256, 256), mixtures)
        self.decoder = LatentSpectra(self.classes, bands, mixtures)
        # A relu that begins as zero for every spectrum never learns: published runs with such a start failed.
        self.light_encoder.start_at(1.0)
        self.mixing_encoder.start_at(1.0)

    def embed(self, x: Tensor) -> Tensor:
        """The spectra for z, their convolutions for v."""
        return torch.cat([x, self.features(x)], 1)

    def encode(self, embedded: Tensor, y: Tensor) -> LightAndMixing:
        """Concentrations of z and v."""
        width = self.features.width
        light = _LIGHT_FLOOR + self.light_encoder(embedded[:, :-width], y).relu()
        mixing = _MIXING_FLOOR + self.mixing_encoder(embedded[:, -width:], y).relu()
        return LightAndMixing(light, mixing, irradiance_prior(self.cos_zenith, embedded))

    def decode(self, y: Tensor, z: Tensor, light: Tensor, *, frozen: bool = False) -> Tensor:
        """The latent spectra of each class, mixed by v and lit by z."""
        table = self.decoder.spectra()
        reflectance = mixed(table.detach() if frozen else table, y, z[..., 1:])
        sun = z[..., 0]
        sky = sky_from_sun(sun, offset=self.sky_offset)
        seen: Tensor = apparent_reflectance(reflectance, sun, sky, light[0], light[1])
        return seen

    @torch.no_grad()
    def latent_spectra(self) -> list[SpectraArray]:
        """ρ_k(y)."""
        return list(self.decoder.spectra().cpu().double().numpy())


def mixed(table: Tensor, y: Tensor, v: Tensor) -> Tensor:
    """Σ_k v_k ρ_k(y), (samples, hypotheses, bands), of spectra (classes, K, bands)."""
    share = (y[..., :, None] * v[..., None, :]).flatten(-2)
    return share @ table.flatten(0, 1)


class LatentSpectra(nn.Module):
    """f_I: latent reflectance spectra of each class, the product of two sigmoid networks of one-hot y."""

    every_class: Tensor

    def __init__(self, classes: int, bands: int, mixtures: int, hidden: int = 256) -> None:
        super().__init__()
        self.mixtures = mixtures
        self.register_buffer("every_class", torch.eye(classes), persistent=False)
        self.level = dense(classes, hidden, bands)
        self.detail = dense(classes, hidden, mixtures * bands)

    def spectra(self) -> Tensor:
        """Spectra (classes, mixtures, bands) in [0, 1]."""
        y = self.every_class
        detail = torch.sigmoid(self.detail(y)).view(len(y), self.mixtures, -1)
        spectra: Tensor = torch.sigmoid(self.level(y))[:, None] * detail
        return spectra


ESTIMATOR = PublishedP3VAE
