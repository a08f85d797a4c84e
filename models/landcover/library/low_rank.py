"""A posterior solver for many components: the matrix product in two steps of lower rank."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from p3vae.models.landcover.library.decoder import FloatArray, LightPrior, SpectralLibrary
from p3vae.models.landcover.library.solver import PosteriorSolver

_ERROR = 0.05
"""Largest standard deviation of what the lower rank leaves out of a column, in units of its noise."""


@dataclass(frozen=True, eq=False)
class LowRankSolver(PosteriorSolver):
    """`weights` of shape (rank, columns) apply to spectra after `basis`, (bands, rank)."""

    basis: Tensor = field(default_factory=lambda: torch.empty(0))

    @classmethod
    def build(cls, library: SpectralLibrary, prior: LightPrior, light: FloatArray, **options: Any) -> Self:
        """As `PosteriorSolver.build`; the rank is the least that serves the spectra of the library.

        Spectra have the covariance Σ = LLᵀ over all components. The best approximation of x·W of rank r
        keeps the first r singular vectors U of LᵀW: x·W ≈ (x·L⁻ᵀU)·(UᵀLᵀW).
        """
        full = super().build(library, prior, light, **options)
        weights = full.weights.double()
        root = torch.as_tensor(_total_root(library))
        left, values, right = torch.linalg.svd(root.T @ weights, full_matrices=False)
        remaining = torch.flip(torch.cumsum(torch.flip((values[:, None] * right).square(), [0]), 0), [0])
        enough = torch.nonzero(remaining.max(1).values.sqrt() <= _ERROR)
        rank = int(enough[0]) if len(enough) else len(values)
        basis = torch.linalg.solve_triangular(root.T, left[:, :rank], upper=True)
        projected = values[:rank, None] * right[:rank]

        def stored(values: Tensor) -> Tensor:
            return values.float().contiguous()

        return replace(full, weights=stored(projected), basis=stored(basis))

    def _product(self, centred: Tensor) -> Tensor:
        return (centred @ self.basis) @ self.weights


def _total_root(library: SpectralLibrary) -> FloatArray:
    """Cholesky factor of the second moment of all components' spectra about the centre, (bands, bands)."""
    rows = np.concatenate(
        [
            library.mean - library.mean.mean(0),
            library.mean,
            library.directions.reshape(-1, library.mean.shape[1]),
        ]
    )
    moment = rows.T @ rows / len(library.mean) + library.factors.T @ library.factors + np.diag(library.noise)
    return np.asarray(np.linalg.cholesky(moment))
