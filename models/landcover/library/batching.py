"""Spectra in memory: norms, copies and whole lanes; a pixel's result must not depend on its company."""

from __future__ import annotations

import torch
from torch import Tensor

LANES = 32
"""Pixels that vectors and matrix products take together."""


def norms_of(spectra: Tensor) -> Tensor:
    """Norms of spectra; `norm` is twenty times slower where the bands of a spectrum lie apart."""
    if _by_pixel(spectra):
        norms: Tensor = torch.linalg.vector_norm(spectra, dim=1)
        return norms
    square = spectra.new_zeros(len(spectra))
    for band in spectra.T:
        square.addcmul_(band, band)
    return square.sqrt_()


def _by_pixel(spectra: Tensor) -> bool:
    """Whether spectra lie one after the other in memory.

    A single one that was cut out of bands lies as if it did, and must go the way of the others.
    """
    return spectra.stride(1) == 1 != spectra.stride(0)


def picked(spectra: Tensor, rows: Tensor) -> Tensor:
    """A copy of some spectra (pixels, bands), one after the other in memory whatever the order of all.

    `index_select` is several times faster than brackets, and by rows of memory once more.
    """
    if _by_pixel(spectra):
        return spectra.index_select(0, rows)
    return spectra.T.index_select(1, rows).T.clone(memory_format=torch.contiguous_format)


def padded(rows: Tensor) -> Tensor:
    """Rows with the last one repeated up to a whole number of lanes.

    Vectors and matrix products of other widths take other paths and round differently; with whole lanes a
    pixel's result does not depend on its company.
    """
    return torch.cat([rows, rows[-1:].expand(-len(rows) % LANES)])
