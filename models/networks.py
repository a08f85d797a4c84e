"""Networks of the land-cover models: the spectral classifiers and the published encoder and decoder."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
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


class ClassConditioned(nn.Module):
    """Dense layers on features and a class, shared by every class that a sample might have.

    The features meet the first layer once, whatever the number of classes asked for.
    """

    def __init__(self, features: int, classes: int, hidden: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        self.features = features
        self.first = nn.Linear(features + classes, hidden[0])
        widths = [*hidden, outputs]
        layers: list[nn.Module] = []
        for width_in, width_out in itertools.pairwise(widths):
            layers += [nn.ReLU(), nn.Linear(width_in, width_out)]
        self.rest = nn.Sequential(*layers)

    def forward(self, features: Tensor, classes: Tensor) -> Tensor:
        """(samples, hypotheses, outputs) for features (samples, features) and one-hot classes.

        `classes` are (samples or 1, hypotheses, classes).
        """
        weight, bias = self.first.weight, self.first.bias
        from_features = F.linear(features, weight[:, : self.features], bias)
        outputs: Tensor = self.rest(from_features[:, None] + F.linear(classes, weight[:, self.features :]))
        return outputs


class SpectralFeatures(nn.Module):
    """Four 1-D convolutions with two poolings, as published for the encoders of v and of the Gaussian z."""

    def __init__(self, bands: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
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
        self.width = self.layers(torch.zeros(1, 1, bands)).shape[1]

    def forward(self, spectra: Tensor) -> Tensor:
        """Features (samples, width) of spectra (samples, bands)."""
        features: Tensor = self.layers(spectra[:, None])
        return features


class LatentSpectra(nn.Module):
    """f_I: latent reflectance spectra of each class, the product of two sigmoid networks of one-hot y."""

    every_class: Tensor

    def __init__(self, classes: int, bands: int, mixtures: int, hidden: int = 256) -> None:
        super().__init__()
        self.mixtures = mixtures
        self.register_buffer("every_class", torch.eye(classes), persistent=False)
        self.level = nn.Sequential(nn.Linear(classes, hidden), nn.ReLU(), nn.Linear(hidden, bands))
        self.detail = nn.Sequential(
            nn.Linear(classes, hidden), nn.ReLU(), nn.Linear(hidden, bands * mixtures)
        )

    def spectra(self) -> Tensor:
        """Spectra (classes, mixtures, bands) in [0, 1]."""
        y = self.every_class
        detail = torch.sigmoid(self.detail(y)).view(len(y), self.mixtures, -1)
        spectra: Tensor = torch.sigmoid(self.level(y))[:, None] * detail
        return spectra


def frozen_call(module: nn.Module, *inputs: Tensor) -> Tensor:
    """The output of a module through which gradients reach its inputs but not its parameters."""
    parameters = {name: value.detach() for name, value in module.named_parameters()}
    output: Tensor = torch.func.functional_call(module, parameters, inputs)
    return output


def contiguous_segments(wavelength: npt.NDArray[np.floating[Any]]) -> tuple[int, ...]:
    """Lengths of the runs of bands without a gap: a step over twice the median one ends a run."""
    step = np.diff(wavelength)
    ends = np.flatnonzero(step > 2 * np.median(step)) + 1
    edges = [0, *ends.tolist(), len(wavelength)]
    return tuple(b - a for a, b in itertools.pairwise(edges))
