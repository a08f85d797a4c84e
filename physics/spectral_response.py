"""Spectral bands as Gaussians, and resampling between two sets of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating[Any]]

FWHM_PER_SIGMA = 2.0 * np.sqrt(2.0 * np.log(2.0))


@dataclass(frozen=True, eq=False)
class Bands:
    """The spectral bands of a sensor or of a model, in ascending order of wavelength."""

    wavelength_nm: npt.NDArray[np.float64]
    """Centres [nm], ascending, (bands,)."""
    fwhm_nm: npt.NDArray[np.float64]
    """Full widths at half maximum of the Gaussian responses [nm], (bands,)."""
    good: npt.NDArray[np.bool_]
    """False where a band carries no usable signal (deep absorption, dead detector), (bands,)."""

    def __len__(self) -> int:
        return len(self.wavelength_nm)
