"""Networks of the land-cover models: the spectral classifiers and the published encoder and decoder."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn


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
        features = self._features(spectra)
        self.centre.copy_(features.mean(0))
        self.scale.copy_(features.std(0).clamp(min=1e-3))

    def forward(self, spectra: Tensor) -> Tensor:
        """Logits (samples, classes) of spectra (samples, bands)."""
        logits: Tensor = self.layers((self._features(spectra) - self.centre) / self.scale)
        return logits

    @staticmethod
    def _features(spectra: Tensor) -> Tensor:
        rms = spectra.square().mean(1, keepdim=True).sqrt().clamp(min=1e-6)
        return torch.cat([spectra / rms, rms.log()], 1)


class SegmentClassifier(nn.Module):
    """q(y|x) as published: convolutions on each run of contiguous bands, then two dense layers."""

    def __init__(self, segments: tuple[int, ...], classes: int, hidden: int = 256) -> None:
        super().__init__()
        self.segments = segments
        kernels = [max(1, n // 5) | 1 for n in segments]
        self.first = nn.ModuleList(nn.Conv1d(1, 1, k, padding="same") for k in kernels)
        self.second = nn.ModuleList(nn.Conv1d(1, 1, k, padding="same") for k in kernels)
        width = sum(max(1, n // 2) for n in segments)
        self.dense = nn.Sequential(
            nn.Linear(width, hidden),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(hidden, classes),
        )

    def forward(self, spectra: Tensor) -> Tensor:
        """Logits (samples, classes) of spectra (samples, bands)."""
        parts = []
        for part, first, second in zip(
            torch.split(spectra, list(self.segments), 1), self.first, self.second, strict=True
        ):
            signal = part[:, None]
            filtered = F.relu(second(F.relu(first(signal)))) + signal
            parts.append(F.max_pool1d(filtered, min(2, signal.shape[-1])).flatten(1))
        logits: Tensor = self.dense(torch.cat(parts, 1))
        return logits


class LightEncoder(nn.Module):
    """q(z | x, y): concentrations of a Beta from a dense layer on [x, y]."""

    def __init__(self, bands: int, classes: int, hidden: int = 256, floor: float = 0.1) -> None:
        super().__init__()
        self.floor = floor
        self.layers = nn.Sequential(nn.Linear(bands + classes, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, spectra: Tensor, classes: Tensor) -> Tensor:
        """Concentrations (samples, 2) for spectra (samples, bands) and one-hot classes."""
        return self.floor + F.relu(self.layers(torch.cat([spectra, classes], 1)))


class MixingEncoder(nn.Module):
    """q(v | x, y): concentrations of a Dirichlet from 1-D convolutions and two dense layers."""

    def __init__(
        self, bands: int, classes: int, mixtures: int, hidden: int = 256, floor: float = 1e-3
    ) -> None:
        super().__init__()
        self.floor = floor
        self.convolutions = nn.Sequential(
            nn.Conv1d(1, 4, 11, padding="same"),
            nn.ReLU(),
            nn.MaxPool1d(3, ceil_mode=True),
            nn.Conv1d(4, 16, 9, padding="same"),
            nn.ReLU(),
            nn.MaxPool1d(2, ceil_mode=True),
            nn.Conv1d(16, 32, 7, padding="same"),
            nn.ReLU(),
            nn.Conv1d(32, 4, 5, padding="same"),
            nn.ReLU(),
            nn.Flatten(),
        )
        width = self.convolutions(torch.zeros(1, 1, bands)).shape[1]
        self.dense = nn.Sequential(
            nn.Linear(width + classes, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, mixtures),
        )

    def forward(self, spectra: Tensor, classes: Tensor) -> Tensor:
        """Concentrations (samples, mixtures) for spectra (samples, bands) and one-hot classes."""
        features = self.convolutions(spectra[:, None])
        return self.floor + F.relu(self.dense(torch.cat([features, classes], 1)))


class LatentSpectra(nn.Module):
    """f_I: latent reflectance spectra of a class, the product of two sigmoid networks of one-hot y.

    `inputs` is the number of classes, plus one where the light is an input too (the twin without physics).
    """

    def __init__(self, inputs: int, bands: int, mixtures: int, hidden: int = 256) -> None:
        super().__init__()
        self.mixtures = mixtures
        self.level = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, bands))
        self.detail = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, bands * mixtures))

    def forward(self, inputs: Tensor) -> Tensor:
        """Spectra (samples, mixtures, bands) in [0, 1] for inputs (samples, inputs)."""
        detail = torch.sigmoid(self.detail(inputs)).view(len(inputs), self.mixtures, -1)
        spectra: Tensor = torch.sigmoid(self.level(inputs))[:, None] * detail
        return spectra


def contiguous_segments(wavelength: Tensor) -> tuple[int, ...]:
    """Lengths of the runs of bands without a gap: a step over twice the median one ends a run."""
    step = wavelength.diff()
    ends = (step > 2 * step.median()).nonzero().squeeze(1) + 1
    edges = [0, *ends.tolist(), len(wavelength)]
    return tuple(b - a for a, b in itertools.pairwise(edges))
