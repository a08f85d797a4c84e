"""Kingma's semi-supervised VAE (M2, arXiv:1406.5298) with a Gaussian latent and a network for a decoder.

Unlike M2, unlabelled spectra do not change the decoder unless `stop_gradient` is off: in the one simulated
scene where both were tried, this was the stronger baseline.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from p3vae.models.landcover.estimator import Frame
from p3vae.paper.landcover.semi_supervised import SemiSupervisedVAE
from p3vae.paper.nn.latents import Gaussian
from p3vae.paper.nn.layers import ClassConditioned, SpectralFeatures, dense, frozen_call


class GaussianVAE(SemiSupervisedVAE):
    """q(z|x,y) = N, as many latents as p3VAE has; x = NN(y, z)."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        bands, latents = len(frame.bands), 1 + frame.settings.spectra_per_class
        self.features = SpectralFeatures(bands)
        self.encoder = ClassConditioned(self.features.width, self.classes, (256, 256), 2 * latents)
        self.decoder = nn.Sequential(dense(self.classes + latents, 256, 256, bands), nn.Sigmoid())

    def embed(self, x: Tensor) -> Tensor:
        """Convolutions of the spectra."""
        features: Tensor = self.features(x)
        return features

    def encode(self, embedded: Tensor, y: Tensor) -> Gaussian:
        """Mean and log standard deviation of z."""
        mean, log_std = self.encoder(embedded, y).chunk(2, -1)
        return Gaussian(mean, log_std.clamp(-8.0, 4.0))

    def decode(self, y: Tensor, z: Tensor, light: Tensor, *, frozen: bool = False) -> Tensor:
        """Mean spectra of classes and latents; this model has no light."""
        both = torch.cat([y.expand(len(z), -1, -1), z], -1)
        seen: Tensor = frozen_call(self.decoder, both) if frozen else self.decoder(both)
        return seen


ESTIMATOR = GaussianVAE
