"""A few pixels from all over a scene, always the same ones."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from p3vae.cli.base.tiling import Window
from p3vae.cli.scenes.base import Scene
from p3vae.physics.spectral_response import BandAdapter

_PLACES = 8
"""Windows down and across a scene: what is read does not grow with its size."""
_SIDE = 8
_EACH = 16
"""Pixels of a window, at most."""
_DARKEST_RMS = 1e-4
"""Root mean square of reflectance up to which a pixel shows nothing [1]."""


def scene_pixels(scene: Scene, adapter: BandAdapter) -> npt.NDArray[np.float32]:
    """Valid spectra (pixels, bands) at the adapter's bands, at most 1024, on a regular lattice of windows."""
    height, width = scene.grid.height, scene.grid.width
    rows, cols = min(_SIDE, -(-height // _PLACES)), min(_SIDE, -(-width // _PLACES))
    rng, parts = np.random.default_rng(0), []
    for down in range(_PLACES):
        for across in range(_PLACES):
            row = (2 * down + 1) * (height - rows) // (2 * _PLACES)
            col = (2 * across + 1) * (width - cols) // (2 * _PLACES)
            order = rng.permutation(rows * cols)
            tile = scene.read(Window(row, col, rows, cols))
            chosen = order[tile.valid.ravel()[order]][:_EACH]
            spectra = adapter(tile.values.reshape(-1, tile.values.shape[-1])[chosen])
            parts.append(spectra[np.square(spectra).mean(1) > _DARKEST_RMS**2])
    return np.unique(np.concatenate(parts), axis=0)
