"""Any window and any tiling gives what one read of the whole scene gives, for every reader."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.scenes.tiling import Window, windows
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, envi_list, wavelength_tags

ROWS, COLS, BANDS = 70, 67, len(WAVELENGTHS)


def _counts() -> np.ndarray:
    counts = np.random.default_rng(7).integers(1, 9000, (ROWS, COLS, BANDS)).astype(np.int16)
    counts[:5, :9] = -99
    return counts


def _prisma(folder, level):
    image = np.random.default_rng(3).uniform(0.01, 0.9, (ROWS, COLS, 12))
    image[:4, 3:9] = 0.0
    errors = np.zeros((ROWS, COLS, 6), np.uint8)
    errors[10, 20, 3] = 1
    return fixtures.prisma(folder, level, image[..., :6], image[..., 6:], errors={"SWIR": errors})


def _geotiff(folder, **profile):
    tags = {"reflectance_scale_factor": "10000"}
    bands = wavelength_tags(WAVELENGTHS[::-1])
    return fixtures.raster(folder / "a.tif", _counts(), tags=tags, band_tags=bands, nodata=-99, **profile)


def _envi(folder, interleave):
    fields = {
        "wavelength": envi_list(WAVELENGTHS[[0, 2, 1, 3, 5, 4]]),
        "reflectance scale factor": "10000",
        "data ignore value": "-99",
        "bbl": "{1, 1, 1, 0, 1, 1}",
    }
    return fixtures.envi(folder / "a.img", _counts(), interleave, fields)


def _emit(folder):
    rng = np.random.default_rng(5)
    glt = np.stack([rng.integers(0, 13, (ROWS, COLS)), rng.integers(0, 17, (ROWS, COLS))], axis=-1)
    return fixtures.emit(
        folder, "reflectance", fixtures.truth(16, 12, BANDS), glt, np.array([1, 1, 0, 1, 1, 1])
    )


def _image() -> np.ndarray:
    return np.random.default_rng(11).uniform(1.0, 90.0, (ROWS, COLS, BANDS)).round(3)


def _emit_swath(folder):
    glt = np.stack(np.meshgrid(np.arange(1, COLS + 1), np.arange(1, ROWS + 1)), axis=-1)
    image = _image()
    image[3:9, :5] = -9999.0
    return fixtures.emit(folder, "radiance", image, glt, np.array([1, 1, 0, 1, 1, 1]))


def _enmap_l1b(folder):
    counts = np.random.default_rng(13).integers(1, 9000, (ROWS, COLS, 12)).astype(np.uint16)
    counts[:2, :9] = 0
    return fixtures.enmap_l1b(folder, counts[..., :6], counts[..., 6:], gain=2e-5, offset=-1e-4)[1]


def _enmap(folder):
    counts = _counts()
    counts[counts == -99] = -32768
    return fixtures.enmap(folder, "L2A", counts, WAVELENGTHS, gain=1e-4, offset=0.0)


TILED = {"tiled": True, "blockxsize": 16, "blockysize": 32, "compress": "deflate"}
MAKERS = {
    "geotiff-striped": _geotiff,
    "geotiff-tiled": lambda folder: _geotiff(
        folder, tiled=True, blockxsize=16, blockysize=32, compress="deflate"
    ),
    "geotiff-pixel": lambda folder: _geotiff(folder, interleave="pixel"),
    "envi-bsq": lambda folder: _envi(folder, "bsq"),
    "envi-bil": lambda folder: _envi(folder, "bil"),
    "envi-bip": lambda folder: _envi(folder, "bip"),
    "prisma-l1": lambda folder: _prisma(folder, "1"),
    "prisma-l2c": lambda folder: _prisma(folder, "2C"),
    "prisma-l2d": lambda folder: _prisma(folder, "2D"),
    "prisma-zip": lambda folder: fixtures.zipped(_prisma(folder, "1"), zipfile.ZIP_STORED),
    "enmap": _enmap,
    "emit": _emit,
    "emit-swath": _emit_swath,
    "enmap-l1b": _enmap_l1b,
    "tanager": lambda folder: fixtures.tanager(folder, _image(), WAVELENGTHS),
}


@pytest.fixture(scope="module", params=MAKERS)
def scene_and_whole(request, tmp_path_factory):
    with open_scene(MAKERS[request.param](tmp_path_factory.mktemp("scene"))) as scene:
        whole = scene.read(Window(0, 0, ROWS, COLS))
        assert 0.5 < whole.valid.mean() < 1.0
        yield scene, whole


@st.composite
def areas(draw):
    row, col = draw(st.integers(0, ROWS)), draw(st.integers(0, COLS))
    return Window(row, col, draw(st.integers(0, ROWS - row)), draw(st.integers(0, COLS - col)))


@settings(max_examples=40, deadline=None)
@given(area=areas())
def test_a_window_is_a_part_of_the_whole(scene_and_whole, area):
    scene, whole = scene_and_whole
    tile = scene.read(area)
    assert tile.window == area and tile.values.dtype == np.float32
    np.testing.assert_array_equal(tile.values, whole.values[area.slices])
    np.testing.assert_array_equal(tile.valid, whole.valid[area.slices])


@settings(max_examples=5, deadline=None)
@given(area=areas(), shape=st.tuples(st.integers(5, 40), st.integers(5, 40)))
def test_any_tiling_gives_the_whole(scene_and_whole, area, shape):
    scene, whole = scene_and_whole
    stitched = np.zeros_like(whole.values)
    for window in windows(area, shape):
        stitched[window.slices] = scene.read(window).values
    np.testing.assert_array_equal(stitched[area.slices], whole.values[area.slices])


def test_a_window_outside_is_a_programming_error(scene_and_whole):
    scene, _ = scene_and_whole
    with pytest.raises(ValueError, match="inside"):
        scene.read(Window(0, 0, ROWS + 1, 1))
