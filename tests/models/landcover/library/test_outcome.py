"""What a posterior says of pixels kept aside, with a second opinion on those that fit badly."""

import numpy as np

from p3vae.models.landcover.library.outcome import Outcome


def outcome(evidence: list[list[float]], misfit: list[float]) -> Outcome:
    size = len(misfit)
    return Outcome(np.zeros(size, int), np.array(evidence), np.array(misfit), np.ones(size, bool))


def test_a_second_opinion_counts_by_what_known_ground_does_not_show():
    """Of three pixels, 4 ahead for the second class at a temperature of 2, the first is known."""
    own = outcome([[-4.0, 0.0]] * 3, [2.0, 4.0, 10.0])
    spare = outcome([[0.0, -6.0]] * 3, [1.0, 1.0, 1.0])
    assert spare.temperature() == 1.0  # all its pixels are of the first class, as it says
    found = own.rescued(spare, largest=3.0, temperature=2.0).evidence
    np.testing.assert_array_equal(found[0], own.evidence[0])
    # -2 by a quarter and 6 by three quarters; -2 by a tenth and 6 by nine.
    np.testing.assert_allclose(found[1:, 0] - found[1:, 1], [4.0, 5.2])


def test_known_ground_that_fits_better_than_noise_has_it_makes_a_misfit_larger():
    """Unknown from 1.5 on, so known up to a half: a misfit of 2 is explained by a quarter, not by a half."""
    own, spare = outcome([[-4.0, 0.0]], [2.0]), outcome([[0.0, -6.0]], [1.0])
    found = own.rescued(spare, largest=1.5, temperature=2.0).evidence
    np.testing.assert_allclose(found[:, 0] - found[:, 1], [4.0])


def test_no_opinion_is_a_veto():
    """Classes that one calls impossible are 7 behind for it, no more: a tenth of that is little."""
    own = outcome([[-np.inf, 0.0]], [1e9])
    spare = outcome([[0.0, -1000.0]], [1.0])
    found = own.rescued(spare, largest=3.0, temperature=1.0).evidence
    np.testing.assert_allclose(found, [[0.0, -7.0]], atol=1e-6)
