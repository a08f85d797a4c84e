"""Grass, a roof and two kinds of road under a 30 degree sun, for tests of what labels do not show."""

from __future__ import annotations

import numpy as np

from p3vae.models.landcover.types import ClassLegend
from p3vae.physics.illumination import clear_sky_irradiance
from p3vae.physics.spectral_response import Bands

BANDS = Bands.from_centres(np.linspace(450.0, 2400.0, 40))
LIGHT = clear_sky_irradiance(BANDS, 30.0)
LEGEND = ClassLegend((1, 2, 3), ("grass", "roof", "road"), ((0, 160, 0), (200, 60, 0), (90, 90, 90)))
WAVE = BANDS.wavelength_nm
GRASS = 0.05 + 0.4 / (1 + np.exp(-(WAVE - 720) / 20)) * np.exp(-np.clip(WAVE - 1100, 0, None) / 700)
ROOF = 0.08 + 0.35 * (1 - np.exp(-(WAVE - 400) / 500))
ROAD = 0.12 + 0.02 * np.sin(WAVE / 400)
OTHER_ROAD = ROAD + 0.025 * np.exp(-(((WAVE - 1300) / 250) ** 2))


def lit(material: np.ndarray, count: int, rng: np.random.Generator, *, flat: bool) -> np.ndarray:
    z = np.full(count, np.cos(np.radians(30.0))) if flat else rng.uniform(0.0, 1.0, count)
    w = np.ones(count) if flat else rng.uniform(0.4, 1.0, count)
    light = z[:, None] * LIGHT.direct_ratio + w[:, None] * LIGHT.diffuse_ratio
    spectra = light * material * (1 + 0.01 * rng.standard_normal((count, 1)))
    return (spectra + 0.003 * rng.standard_normal(spectra.shape)).astype(np.float32)
