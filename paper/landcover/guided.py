"""The physics-guided VAE: latents and priors of p3VAE, but a network in the place of its physics layer."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from p3vae.models.landcover.estimator import Frame
from p3vae.paper.landcover.published import LatentSpectra, PublishedP3VAE, mixed
from p3vae.paper.landcover.semi_supervised import Objective
from p3vae.paper.nn.layers import dense, frozen_call


class GuidedVAE(PublishedP3VAE):
    """x = NN(Σ_k v_k ρ_k(y), z). Nothing ties z to the light but its prior, so no irradiance is reported."""

    supported_options: ClassVar[frozenset[str]] = frozenset({"stop_gradient"})
    gives_irradiance = False
    objective = Objective()

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.decoder: LatentSpectra = GuidedDecoder(
            self.classes, len(frame.bands), frame.settings.spectra_per_class
        )

    def decode(self, y: Tensor, z: Tensor, light: Tensor, *, frozen: bool = False) -> Tensor:
        """The latent spectra of each class, mixed by v, then changed by a network that sees z."""
        seen: Tensor = frozen_call(self.decoder, y, z) if frozen else self.decoder(y, z)
        return seen


class GuidedDecoder(LatentSpectra):
    """Latent spectra and the network that takes the place of f_E."""

    def __init__(self, classes: int, bands: int, mixtures: int, hidden: int = 256) -> None:
        super().__init__(classes, bands, mixtures, hidden)
        self.seen = nn.Sequential(dense(bands + 1, hidden, hidden, bands), nn.Sigmoid())

    def forward(self, y: Tensor, z: Tensor) -> Tensor:
        """Mean spectra (samples, hypotheses, bands)."""
        reflectance = mixed(self.spectra(), y, z[..., 1:])
        seen: Tensor = self.seen(torch.cat([reflectance, z[..., :1]], -1))
        return seen


ESTIMATOR = GuidedVAE
