"""Neighbours in a map: the mean of log posteriors over 3 × 3 pixels.

The normalised geometric mean of the posteriors of a pixel and its neighbours (a logarithmic opinion pool,
Genest and Zidek 1986). Sums run in one order, so that a map is the same to the bit however it is tiled.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]

HALO = 1
"""How far neighbours count [pixels]."""
_LEAST = np.float32(1e-6)
"""Of a probability whose logarithm is averaged, so that no pixel decides alone."""


def mean_of_neighbours(log: FloatArray, valid: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Mean log posteriors (samples, classes), not normalised, and whether a sample has any valid pixel.

    `log` is (samples, 9, classes), `valid` (samples, 9).
    """
    total = np.where(valid[:, :, None], np.maximum(log, np.log(_LEAST)), np.float32(0)).sum(1)
    count = valid.sum(1)
    return np.asarray(total / np.maximum(count, 1)[:, None], np.float32), count > 0


def averaged(probability: FloatArray, valid: BoolArray) -> FloatArray:
    """Posteriors (rows, cols, classes) averaged over the valid pixels around each, normalised."""
    log = np.log(np.maximum(probability, _LEAST))
    log[~valid] = 0
    mean = _sums(log) / np.maximum(_sums(valid.astype(np.float32)), 1)[..., None]
    mean -= mean.max(-1, keepdims=True)
    share = np.exp(mean, out=mean)
    # The last axis is short and lies side by side: its sum has one order whatever the size of the image.
    share /= share.sum(-1, keepdims=True)
    return share


def _sums(image: FloatArray) -> FloatArray:
    """Sums over 3 × 3 pixels of an image (rows, cols, ...); beyond its edges is nothing."""
    padded = np.pad(image, [(HALO, HALO), (HALO, HALO)] + [(0, 0)] * (image.ndim - 2))
    along = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    return np.asarray(along[:-2] + along[1:-1] + along[2:])
