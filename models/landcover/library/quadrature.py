"""Angles θ between sun alone and sky alone at which the land-cover posterior is evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

NODES = 13
_REFINEMENT = 4
_SMALLEST_DEG = 6.0


@dataclass(frozen=True, eq=False)
class LightGrid:
    """Nodes, angles between them, and the maps that carry values from nodes to those angles.

    Sunlight is many times stronger than skylight: most change of the spectrum happens within a few degrees
    of θ = 90°, most change of z and w elsewhere. Steps are equal in the sum of θ and the spectral angle,
    each as a share of its range.

    For one spectrum, what it explains of a pixel is (p·cosθ + q·sinθ)² over the strength of the signal, and
    the amount of light p·cosθ + q·sinθ over the same: carried by functions of that form they are exact
    between nodes, where they change by thousands.
    """

    nodes: FloatArray
    """(NODES,) [rad], ascending to 90°."""
    fine: FloatArray
    """Nodes and angles between them, (fine,)."""
    squares: FloatArray
    """(fine, NODES): exact for 1, cos2θ and sin2θ."""
    lines: FloatArray
    """(fine, NODES): exact for 1, cosθ and sinθ."""

    @classmethod
    def about(cls, lit: FloatArray) -> Self:
        """The grid for a typical spectrum in sunlight and in skylight, (2, bands)."""
        position = np.linspace(0.0, NODES - 1.0, (NODES - 1) * _REFINEMENT + 1)
        fine = _spaced(lit, position / (NODES - 1))
        nodes = fine[::_REFINEMENT]
        return cls(
            nodes,
            fine,
            _carried(nodes, fine, position, 2),
            _carried(nodes, fine, position, 1),
        )


def _spaced(lit: FloatArray, position: FloatArray) -> FloatArray:
    """θ at positions from 0 to 1."""
    angles = np.linspace(np.radians(_SMALLEST_DEG), np.pi / 2, 20_001)
    seen = np.cos(angles)[:, None] * lit[0] + np.sin(angles)[:, None] * lit[1]
    seen /= np.linalg.norm(seen, axis=1, keepdims=True)
    spectral = np.concatenate([[0.0], np.linalg.norm(np.diff(seen, axis=0), axis=1).cumsum()])
    share = (angles - angles[0]) / np.ptp(angles) + spectral / max(spectral[-1], 1e-9)
    return np.interp(position, share / share[-1], angles)


def _about(node: int) -> slice:
    """A node and its two neighbours; an end takes those of the node beside it."""
    centre = min(max(node, 1), NODES - 2)
    return slice(centre - 1, centre + 2)


def _basis(angles: FloatArray, harmonic: int) -> FloatArray:
    return np.stack([np.ones_like(angles), np.cos(harmonic * angles), np.sin(harmonic * angles)], axis=-1)


def _carried(nodes: FloatArray, fine: FloatArray, position: FloatArray, harmonic: int) -> FloatArray:
    """Weights (fine, NODES); between two nodes, functions through either and its neighbours are blended."""
    weights = np.zeros((len(fine), NODES))
    for row, (angle, at) in enumerate(zip(fine, position, strict=True)):
        before = min(int(at), NODES - 2)
        for node, share in ((before, 1 - (at - before)), (before + 1, at - before)):
            three = _about(node)
            inverse = np.linalg.inv(_basis(nodes[three], harmonic))
            weights[row, three] += share * (_basis(angle, harmonic) @ inverse)
    return weights
