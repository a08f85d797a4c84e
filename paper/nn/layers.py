"""Parts of networks: dense, class-conditioned and convolutional layers, and frozen copies."""

from __future__ import annotations

import copy
import itertools
from typing import Any, TypeVar

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
