"""Light on height fields against closed forms and pvlib."""

import numpy as np
import pvlib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p3vae.physics.terrain import (
    incidence_cosine,
    north_up,
    sky_light,
    sky_view,
    slopes,
    sunlit,
    terrain_light,
)


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
    lit = sunlit(field, north_up(spacing), zenith, 180.0)
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
    dark = np.argwhere(~sunlit(field, north_up(1.0), 45.0, azimuth))
    assert shaded in {tuple(cell) for cell in dark.tolist()}
    assert len(dark) == pytest.approx(5, abs=1)


def test_sun_overhead_casts_no_shadow():
    field = np.random.default_rng(0).random((20, 20)).astype(np.float32) * 10
    assert sunlit(field, north_up(1.0), 0.0, 0.0).all()


def test_open_flat_ground_sees_the_whole_sky():
    flat = np.zeros((30, 30), dtype=np.float32)
    np.testing.assert_allclose(sky_view(flat, flat, flat, north_up(1.0)), 1.0, atol=1e-6)


@pytest.mark.parametrize("tilt", [10.0, 30.0, 60.0])
@pytest.mark.parametrize("aspect", [0.0, 135.0])
def test_an_isolated_slope_sees_one_plus_cosine_over_two(tilt, aspect):
    steepness = np.tan(np.radians(tilt))
    east = np.full((1, 1), -steepness * np.sin(np.radians(aspect)), dtype=np.float32)
    north = np.full((1, 1), -steepness * np.cos(np.radians(aspect)), dtype=np.float32)
    view = sky_view(np.zeros((1, 1), np.float32), east, north, north_up(1.0), azimuths=360)
    assert view[0, 0] == pytest.approx((1 + np.cos(np.radians(tilt))) / 2, abs=1e-3)


def test_ground_before_an_infinite_wall_loses_half_of_one_minus_cosine_of_its_elevation():
    """Flat ground at distance d from a wall of height h sees (1 + cos β)/2, tan β = h/d (pvlib's rows)."""
    field = np.zeros((401, 201), dtype=np.float32)
    field[:, 120:] = 10.0
    zero = np.zeros_like(field)
    view = sky_view(field, zero, zero, north_up(1.0), azimuths=360, reach=200)
    for distance in (10, 20):
        expected = (1 + np.cos(np.arctan2(10.0, distance))) / 2
        assert view[200, 120 - distance] == pytest.approx(expected, abs=0.01)


def cone(cells=81, steepness=0.4):
    """A round hill, rows running south."""
    y, x = np.mgrid[0:cells, 0:cells] - cells // 2
    return (-steepness * np.hypot(x, y)).astype(np.float32)


def test_a_plane_has_the_same_slope_and_incidence_everywhere():
    """30 m cells that rise by 6 m to the east and fall by 9 m to the north."""
    y, x = np.mgrid[0:40, 0:50].astype(np.float32)
    plane = 6 * x + 9 * y
    east, north = slopes(plane, north_up(30.0))
    np.testing.assert_allclose(east, 0.2, atol=1e-6)
    np.testing.assert_allclose(north, -0.3, atol=1e-6)
    found = terrain_light(plane, north_up(30.0), 35.0, 200.0)
    aspect = np.degrees(np.arctan2(-0.2, 0.3)) % 360
    tilt = np.degrees(np.arctan(np.hypot(0.2, 0.3)))
    expected = pvlib.irradiance.aoi_projection(tilt, aspect, 35.0, 200.0)
    np.testing.assert_allclose(found.incidence, expected, atol=1e-5)
    assert not found.shadow.any()


def test_a_turned_grid_shows_the_same_hill():
    """A grid whose columns run north and whose rows run east sees the transposed, mirrored field."""
    hill = cone() + 0.1 * np.arange(81, dtype=np.float32)
    turned = np.array([[0.0, 10.0], [10.0, 0.0]])
    upright = terrain_light(10 * hill, north_up(10.0), 50.0, 120.0)
    other = terrain_light(10 * np.ascontiguousarray(hill[::-1].T), turned, 50.0, 120.0)
    for one, two in zip(upright, other, strict=True):
        np.testing.assert_allclose(one, two.T[::-1], atol=1e-5)


def test_cells_of_two_sizes_are_measured_in_metres():
    """A plane seen by cells twice as long as wide."""
    steps = np.array([[10.0, 0.0], [0.0, -20.0]])
    y, x = np.mgrid[0:30, 0:30].astype(np.float32)
    east, north = slopes(5 * x + 4 * y, steps)
    np.testing.assert_allclose(east, 0.5, atol=1e-6)
    np.testing.assert_allclose(north, -0.2, atol=1e-6)


def test_the_floor_of_a_hemispherical_bowl_sees_the_sky_above_its_rim():
    """At the bottom of a bowl of radius R cut off at height h, all horizons are at the same elevation.

    Far distances are looked at in steps of an eighth: the rim may be seen 12 % too far away.
    """
    cells, radius, rim = 161, 60.0, 40.0
    y, x = np.mgrid[0:cells, 0:cells] - cells // 2
    distance = np.hypot(x, y)
    bowl = np.where(distance < radius, radius - np.sqrt(np.maximum(radius**2 - distance**2, 0)), rim)
    bowl = np.minimum(bowl, rim).astype(np.float32)
    flat = np.zeros_like(bowl)
    edge = np.sqrt(radius**2 - (radius - rim) ** 2)
    view = sky_view(bowl, flat, flat, north_up(1.0), azimuths=16)
    expected = np.sin(np.arctan2(edge, rim)) ** 2
    assert view[cells // 2, cells // 2] == pytest.approx(expected, abs=0.03)


def test_a_long_ridge_shades_the_far_side():
    """Sun in the west at 60 degrees from zenith: a ridge 20 m high shades 20 tan 60 m to its east."""
    ridge = np.zeros((11, 200), np.float32)
    ridge[:, 50] = 20.0
    found = terrain_light(ridge, north_up(1.0), 60.0, 270.0)
    behind = np.flatnonzero(found.incidence[5, 52:] == 0).size
    assert behind == pytest.approx(20 * np.tan(np.radians(60)), abs=2)
    assert found.shadow[5, 60] == 1 and found.shadow[5, 140] == 0


def test_strips_and_missing_heights_change_nothing_elsewhere():
    """More rows than a strip has; a hole is missing, not dark, and casts no shadow."""
    rng = np.random.default_rng(0)
    field = rng.normal(0, 2, (300, 40)).astype(np.float32).cumsum(0)
    whole = terrain_light(field, north_up(10.0), 55.0, 170.0)
    east, north = slopes(field, north_up(10.0))
    np.testing.assert_array_equal(whole.sky_view, sky_view(field, east, north, north_up(10.0)))
    hole = field.copy()
    hole[100:103, 10:13] = np.nan
    found = terrain_light(hole, north_up(10.0), 55.0, 170.0)
    assert np.isnan(found.incidence[101, 11]) and np.isnan(found.sky_view[101, 11])
    far = np.isfinite(found.incidence)
    assert far.mean() > 0.99 and (found.incidence[far] >= whole.incidence[far] - 1e-6).all()


def test_diffuse_light_of_open_flat_ground_is_one():
    assert sky_light(np.float32(1.0), np.float32(0.5), 0.5) == pytest.approx(1.0)
