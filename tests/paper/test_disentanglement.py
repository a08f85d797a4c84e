"""The mutual information gap on cases whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3vae.paper.metrics import information_gap


def all_pairs(levels: int) -> tuple[np.ndarray, np.ndarray]:
    """Two independent factors, every combination once."""
    first, second = np.meshgrid(np.linspace(0.0, 1.0, levels), np.linspace(0.0, 1.0, levels))
    return first.ravel(), second.ravel()


@pytest.mark.parametrize("levels", [2, 4, 8])
def test_a_perfect_code_is_ahead_by_the_whole_entropy(levels: int) -> None:
    factor, other = all_pairs(levels)
    gap = information_gap(np.column_stack((other, 3.0 * factor - 1.0)), factor, bins=levels)
    assert gap.bits == pytest.approx(np.log2(levels))
    assert gap.normalised == pytest.approx(1.0)
    assert gap.latent == 1


def test_a_code_that_knows_half_of_the_bits() -> None:
    factor, other = all_pairs(4)
    coarse = (factor > 0.5).astype(float)
    gap = information_gap(np.column_stack((coarse, other)), factor, bins=4)
    assert gap.bits == pytest.approx(1.0)
    assert gap.normalised == pytest.approx(0.5)


def test_equally_informed_codes_leave_no_gap() -> None:
    factor, _ = all_pairs(4)
    gap = information_gap(np.column_stack((factor, -factor)), factor, bins=4)
    assert gap.bits == pytest.approx(0.0, abs=1e-12)


def test_whole_numbers_are_classes_however_uneven() -> None:
    classes = np.array([0, 1, 100] * 20)
    codes = np.column_stack((np.tile([0.0, 0.5, 1.0], 20), np.zeros(60)))
    assert information_gap(codes, classes).bits == pytest.approx(np.log2(3))


def test_a_constant_factor_has_no_normalised_gap() -> None:
    gap = information_gap(np.random.default_rng(0).normal(size=(50, 2)), np.full(50, 2.0))
    assert gap.bits == pytest.approx(0.0, abs=1e-12)
    assert np.isnan(gap.normalised)


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 100.0), st.floats(-10.0, 10.0))
def test_scale_offset_and_order_of_codes_do_not_matter(seed: int, scale: float, offset: float) -> None:
    rng = np.random.default_rng(seed)
    # Eighths keep every value off the bins' edges, where rounding could move it to the neighbour.
    factor = rng.integers(0, 8, 200) / 8
    codes = np.column_stack((factor, rng.integers(0, 8, 200) / 8))
    reference = information_gap(codes, factor)
    turned = information_gap(codes[:, ::-1] * scale + offset, factor)
    assert turned.bits == pytest.approx(reference.bits, abs=1e-9)
    assert 0.0 <= reference.normalised <= 1.0


@pytest.mark.parametrize(
    ("codes", "factor"),
    [
        (np.zeros((5, 1)), np.zeros(5)),
        (np.zeros((5, 2)), np.zeros(4)),
        (np.full((5, 2), np.nan), np.zeros(5)),
    ],
)
def test_unusable_codes_are_refused(codes: np.ndarray, factor: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"two latent|finite"):
        information_gap(codes, factor)
