"""From a methane map to kilograms, and from kilograms and wind to an emission rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

KG_M2_PER_PPM_M = 7.16e-7
"""Mass of CH4 per area of 1 ppm m: 1e-6 x 0.016043 kg mol-1 / 0.022414 m3 mol-1 (0 deg C, 1013.25 hPa)."""
SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True)
class EffectiveWind:
    """U_eff = a U10 + b [m s-1]: the speed at which a plume's mass leaves its mask, from 10 m wind."""

    a: float
    b: float

    def __call__(self, wind_m_s: float) -> float:
        """U_eff [m s-1] for a 10 m wind [m s-1]."""
        return self.a * wind_m_s + self.b


EFFECTIVE_WIND = {
    "PRISMA": EffectiveWind(0.34, 0.44),
    "EnMAP": EffectiveWind(0.34, 0.44),
    "EMIT": EffectiveWind(0.36, 0.66),
}
"""By sensor, from large-eddy simulations (PRISMA: Guanter et al. 2021; EnMAP: Roger et al. 2024)."""
DEFAULT_EFFECTIVE_WIND = EFFECTIVE_WIND["PRISMA"]


@dataclass(frozen=True)
class EmissionRate:
    """Q and the one-sigma errors it is made of [kg h-1]."""

    kg_per_hour: float
    from_mass_kg_per_hour: float
    """By the error of IME."""
    from_wind_kg_per_hour: float
    """By the error of the wind."""

    @property
    def std_kg_per_hour(self) -> float:
        """Both errors together [kg h-1]."""
        return float(np.hypot(self.from_mass_kg_per_hour, self.from_wind_kg_per_hour))


def ppm_m_to_kg_m2(ppm_m: npt.NDArray[np.floating[Any]] | float) -> npt.NDArray[np.float64]:
    """Path-integrated enhancement [ppm m] as mass of CH4 per area [kg m-2]."""
    return np.asarray(ppm_m, np.float64) * KG_M2_PER_PPM_M


def integrated_mass_enhancement(ppm_m: npt.NDArray[np.floating[Any]], pixel_area_m2: float) -> float:
    """IME [kg]: sum of mass per area [kg m-2] times pixel area [m2] over a plume's pixels."""
    return float(ppm_m_to_kg_m2(ppm_m).sum() * pixel_area_m2)


def default_wind_uncertainty(wind_m_s: float) -> float:
    """One-sigma uncertainty of a reanalysis 10 m wind [m s-1]: 50 % below 3 m s-1, else 1.5 m s-1."""
    return 0.5 * wind_m_s if wind_m_s < 3.0 else 1.5


def emission_rate(
    ime_kg: float,
    area_m2: float,
    wind_m_s: float,
    *,
    ime_std_kg: float = 0.0,
    wind_std_m_s: float | None = None,
    effective_wind: EffectiveWind = DEFAULT_EFFECTIVE_WIND,
) -> EmissionRate:
    """Q = 3600 U_eff IME / L [kg h-1], L = sqrt(mask area) [m]; first-order errors of IME and wind."""
    if area_m2 <= 0.0 or wind_m_s < 0.0:
        raise ValueError(f"a plume needs a positive area and a wind, got {area_m2:g} m2, {wind_m_s:g} m s-1")
    wind_std = default_wind_uncertainty(wind_m_s) if wind_std_m_s is None else wind_std_m_s
    per_metre = SECONDS_PER_HOUR / np.sqrt(area_m2)
    from_mass = effective_wind(wind_m_s) * ime_std_kg
    from_wind = effective_wind.a * wind_std * ime_kg
    rate = per_metre * effective_wind(wind_m_s) * ime_kg
    return EmissionRate(float(rate), float(per_metre * from_mass), float(per_metre * from_wind))
