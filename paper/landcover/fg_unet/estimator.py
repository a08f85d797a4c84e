"""FG-UNet as a land-cover model: classes of whole images, behind the protocol that all estimators share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from p3vae.models.landcover.estimator import Frame, PixelPrediction
from p3vae.models.landcover.types import Method, TrainingSummary
from p3vae.paper.landcover.fg_unet.network import HALO, FineGrainedUNet
from p3vae.paper.landcover.network import StoredNetwork
from p3vae.physics.illumination import SpectralIrradiance

if TYPE_CHECKING:
    from p3vae.models.landcover.job import Job

_PIXELS = 4096
"""Spectra worked on at once: they are large beside the features that an image needs at once."""


class FGUNet(StoredNetwork):
    """Classes by the network, and how well it rebuilds a spectrum."""

    methods: tuple[Method, ...] = ("classifier",)
    gives_misfit = True
    halo = HALO
    usual_misfit: Tensor

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.network = FineGrainedUNet(len(frame.bands), len(frame.legend))
        self.register_buffer("usual_misfit", torch.tensor(1.0))

    @classmethod
    def fit(cls, job: Job) -> tuple[Self, TrainingSummary]:
        """Trained on image patches, without the labels of the held-out polygons."""
        from p3vae.paper.landcover.fg_unet.train import train_fg_unet

        return train_fg_unet(cls, job)

    def predict_logits(
        self, spectra: Tensor, irradiance: SpectralIrradiance, method: Method
    ) -> PixelPrediction:
        """Not from spectra alone."""
        raise ValueError("fg-unet looks at a pixel's neighbours: it needs an image, not a table of spectra")

    def predict_image_logits(
        self, spectra: Sequence[Tensor], mask: Tensor, origin: tuple[int, int]
    ) -> PixelPrediction:
        """Classes and misfit of the pixels of an image."""
        network, pieces = self.network, [piece for part in spectra for piece in torch.split(part, _PIXELS)]
        reduced = torch.cat([network.spectral(piece) for piece in pieces])
        features = reduced.new_zeros((*mask.shape, reduced.shape[1]))
        features[mask] = reduced
        logits, neighbourhood = network(features[None], origin)
        near = torch.split(neighbourhood[0][mask], [len(piece) for piece in pieces])
        misfit = torch.cat([network.misfit(*both) for both in zip(pieces, near, strict=True)])
        return PixelPrediction(logits[0][mask], misfit=misfit / self.usual_misfit)
