"""The land-cover physics layer f_E: what local light does to the reflectance of a flat-ground correction.

Apparent reflectance of ground with true reflectance ρ, in local direct light z and local skylight w [1]_:

    x = (z·a + w·b)·ρ,     a = I_dir / cosΘ0 / (I_dir + I_dif),     b = I_dif / (I_dir + I_dif)

z = δ·cosΘ is the share of the pixel that sees the sun times the cosine of the local incidence angle, w the
share of the flat-ground skylight that arrives (sky view times anisotropy). Flat sunlit ground has z = cosΘ0
and w = 1, hence a ratio of one. The published layer ties w to z by w = g(z) = g_w·z + g_b.

Every function takes numpy arrays or torch tensors alike.

References
----------
.. [1] R. Thoreau, L. Risser, V. Achard, B. Berthelot, X. Briottet, "p3VAE: a physics-integrated generative
   model", section on the prior physical knowledge of hyperspectral image classification.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from p3vae.physics.illumination import SpectralIrradiance

SKY_SLOPE = 1.0
"""Published g_w [1]."""
SKY_OFFSET = 0.2
"""Published g_b on simulated data [1]; 0.6 was used on the real scene."""
DARKEST_RATIO = 0.02
"""Local light below this share of flat-ground light cannot be divided out: the result would be noise [1]."""

Array = Any
"""A numpy array or a torch tensor; results are of the same kind."""


def sky_from_sun(z: Array, slope: float = SKY_SLOPE, offset: float = SKY_OFFSET) -> Array:
    """w = g(z), the published affine guess of the skylight from the direct light [1]."""
    return z * slope + offset


def irradiance_ratio(z: Array, w: Array, direct_ratio: Array, diffuse_ratio: Array) -> Array:
    """Local over flat-ground irradiance [1]: (..., bands) for z and w of shape (...,)."""
    return z[..., None] * direct_ratio + w[..., None] * diffuse_ratio


def apparent_reflectance(
    reflectance: Array, z: Array, w: Array, direct_ratio: Array, diffuse_ratio: Array
) -> Array:
    """f_E: the reflectance (..., bands) that a flat-ground correction reports for ground in light (z, w)."""
    return irradiance_ratio(z, w, direct_ratio, diffuse_ratio) * reflectance


def relit_reflectance(
    apparent: Array, z: Array, w: Array, direct_ratio: Array, diffuse_ratio: Array
) -> Array:
    """The inverse of f_E: what the same ground would show flat and sunlit, (..., bands).

    Where the light is under `DARKEST_RATIO` of flat-ground light, that floor is divided out instead.
    """
    ratio = irradiance_ratio(z, w, direct_ratio, diffuse_ratio)
    return apparent / ratio.clip(min=DARKEST_RATIO)


def relight_spectra(
    spectra: npt.NDArray[np.float32],
    z: npt.NDArray[np.floating[Any]],
    w: npt.NDArray[np.floating[Any]],
    irradiance: SpectralIrradiance,
) -> npt.NDArray[np.float32]:
    """Apparent reflectance (pixels, bands) seen in light (z, w), brought to flat sunlit ground."""
    relit: npt.NDArray[np.float32] = relit_reflectance(
        np.asarray(spectra, dtype=np.float32),
        np.asarray(z, dtype=np.float32),
        np.asarray(w, dtype=np.float32),
        irradiance.direct_ratio.astype(np.float32),
        irradiance.diffuse_ratio.astype(np.float32),
    )
    return relit
