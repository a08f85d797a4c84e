"""Reflectance of clouds, and of ground below them.

A cloud is a plane layer of droplets or ice crystals of effective radius r [m]. Absorption takes the share

    1 − ω = ½ (1 − exp(−1.7 κ r)),     κ = 4πk/λ

of what a particle removes from the light [1]_, half of which is diffraction; κ is the absorption coefficient
of liquid water or ice [m-1]. Diffuse reflectance R and transmittance T of the layer follow from the
two-stream equations with the coefficients of the quadrature scheme [2]_:

    γ1 = √3/2 (2 − ω (1 + g)),   γ2 = √3/2 ω (1 − g),   s = √(γ1² − γ2²),   Γ = γ2 / (γ1 + s)
    R = Γ (1 − e^(−2sτ)) / (1 − Γ² e^(−2sτ)),     T = (1 − Γ²) e^(−sτ) / (1 − Γ² e^(−2sτ))

and ground of reflectance ρ below shows R + T² ρ / (1 − ρ R). Optical depth τ and asymmetry g are taken as
the same in all bands. Shadows, edges and the water vapour that a cloud hides are left out.

References
----------
.. [1] S. Twomey, C. Bohren, J. Atmos. Sci. 37, 2086 (1980): 1 − ω = 0.85 κ r where that is small.
.. [2] W. Meador, W. Weaver, J. Atmos. Sci. 37, 630 (1980).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from p3vae.physics.snow import ice_absorption
from p3vae.physics.water import water_absorption

Spectrum = npt.NDArray[np.float64]
Phase = Literal["water", "ice"]

_ASYMMETRY = {"water": 0.85, "ice": 0.77}
_ABSORBED = 1.7
_LEAST_CO_ALBEDO = 1e-7
"""So that s is never zero [1]."""


def co_albedo(wavelength_nm: Spectrum, radius_um: float, phase: Phase = "water") -> Spectrum:
    """1 − ω of droplets or crystals of an effective radius [µm], (bands,)."""
    absorption = water_absorption if phase == "water" else ice_absorption
    depth = absorption(np.asarray(wavelength_nm, np.float64)) * radius_um * 1e-6
    return np.asarray(np.maximum(0.5 * (1 - np.exp(-_ABSORBED * depth)), _LEAST_CO_ALBEDO))


def cloud_over(
    wavelength_nm: Spectrum,
    ground: Spectrum,
    optical_depth: float,
    radius_um: float = 10.0,
    phase: Phase = "water",
) -> Spectrum:
    """Reflectance of ground, (..., bands), below a cloud of an optical depth [1]."""
    single, g = 1 - co_albedo(wavelength_nm, radius_um, phase), _ASYMMETRY[phase]
    lost = np.sqrt(3) / 2 * (2 - single * (1 + g))
    back = np.sqrt(3) / 2 * single * (1 - g)
    root = np.sqrt(lost**2 - back**2)
    deep = back / (lost + root)
    once = np.exp(-root * optical_depth)
    reflected = deep * (1 - once**2) / (1 - deep**2 * once**2)
    passed = (1 - deep**2) * once / (1 - deep**2 * once**2)
    return np.asarray(reflected + passed**2 * ground / (1 - ground * reflected))
