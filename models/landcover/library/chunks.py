"""Spectra in pieces of one fixed size, so that a pixel's result does not depend on the others."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

_CHUNK_VALUES = 2**20
"""Values of one matrix product, which fit the cache of a core."""


def fixed_chunks(spectra: Tensor, columns: int) -> Iterator[Tensor]:
    """Copies of the rows of spectra (pixels, bands), to be multiplied with a matrix of `columns` columns.

    The last piece is filled up with zeros: a matrix product of another size rounds differently.
    """
    size = max(_CHUNK_VALUES // columns, 1)
    for start in range(0, len(spectra), size):
        some = spectra[start : start + size]
        piece = spectra.new_zeros((size, spectra.shape[1]))
        piece[: len(some)] = some
        yield piece


def with_observed(
    pieces: Iterator[Tensor], observed: Tensor | None, columns: int
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Pieces of `fixed_chunks` with what was observed of the same pixels (pixels, values); zero fills up."""
    if observed is None:
        yield from ((piece, None) for piece in pieces)
    else:
        yield from zip(pieces, fixed_chunks(observed, columns), strict=True)
