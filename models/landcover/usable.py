"""Which bands and pixels of a scene a land-cover model can use; read without torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from p3vae.physics.spectral_response import Bands

DARKEST_RMS = 1e-4
"""Root mean square of reflectance up to which a spectrum shows nothing [1]."""
FEWEST_USABLE = 3
"""Bands of a scene that a model of materials needs."""
FEWEST_COVERED = 10
"""Bands of a Gaussian model that a scene must cover: it integrates the others out."""


def usable_bands(own: Bands, sensor: Bands) -> npt.NDArray[np.bool_]:
    """Bands of a sensor that lie where a model of materials has bands, (sensor bands,)."""
    distance = np.abs(sensor.wavelength_nm[:, None] - own.wavelength_nm).min(1)
    return np.asarray(sensor.good & (distance <= np.median(own.fwhm_nm)))


def bright(spectra: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.bool_]:
    """Spectra (pixels, bands) that show anything, (pixels,)."""
    return np.asarray(np.square(spectra).mean(axis=1) > DARKEST_RMS**2)
