"""Scores against hand-made values."""

from __future__ import annotations

import numpy as np
import pytest

from p3vae.models.metrics import (
    average_f1,
    class_scores,
    overall_accuracy,
    regression_score,
    reliability,
)

TRUTH = np.array([0, 0, 0, 1, 1, 2])
PREDICTED = np.array([0, 0, 1, 1, 2, 2])


def test_f1_by_hand() -> None:
    precision, recall, f1 = class_scores(TRUTH, PREDICTED, 4)
    assert precision.tolist() == pytest.approx([1.0, 1 / 2, 1 / 2, 0.0])
    assert recall.tolist() == pytest.approx([2 / 3, 1 / 2, 1.0, 0.0])
    assert f1.tolist() == pytest.approx([0.8, 0.5, 2 / 3, 0.0])
    assert average_f1(TRUTH, PREDICTED, 4) == pytest.approx((0.8 + 0.5 + 2 / 3) / 3)
    assert overall_accuracy(TRUTH, PREDICTED) == pytest.approx(4 / 6)


def test_nothing_to_score_is_nan() -> None:
    nothing = np.zeros(0, dtype=int)
    assert np.isnan(average_f1(nothing, nothing, 3))
    assert np.isnan(overall_accuracy(nothing, nothing))


def test_an_estimate_of_half_the_truth_plus_one() -> None:
    truth = np.linspace(-1.0, 1.0, 101)
    score = regression_score(truth, 0.5 * truth + 1.0, np.full(101, 1.0))
    assert (score.bias, score.slope, score.correlation) == pytest.approx((1.0, 0.5, 1.0))
    # Errors are 1 - truth/2, from 0.5 to 1.5: half of them within one, all within 1.96.
    assert score.mae == pytest.approx(1.0)
    assert (score.within_one_std, score.within_95) == (pytest.approx(51 / 101), 1.0)


def test_intervals_of_a_gaussian_cover_what_they_should() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=200_000)
    score = regression_score(truth, truth + rng.normal(scale=2.0, size=200_000), np.full(200_000, 2.0))
    assert score.within_one_std == pytest.approx(0.6827, abs=0.005)
    assert score.within_95 == pytest.approx(0.95, abs=0.005)


def test_a_constant_estimate_has_no_correlation() -> None:
    score = regression_score(np.arange(5.0), np.full(5, 2.0), np.ones(5))
    assert np.isnan(score.correlation)
    assert score.slope == 0.0


def test_one_estimate_has_an_error_but_no_slope() -> None:
    score = regression_score(np.array([1.0]), np.array([1.5]), np.array([1.0]))
    assert (score.mae, score.bias, score.within_one_std) == (0.5, 0.5, 1.0)
    assert np.isnan(score.correlation) and np.isnan(score.slope)


def test_reliability_by_hand() -> None:
    confidence = np.array([0.1, 0.3, 0.8, 0.9, 1.0])
    curve = reliability(confidence, np.array([False, True, True, True, False]), bins=2)
    assert curve.count.tolist() == [2, 3]
    assert curve.confidence.tolist() == pytest.approx([0.2, 0.9])
    assert curve.accuracy.tolist() == pytest.approx([0.5, 2 / 3])
    expected = (2 * 0.3 + 3 * (0.9 - 2 / 3)) / 5
    assert curve.expected_calibration_error == pytest.approx(expected)


def test_honest_confidence_is_calibrated_and_boasting_is_not() -> None:
    rng = np.random.default_rng(1)
    confidence = rng.uniform(0.5, 1.0, 100_000)
    honest = reliability(confidence, rng.random(100_000) < confidence)
    boasting = reliability(confidence, rng.random(100_000) < confidence - 0.2)
    assert honest.expected_calibration_error < 0.01
    assert boasting.expected_calibration_error == pytest.approx(0.2, abs=0.01)
    assert np.isnan(honest.accuracy[0])
