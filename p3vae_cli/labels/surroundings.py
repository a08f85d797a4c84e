"""The neighbours of labelled pixels, from which training learns whether neighbours help."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from p3vae.cli.labels.draw import Samples, read_pixels
from p3vae.cli.scenes.base import Scene
from p3vae.models.landcover.types import Surroundings
from p3vae.physics.spectral_response import BandAdapter

_MOST_BYTES = 64 * 2**20
"""What all neighbours of a training may take [bytes]."""
_OFFSETS = np.indices((3, 3)).reshape(2, 9).T - 1


def with_surroundings(
    scene: Scene, samples: Samples, adapter: BandAdapter, *, scenes: int, seed: int
) -> Samples:
    """Samples with the 3 × 3 pixels about them, at the adapter's bands.

    Where memory, shared between `scenes`, does not allow all, a seeded draw of the samples keeps theirs.
    """
    pixels, grid = samples.pixels, scene.grid
    affordable = _MOST_BYTES // scenes // (len(_OFFSETS) * len(adapter.target) * 4)
    chosen = np.sort(np.random.default_rng(seed).permutation(len(pixels.row))[: max(affordable, 1)])
    row = pixels.row[chosen, None] + _OFFSETS[:, 0]
    col = pixels.col[chosen, None] + _OFFSETS[:, 1]
    inside = (row >= 0) & (row < grid.height) & (col >= 0) & (col < grid.width)
    place, inverse = np.unique((row * grid.width + col)[inside], return_inverse=True)
    spectra, valid = read_pixels(scene, *np.divmod(place, grid.width))
    kept = np.where(valid, np.cumsum(valid) - 1, -1)
    around = np.full(row.shape, -1)
    around[inside] = kept[inverse]
    index = np.full((len(pixels.row), len(_OFFSETS)), -1)
    index[chosen] = around
    return replace(samples, around=Surroundings(adapter(spectra[valid]).astype(np.float32), index))


def joined(parts: list[Surroundings]) -> Surroundings:
    """Those of several scenes as one, in their order."""
    start = np.cumsum([0, *(len(part.spectra) for part in parts[:-1])])
    index: list[npt.NDArray[np.int64]] = [
        np.where(part.index >= 0, part.index + first, -1) for part, first in zip(parts, start, strict=True)
    ]
    return Surroundings(np.concatenate([part.spectra for part in parts]), np.concatenate(index))
