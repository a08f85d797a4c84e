"""From a methane map to plumes: gaps, areas on the ground."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from affine import Affine
from hypothesis import given, settings
from hypothesis import strategies as st
from rasterio.control import GroundControlPoint
from rasterio.crs import CRS

from p3vae.cli.methane.plume_maps import ClearFigures, fill_from_neighbours
from p3vae.cli.methane.plumes import effective_wind, winds_at
from p3vae.cli.methane.settings import PlumeSettings, WindSource
from p3vae.cli.rasters.areas import pixel_area_m2
from p3vae.cli.scenes.base import Grid
from p3vae.models.methane.plumes.clusters import find_plumes
from p3vae.physics.emission import default_wind_uncertainty
from tests.cli.fake_scene import memory_scene, random_cube

METRES_PER_DEGREE = np.pi * 6_371_008.8 / 180  # a sphere, good to 0.5 %


def test_unsure_pixels_take_the_mean_around_them_and_the_others_stay():
    rng = np.random.default_rng(0)
    ppm_m, std = 5000.0 + rng.normal(0, 100.0, (40, 40)), np.full((40, 40), 100.0)
    ppm_m[20, 20], std[20, 20] = 25_000.0, 9000.0
    ppm_m[5, 5] = -9999.0
    trusted = np.ones((40, 40), bool)
    trusted[5, 5] = False
    filled, spread, valid = fill_from_neighbours(ppm_m, std, trusted)
    for place in ((20, 20), (5, 5)):
        assert filled[place] == pytest.approx(5000.0, abs=150.0)
        assert 20.0 < spread[place] < 500.0
    others = np.ones((40, 40), bool)
    others[20, 20] = others[5, 5] = False
    np.testing.assert_array_equal(filled[others], ppm_m[others])
    assert valid.all()


def test_a_wide_gap_is_not_filled():
    trusted = np.ones((40, 40), bool)
    trusted[:, 10:30] = False
    _, _, valid = fill_from_neighbours(np.ones((40, 40)), np.ones((40, 40)), trusted)
    assert not valid[:, 15:25].any() and valid[:, :10].all()


def test_a_scene_without_any_trusted_pixel_has_nothing_to_say():
    nothing = np.zeros((6, 6), bool)
    _, _, valid = fill_from_neighbours(np.full((6, 6), -9999.0), np.full((6, 6), -9999.0), nothing)
    assert not valid.any()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_noise_and_uncertain_shadows_are_no_plumes(seed):
    """Shadows whose estimates drift to the middle of the prior, with a standard deviation that says so."""
    rng = np.random.default_rng(seed)
    std = np.full((60, 60), 500.0)
    ppm_m = rng.normal(0, std)
    ppm_m[20:26, 20:26] += 15_000.0
    std[20:26, 20:26] = 8000.0
    filled, spread, valid = fill_from_neighbours(ppm_m, std, np.ones_like(std, bool))
    assert find_plumes(filled, spread, valid).count == 0
    ppm_m[40:48, 10:30] += 4000.0
    filled, spread, valid = fill_from_neighbours(ppm_m, std, np.ones_like(std, bool))
    assert find_plumes(filled, spread, valid).labels[42:46, 12:28].all()


def test_area_of_a_pixel_on_every_kind_of_grid():
    metres = Grid(10, 10, CRS.from_epsg(32631), Affine(30, 0, 4e5, 0, -20, 4.8e6), ())
    assert pixel_area_m2(metres) == pytest.approx(600.0)
    turned = Grid(10, 10, CRS.from_epsg(32631), Affine.rotation(30) @ Affine.scale(30, -30), ())
    assert pixel_area_m2(turned) == pytest.approx(900.0)
    step = 0.001
    degrees = Grid(10, 10, CRS.from_epsg(4326), Affine(step, 0, 1, 0, -step, 60.005), ())
    expected = (step * METRES_PER_DEGREE) ** 2 * np.cos(np.radians(60.0))
    assert pixel_area_m2(degrees) == pytest.approx(expected, rel=0.01)
    corners = [(0, 0, 1.0, 60.005), (0, 10, 1.01, 60.005), (10, 0, 1.0, 59.995), (10, 10, 1.01, 59.995)]
    gcps = tuple(GroundControlPoint(row, col, x, y) for row, col, x, y in corners)
    swath = Grid(10, 10, CRS.from_epsg(4326), None, gcps)
    assert pixel_area_m2(swath) == pytest.approx(expected, rel=0.01)
    easting = [
        (0, 0, 4e5, 4.8e6),
        (0, 10, 4.003e5, 4.8e6),
        (10, 0, 4e5, 4.7998e6),
        (10, 10, 4.003e5, 4.7998e6),
    ]
    points = tuple(GroundControlPoint(row, col, x, y) for row, col, x, y in easting)
    assert pixel_area_m2(Grid(10, 10, CRS.from_epsg(32631), None, points)) == pytest.approx(600.0, rel=1e-6)
    assert pixel_area_m2(Grid(10, 10, None, Affine.identity(), ())) is None


def test_effective_wind_is_the_sensors_unless_told():
    assert effective_wind(PlumeSettings(), "EMIT")(5.0) == pytest.approx(0.36 * 5 + 0.66)
    assert effective_wind(PlumeSettings(), "PRISMA")(5.0) == pytest.approx(0.34 * 5 + 0.44)
    assert effective_wind(PlumeSettings(ueff_a=1.0), "PRISMA")(5.0) == pytest.approx(5.44)


def test_figures_of_clear_pixels_leave_the_others_out():
    ppm_m = np.array([[100.0, 300.0], [9000.0, -100.0]])
    std = np.array([[400.0, 500.0], [1.0, 900.0]])
    clear = np.array([[True, True], [False, True]])
    found = ClearFigures.of(ppm_m, std, clear, 1)
    assert (found.pixels, found.mean_ppm_m, found.typical_std_ppm_m, found.others) == (3, 100.0, 500.0, 1)
    assert found.std_ppm_m == pytest.approx(np.sqrt((0.0 + 200.0**2 + 200.0**2) / 3))
    assert found.line() == "3 clear pixels: mean 100, scatter 163, usual std 500 ppm·m"
    nothing = ClearFigures.of(ppm_m, std, np.zeros_like(clear), 4)
    assert (nothing.pixels, nothing.mean_ppm_m, nothing.line()) == (0, None, "no clear pixel")


def test_the_error_of_the_wind_is_stated_else_of_the_table_else_the_usual_one(tmp_path):
    table = tmp_path / "wind.csv"
    table.write_text("scene,wind_m_s,wind_std_m_s\ntown.tif,6,0.5\n")
    scene, winds = memory_scene(random_cube()), (WindSource(4.0), WindSource(table))
    options = PlumeSettings(winds=winds)
    stds = [
        [wind.record()["wind_std_m_s"] for wind in winds_at(replace(options, wind_std_m_s=std), scene)]
        for std in (None, 0.7)
    ]
    assert stds == [[default_wind_uncertainty(4.0), 0.5], [0.7, 0.7]]
    assert [wind.record()["wind_m_s"] for wind in winds_at(options, scene)] == [4.0, 6.0]
