"""A library from spectra of known endmembers."""

from __future__ import annotations

import numpy as np
import pytest

from p3vae.models.landcover.library.decoder import SpectralLibrary
from p3vae.models.landcover.library.endmembers import factor_covariance, fit_library
from p3vae.models.landcover.types import TrainingSet

BANDS, EACH = 30, 60
X = np.linspace(0.0, 1.0, BANDS)
MATERIALS = np.stack([0.1 + 0.3 * X, 0.4 - 0.2 * X, 0.25 + 0.15 * np.sin(6.0 * X)])


def spectra() -> TrainingSet:
    """As many pixels of each of three materials, with a little noise."""
    rng = np.random.default_rng(0)
    pixels = np.repeat(MATERIALS, EACH, axis=0)
    pixels = pixels + 1e-3 * rng.standard_normal(pixels.shape)
    zeros = np.zeros(len(pixels), np.int64)
    return TrainingSet(pixels.astype(np.float32), zeros, zeros, pixels[:0].astype(np.float32))


def fitted(monkeypatch, endmembers: int) -> SpectralLibrary:
    """A library of one class with so many endmembers and no smooth deviations."""
    monkeypatch.setattr("p3vae.models.landcover.library.endmembers._ENDMEMBERS", endmembers)
    monkeypatch.setattr("p3vae.models.landcover.library.endmembers._SMOOTH_STD", 0.0)
    return fit_library(spectra(), 1, seed=0)


def test_a_class_varies_as_its_materials_do(monkeypatch):
    library = fitted(monkeypatch, 3)
    spread = library.directions[0].T @ library.directions[0]
    np.testing.assert_allclose(library.mean[0], MATERIALS.mean(0), atol=1e-3)
    np.testing.assert_allclose(spread, np.cov(MATERIALS.T, bias=True), atol=1e-4)


def test_what_materials_leave_is_the_noise(monkeypatch):
    library = fitted(monkeypatch, 3)
    rest = library.factors.T @ library.factors + np.diag(library.noise)
    assert np.diag(rest).mean() == pytest.approx(1e-6, rel=0.05)


def test_one_endmember_leaves_the_materials_to_the_shared_covariance(monkeypatch):
    library = fitted(monkeypatch, 1)
    assert not library.directions.any()
    total = library.factors.T @ library.factors + np.diag(library.noise)
    np.testing.assert_allclose(total, np.cov(MATERIALS.T, bias=True), atol=2e-3)


def test_factors_and_noise_are_those_of_a_factor_model():
    rng = np.random.default_rng(1)
    factors, noise = 0.02 * rng.standard_normal((2, 40)), rng.uniform(1e-4, 2e-4, 40)
    covariance = factors.T @ factors + np.diag(noise)
    found, left = factor_covariance(covariance)
    np.testing.assert_allclose(np.diag(found.T @ found + np.diag(left)), np.diag(covariance), rtol=1e-6)
    np.testing.assert_allclose(found.T @ found, factors.T @ factors, atol=0.1 * np.abs(covariance).max())
    assert len(factor_covariance(covariance, most=1)[0]) == 1
