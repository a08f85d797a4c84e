"""Statistics of bands that arrive in pieces, and what classes cover, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p3vae.cli.rasters.areas import ClassExtent
from p3vae.cli.rasters.pictures import coloured
from p3vae.cli.rasters.statistics import Statistics
from p3vae.cli.styles.rasters import Ramp, ramp_stops


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.floats(-1e4, 1e4, width=32), max_size=8), min_size=1, max_size=6),
    st.integers(1, 1000),
)
def test_pieces_add_up_to_the_whole(pieces, more):
    found = sum((Statistics.from_values(np.array(piece, np.float32)) for piece in pieces), Statistics())
    values = np.array([value for piece in pieces for value in piece], np.float64)
    assert found.count == len(values)
    if len(values) == 0:
        assert found.tags(5) == {} and found.stretch() == (0.0, 1.0)
        return
    assert (found.minimum, found.maximum) == (values.min(), values.max())
    assert found.mean == pytest.approx(values.mean(), abs=1e-6 * max(1.0, np.abs(values).max()))
    assert found.std == pytest.approx(values.std(), rel=1e-6, abs=1e-5 * max(1.0, np.abs(values).max()))
    tags = found.tags(len(values) + more)
    valid = 100.0 * len(values) / (len(values) + more)
    assert float(tags["STATISTICS_VALID_PERCENT"]) == pytest.approx(valid, rel=1e-3)
    assert float(tags["STATISTICS_STDDEV"]) == pytest.approx(values.std(), rel=1e-6, abs=1e-3)


def test_the_range_shown_is_that_of_usual_values():
    values = np.r_[np.linspace(10.0, 20.0, 1000), 500.0]
    low, high = Statistics.from_values(values).stretch()
    assert low == 10.0 and high == pytest.approx(values.mean() + 2 * values.std())


def test_a_class_covers_the_pixels_and_areas_of_all_its_rows():
    rows, areas = np.array([3, 0, 5, 2]), np.array([900.0, 910.0, 920.0, 930.0])
    found = ClassExtent.of_rows(7, "lawn", "#00ff00", rows, areas, 40)
    assert (found.pixels, found.share) == (10, 0.25)
    assert found.hectares == pytest.approx((3 * 900.0 + 5 * 920.0 + 2 * 930.0) / 1e4, abs=1e-3)
    nowhere = ClassExtent.of_rows(7, "lawn", "#00ff00", 0 * rows, None, 0)
    assert (nowhere.pixels, nowhere.share, nowhere.hectares) == (0, 0.0, None)


def test_colours_are_interpolated_and_what_is_missing_is_transparent():
    stops = ramp_stops(Ramp(0.0, 8.0, "gray"), (0.0, 8.0))
    image = coloured(np.array([[0.0, 8.0, 4.0, np.nan, -5.0, 99.0]]), stops)[0]
    assert image[:, 3].tolist() == [255, 255, 255, 0, 255, 255]
    assert image[0, :3].tolist() == image[4, :3].tolist() and image[1, :3].tolist() == image[5, :3].tolist()
    middle = (image[0, :3].astype(float) + image[1, :3]) / 2
    np.testing.assert_allclose(image[2, :3], middle, atol=2.0)
