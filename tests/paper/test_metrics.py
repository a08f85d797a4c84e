"""Scores of latent spectra and paired tests against hand-made values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from p3vae.paper.metrics import latent_spectra_score, paired_p_value, spectral_angle


def test_spectral_angle_of_plane_vectors() -> None:
    spectra = np.array([[1.0, 0.0], [5.0, 5.0], [0.0, 0.1]])
    angles = spectral_angle(spectra, spectra[:1])
    assert angles[:, 0].tolist() == pytest.approx([0.0, np.pi / 4, np.pi / 2])
    nearly = np.array([[np.cos(1e-5), np.sin(1e-5)]])
    assert spectral_angle(nearly, spectra[:1])[0, 0] == pytest.approx(1e-5, rel=1e-6)


def test_latent_spectra_are_matched_to_the_nearest_both_ways() -> None:
    def at(*degrees: float) -> np.ndarray:
        return np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], axis=1)

    score = latent_spectra_score([at(0.0, 40.0), at(90.0)], [at(1.0), at(80.0, 86.0)])
    assert score.material_angle_deg == pytest.approx((1.0 + 10.0 + 4.0) / 3)
    assert score.latent_angle_deg == pytest.approx((1.0 + 39.0 + 4.0) / 3)


def test_paired_test_is_that_of_the_differences() -> None:
    first, second = [0.93, 0.95, 0.91, 0.96], [0.90, 0.93, 0.90, 0.91]
    difference = np.subtract(first, second)
    t = difference.mean() / (difference.std(ddof=1) / 2.0)
    assert paired_p_value(first, second) == pytest.approx(2 * stats.t.sf(t, 3))
    assert paired_p_value(first, first) == 1.0
    assert paired_p_value([1.0, 2.0], [0.0, 1.0]) == 0.0
    assert np.isnan(paired_p_value([1.0], [0.5]))
