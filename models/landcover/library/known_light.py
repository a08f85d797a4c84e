"""The light that labels show: whether a pixel is lit as the labelled ones are.

    r(z, w) = p_labels(z, w) / (p_labels(z, w) + κ·p_any(z, w))

is the probability that light of direct sun z and sky w is of the kind that labels show: p_labels is a kernel
density of the light of labelled pixels, p_any the broad prior of light, κ the odds of the latter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from p3vae.models.landcover.library.decoder import FloatArray, LightPrior

_ODDS = 0.1
"""κ, of any light against that of the labels."""
_PIXELS = 400
"""Labelled pixels that the density is made of, at most."""
_LEAST_POLYGONS = 4
_WIDER = 2.0
"""Bandwidth over that of Scott (1992) for as many points as polygons: pixels of one share their light."""
_LEAST_WIDTH = 0.04
"""Bandwidth of z and of w [1], at least."""
_MOST = 1.6
"""Largest z and w [1] of a table."""
_STEP = 0.02
"""Of a table [1], half the least bandwidth."""


@dataclass(frozen=True, eq=False)
class KnownLight:
    """Light of labelled pixels under one sun."""

    light: FloatArray
    """z and w of labelled pixels, (pixels, 2) [1]."""
    width: FloatArray
    """Bandwidths, (2,) [1]."""
    cos_zenith: float
    """Of the sun of training."""

    @classmethod
    def fit(cls, light: FloatArray, polygons: int, cos_zenith: float, seed: int) -> Self:
        """From the posterior light (pixels, 2) of labelled pixels in so many polygons."""
        chosen = light[np.random.default_rng(seed).permutation(len(light))[:_PIXELS]]
        scott = max(polygons, _LEAST_POLYGONS) ** (-1 / 6)
        return cls(chosen, np.maximum(_WIDER * scott * chosen.std(0), _LEAST_WIDTH), cos_zenith)

    def table(self, prior: LightPrior, cos_zenith: float) -> Tensor:
        """r at steps of z (rows) and w (columns) under the sun at another zenith.

        Labelled ground turns with the sun: its z is in proportion to the cosine of the zenith.
        """
        steps = np.arange(0, _MOST + _STEP / 2, _STEP)
        point = np.stack(np.meshgrid(steps, steps, indexing="ij"), 2)
        centre = self.light * (cos_zenith / self.cos_zenith, 1)
        along = [
            np.exp(-0.5 * np.square((steps[:, None] - centre[:, i]) / self.width[i])) / self.width[i]
            for i in (0, 1)
        ]
        labels = along[0] @ along[1].T / len(centre)
        broad = prior.under(cos_zenith)
        squares = np.square((point[:, :, None] - broad.mean) / broad.std).sum(3)
        any_light = (np.exp(-0.5 * squares) / broad.std.prod(1) * broad.weight).sum(2)
        return torch.as_tensor(labels / (labels + _ODDS * any_light), dtype=torch.float32)

    def tensors(self) -> dict[str, Tensor]:
        """For storage."""
        return {name: torch.as_tensor(values) for name, values in vars(self).items()}

    @classmethod
    def restore(cls, tensors: Mapping[str, Tensor]) -> Self:
        """The light of these tensors."""
        return cls(tensors["light"].numpy(), tensors["width"].numpy(), float(tensors["cos_zenith"]))


def interpolated(table: Tensor, sun: Tensor, sky: Tensor) -> Tensor:
    """r of pixels (pixels,) with mean light z and w, from a table."""
    last = len(table) - 1
    row, col = ((light / _STEP).clamp(0, last) for light in (sun, sky))
    top, left = (place.floor().clamp(max=last - 1) for place in (row, col))
    down, right = row - top, col - left
    place = (top * len(table) + left).long()
    flat = table.flatten()
    upper = flat[place] * (1 - right) + flat[place + 1] * right
    lower = flat[place + len(table)] * (1 - right) + flat[place + len(table) + 1] * right
    return upper * (1 - down) + lower * down
