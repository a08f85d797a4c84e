"""Simulated scenes of library spectra, with known truth: patches, mixed edges, light, a sensor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter

from p3vae.physics.illumination import SpectralIrradiance

from .ground import FloatArray, Ground, IntArray, smooth_errors
from .legend import CLASSES, MATERIALS

_MATERIALS = 9
"""Of a scene."""
_SPECTRA = 2
"""Of a material in a scene: much less varied than in the libraries."""
_PATCH = 3.0
"""Width of the field that cuts a scene into patches [pixels]."""
_BLUR = 0.6
"""Standard deviation of the point spread function [pixels]."""
_SPREAD = 0.08
"""Relative, of brightness from pixel to pixel [1]."""
_NOISE = 0.003
"""[reflectance]."""


@dataclass(frozen=True, eq=False)
class Landscape:
    """A scene and its truth."""

    cube: FloatArray
    """(rows, cols, bands) [reflectance]."""
    truth: IntArray
    """Index of the dominant class, (rows, cols)."""
    fraction: FloatArray
    """(rows, cols, classes)."""
    sun: FloatArray
    """z, (rows, cols) [1]."""


def landscape(
    ground: Ground,
    light: SpectralIrradiance,
    seed: int,
    *,
    side: int = 48,
    relief: bool = False,
    changed: bool = False,
) -> Landscape:
    """One scene: `relief` has slopes and shade, `changed` a gain and haze of its own."""
    rng = np.random.default_rng(seed)
    materials = [name for name in MATERIALS if ground.has(name) and MATERIALS[name] != "cloud"]
    chosen = rng.choice(len(materials), _MATERIALS, replace=False)
    spectra = np.stack([ground.draw(materials[k], _SPECTRA, rng) for k in chosen])
    fields = gaussian_filter(rng.standard_normal((_MATERIALS, side, side)), (0, _PATCH, _PATCH))
    owner = fields.argmax(0)
    share = rng.uniform(0, 1, (side, side, 1))
    pure = share * spectra[owner, 0] + (1 - share) * spectra[owner, 1]
    pure *= np.exp(_SPREAD * rng.standard_normal((side, side, 1)))
    names = list(CLASSES)
    of_class = np.array([names.index(MATERIALS[materials[k]]) for k in chosen])
    cover = np.eye(len(names))[of_class[owner]]
    mixed, fraction = (gaussian_filter(values, (_BLUR, _BLUR, 0)) for values in (pure, cover))
    fraction /= fraction.sum(-1, keepdims=True)
    cos_zenith = float(np.cos(np.radians(light.sun_zenith_deg)))
    z, w = _light(cos_zenith, side, rng, relief=relief)
    seen = mixed * (z[..., None] * light.direct_ratio + w[..., None] * light.diffuse_ratio)
    if changed:
        nm = ground.wavelength_nm
        gain = np.exp(0.06 * smooth_errors(nm, 1, rng)[0] + rng.normal(0, 0.05))
        seen = seen * gain + rng.uniform(-0.03, 0.03) * np.exp(-(nm - 400) / rng.choice((150, 400)))
    seen = seen + rng.normal(0, _NOISE, seen.shape)
    return Landscape(seen, fraction.argmax(-1), fraction, z)


def _light(
    cos_zenith: float, side: int, rng: np.random.Generator, *, relief: bool
) -> tuple[FloatArray, FloatArray]:
    """z and w, (side, side)."""
    flat = cos_zenith * (1 + 0.05 * rng.standard_normal((side, side)))
    if not relief:
        return flat, np.ones((side, side))
    field = gaussian_filter(rng.standard_normal((side, side)), _PATCH)
    slope = 0.25 * field / field.std()
    shade = gaussian_filter(rng.standard_normal((side, side)), 1.5)
    shade = shade > np.quantile(shade, 0.85)
    z = np.clip(flat + slope, 0.02, 1.0)
    return np.where(shade, 0.05 * z, z), np.where(shade, 0.6, 1 - 0.2 * np.abs(slope))
