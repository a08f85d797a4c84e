"""A weak coupling of neighbours against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3vae.models.landcover.neighbours import coupled

J = 0.3


def image(values):
    """Probabilities of two classes from those of the first."""
    first = np.asarray(values, np.float32)
    return np.stack([first, 1 - first], -1)


def test_log_odds_grow_by_the_neighbours_that_agree():
    """In the middle of 3 x 3 sure neighbours the log-odds grow by 8 J."""
    values = np.ones((3, 3))
    values[1, 1] = 0.4
    found = coupled(image(values), np.ones((3, 3), bool), J)[1, 1]
    assert np.log(found[0] / found[1]) == pytest.approx(np.log(0.4 / 0.6) + 8 * J, abs=1e-4)


def test_a_sure_pixel_keeps_its_class_among_others():
    values = np.zeros((3, 3))
    values[1, 1] = 0.999
    assert coupled(image(values), np.ones((3, 3), bool), J)[1, 1, 0] > 0.9


def test_invalid_pixels_say_nothing():
    values = np.ones((3, 3))
    values[1, 1] = 0.4
    valid = np.zeros((3, 3), bool)
    valid[1, 1] = True
    assert coupled(image(values), valid, J)[1, 1, 0] == pytest.approx(0.4, abs=1e-6)


@given(st.integers(0, 10**6), st.integers(2, 5))
def test_probabilities_sum_to_one_and_a_part_of_an_image_is_judged_as_in_the_whole(seed, classes):
    rng = np.random.default_rng(seed)
    values = rng.dirichlet(np.ones(classes), (7, 6)).astype(np.float32)
    valid = rng.random((7, 6)) < 0.8
    whole = coupled(values, valid, J)
    np.testing.assert_allclose(whole.sum(-1), 1, atol=1e-5)
    part = coupled(values[1:6], valid[1:6], J)
    np.testing.assert_array_equal(part[1:-1], whole[2:5])
