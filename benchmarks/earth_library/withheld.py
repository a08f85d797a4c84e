"""Spectra that a trial model never saw, and pixels of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from p3vae.physics.illumination import SpectralIrradiance

from .ground import FloatArray, Ground, IntArray
from .legend import CLASSES, MATERIALS
from .sources import MaterialSpectra

_NOISE = 0.003
"""Of the simulated sensor [reflectance]."""


def withheld_pixels(
    ground: Ground, irradiance: SpectralIrradiance, count: int, seed: int
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Pixels of every material in light of level and sloping ground.

    Spectra (pixels, bands), class indices (pixels,) and fractions (pixels, classes).
    """
    rng = np.random.default_rng(seed)
    names = list(CLASSES)
    materials = [name for name in MATERIALS if ground.has(name)]
    drawn = [ground.pixels(name, count, rng) for name in materials]
    truth = np.repeat([names.index(MATERIALS[name]) for name in materials], count)
    spectra = np.concatenate([one[0] for one in drawn])
    cos_zenith = np.cos(np.radians(irradiance.sun_zenith_deg))
    sun = np.clip(cos_zenith + rng.normal(0, 0.06, (len(spectra), 1)), 0, 1)
    sky = rng.uniform(0.9, 1.05, (len(spectra), 1))
    seen = spectra * (sun * irradiance.direct_ratio + sky * irradiance.diffuse_ratio)
    return seen + rng.normal(0, _NOISE, seen.shape), truth, np.concatenate([one[1] for one in drawn])


def halves(
    spectra: Sequence[MaterialSpectra], seed: int
) -> tuple[list[MaterialSpectra], list[MaterialSpectra]]:
    """Each source of each material cut in two at random; a single spectrum is in the first."""
    rng = np.random.default_rng(seed)
    first, second = [], []
    for one in spectra:
        order = rng.permutation(len(one.reflectance))
        middle = (len(order) + 1) // 2
        first.append(replace(one, reflectance=one.reflectance[order[:middle]]))
        if middle < len(order):
            second.append(replace(one, reflectance=one.reflectance[order[middle:]]))
    return first, second
