"""Parts of networks, the spectral classifiers, and the published encoder and decoder of land cover."""

from __future__ import annotations

import copy
import itertools
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)


def dense(*widths: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Linear layers of the given widths with `activation` between them."""
    layers: list[nn.Module] = []
    for width_in, width_out in itertools.pairwise(widths):
        layers += [nn.Linear(width_in, width_out), activation()]
    return nn.Sequential(*layers[:-1])


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


class SegmentFilters(nn.Module):
    """One 1-D convolution per run of contiguous bands, each with its own kernel of a fifth of the run.

    All runs together are one product with a banded matrix: a dozen small convolutions would cost far more.
    """

    place: Tensor
    run: Tensor

    def __init__(self, segments: tuple[int, ...]) -> None:
        super().__init__()
        kernels = [max(1, n // 5) | 1 for n in segments]
        starts = list(itertools.accumulate(kernels, initial=0))
        run = torch.arange(len(segments)).repeat_interleave(torch.tensor(segments))
        size = torch.tensor(kernels)[run]
        band = torch.arange(len(run))
        offset = band[:, None] - band[None, :] + size // 2
        inside = (run[:, None] == run[None, :]) & (offset >= 0) & (offset < size)
        self.register_buffer("run", run, persistent=False)
        self.register_buffer(
            "place", torch.where(inside, torch.tensor(starts)[run] + offset, starts[-1]), persistent=False
        )
        reach = torch.tensor(kernels).float().rsqrt()
        self.weight = nn.Parameter(
            (2 * torch.rand(starts[-1]) - 1) * reach.repeat_interleave(torch.tensor(kernels))
        )
        self.bias = nn.Parameter((2 * torch.rand(len(segments)) - 1) * reach)

    def forward(self, spectra: Tensor) -> Tensor:
        """Filtered spectra (samples, bands) of spectra (samples, bands)."""
        matrix = torch.cat([self.weight, self.weight.new_zeros(1)])[self.place]
        return spectra @ matrix + self.bias[self.run]


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


class ClassConditioned(nn.Module):
    """Dense layers on features and a class, shared by every class that a sample might have.

    The features meet the first layer once, whatever the number of classes asked for.
    """

    def __init__(self, features: int, classes: int, hidden: tuple[int, ...], outputs: int) -> None:
        super().__init__()
        self.features = features
        self.first = nn.Linear(features + classes, hidden[0])
        self.rest = nn.Sequential(nn.ReLU(), dense(*hidden, outputs))

    def start_at(self, value: float) -> None:
        """Let every output begin near a value."""
        last = next(reversed(list(self.modules())))
        assert isinstance(last, nn.Linear)
        nn.init.constant_(last.bias, value)

    def forward(self, features: Tensor, classes: Tensor) -> Tensor:
        """(samples, hypotheses, outputs) for features (samples, features) and one-hot classes.

        `classes` are (samples or 1, hypotheses, classes).
        """
        weight, bias = self.first.weight, self.first.bias
        from_features = F.linear(features, weight[:, : self.features], bias)
        both = from_features[:, None] + F.linear(classes, weight[:, self.features :])
        outputs: Tensor = self.rest(both)
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
        self.level = dense(classes, hidden, bands)
        self.detail = dense(classes, hidden, mixtures * bands)

    def spectra(self) -> Tensor:
        """Spectra (classes, mixtures, bands) in [0, 1]."""
        y = self.every_class
        detail = torch.sigmoid(self.detail(y)).view(len(y), self.mixtures, -1)
        spectra: Tensor = torch.sigmoid(self.level(y))[:, None] * detail
        return spectra


def frozen_copy(module: Module) -> Module:
    """The module as it is now, to hand on; gradients reach its inputs but not its own parameters."""
    return copy.deepcopy(module).requires_grad_(False)


def frozen_call(module: nn.Module, *inputs: Tensor) -> Tensor:
    """The output of a module; gradients reach its inputs but not its parameters, which are not copied."""
    parameters = {name: value.detach() for name, value in module.named_parameters()}
    output: Tensor = torch.func.functional_call(module, parameters, inputs)
    return output


def contiguous_segments(wavelength: npt.NDArray[np.floating[Any]]) -> tuple[int, ...]:
    """Lengths of the runs of bands without a gap: a step over twice the median one ends a run."""
    step = np.diff(wavelength)
    ends = np.flatnonzero(step > 2 * np.median(step)) + 1
    edges = [0, *ends.tolist(), len(wavelength)]
    return tuple(b - a for a, b in itertools.pairwise(edges))
