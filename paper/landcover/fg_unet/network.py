"""FG-UNet (Stoian et al. 2019, doi:10.3390/rs11171986), with the reconstruction loss of the p3VAE comparison.

A per-pixel path keeps fine detail, a small U-Net beside it brings the neighbourhood. Bands are reduced to a
few channels per pixel before anything spatial, instead of the published 3-D convolutions, so that it trains
on a CPU.

Pooling cells lie on the absolute pixel grid of the scene, and what lies beyond the scene, like nodata, is
zero in every spectral feature. A pixel's result therefore depends only on pixels within `HALO` of it, however
a scene is cut.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from p3vae.paper.nn.losses import absolute_misfit, labelled_cross_entropy, mean_or_zero

STRIDE = 4
"""Pixels along one side of a coarsest pooling cell."""
_STAGES = (1, 2, STRIDE, 2)
"""Pixel size, in image pixels, of each stage of two 3 x 3 convolutions: down, middle, up."""
HALO = sum(2 * size for size in _STAGES) + STRIDE - 1
"""How far a pixel's result reaches [pixels]: two steps per stage, and its place in a pooling cell."""

_PIXEL, _SQUEEZED, _FINE, _COARSE = 32, 16, 24, 32


class PatchBatch(NamedTuple):
    """Image patches to learn from."""

    spectra: Tensor
    """(patches, rows, cols, bands), finite everywhere."""
    valid: Tensor
    """(patches, rows, cols): False for nodata, whose spectra do not matter."""
    class_index: Tensor
    """(patches, rows, cols): -1 where the class is not known."""


class FineGrainedUNet(nn.Module):
    """Logits and reconstruction of every pixel of an image."""

    centre: Tensor
    scale: Tensor

    def __init__(self, bands: int, classes: int) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(bands))
        self.register_buffer("scale", torch.ones(bands))
        self.pixel = nn.Sequential(
            nn.Linear(bands, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, _PIXEL), nn.ReLU()
        )
        self.squeeze = nn.Sequential(nn.Linear(bands, _SQUEEZED), nn.ReLU())
        self.fine = _stage(_SQUEEZED, _FINE)
        self.coarse = _stage(_FINE, _COARSE)
        self.middle = _stage(_COARSE, _COARSE)
        self.coarse_up = _stage(2 * _COARSE, _FINE)
        self.context = nn.Sequential(nn.Linear(2 * _FINE, _PIXEL), nn.ReLU())
        self.classify = nn.Linear(2 * _PIXEL, classes)
        self.rebuild = nn.Sequential(nn.Linear(2 * _FINE, 64), nn.ReLU(), nn.Linear(64, bands))

    def standardise(self, spectra: Tensor) -> None:
        """Fix centre and scale of every band from spectra (pixels, bands)."""
        self.centre.copy_(spectra.mean(0))
        self.scale.copy_(spectra.std(0).clamp(min=1e-4))

    def standardised(self, spectra: Tensor) -> Tensor:
        """Spectra (..., bands) in units of each band's spread [1]."""
        return (spectra - self.centre) / self.scale

    def spectral(self, spectra: Tensor) -> Tensor:
        """Features (..., features) of each pixel alone, from spectra (..., bands)."""
        x = self.standardised(spectra)
        return torch.cat([self.pixel(x), self.squeeze(x)], -1)

    def spatial(self, squeezed: Tensor) -> Tensor:
        """Features (images, rows, cols, features) of each pixel with its neighbours.

        `squeezed` is the last part of the spectral features, zero for nodata; its first pixel must begin a
        pooling cell of the scene's grid.
        """
        rows, cols = squeezed.shape[1:3]
        image = F.pad(squeezed.movedim(-1, 1), (0, -cols % STRIDE, 0, -rows % STRIDE))
        fine = self.fine(image)
        coarse = self.coarse(F.max_pool2d(fine, 2))
        middle = self.middle(F.max_pool2d(coarse, 2))
        coarse = self.coarse_up(torch.cat([_doubled(middle), coarse], 1))
        both: Tensor = torch.cat([_doubled(coarse), fine], 1)[..., :rows, :cols]
        return both.movedim(1, -1)

    def forward(self, features: Tensor, origin: tuple[int, int] = (0, 0)) -> tuple[Tensor, Tensor]:
        """Logits (images, rows, cols, classes) and spatial features, from spectral features of images.

        `features` are zero for nodata; `origin` is the row and column of the first pixel in its scene.
        """
        before = origin[0] % STRIDE, origin[1] % STRIDE
        squeezed = F.pad(features[..., _PIXEL:], (0, 0, before[1], 0, before[0], 0))
        neighbourhood = self.spatial(squeezed)[:, before[0] :, before[1] :]
        alone = features[..., :_PIXEL]
        return self.classify(torch.cat([alone, self.context(neighbourhood)], -1)), neighbourhood

    def misfit(self, spectra: Tensor, neighbourhood: Tensor) -> Tensor:
        """Mean absolute error (...,) of spectra (..., bands) rebuilt from spatial features [band spreads]."""
        return absolute_misfit(self.standardised(spectra), self.rebuild(neighbourhood))

    def losses(self, batch: PatchBatch) -> dict[str, Tensor]:
        """Cross-entropy of labelled pixels and reconstruction of all valid ones (L1, as published)."""
        logits, neighbourhood = self(self.spectral(batch.spectra) * batch.valid[..., None])
        supervised = labelled_cross_entropy(logits, batch.class_index)
        unsupervised = mean_or_zero(self.misfit(batch.spectra[batch.valid], neighbourhood[batch.valid]))
        return {
            "total": supervised + unsupervised,
            "supervised": supervised,
            "reconstruction": unsupervised,
        }


def _stage(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(outputs, outputs, 3, padding=1),
        nn.ReLU(),
    )


def _doubled(image: Tensor) -> Tensor:
    return F.interpolate(image, scale_factor=2.0, mode="nearest")
