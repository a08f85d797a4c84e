"""Latent spectra of the default land-cover model, from labels and from the unlabelled rest of a scene."""

from __future__ import annotations

import numpy as np
from sklearn.covariance import ledoit_wolf

from p3vae.models.landcover.library.decoder import Library, NoiseModel
from p3vae.models.landcover.library.endmembers import anchored_spectra, levelled_spectra, refined_spectra
from p3vae.models.landcover.library.illumination import Optics
from p3vae.models.landcover.library.pseudo_labels import a_few, is_usual, sure_pixels
from p3vae.models.landcover.types import TrainingSet, TrainingSettings

_MOST_LEVELLING = 400


def fit_library(data: TrainingSet, classes: int, optics: Optics, settings: TrainingSettings) -> Library:
    """Latent spectra of every class as labels show them; unlabelled pixels set their level, and nothing else
    unless the stop-gradient is off."""
    light, seed = optics.light, settings.seed
    labelled = [data.spectra[data.class_index == k].astype(np.float64) for k in range(classes)]
    everything = np.concatenate([data.spectra, data.unlabelled])
    surroundings = everything.mean(0).astype(np.float64)
    spectra = [anchored_spectra(pixels, light, settings.spectra_per_class, seed) for pixels in labelled]
    spectra = [
        refined_spectra(start, pixels, np.ones(len(pixels)), light)
        for start, pixels in zip(spectra, labelled, strict=True)
    ]
    if not optics.physics:
        return Library(tuple(spectra), surroundings)
    start, rough = Library(tuple(spectra), surroundings), NoiseModel()
    found = sure_pixels(data.unlabelled, start, rough, optics, seed)
    for k, (pixels, extra) in enumerate(zip(labelled, found, strict=True)):
        own = a_few(pixels, _MOST_LEVELLING, seed)
        usual = is_usual(extra, own, spectra[k], rough, optics)
        both = np.concatenate([own, extra[usual]])
        if not settings.stop_gradient and len(extra):
            spectra[k] = refined_spectra(spectra[k], both, np.ones(len(both)), light, rounds=4)
        spectra[k] = levelled_spectra(spectra[k], both, light, optics.cos_zenith)
    return Library(tuple(spectra), surroundings)


def fit_scattered_library(data: TrainingSet, classes: int, optics: Optics) -> Library:
    """One spectrum per class and how labelled pixels scatter about it.

    For scenes where every pixel is a mixture of its own and few pure materials explain none. The covariance
    of pixels divided by the root of their norm is shrunk by Ledoit and Wolf (2004).
    """
    spectra, residuals = [], []
    for k in range(classes):
        pixels = data.spectra[data.class_index == k].astype(np.float64)
        root = np.sqrt(np.linalg.norm(pixels, axis=1, keepdims=True))
        centre = (pixels / root).mean(0)
        residuals.append(pixels / root - centre)
        mean = centre[None] * root.mean()
        spectra.append(levelled_spectra(mean, pixels, optics.light, optics.cos_zenith))
    scatter = ledoit_wolf(np.concatenate(residuals), assume_centered=True)[0]
    return Library(
        tuple(spectra), np.concatenate([data.spectra, data.unlabelled]).mean(0, np.float64), scatter
    )
