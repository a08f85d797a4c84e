"""The error of terrain, found from brightness that was made with a known one."""

import numpy as np
import pytest

from p3vae.models.landcover.terrain_error import Brightness, evidence_of, fitted_error


def made(error, spread=0.15, count=1500, seed=0):
    """Brightness of three classes on slopes, and the cosines of an elevation model with an error."""
    rng = np.random.default_rng(seed)
    true = np.clip(rng.normal(0.6, 0.2, count), 0.03, 1)
    index, sky = rng.integers(0, 3, count), rng.uniform(0.8, 1, count)
    bright = (
        np.array([0.1, 0.2, 0.4])[index] * (1.3 * true + 0.2 * sky) * np.exp(rng.normal(0, spread, count))
    )
    seen = Brightness(np.log(bright), sky, index, (1.3, 0.2))
    return seen, true + rng.normal(0, error, count), true


@pytest.mark.parametrize("error", [0.03, 0.07, 0.15])
def test_error_and_spread_are_found(error):
    seen, observed, _ = made(error)
    found = fitted_error(seen, observed)
    assert found.error == pytest.approx(error, rel=0.35)
    assert found.spread == pytest.approx(0.15, rel=0.3)


def test_cosines_of_another_place_have_the_largest_error():
    seen, observed, _ = made(0.05)
    other = np.random.default_rng(9).permutation(observed)
    assert fitted_error(seen, other).error > 3 * fitted_error(seen, observed).error
    lit = np.minimum(observed, other) > 0.02
    part = seen.subset(lit)
    assert evidence_of(part, observed[lit], 0.05) > evidence_of(part, other[lit], 0.05) + 50


def test_too_few_lit_pixels_say_nothing():
    seen, observed, _ = made(0.05)
    assert fitted_error(seen, np.where(np.arange(len(observed)) < 50, observed, 0)) is None
