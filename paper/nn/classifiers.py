"""Classifiers q(y|x) of spectra: dense, on spectral shape, and convolutional by runs of contiguous bands."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

from p3vae.paper.nn.layers import SegmentFilters


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
