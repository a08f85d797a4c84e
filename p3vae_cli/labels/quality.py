"""Which bands are worth training on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from p3vae.cli.errors import SceneError
from p3vae.cli.labels.draw import Samples
from p3vae.physics.spectral_response import WATER_VAPOUR_NM, Bands, outside

NOISE_SHARE = 0.5
"""A band is noise when this share of its variation over the scene is not shared by its neighbours."""
MINIMUM_BANDS = 4


def usable_bands(bands: Bands, samples: Samples, path: Path | None = None) -> Bands:
    """The good bands outside the water-vapour absorptions that vary together with their neighbours.

    `path` is the scene that an error names.
    """
    kept = np.flatnonzero(bands.good & outside(bands.wavelength_nm, WATER_VAPOUR_NM))
    spectra = np.concatenate([samples.spectra, samples.unlabelled])[:, kept].astype(np.float64)
    kept = kept[~_noisy(spectra)] if len(kept) > MINIMUM_BANDS else kept
    if len(kept) < MINIMUM_BANDS:
        raise SceneError(
            f"{len(kept)} usable bands are left",
            path=path,
            remedy=f"at least {MINIMUM_BANDS} are needed; check --bad-bands",
        )
    return bands.select(kept)


def _noisy(spectra: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """(bands,): True where most variation over pixels is not that of the mean of both neighbours."""
    middle = 0.5 * (spectra[:, :-2] + spectra[:, 2:])
    residual = (spectra[:, 1:-1] - middle).var(axis=0)
    noisy = np.zeros(spectra.shape[1], np.bool_)
    noisy[1:-1] = residual > NOISE_SHARE * np.maximum(spectra[:, 1:-1].var(axis=0), 1e-12)
    return noisy
