"""Labelled ground in other light: as the physics layer has it, and with what a scene brings besides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from p3vae.models.landcover.job import Job
from p3vae.models.landcover.library.decoder import Library, NoiseModel
from p3vae.models.landcover.library.endmembers import explain
from p3vae.models.landcover.library.solver import PosteriorSolver

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.integer[Any]]

NEIGHBOURS = 0.1
"""Light that the surroundings send at most, as a share of their reflectance [1]."""
_MEDIAN_SQUARE = 0.455
"""Median of the square of a standard normal number."""


@dataclass(frozen=True, eq=False)
class Optics:
    """What the decoder must know of the light: a and b (2, bands), wavelengths [nm], cosΘ0."""

    light: FloatArray
    wavelength: FloatArray
    cos_zenith: float
    physics: bool

    def solver(self, library: Library, noise: NoiseModel) -> PosteriorSolver:
        """The exact posterior under this light."""
        return PosteriorSolver(library, noise, self.light[0], self.light[1], self.wavelength)


def scene_optics(job: Job) -> Optics:
    """The light of a training; without physics, brightness alone."""
    light = np.stack([job.irradiance.direct_ratio, job.irradiance.diffuse_ratio])
    return Optics(
        light if job.settings.physics else np.ones_like(light),
        job.bands.wavelength_nm,
        float(np.cos(np.radians(job.irradiance.sun_zenith_deg))),
        job.settings.physics,
    )


def own_light(spectra: FloatArray, truth: IntArray, library: Library, optics: Optics) -> FloatArray:
    """(z, w) of each spectrum as its own class explains it, (samples, 2)."""
    light = np.ones((len(spectra), 2))
    for k in np.unique(truth):
        light[truth == k] = explain(spectra[truth == k], library.spectra[int(k)], optics.light).light
    return light


def random_light(count: int, rng: np.random.Generator) -> FloatArray:
    """Light of ground in any orientation, a fifth in full shadow and a third in its edge, (count, 2)."""
    kind = rng.random(count)
    exposure = np.where(kind < 0.2, 0.0, np.where(kind < 0.5, rng.random(count), 1.0))
    return np.stack([exposure * rng.uniform(0.25, 1.0, count), rng.uniform(0.2, 1.1, count)], axis=1)


def relit_copies(
    spectra: FloatArray,
    truth: IntArray,
    library: Library,
    optics: Optics,
    rng: np.random.Generator,
    sensor_noise: FloatArray | None = None,
) -> FloatArray:
    """The same ground in other light, (samples, bands); without physics, at another brightness.

    Given `sensor_noise` (bands,), with what shadow is besides the physics layer in little light: light from
    neighbours, which are other samples here, counts for more, and noise does not shrink with the signal.
    """
    light = random_light(len(spectra), rng) @ optics.light
    if sensor_noise is not None and optics.physics:
        neighbours = spectra[rng.permutation(len(spectra))]
        light += rng.uniform(0, NEIGHBOURS, (len(spectra), 1)) * neighbours
    ratio = light / np.maximum(own_light(spectra, truth, library, optics) @ optics.light, 0.02)
    if sensor_noise is None:
        return spectra * ratio
    lost = np.sqrt(np.maximum(1 - ratio**2, 0)) * sensor_noise
    return spectra * ratio + lost * rng.standard_normal(spectra.shape)


def sensor_noise(trials: Sequence[tuple[Library, IntArray, FloatArray]], optics: Optics) -> FloatArray:
    """Standard deviation of noise whatever the signal, (bands,) [reflectance].

    The residual of labelled pixels from their own class has a part that grows with the signal, which is
    texture of the ground; per band, one equation per class tells it from the rest.
    """
    squares, residuals = [], []
    for library, truth, spectra in trials:
        for k in np.unique(truth):
            pixels, own = spectra[truth == k], library.spectra[int(k)]
            found = explain(pixels, own, optics.light)
            residual = pixels - (found.light @ optics.light) * (found.mixing @ own)
            squares.append(np.median(np.square(pixels), axis=0))
            residuals.append(np.maximum(np.median(np.square(residual), axis=0) / _MEDIAN_SQUARE, 1e-12))
    variance = [
        nnls(np.stack([1 / residual, square / residual], axis=1), np.ones(len(residual)))[0][0]
        for square, residual in zip(np.transpose(squares), np.transpose(residuals), strict=True)
    ]
    return np.sqrt(variance)
