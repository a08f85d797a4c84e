"""Windows of a scene stay exactly on its grid."""

from __future__ import annotations

import numpy as np
import pytest
from affine import Affine
from hypothesis import given
from hypothesis import strategies as st
from pyproj import Transformer
from rasterio.crs import CRS

from p3vae.cli.errors import UsageError
from p3vae.cli.rasters.grids import bbox_window, subgrid
from p3vae.cli.scenes.base import Grid
from p3vae.cli.scenes.tiling import Window
from tests.cli.fake_scene import map_grid, swath_grid


def bounds(grid, window):
    left, top = grid.transform @ (window.col, window.row)
    right, bottom = grid.transform @ (window.col + window.cols, window.row + window.rows)
    return left, bottom, right, top


@given(st.integers(0, 69), st.integers(0, 89), st.data())
def test_the_bounds_of_a_window_give_that_window_back(row, col, data):
    grid = map_grid(70, 90)
    window = Window(row, col, data.draw(st.integers(1, 70 - row)), data.draw(st.integers(1, 90 - col)))
    assert bbox_window(grid, bounds(grid, window)) == window
    part = subgrid(grid, window)
    assert bounds(part, Window(0, 0, part.height, part.width)) == bounds(grid, window)


def test_a_bbox_is_widened_to_whole_pixels_and_cut_to_the_scene():
    grid = map_grid(70, 90)
    assert bbox_window(grid, (500_001, 4_799_900, 500_031, 4_799_999)) == Window(0, 0, 4, 2)
    assert bbox_window(grid, (0, 0, 500_031, 1e7)) == Window(0, 0, 70, 2)


def test_a_bbox_in_degrees():
    grid = map_grid(70, 90)
    back = Transformer.from_crs(32631, 4326, always_xy=True)
    lon, lat = back.transform(500_000 + 30 * 40.5, 4_800_000 - 30 * 20.5)
    window = bbox_window(grid, (lon - 1e-5, lat - 1e-5, lon + 1e-5, lat + 1e-5), "EPSG:4326")
    assert window == Window(20, 40, 1, 1)


def test_a_large_bbox_in_degrees_holds_the_pixels_that_lie_in_it():
    """Against the centres of all pixels; as its sides bend, up to a pixel more is there."""
    grid = map_grid(700, 900)
    cols, rows = np.meshgrid(np.arange(900) + 0.5, np.arange(700) + 0.5)
    back = Transformer.from_crs(32631, 4326, always_xy=True)
    lon, lat = back.transform(500_000 + 30 * cols, 4_800_000 - 30 * rows)
    box = (lon[350, 200], lat[600, 450], lon[350, 700], lat[100, 450])
    inside = (lon >= box[0]) & (lon <= box[2]) & (lat >= box[1]) & (lat <= box[3])
    row, col = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
    window = bbox_window(grid, box, "EPSG:4326")
    for start, length, held in ((window.row, window.rows, row), (window.col, window.cols, col)):
        assert 0 <= held[0] - start <= 1 and 0 <= start + length - 1 - held[-1] <= 1


def test_a_rotated_grid():
    transform = Affine.translation(1000, 2000) @ Affine.rotation(30) @ Affine.scale(2, -2)
    grid = Grid(50, 50, CRS.from_epsg(32631), transform)
    x, y = transform @ (20.5, 10.5)
    assert bbox_window(grid, (x - 0.1, y - 0.1, x + 0.1, y + 0.1)) == Window(10, 20, 1, 1)


def test_a_swath_window_bounds_the_pixel_centres_inside():
    grid = swath_grid(60, 80)
    lon, lat = 4.0 + 3e-4 * 30 + 5e-5 * 20, 43.0 - 3e-4 * 20
    assert bbox_window(grid, (lon - 1e-5, lat - 1e-5, lon + 1e-5, lat + 1e-5)) == Window(20, 30, 1, 1)


def test_control_points_move_with_the_window():
    grid = swath_grid(60, 80)
    part = subgrid(grid, Window(20, 30, 10, 10))
    assert len(part.gcps) == len(grid.gcps)
    assert (part.gcps[0].row, part.gcps[0].col, part.gcps[0].x) == (-19.5, -29.5, grid.gcps[0].x)


@pytest.mark.parametrize(
    ("bbox", "crs", "said"),
    [
        ((0, 0, 1, 1), None, "outside the scene"),
        ((5, 0, 1, 1), None, "empty"),
        ((0, 0, 1, 1), "nonsense", "not a CRS"),
    ],
)
@pytest.mark.parametrize("grid", [map_grid(70, 90), swath_grid(70, 90)], ids=["map", "swath"])
def test_a_bbox_that_makes_no_sense_is_refused(grid, bbox, crs, said):
    with pytest.raises(UsageError, match=said):
        bbox_window(grid, bbox, crs)
