"""Reflectance of natural water, and of ground that is wet.

Deep water is that of the semi-analytical model of Lee et al. [1]_: with u = b_b / (a + b_b),

    r_rs = (0.089 + 0.125 u) u,     R_rs = 0.52 r_rs / (1 − 1.7 r_rs),     reflectance = π R_rs + glint

a and b_b are the absorption and backscattering coefficients of water itself [2, 3, 4]_ and of what it
carries: phytoplankton, coloured dissolved organic matter and suspended sediment.

References
----------
.. [1] Z. Lee et al., Appl. Opt. 38, 3831 (1999), doi:10.1364/AO.38.003831.
.. [2] R. Pope, E. Fry, Appl. Opt. 36, 8710 (1997), doi:10.1364/AO.36.008710.
.. [3] K. Palmer, D. Williams, J. Opt. Soc. Am. 64, 1107 (1974), doi:10.1364/JOSA.64.001107.
.. [4] A. Morel, in Optical Aspects of Oceanography (1974): scattering of sea water, 0.00288 (500/λ)^4.32 m-1.
.. [5] A. Bricaud et al., J. Geophys. Res. 100, 13321 (1995), doi:10.1029/95JC00463.
.. [6] A. Ångström, Geogr. Ann. 7, 323 (1925); J. Lekner, M. Dorf, Appl. Opt. 27, 1278 (1988).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Spectrum = npt.NDArray[np.float64]

_POPE_FRY = (
    0.00663, 0.00473, 0.00454, 0.00495, 0.00635, 0.00922, 0.00979, 0.0106, 0.0127, 0.0150, 0.0204, 0.0325,
    0.0409, 0.0434, 0.0474, 0.0565, 0.0619, 0.0695, 0.0896, 0.1351, 0.2224, 0.2644, 0.2755, 0.2916, 0.3108,
    0.340, 0.410, 0.439, 0.465, 0.516, 0.624,
)  # fmt: skip
"""Absorption of pure water from 400 to 700 nm in steps of 10 nm [m-1]."""
_PALMER_WILLIAMS = (
    (714, 0.98), (725, 1.34), (735, 2.38), (746, 2.75), (758, 2.72), (781, 2.30), (806, 1.95),
    (820, 1.99), (833, 3.08), (847, 3.87), (877, 5.06), (909, 7.5), (926, 11.9), (943, 21.4),
    (952, 32.2), (962, 47.1), (973, 51.4), (990, 46.9), (1010, 35.1), (1031, 23.1), (1053, 16.4),
    (1070, 14.8), (1087, 16.6), (1111, 23.2), (1124, 32.3), (1136, 54.8), (1149, 97), (1163, 118),
    (1190, 125), (1220, 122), (1250, 111), (1266, 107), (1299, 134), (1333, 225), (1351, 387),
    (1389, 913), (1408, 2150), (1443, 3170), (1493, 2170), (1538, 1210), (1587, 807), (1639, 607),
    (1695, 565), (1754, 760), (1802, 948), (1852, 1080), (1887, 5750), (1927, 12400), (1961, 10900),
    (2000, 6920), (2041, 4500), (2083, 3100), (2128, 2360), (2198, 1930), (2273, 2300), (2326, 2930),
    (2381, 4180), (2439, 6350), (2500, 9570),
)  # fmt: skip
"""Wavelength [nm] and absorption [m-1]; in between it is interpolated in its logarithm."""
_CHLOROPHYLL = (
    (400, 0.0263), (420, 0.0328), (440, 0.0403), (460, 0.0350), (480, 0.0278), (500, 0.0230), (520, 0.0141),
    (540, 0.0094), (560, 0.0062), (580, 0.0061), (600, 0.0055), (620, 0.0065), (640, 0.0076), (660, 0.0125),
    (675, 0.0201), (690, 0.0087), (700, 0.0030), (720, 0.0002),
)  # fmt: skip
"""Wavelength [nm] and absorption of phytoplankton at 1 mg m-3 of chlorophyll a [m2 mg-1]."""
_CHLOROPHYLL_EXPONENT = 0.668
"""Larger cells shade their pigment: absorption grows with this power of the concentration (at 440 nm) [1]."""
_DISSOLVED_SLOPE, _SEDIMENT_SLOPE = 0.015, 0.011
"""Exponential decrease of absorption with wavelength [nm-1]."""
_SEDIMENT_ABSORPTION, _SEDIMENT_BACKSCATTERING = 0.031, 0.0111
"""Of 1 g m-3 of mineral sediment, at 440 nm and at 550 nm [m2 g-1]."""
_INTERNAL_REFLECTANCE, _INTERNAL_TRANSMITTANCE = 0.472, 0.528
"""Of a water surface (n = 1.33) for diffuse light from below [1]."""
_SURFACE_REFLECTANCE = 0.02
"""Of a water surface for the light from above, at high sun [1]."""


def water_absorption(wavelength_nm: Spectrum) -> Spectrum:
    """Absorption coefficient of pure water [m-1] at wavelengths from 400 to 2500 nm."""
    knots = np.concatenate([np.arange(400, 701, 10), [nm for nm, _ in _PALMER_WILLIAMS]])
    values = np.concatenate([_POPE_FRY, [absorption for _, absorption in _PALMER_WILLIAMS]])
    return np.asarray(np.exp(np.interp(wavelength_nm, knots, np.log(values))))


def water_reflectance(
    wavelength_nm: Spectrum,
    *,
    chlorophyll: float = 1.0,
    sediment: float = 1.0,
    dissolved: float = 0.1,
    glint: float = 0.0,
) -> Spectrum:
    """Reflectance of deep water [1], (bands,).

    `chlorophyll` [mg m-3], mineral `sediment` [g m-3], absorption of `dissolved` organic matter at 440 nm
    [m-1], and `glint`, the reflectance of the surface itself [1].
    """
    nm = np.asarray(wavelength_nm, dtype=np.float64)
    knots, values = np.transpose(_CHLOROPHYLL)
    pigment = np.interp(nm, knots, values, right=0.0)
    absorption = (
        water_absorption(nm)
        + pigment * chlorophyll**_CHLOROPHYLL_EXPONENT
        + dissolved * np.exp(-_DISSOLVED_SLOPE * (nm - 440))
        + _SEDIMENT_ABSORPTION * sediment * np.exp(-_SEDIMENT_SLOPE * (nm - 440))
    )
    algae = 0.3 * chlorophyll**0.62 * (0.002 + 0.02 * (0.5 - 0.25 * np.log10(chlorophyll)) * 550 / nm)
    backscattering = (
        0.5 * 0.00288 * (500 / nm) ** 4.32 + algae + _SEDIMENT_BACKSCATTERING * sediment * (550 / nm) ** 0.7
    )
    u = backscattering / (absorption + backscattering)
    below = (0.089 + 0.125 * u) * u
    return np.asarray(np.pi * 0.52 * below / (1 - 1.7 * below) + glint)


def wet_reflectance(wavelength_nm: Spectrum, dry: Spectrum, film_mm: float, share: float = 1.0) -> Spectrum:
    """Reflectance of ground [1] when `share` of it carries a film of water `film_mm` thick [mm].

    Light that the ground scatters meets the water's surface from below, and what is reflected there falls on
    the ground again; on both ways the film absorbs [6]. `dry` is (..., bands).
    """
    passed = np.exp(-2e-3 * film_mm * water_absorption(wavelength_nm))
    wet = _SURFACE_REFLECTANCE + (1 - _SURFACE_REFLECTANCE) * _INTERNAL_TRANSMITTANCE * dry * passed / (
        1 - _INTERNAL_REFLECTANCE * dry * passed
    )
    return np.asarray((1 - share) * dry + share * np.minimum(wet, dry))
