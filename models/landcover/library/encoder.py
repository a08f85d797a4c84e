"""The encoder q(y | x) of the shipped model `earth`: networks that were trained on draws of its decoder.

A network has two hidden layers and sees the logarithm of reflectance at the nodes of a grid, where light
and calibration are sums. Each grid has its own network: what is known of a pixel depends on the bands. A
sensor is served by the first grid that it covers, and its spectra are averaged to the nodes.

This is amortised inference (Kingma and Welling 2014) of the same generative model whose posterior
`PosteriorSolver` gives: draws know mixing and materials as they are, the posterior knows the light.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from p3vae.models.landcover.estimator import part
from p3vae.physics.spectral_response import Bands, resampling_matrix

FloatArray = npt.NDArray[np.float64]

FLOOR = 0.002
"""Least reflectance of which the logarithm is taken [1]."""


class Encoded(NamedTuple):
    """What a network says of spectra."""

    material: Tensor
    """log q(material | x), (pixels, materials)."""
    fraction: Tensor
    """Mean share of ground of each class, (pixels, classes); sums to one."""
    fraction_std: Tensor
    """(pixels, classes)."""


@dataclass(frozen=True, eq=False)
class Network:
    """A grid and the weights of the network that sees it."""

    grid: Bands
    reach_nm: float
    """Farthest that the nearest band of a sensor may lie from a node [nm]."""
    layers: tuple[tuple[Tensor, Tensor], ...]
    """Weights (inputs, outputs) and biases (outputs,); the first also standardise."""
    counts: tuple[int, int]
    """Of materials and of classes."""
    temperature: float = 1.0
    """Divisor of the log-odds that this network and the posterior give together; of withheld libraries."""
    spread: float = 1.0
    """Factor of the standard deviations of fractions, of withheld libraries as well."""
    resampling: Tensor | None = None
    """From the bands of a sensor to the grid, (bands, nodes)."""

    def covered_by(self, bands: Bands) -> bool:
        """Whether a sensor has a band near every node."""
        nm = bands.wavelength_nm[bands.good]
        if not len(nm):
            return False
        return bool((np.abs(self.grid.wavelength_nm[:, None] - nm).min(1) <= self.reach_nm).all())

    def at_bands(self, bands: Bands) -> Self:
        """For spectra of a sensor that covers the grid."""
        return replace(self, resampling=torch.as_tensor(resampling_matrix(bands, self.grid)).float())

    def __call__(self, spectra: Tensor) -> Encoded:
        """Of spectra (pixels, bands of the sensor)."""
        nodes = spectra if self.resampling is None else spectra @ self.resampling.to(spectra.device)
        return self.encoded(nodes.clamp_(min=FLOOR).log_())

    def encoded(self, values: Tensor) -> Encoded:
        """Of logarithms of reflectance at the nodes."""
        for weight, bias in self.layers[:-1]:
            values = torch.addmm(bias, values, weight).relu_()
        weight, bias = self.layers[-1]
        found = torch.addmm(bias, values, weight)
        materials, classes = self.counts
        logits, fraction, scale = torch.split_with_sizes(found, [materials, classes, classes], 1)
        return Encoded(logits.log_softmax(1), fraction.softmax(1), self.spread * scale.exp())

    def to(self, device: str) -> Self:
        """The same network on another device."""
        return replace(self, layers=tuple((w.to(device), b.to(device)) for w, b in self.layers))

    def tensors(self) -> dict[str, Tensor]:
        """For storage."""
        found = {"nm": torch.as_tensor(self.grid.wavelength_nm), "fwhm": torch.as_tensor(self.grid.fwhm_nm)}
        for number, (weight, bias) in enumerate(self.layers):
            found |= {f"weight{number}": weight.cpu(), f"bias{number}": bias.cpu()}
        return found

    def metadata(self) -> dict[str, Any]:
        """JSON values of the card."""
        numbers = {name: getattr(self, name) for name in ("reach_nm", "temperature", "spread")}
        return {"counts": list(self.counts), **numbers}

    @classmethod
    def restore(cls, card: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The network of this metadata and these tensors."""
        grid = Bands.from_centres(tensors["nm"].double().numpy(), tensors["fwhm"].double().numpy())
        layers = tuple(
            (tensors[f"weight{k}"], tensors[f"bias{k}"])
            for k in range(sum(n[:6] == "weight" for n in tensors))
        )
        materials, classes = card["counts"]
        reach, temperature, spread = (float(card[name]) for name in ("reach_nm", "temperature", "spread"))
        return cls(grid, reach, layers, (materials, classes), temperature, spread)


@dataclass(frozen=True, eq=False)
class Encoder:
    """Networks, the one of the richest grid first."""

    networks: tuple[Network, ...]

    def at_bands(self, bands: Bands) -> Network | None:
        """The first network whose grid a sensor covers; None if there is none."""
        return next((one.at_bands(bands) for one in self.networks if one.covered_by(bands)), None)

    def tensors(self) -> dict[str, Tensor]:
        """For storage."""
        return {f"{k}.{n}": v for k, one in enumerate(self.networks) for n, v in one.tensors().items()}

    def metadata(self) -> list[dict[str, Any]]:
        """JSON values of the card."""
        return [one.metadata() for one in self.networks]

    @classmethod
    def restore(cls, card: list[Mapping[str, Any]], tensors: Mapping[str, Tensor]) -> Self:
        """The encoder of this metadata and these tensors."""
        return cls(tuple(Network.restore(one, part(tensors, f"{k}.")) for k, one in enumerate(card)))
