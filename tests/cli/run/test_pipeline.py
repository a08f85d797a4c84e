"""The pipeline: bounded, ordered, and honest about failures in any thread."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from p3vae.cli.run.pipeline import run
from p3vae.cli.scenes.tiling import SpectraTile, Window, windows
from tests.cli.fake_scene import memory_scene, random_cube

AREA = Window(0, 0, 40, 30)


class MemorySink:
    """A map held in memory."""

    nodata = -1.0
    reports_invalid = False
    dtype = np.dtype("float32")

    def __init__(self):
        self.values = np.full((AREA.rows, AREA.cols), -9.0, np.float32)

    def write(self, window, values):
        self.values[window.slices] = values


class CountingScene:
    """Counts the tiles that are alive between reading and the end of computing."""

    def __init__(self):
        self.alive = self.most = 0
        self.lock = threading.Lock()
        self.threads = set()

    def read(self, window):
        with self.lock:
            self.alive += 1
            self.most = max(self.most, self.alive)
            self.threads.add(threading.current_thread().name)
        values = np.ones((window.rows, window.cols, 3), np.float32) * (window.row + 1)
        valid = np.ones((window.rows, window.cols), bool)
        valid[0, 0] = False
        return SpectraTile(values, valid, window)


class Counter:
    """Progress that only counts."""

    total = 0

    def begin(self, total_pixels):
        pass

    def advance(self, pixels):
        self.total += pixels

    def end(self):
        pass


def total(tile):
    return {"total": tile.values.sum(axis=-1)}


@pytest.mark.parametrize("in_flight", [2, 3, 5])
def test_at_most_in_flight_tiles_exist(in_flight):
    scene, sink = CountingScene(), MemorySink()

    def slow(tile):
        time.sleep(0.002)
        with scene.lock:
            scene.alive -= 1
        return total(tile)

    run(scene, windows(AREA, (7, 7)), slow, {"total": sink}, in_flight=in_flight)
    assert scene.most <= in_flight
    assert threading.current_thread().name not in scene.threads


def test_invalid_pixels_become_nodata_and_everything_is_counted():
    sink, counter = MemorySink(), Counter()
    valid = run(CountingScene(), windows(AREA, (10, 30)), total, {"total": sink}, progress=counter)
    expected = np.repeat([3.0, 33.0, 63.0, 93.0], 10)[:, None] * np.ones((1, 30))
    expected[::10, 0] = -1.0
    np.testing.assert_array_equal(sink.values, expected)
    assert valid == AREA.pixels - 4
    assert counter.total == AREA.pixels


def failing(_anything, *_more):
    raise RuntimeError("on purpose")


@pytest.mark.parametrize("where", ["read", "function", "write"])
def test_a_failure_in_any_thread_reaches_the_caller_and_stops_the_threads(where):
    scene, sink = CountingScene(), MemorySink()
    if where == "read":
        scene.read = failing
    if where == "write":
        sink.write = failing
    with pytest.raises(RuntimeError, match="on purpose"):
        run(scene, windows(AREA, (3, 3)), failing if where == "function" else total, {"total": sink})
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("p3vae-")]


def test_a_function_that_forgets_a_map_is_named():
    with pytest.raises(KeyError, match="brightness"):
        run(CountingScene(), windows(AREA, (9, 9)), total, {"brightness": MemorySink()})


def test_a_map_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"shape|broadcast"):
        run(
            CountingScene(),
            windows(AREA, (9, 9)),
            lambda _: {"total": np.zeros((2, 5))},
            {"total": MemorySink()},
        )


def neighbourhood_mean(tile):
    """Looks two pixels around; what is missing or invalid counts as zero."""
    values = np.where(tile.valid, tile.values.sum(axis=-1), 0.0)
    return {"mean": ndimage.uniform_filter(values, 5, mode="constant")}


@settings(max_examples=25, deadline=None)
@given(st.tuples(st.integers(1, 45), st.integers(1, 45)), st.integers(0, 20), st.integers(0, 20))
def test_a_function_that_looks_at_neighbours_leaves_no_seams(tile, row, col):
    cube = random_cube(AREA.rows, AREA.cols, 3)
    scene, sink = memory_scene(cube), MemorySink()
    area = Window(row, col, AREA.rows - row, AREA.cols - col)
    valid = run(
        scene,
        windows(area, tile),
        neighbourhood_mean,
        {"mean": sink},
        around=lambda window: window.grown(2, AREA.rows, AREA.cols),
    )
    known = np.isfinite(cube).all(axis=-1)
    whole = ndimage.uniform_filter(np.where(known, cube.sum(axis=-1), 0.0), 5, mode="constant")
    inside = np.zeros_like(known)
    inside[area.slices] = known[area.slices]
    np.testing.assert_allclose(sink.values[inside], whole[inside], atol=1e-6)
    assert (sink.values[~inside] < 0).all()
    assert valid == inside.sum()
