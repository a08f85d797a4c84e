"""Tiles: cover everything once, stay on blocks, fit into memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from p3vae.cli.scenes.tiling import Window, tile_pixels, tile_shape, windows

sizes = st.integers(1, 300)


@given(sizes, sizes, st.tuples(sizes, sizes), st.data())
def test_tiles_cover_an_area_exactly_once(height, width, tile, data):
    row, col = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    rows, cols = data.draw(st.integers(1, height - row)), data.draw(st.integers(1, width - col))
    covered = np.zeros((height, width), int)
    for window in windows(Window(row, col, rows, cols), tile):
        covered[window.slices] += 1
    assert covered.sum() == rows * cols
    assert (covered[row : row + rows, col : col + cols] == 1).all()


@given(sizes, sizes, sizes, sizes, st.integers(1, 100_000))
def test_tiles_are_whole_blocks_unless_one_block_is_too_large(height, width, block_rows, block_cols, pixels):
    rows, cols = tile_shape(height, width, (block_rows, block_cols), pixels)
    block_rows, block_cols = min(block_rows, height), min(block_cols, width)
    assert rows * cols <= pixels
    if block_rows * block_cols <= pixels:
        assert rows % block_rows == 0 or rows == height
        assert cols % block_cols == 0 or cols == width


def test_strips_stay_strips():
    assert tile_shape(5000, 1000, (1, 1000), 65536) == (65, 1000)
    assert tile_shape(5000, 1000, (16, 1000), 65536) == (64, 1000)


def test_a_window_that_starts_inside_a_block_is_cut_at_the_blocks_edge():
    assert [w.col for w in windows(Window(0, 100, 10, 500), (256, 256))] == [100, 256, 512]


def test_more_bands_or_less_memory_make_smaller_tiles():
    assert tile_pixels(2000) < tile_pixels(20)
    assert tile_pixels(230, budget=100 * 2**20) < tile_pixels(230, budget=300 * 2**20)
    assert tile_pixels(10**9, budget=-1) == 1


@given(sizes, sizes, st.integers(4, 40), st.integers(1, 100_000))
def test_tiles_with_a_halo_stay_inside_the_raster_and_the_budget(height, width, halo, pixels):
    tile = tile_shape(height, width, (1, width), pixels, halo)
    for window in windows(Window(0, 0, height, width), tile):
        outer = window.grown(halo, height, width)
        assert outer.row >= 0 and outer.row + outer.rows <= height
        assert outer.col >= 0 and outer.col + outer.cols <= width
        assert outer.pixels <= max(pixels, (3 * halo) ** 2)
        for start, stop, low, high, end in (
            (window.row, window.row + window.rows, outer.row, outer.row + outer.rows, height),
            (window.col, window.col + window.cols, outer.col, outer.col + outer.cols, width),
        ):
            assert start - low == halo or low == 0
            assert high - stop == halo or high == end
