"""What unlabelled pixels tell of the classes: how bright their spectra are, and what no polygon shows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from p3vae.models.landcover.library.decoder import Library, NoiseModel
from p3vae.models.landcover.library.endmembers import explain, levelled_spectra
from p3vae.models.landcover.library.illumination import Optics
from p3vae.models.landcover.types import TrainingSet, TrainingSettings

FloatArray = npt.NDArray[np.float64]

_SURE = 0.95
_USUAL_QUANTILE = 0.9
"""Unlabelled pixels count as a class's own when they fit as well as this share of its labelled ones."""
_MOST_PIXELS = 6000
_MOST_PER_CLASS = 400
WELL_LIT = 1.0
"""z + w of ground whose shape is not lost in noise; flat ground in the sun has nearly two."""
_ODD = 4.0
"""Residual variance, in that of labelled pixels, beyond which a pixel is of another material, or mixed."""
_FEWEST = 20
_WORTHWHILE = 0.5
"""Share of the misfit of odd pixels that may remain with a spectrum of their own."""


def a_few(pixels: npt.NDArray[Any], most: int, seed: int) -> npt.NDArray[Any]:
    """At most that many rows, in their order."""
    if len(pixels) <= most:
        return pixels
    return pixels[np.sort(np.random.default_rng(seed).choice(len(pixels), most, replace=False))]


def sure_pixels(
    unlabelled: npt.NDArray[np.float32],
    library: Library,
    noise: NoiseModel,
    optics: Optics,
    seed: int,
    *,
    least_light: float = 0.0,
    most_misfit: float = math.inf,
) -> list[FloatArray]:
    """Unlabelled pixels that surely belong to each class, a few hundred at most.

    With at least so much light z + w, and no larger misfit per band.
    """
    pixels = a_few(unlabelled, _MOST_PIXELS, seed)
    if not len(pixels):
        return [np.zeros((0, pixels.shape[1]))] * len(library.spectra)
    found = optics.solver(library, noise).solve(torch.from_numpy(pixels))
    # However badly a pixel fits, its class may be sure: others may fit far worse.
    probability, index = (found.log_evidence * found.misfit.clamp(min=1)[:, None]).softmax(1).max(1)
    sure = (probability > _SURE) & (found.sun + found.sky >= least_light) & (found.misfit <= most_misfit)
    rows = [((index == k) & sure).numpy() for k in range(len(library.spectra))]
    return [a_few(pixels[mine], _MOST_PER_CLASS, seed).astype(np.float64) for mine in rows]


def unknown_share(
    unlabelled: npt.NDArray[np.float32],
    library: Library,
    noise: NoiseModel,
    optics: Optics,
    most_misfit: float,
) -> float:
    """Share of unlabelled pixels that no class explains; nan without any."""
    pixels = a_few(unlabelled, _MOST_PIXELS, seed=0)
    if not len(pixels):
        return math.nan
    misfit = optics.solver(library, noise).solve(torch.from_numpy(pixels)).misfit
    return float((misfit > most_misfit).double().mean())


def noisiness(
    pixels: FloatArray, spectra: FloatArray, noise: NoiseModel, optics: Optics
) -> npt.NDArray[np.float64]:
    """Residual variance of pixels from a class, in units of the variance of white noise, (pixels,) [1]."""
    expected: FloatArray = noise.floor**2 / np.square(pixels).mean(1) + noise.relative**2
    return explain(pixels, spectra, optics.light).misfit / expected


def is_usual(
    pixels: FloatArray, labelled: FloatArray, spectra: FloatArray, noise: NoiseModel, optics: Optics
) -> npt.NDArray[np.bool_]:
    """Which pixels a class's spectra explain as well as nearly all its labelled ones."""
    most = np.quantile(noisiness(labelled, spectra, noise, optics), _USUAL_QUANTILE)
    usual: npt.NDArray[np.bool_] = noisiness(pixels, spectra, noise, optics) <= most
    return usual


def adopted(
    library: Library,
    data: TrainingSet,
    noise: NoiseModel,
    most_misfit: float,
    optics: Optics,
    settings: TrainingSettings,
) -> Library:
    """The library with one more spectrum for every class that has room and that the scene shows to lack one.

    Polygons seldom show every material of a class. One that they do not show may be told well enough in full
    light, yet be taken for another class in shadow, where half the spectrum is lost. A class adopts the
    typical spectrum of well-lit pixels that surely belong to it, though its spectra explain them unusually
    badly, if most of what was unexplained then is explained.
    """
    seed, most = settings.seed, settings.spectra_per_class
    sure = sure_pixels(
        data.unlabelled, library, noise, optics, seed, least_light=WELL_LIT, most_misfit=most_misfit
    )
    spectra = []
    for k, (own, pixels) in enumerate(zip(library.spectra, sure, strict=True)):
        labelled = a_few(data.spectra[data.class_index == k], _MOST_PER_CLASS, seed).astype(np.float64)
        usual = np.median(noisiness(labelled, own, noise, optics))
        odd = pixels[noisiness(pixels, own, noise, optics) > _ODD * usual]
        spectra.append(_with_typical(own, odd, noise, optics) if len(own) < most else own)
    return replace(library, spectra=tuple(spectra))


def _with_typical(spectra: FloatArray, odd: FloatArray, noise: NoiseModel, optics: Optics) -> FloatArray:
    """The spectra and the typical one of odd pixels, if it explains most of what they left.

    Odd pixels are of many kinds, mixed ones among them: once their typical spectrum is known, it is found
    again from those that are mostly of it.
    """
    alike, both = odd, spectra
    for _ in range(2):
        if len(alike) < _FEWEST:
            return spectra
        both = np.concatenate([spectra, _typical(alike, optics)])
        alike = odd[explain(odd, both, optics.light).mixing[:, -1] > 0.5]
    left, before = (np.median(noisiness(odd, known, noise, optics)) for known in (both, spectra))
    return both if left < _WORTHWHILE * before else spectra


def _typical(pixels: FloatArray, optics: Optics) -> FloatArray:
    """The median shape of pixels, in full light, (1, bands)."""
    norm = np.linalg.norm(pixels, axis=1, keepdims=True)
    spectrum: FloatArray = np.median(pixels / norm, axis=0, keepdims=True) * np.median(norm)
    if not optics.physics:
        return spectrum
    return levelled_spectra(spectrum, pixels, optics.light, optics.cos_zenith)
