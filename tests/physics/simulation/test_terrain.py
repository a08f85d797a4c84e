"""Light on height fields against closed forms and pvlib."""

import numpy as np
import pvlib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p3vae.physics.simulation.terrain import incidence_cosine, sky_view, sunlit


@given(
    tilt=st.floats(0, 80),
    aspect=st.floats(0, 360),
    zenith=st.floats(0, 85),
    azimuth=st.floats(0, 360),
)
def test_incidence_equals_pvlib(tilt, aspect, zenith, azimuth):
    steepness, facing = np.tan(np.radians(tilt)), np.radians(aspect)
    cosine = incidence_cosine(-steepness * np.sin(facing), -steepness * np.cos(facing), zenith, azimuth)
    reference = pvlib.irradiance.aoi_projection(tilt, aspect, zenith, azimuth)
    assert cosine == pytest.approx(max(reference, 0.0), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(zenith=st.floats(20, 75), height=st.floats(2, 12), spacing=st.sampled_from([0.25, 0.5]))
def test_shadow_of_a_wall_is_height_times_tangent_of_zenith(zenith, height, spacing):
    """Sun in the south: the shadow reaches north of a wall by h tan(zenith)."""
    cells = int(60 / spacing)
    field = np.zeros((cells, 5), dtype=np.float32)
    field[-8:] = height
    lit = sunlit(field, spacing, zenith, 180.0)
    shaded = spacing * np.count_nonzero(~lit[:-8, 2])
    assert shaded == pytest.approx(
        min(height * np.tan(np.radians(zenith)), 60 - 8 * spacing), abs=1.01 * spacing
    )


@pytest.mark.parametrize(
    ("azimuth", "shaded"), [(0, (14, 10)), (90, (10, 6)), (180, (6, 10)), (270, (10, 14))]
)
def test_shadow_falls_away_from_the_sun(azimuth, shaded):
    """A mast at (10, 10), sun north, east, south, west: shadow south, west, north, east."""
    field = np.zeros((21, 21), dtype=np.float32)
    field[10, 10] = 5.0
    dark = np.argwhere(~sunlit(field, 1.0, 45.0, azimuth))
    assert shaded in {tuple(cell) for cell in dark.tolist()}
    assert len(dark) == pytest.approx(5, abs=1)


def test_sun_overhead_casts_no_shadow():
    field = np.random.default_rng(0).random((20, 20)).astype(np.float32) * 10
    assert sunlit(field, 1.0, 0.0, 0.0).all()


def test_open_flat_ground_sees_the_whole_sky():
    flat = np.zeros((30, 30), dtype=np.float32)
    np.testing.assert_allclose(sky_view(flat, flat, flat, 1.0), 1.0, atol=1e-6)


@pytest.mark.parametrize("tilt", [10.0, 30.0, 60.0])
@pytest.mark.parametrize("aspect", [0.0, 135.0])
def test_an_isolated_slope_sees_one_plus_cosine_over_two(tilt, aspect):
    steepness = np.tan(np.radians(tilt))
    east = np.full((1, 1), -steepness * np.sin(np.radians(aspect)), dtype=np.float32)
    north = np.full((1, 1), -steepness * np.cos(np.radians(aspect)), dtype=np.float32)
    view = sky_view(np.zeros((1, 1), np.float32), east, north, 1.0, azimuths=360)
    assert view[0, 0] == pytest.approx((1 + np.cos(np.radians(tilt))) / 2, abs=1e-3)


def test_ground_before_an_infinite_wall_loses_half_of_one_minus_cosine_of_its_elevation():
    """Flat ground at distance d from a wall of height h sees (1 + cos β)/2, tan β = h/d (pvlib's rows)."""
    field = np.zeros((401, 201), dtype=np.float32)
    field[:, 120:] = 10.0
    zero = np.zeros_like(field)
    view = sky_view(field, zero, zero, 1.0, azimuths=360, reach=200)
    for distance in (10, 20):
        expected = (1 + np.cos(np.arctan2(10.0, distance))) / 2
        assert view[200, 120 - distance] == pytest.approx(expected, abs=0.01)
