"""Neighbours in a map: the mean of log posteriors over 3 × 3 pixels, or a weak coupling of equal classes.

The mean is the normalised geometric mean of the posteriors of a pixel and its neighbours (a logarithmic
opinion pool, Genest and Zidek 1986); labels say whether it helps. The coupling is the first step of the mean
field of a Potts model (Geman and Geman 1984; Koller and Friedman 2009, 11.5) with posteriors p_i:

    log q_i(y) = log p_i(y) + J Σ_{8 neighbours j} p_j(y) + constant

It leaves a sure pixel as it is, and so needs no labels. Sums run in one order, so that a map is the same to
the bit however it is tiled.
"""

from __future__ import annotations

from typing import Any

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
    return _normalised(mean)


def coupled(probability: FloatArray, valid: BoolArray, coupling: float) -> FloatArray:
    """Posteriors (rows, cols, classes) that agree more with those of valid pixels around each, normalised."""
    seen = np.where(valid[..., None], probability, np.float32(0))
    total = np.log(np.maximum(probability, _LEAST))
    total += np.float32(coupling) * (_sums(seen) - seen)
    return _normalised(total)


def _normalised(log: npt.NDArray[np.floating[Any]]) -> FloatArray:
    """Probabilities of log probabilities up to a constant, in place."""
    log -= log.max(-1, keepdims=True)
    share = np.exp(log, out=log)
    # The last axis is short and lies side by side: its sum has one order whatever the size of the image.
    share /= share.sum(-1, keepdims=True)
    return np.asarray(share, np.float32)


def _sums(image: FloatArray) -> FloatArray:
    """Sums over 3 × 3 pixels of an image (rows, cols, ...); beyond its edges is nothing."""
    padded = np.pad(image, [(HALO, HALO), (HALO, HALO)] + [(0, 0)] * (image.ndim - 2))
    along = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    return np.asarray(along[:-2] + along[1:-1] + along[2:])
