"""Classifiers q(y|x) of spectra: dense, on spectral shape, and convolutional by runs of contiguous bands."""

from __future__ import annotations

import itertools
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from p3vae.models.nn.layers import SegmentFilters


def dense_classifier(features: int, classes: int, hidden: int = 256) -> nn.Sequential:
    """Logits of features by two hidden layers with dropout, as published."""
    return nn.Sequential(
        nn.Linear(features, hidden),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(hidden, classes),
    )


class SpectralClassifier(nn.Module):
    """q(y|x) of the default model: shape of the spectrum and log level, two hidden layers."""

    centre: Tensor
    scale: Tensor

    def __init__(self, bands: int, classes: int, hidden: int = 128) -> None:
        super().__init__()
        self.register_buffer("centre", torch.zeros(bands + 1))
        self.register_buffer("scale", torch.ones(bands + 1))
        self.layers = nn.Sequential(
            nn.Linear(bands + 1, hidden),
            nn.GELU(),
            nn.Linear(hidden, hidden),
            nn.GELU(),
            nn.Linear(hidden, classes),
        )

    def standardise(self, spectra: Tensor) -> None:
        """Fix centre and scale of the features from spectra (samples, bands)."""
        rms = _rms(spectra)
        features = torch.cat([spectra / rms, rms.log()], 1)
        self.centre.copy_(features.mean(0))
        self.scale.copy_(features.std(0).clamp(min=1e-3))

    def forward(self, spectra: Tensor) -> Tensor:
        """Logits (samples, classes) of spectra (samples, bands).

        The first layer takes the spectra as they are: features of their own would be a second copy of them.
        """
        first, rms = cast(nn.Linear, self.layers[0]), _rms(spectra)
        weight = first.weight / self.scale
        shape = F.linear(spectra, weight[:, :-1]) / rms
        level = rms.log() * weight[:, -1] + (first.bias - weight @ self.centre)
        logits: Tensor = self.layers[1:](shape + level)
        return logits


def _rms(spectra: Tensor) -> Tensor:
    """Root mean squares, (samples, 1)."""
    norm = torch.linalg.vector_norm(spectra, dim=1, keepdim=True)
    rms: Tensor = (norm / spectra.shape[1] ** 0.5).clamp(min=1e-6)
    return rms


class SegmentClassifier(nn.Module):
    """q(y|x) as published: two convolutions per run of contiguous bands, skip connection, pooling, dense."""

    pairs: Tensor

    def __init__(self, segments: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.first, self.second = SegmentFilters(segments), SegmentFilters(segments)
        starts = itertools.accumulate(segments, initial=0)
        pairs = [
            (a, min(a + 1, start + n - 1))
            for start, n in zip(starts, segments, strict=False)
            for a in range(start, start + max(1, n - 1), 2)
        ]
        self.register_buffer("pairs", torch.tensor(pairs).T, persistent=False)
        self.dense = dense_classifier(len(pairs), classes)

    def forward(self, spectra: Tensor) -> Tensor:
        """Logits (samples, classes) of spectra (samples, bands)."""
        filtered = self.second(self.first(spectra).relu()).relu() + spectra
        logits: Tensor = self.dense(torch.maximum(filtered[:, self.pairs[0]], filtered[:, self.pairs[1]]))
        return logits
