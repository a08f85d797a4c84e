"""A few pixels from all over a scene, always the same ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from p3vae.cli.scenes.base import Scene
from p3vae.cli.scenes.tiling import Window
from p3vae.models.landcover.usable import bright
from p3vae.physics.spectral_response import BandAdapter

_PLACES = 8
"""Windows down and across a scene: what is read does not grow with its size."""
_SIDE = 8
_EACH = 16
"""Pixels of a window, at most."""


def scene_pixels(scene: Scene, adapter: BandAdapter) -> npt.NDArray[np.float32]:
    """Valid spectra (pixels, bands) at the adapter's bands, at most 1024, on a regular lattice of windows."""
    return np.unique(np.concatenate([spectra for spectra, _ in _pieces(scene, adapter, _EACH)]), axis=0)


def placed_pixels(scene: Scene, adapter: BandAdapter) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.intp]]:
    """All of these windows, at most 4096, with the row and column of each, (2, pixels)."""
    spectra, places = zip(*_pieces(scene, adapter, _SIDE**2), strict=True)
    return np.concatenate(spectra), np.concatenate(places, 1)


def _pieces(
    scene: Scene, adapter: BandAdapter, each: int
) -> Iterator[tuple[npt.NDArray[np.float32], npt.NDArray[np.intp]]]:
    """Spectra and places of each window."""
    height, width = scene.grid.height, scene.grid.width
    rows, cols = min(_SIDE, -(-height // _PLACES)), min(_SIDE, -(-width // _PLACES))
    steps = np.arange(1, 2 * _PLACES, 2)
    windows = [
        Window(int(row), int(col), rows, cols)
        for row in steps * (height - rows) // (2 * _PLACES)
        for col in steps * (width - cols) // (2 * _PLACES)
    ]
    down, across = scene.block_shape
    windows.sort(key=lambda window: (window.row // down, window.col // across))  # a block is decoded once
    rng = np.random.default_rng(0)
    for window in windows:
        order = rng.permutation(rows * cols)
        tile = scene.read(window)
        chosen = order[tile.valid.ravel()[order]][:each]
        spectra = adapter(tile.values.reshape(-1, tile.values.shape[-1])[chosen])
        shown = bright(spectra)
        down_in, across_in = np.divmod(chosen[shown], cols)
        yield spectra[shown], np.stack([window.row + down_in, window.col + across_in])
