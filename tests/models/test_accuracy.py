"""The estimators of map accuracy against a published example, scikit-learn and simulated samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import accuracy_score, cohen_kappa_score, precision_recall_fscore_support

from p3vae.models.accuracy import area_adjusted, compare_paired, error_matrix, score_error_matrix
from p3vae.models.accuracy_intervals import area_adjusted_intervals

LABELS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=60)


@given(LABELS)
def test_scores_are_those_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    mapped, truth = np.array(pairs).T
    counts = error_matrix(mapped, truth, 4)
    score = score_error_matrix(counts)
    precision, recall, f1, _ = precision_recall_fscore_support(
        truth, mapped, labels=range(4), average=None, zero_division=0.0
    )
    assert counts.sum() == len(pairs)
    assert score.overall == pytest.approx(accuracy_score(truth, mapped))
    assert np.nan_to_num(score.users) == pytest.approx(precision)
    assert np.nan_to_num(score.producers) == pytest.approx(recall)
    assert np.nan_to_num(score.f1) == pytest.approx(f1)
    if len(set(mapped) | set(truth)) > 1:
        assert score.kappa == pytest.approx(cohen_kappa_score(truth, mapped))


@given(LABELS, st.lists(st.integers(1, 1000), min_size=4, max_size=4))
def test_shares_are_those_of_the_whole(pairs: list[tuple[int, int]], areas: list[int]) -> None:
    mapped, truth = np.array(pairs).T
    counts = error_matrix(mapped, truth, 4)
    sampled = np.where(counts.sum(axis=1) > 0, areas, 0).astype(float)
    found = area_adjusted(counts, sampled)
    assert found.share.sum() == pytest.approx(1.0)
    assert found.overall == pytest.approx(np.average(np.nan_to_num(found.users), weights=sampled))


def test_standard_errors_are_the_scatter_of_many_samples() -> None:
    """Draw samples of a known population again and again."""
    rng = np.random.default_rng(5)
    area = np.array([1000.0, 3000.0, 6000.0])
    truth = np.array([[0.8, 0.15, 0.05], [0.1, 0.85, 0.05], [0.05, 0.1, 0.85]])
    drawn = [
        area_adjusted(
            np.array([rng.multinomial(n, p) for n, p in zip((80, 120, 200), truth, strict=True)]), area
        )
        for _ in range(1500)
    ]
    for name in ("share", "users", "producers", "overall"):
        values = np.array([getattr(found, name) for found in drawn])
        errors = np.array([getattr(found, f"{name}_se") for found in drawn])
        assert errors.mean(axis=0) == pytest.approx(values.std(axis=0), rel=0.08), name
    true_share = area / area.sum() @ truth
    assert np.mean([found.share for found in drawn], axis=0) == pytest.approx(true_share, abs=0.002)


def test_a_single_sample_has_no_standard_error() -> None:
    found = area_adjusted(np.array([[1, 0], [3, 7]]), np.array([10.0, 30.0]))
    assert np.isnan(found.users_se[0]) and np.isnan(found.overall_se)
    assert found.users_se[1] == pytest.approx(np.sqrt(0.7 * 0.3 / 9))


def test_a_map_class_without_a_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="no sample"):
        area_adjusted(np.array([[5, 0], [0, 0]]), np.array([10.0, 30.0]))


def test_mcnemar_by_the_binomial_distribution() -> None:
    first = np.array([True] * 20 + [False] * 5 + [True] * 3)
    second = np.array([False] * 20 + [True] * 5 + [True] * 3)
    found = compare_paired(first, second)
    assert (found.only_first, found.only_second) == (20, 5)
    assert found.p_value == pytest.approx(2 * stats.binom.cdf(5, 25, 0.5))
    assert compare_paired(first, first).p_value == 1.0


RARE_AREA = np.array([0.02, 0.015, 0.32, 0.645])
RARE = np.array(
    [[0.88, 0, 0.067, 0.053], [0, 0.733, 0.107, 0.16], [0.006, 0, 0.927, 0.067], [0.006, 0.003, 0.028, 0.963]]
)


def test_intervals_hold_the_truth_for_rare_classes() -> None:
    """Ten million pixels with 2 % of change and 300 samples, of which few or none show an omission."""
    rng = np.random.default_rng(3)
    joint = RARE_AREA[:, None] * RARE
    truth = {"share": joint.sum(axis=0), "users": np.diag(RARE), "overall": np.trace(joint)}
    truth["producers"] = np.diag(joint) / truth["share"]
    held: dict[str, list] = {name: [] for name in truth}
    for _ in range(1000):
        counts = np.array([rng.multinomial(n, p) for n, p in zip((50, 50, 66, 134), RARE, strict=True)])
        found = area_adjusted_intervals(counts, RARE_AREA)
        for name, value in truth.items():
            interval = getattr(found, name)
            held[name].append((interval.low <= value) & (value <= interval.high))
    for name, within in held.items():
        assert 0.93 <= np.mean(within) <= 0.97, name


def test_intervals_hold_their_estimates() -> None:
    counts = np.array([[1, 0, 0], [3, 7, 0], [0, 0, 0]])
    area = np.array([10.0, 30.0, 0.0])
    found, limits = area_adjusted(counts, area), area_adjusted_intervals(counts, area)
    for name in ("share", "users", "producers", "overall"):
        value, interval = np.nan_to_num(getattr(found, name)), getattr(limits, name)
        assert (np.nan_to_num(interval.low) <= value).all() and (
            value <= np.nan_to_num(interval.high, nan=1)
        ).all()
    assert np.isnan(limits.users.low[2]) and np.isnan(limits.producers.high[2])
    assert limits.share.low[2] == 0 < limits.share.high[2], "a class that no sample shows may be there"
