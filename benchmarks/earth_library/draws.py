"""Draws of the decoder that the encoder learns from: mixed ground of libraries, in any light, with noise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from p3vae.physics.illumination import clear_sky_irradiance

from .ground import FloatArray, Ground, IntArray
from .legend import CLASSES, MATERIALS
from .sources import model_bands

_ZENITHS_DEG = (15.0, 30.0, 45.0, 60.0)
_LIGHT = (
    ((1.0, 1.0), (0.06, 0.06), 0.55),
    ((0.95, 0.95), (0.20, 0.12), 0.20),
    ((0.45, 0.70), (0.18, 0.20), 0.15),
    ((0.03, 0.50), (0.05, 0.20), 0.10),
)
"""Mean of (z / cosΘ0, w), standard deviations and weight. Slopes and shade are drawn more often than they are
found, for the network has no other way to know them."""
_NOISE = 0.0035
"""[reflectance]."""
_HAZE_NM, _HAZE_STD = (150.0, 400.0), 0.01
"""Decay of light that scatters into the path, as in `library.scene` [nm], and its spread: corrections take
too little of it away, or too much [reflectance]."""
_BRIGHTNESS = (0.6, 1.2)
"""Of crowns and half-dry plants, that shade themselves [1]."""
_HALF_DRY = (0.25, 1.0)
"""Share of green plants in half-dry vegetation [1]."""
_HALF_DRY_SHARE = 0.3
"""Of the draws of a green material [1]."""
_GREEN = ("tree", "grass and low vegetation")
_WEIGHT = {"tree": 1.5}
"""Of the draws of a class: meadows are held for trees as often as trees for meadows [1]."""
_THIN = (0.02, 1.2)
"""Optical depth of haze and cirrus over what is not called cloud [1]."""
_HAZY = 0.1
"""Share of draws below haze or cirrus [1]."""


class Draws(NamedTuple):
    """Flat sunlit pixels at the bands of the library."""

    reflectance: FloatArray
    """(pixels, bands)."""
    material: IntArray
    """Index of the dominant material, (pixels,)."""
    fraction: FloatArray
    """(pixels, classes)."""


def draw_ground(
    ground: Ground, materials: list[str], count: int, rng: np.random.Generator, *, plants: bool = True
) -> Draws:
    """As many pixels of every material; `plants` adds half-dry and dim vegetation."""
    counts = [round(count * _WEIGHT.get(MATERIALS[name], 1.0)) for name in materials]
    found = [_pixels(ground, name, n, rng, plants=plants) for name, n in zip(materials, counts, strict=True)]
    reflectance, fraction = (np.concatenate(parts) for parts in zip(*found, strict=True))
    hazy = rng.random(len(reflectance)) < _HAZY
    depth = rng.uniform(*_THIN, int(hazy.sum()))
    kind = "water cloud" if rng.random() < 0.5 else "ice cloud"
    reflectance[hazy] = ground.clouded(reflectance[hazy], depth, kind, rng)
    return Draws(reflectance, np.repeat(np.arange(len(materials)), counts), fraction)


def _pixels(
    ground: Ground, name: str, count: int, rng: np.random.Generator, *, plants: bool
) -> tuple[FloatArray, FloatArray]:
    reflectance, fraction = ground.pixels(name, count, rng)
    if not plants or MATERIALS[name] not in _GREEN:
        return reflectance, fraction
    names = list(CLASSES)
    dim = MATERIALS[name] == "tree"
    half = np.flatnonzero(rng.random(count) < _HALF_DRY_SHARE)
    share = rng.uniform(max(_HALF_DRY[0], 0.5), _HALF_DRY[1], (len(half), 1))
    dry = ground.draw_class("dry vegetation", len(half), rng)
    reflectance[half] = ground.seen(share * ground.draw(name, len(half), rng) + (1 - share) * dry, rng)
    fraction[half] = 0
    fraction[half, names.index(MATERIALS[name])] = share[:, 0]
    fraction[half, names.index("dry vegetation")] = 1 - share[:, 0]
    if dim:
        reflectance *= rng.uniform(*_BRIGHTNESS, (count, 1))
    else:
        reflectance[half] *= rng.uniform(*_BRIGHTNESS, (len(half), 1))
    return reflectance, fraction


class Light:
    """Light as the decoder knows it, for suns at several zeniths."""

    def __init__(self) -> None:
        bands = model_bands()
        suns = [clear_sky_irradiance(bands, zenith) for zenith in _ZENITHS_DEG]
        self._ratios = np.stack([[one.direct_ratio, one.diffuse_ratio] for one in suns])
        self._haze = np.stack([np.exp(-(bands.wavelength_nm - 400) / length) for length in _HAZE_NM])
        self._cosine = np.cos(np.radians(_ZENITHS_DEG))

    def seen(self, reflectance: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Spectra (pixels, bands) in light of the prior, with noise."""
        mean, std, weight = (np.array(column) for column in zip(*_LIGHT, strict=True))
        count = len(reflectance)
        of, sun = rng.choice(len(weight), count, p=weight), rng.integers(len(self._cosine), size=count)
        z, w = np.maximum(mean[of] * 1.0 + std[of] * rng.standard_normal((count, 2)), 0).T
        light = (z * self._cosine[sun])[:, None] * self._ratios[sun, 0] + w[:, None] * self._ratios[sun, 1]
        path = rng.normal(0, _HAZE_STD, (count, len(_HAZE_NM))) @ self._haze
        return np.asarray(reflectance * light + path + rng.normal(0, _NOISE, reflectance.shape))
