"""Broken elements of a detector, seen in the radiance of a scene."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FEWEST_OF_COLUMN = 8
"""Pixels of a detector column without which nobody can say that it is stuck."""
LIT = 0.9
"""Share of pixels with signal above which a band shows by itself that a detector column is dead, and share of
bands with signal above which a pixel is inverted: noise makes single bands of dark ground negative."""

Mask = npt.NDArray[np.bool_]


def dead_columns(
    radiance: npt.NDArray[np.floating[Any]],
    col: npt.NDArray[np.integer[Any]],
    seen: Mask,
    clear: Mask,
    width: int,
) -> tuple[Mask, Mask]:
    """Columns (width,) that, in a band lit elsewhere, never have signal or always the same.

    And bands (bands,) of which that is true in most columns: there it is the band that is stuck. From drawn
    pixels: radiance (pixels, bands) in any unit, their columns (pixels,), which of them are `clear`; `seen`
    are the bands in question (bands,).
    """
    dead, stuck = np.zeros(width, np.bool_), np.zeros(len(seen), np.bool_)
    if len(col) == 0:
        return dead, stuck
    lit = np.flatnonzero(seen & np.array([(band[clear] > 0).mean() > LIT for band in radiance.T]))
    order = np.argsort(col, kind="stable")
    column, start, count = np.unique(col[order], return_index=True, return_counts=True)
    spectra = radiance[np.ix_(order, lit)]
    highest, lowest = (extreme.reduceat(spectra, start, axis=0) for extreme in (np.maximum, np.minimum))
    broken = ((highest <= 0) | (highest == lowest)) & (count >= FEWEST_OF_COLUMN)[:, None]
    everywhere = broken.mean(axis=0) > 0.5
    stuck[lit] = everywhere
    dead[column] = broken[:, ~everywhere].any(axis=1)
    return dead, stuck
