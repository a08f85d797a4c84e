"""Labelled ground in other light: what is kept of a sample, and what shadow adds to it."""

import numpy as np
import pytest

from p3vae.models.landcover.library.decoder import Library
from p3vae.models.landcover.library.illumination import NEIGHBOURS, Optics, relit_copies, sensor_noise

BANDS = 40
WAVELENGTH = np.linspace(450.0, 2400.0, BANDS)
LIGHT = np.stack([np.linspace(0.7, 1.1, BANDS), np.linspace(0.4, 0.03, BANDS)])
NOISE = np.geomspace(2e-4, 4e-3, BANDS)
"""As of a sensor that sees little light in the short-wave infrared."""
TEXTURE = 0.01


@pytest.fixture
def optics() -> Optics:
    return Optics(LIGHT, WAVELENGTH, cos_zenith=0.8, physics=True)


@pytest.fixture
def library() -> Library:
    wave = WAVELENGTH / 2400
    spectra = (0.02 + 0.01 * wave, 0.1 + 0.2 * wave, 0.5 - 0.2 * wave**2)
    return Library(tuple(row[None] for row in spectra), np.mean(spectra, axis=0))


def samples(library: Library, count: int, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """In full light, each band with texture of its own."""
    rng = np.random.default_rng(0)
    truth = np.arange(count) % len(library.spectra)
    ground = np.concatenate(library.spectra)[truth] * (1 + TEXTURE * rng.standard_normal((count, BANDS)))
    light = np.stack([rng.uniform(0.6, 1.0, count), np.ones(count)], axis=1) @ LIGHT
    return light * ground + noise * rng.standard_normal((count, BANDS)), truth


def test_noise_of_the_sensor_is_told_from_texture_band_by_band(library, optics):
    spectra, truth = samples(library, 900, NOISE)
    found = sensor_noise([(library, truth, spectra)], optics)
    np.testing.assert_allclose(found, NOISE, atol=2e-4, rtol=0.2)


def test_noise_does_not_shrink_in_shadow(library, optics):
    spectra, truth = samples(library, 900, NOISE)
    copies = relit_copies(spectra, truth, library, optics, np.random.default_rng(1), NOISE)
    dark = copies.mean(1) < 0.15 * spectra.mean(1)
    assert dark.sum() > 50
    # Spectra are smooth here: what differs from the mean of the bands beside it is noise.
    rough = copies[dark][:, 1:-1] - 0.5 * (copies[dark][:, :-2] + copies[dark][:, 2:])
    expected = np.sqrt(NOISE[1:-1] ** 2 + 0.25 * (NOISE[:-2] ** 2 + NOISE[2:] ** 2))
    seen = np.median(np.abs(rough), axis=0) / 0.6745 / expected
    assert 0.8 < np.median(seen) < 1.4


def test_neighbours_send_light_which_counts_for_more_in_shadow(library, optics):
    spectra, truth = samples(library, 900, 0 * NOISE)
    alone, together = (
        relit_copies(spectra, truth, library, optics, np.random.default_rng(1), noise)
        for noise in (None, 0 * NOISE)
    )
    extra = together / alone - 1
    dark = alone.mean(1) < 0.15 * spectra.mean(1)
    assert np.median(extra[dark]) > 4 * np.median(extra[~dark]) > 0
    own = spectra / np.concatenate(library.spectra)[truth]
    sent = (together - alone) / spectra * own
    assert sent.min() >= 0 and sent.max() <= 1.1 * NEIGHBOURS * spectra.max()
