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
    return _mean([(log[:, place], valid[:, place]) for place in range(log.shape[1])])


def averaged(probability: FloatArray, valid: BoolArray) -> FloatArray:
    """Posteriors (rows, cols, classes) averaged over the valid pixels around each, normalised."""
    rows, cols = valid.shape
    log = np.log(np.maximum(probability, _LEAST))
    log = np.pad(log, [(HALO, HALO), (HALO, HALO), (0, 0)])
    inside = np.pad(valid, HALO)
    shifts = [(row, col) for row in range(2 * HALO + 1) for col in range(2 * HALO + 1)]
    window = [(slice(row, row + rows), slice(col, col + cols)) for row, col in shifts]
    mean, _ = _mean([(log[place], inside[place]) for place in window])
    share = np.exp(mean - mean.max(-1, keepdims=True))
    # The last axis is short and lies side by side: its sum has one order whatever the size of the image.
    return np.asarray(share / share.sum(-1, keepdims=True), dtype=np.float32)


def _mean(parts: list[tuple[FloatArray, BoolArray]]) -> tuple[FloatArray, BoolArray]:
    """Mean of the valid ones of some log posteriors (..., classes); zero where there are none."""
    total = np.zeros(parts[0][0].shape, np.float32)
    count = np.zeros(parts[0][1].shape, np.float32)
    for log, valid in parts:
        total += np.where(valid[..., None], np.maximum(log, np.log(_LEAST)), np.float32(0))
        count += valid
    total /= np.maximum(count, 1)[..., None]
    return total, count > 0
