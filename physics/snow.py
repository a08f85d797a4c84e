"""Albedo of snow by the asymptotic theory of radiative transfer (Kokhanovsky and Zege 2004 [1]_).

For snow of specific surface area S [m2 kg-1], ice of density 917 kg m-3 and absorption γ = 4πk/λ [m-1],

    albedo = exp(−4 sqrt(2 B γ / (3 · 917 · S (1 − g))) )

with B = 1.6 the absorption enhancement inside a grain and g = 0.845 the asymmetry of scattering [2]_. Soot
adds to γ. The imaginary refractive index k of ice is that of [3]_, below 600 nm of [4]_.

References
----------
.. [1] A. Kokhanovsky, E. Zege, Appl. Opt. 43, 1589 (2004), doi:10.1364/AO.43.001589.
.. [2] Q. Libois et al., The Cryosphere 7, 1803 (2013), doi:10.5194/tc-7-1803-2013.
.. [3] S. Warren, R. Brandt, J. Geophys. Res. 113, D14220 (2008), doi:10.1029/2007JD009744.
.. [4] G. Picard, Q. Libois, L. Arnaud, The Cryosphere 10, 2655 (2016), doi:10.5194/tc-10-2655-2016.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Spectrum = npt.NDArray[np.float64]

ICE_DENSITY = 917.0
"""[kg m-3]."""
_ENHANCEMENT, _ASYMMETRY = 1.6, 0.845
_ICE_INDEX = (
    (400, 5.82e-10), (450, 6.41e-10), (500, 1.15e-9), (550, 2.60e-9), (600, 5.73e-9), (650, 1.43e-8),
    (700, 2.90e-8), (750, 5.87e-8), (800, 1.34e-7), (850, 1.83e-7), (900, 4.20e-7), (950, 6.02e-7),
    (1000, 1.62e-6), (1025, 2.29e-6), (1050, 2.17e-6), (1075, 1.77e-6), (1100, 1.70e-6), (1125, 1.93e-6),
    (1150, 2.29e-6), (1175, 4.28e-6), (1200, 6.71e-6), (1225, 1.07e-5), (1250, 1.29e-5), (1275, 1.34e-5),
    (1325, 1.32e-5), (1375, 1.53e-5), (1400, 1.98e-5), (1425, 7.83e-5), (1450, 2.10e-4), (1475, 4.34e-4),
    (1500, 5.43e-4), (1525, 4.95e-4), (1550, 4.22e-4), (1575, 3.46e-4), (1600, 2.87e-4), (1625, 2.56e-4),
    (1650, 2.36e-4), (1700, 1.87e-4), (1750, 1.56e-4), (1800, 1.41e-4), (1850, 1.34e-4), (1875, 1.83e-4),
    (1900, 3.50e-4), (1925, 7.40e-4), (1950, 1.24e-3), (1975, 1.57e-3), (2000, 1.64e-3), (2025, 1.54e-3),
    (2050, 1.37e-3), (2075, 1.11e-3), (2100, 8.12e-4), (2125, 5.65e-4), (2150, 4.02e-4), (2175, 3.09e-4),
    (2200, 2.54e-4), (2225, 2.18e-4), (2250, 2.03e-4), (2275, 2.26e-4), (2300, 2.82e-4), (2325, 3.66e-4),
    (2350, 4.59e-4), (2400, 5.78e-4), (2450, 6.63e-4), (2475, 7.08e-4),
)  # fmt: skip
"""Wavelength [nm] and imaginary refractive index of ice [1]; interpolated in its logarithm."""
_IMPURITY_ABSORPTION = 6.5
"""Mass absorption of soot at 550 nm, which falls with wavelength [m2 g-1]; dust is some thousandth of it."""


def ice_absorption(wavelength_nm: Spectrum) -> Spectrum:
    """Absorption coefficient γ of ice [m-1] at wavelengths from 400 to 2475 nm."""
    nm = np.asarray(wavelength_nm, dtype=np.float64)
    knots, index = np.transpose(_ICE_INDEX)
    return np.asarray(4e9 * np.pi * np.exp(np.interp(nm, knots, np.log(index))) / nm)


def snow_albedo(wavelength_nm: Spectrum, surface_area: float, soot_ppb: float = 0.0) -> Spectrum:
    """Albedo of deep snow in diffuse light [1], (bands,).

    `surface_area` is the specific surface area [m2 kg-1], 3 / (917 r) for spheres of radius r: fresh snow has
    60, old wet snow 3. `soot_ppb` is the mass of soot [ng g-1].
    """
    nm = np.asarray(wavelength_nm, dtype=np.float64)
    per_mass = _ENHANCEMENT * ice_absorption(nm) / ICE_DENSITY
    per_mass += 1e-9 * soot_ppb * 1e3 * _IMPURITY_ABSORPTION * 550 / nm
    # Extinction of a mass of snow is S / 2 (large grains).
    share = per_mass / (surface_area / 2)
    return np.asarray(np.exp(-4 * np.sqrt(share / (3 * (1 - _ASYMMETRY)))))
