"""EnMAP and EMIT: metadata beside the image, fill, units, lookup tables."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from p3vae.cli.base.errors import SceneError
from p3vae.cli.base.tiling import Window
from p3vae.cli.scenes import open_scene
from tests.cli.scenes import fixtures

ROWS, COLS = 20, 18
# VNIR (902, 911, 920 ...) and SWIR (905, 915 ...) interleave, as in L2A.
CENTRES = np.array([480.5, 902.2, 905.1, 911.3, 915.7, 1380.0, 2200.25])


def enmap_counts(dtype: str = "int16") -> np.ndarray:
    return np.arange(1, ROWS * COLS * len(CENTRES) + 1).reshape(ROWS, COLS, -1).astype(dtype)


def read_all(scene):
    return scene.read(Window(0, 0, scene.grid.height, scene.grid.width))


@pytest.mark.parametrize("ending", ["-SPECTRAL_IMAGE.TIF", "-METADATA.XML"])
def test_enmap_l2a_from_either_file(tmp_path, ending):
    counts = enmap_counts()
    counts[..., 5] = -32768
    counts[:3] = -32768
    image = fixtures.enmap(tmp_path, "L2A", counts, CENTRES, gain=1e-4, offset=0.0)
    with open_scene(tmp_path / image.name.replace("-SPECTRAL_IMAGE.TIF", ending)) as scene:
        assert (scene.product, scene.level, scene.quantity) == ("EnMAP", "L2A", "reflectance")
        np.testing.assert_array_equal(scene.bands.wavelength_nm, CENTRES)
        np.testing.assert_allclose(scene.bands.fwhm_nm, 7.5 + np.arange(1, 8) / 10)
        assert np.flatnonzero(~scene.bands.good).tolist() == [5]
        tile = read_all(scene)
        assert not tile.valid[:3].any() and tile.valid[3:].all()
        good = scene.bands.good
        np.testing.assert_allclose(tile.values[3:][..., good], counts[3:][..., good] * 1e-4, rtol=1e-6)
        assert scene.acquisition.sun_zenith_deg == pytest.approx(27.5)
        assert scene.acquisition.sun_azimuth_deg == pytest.approx(149.75)
        # sine rule in the triangle of satellite, ground and centre of the Earth: sin 20° · 7021 / 6371
        assert scene.acquisition.view_zenith_deg == pytest.approx(22.14, abs=0.01)
        assert scene.acquisition.time.isoformat() == "2023-06-15T10:31:15.123456+00:00"
        assert scene.grid.transform == fixtures.UTM_TRANSFORM
        assert scene.block_shape == (16, 16)


def test_enmap_l1c_is_converted_from_per_nm(tmp_path):
    counts = enmap_counts("uint16")
    counts[0, 0] = 0
    image = fixtures.enmap(tmp_path, "L1C", counts, CENTRES, gain=2e-5, offset=-1e-4)
    with open_scene(image) as scene:
        tile = read_all(scene)
        assert scene.quantity == "radiance"
        assert not tile.valid[0, 0] and tile.valid.sum() == ROWS * COLS - 1
        np.testing.assert_allclose(tile.values[1:], counts[1:] * 2e-2 - 0.1, rtol=1e-5)


def test_enmap_l1b_is_refused_with_a_remedy(tmp_path):
    image = fixtures.enmap(tmp_path, "L1B", enmap_counts("uint16"), CENTRES, gain=1.0, offset=0.0)
    with pytest.raises(SceneError, match="L1C or L2A"):
        open_scene(image)
    vnir = image.rename(tmp_path / image.name.replace(".TIF", "_VNIR.TIF"))
    with pytest.raises(SceneError, match="L1C or L2A"):
        open_scene(vnir)


def lookup_table() -> np.ndarray:
    """A map turned against the swath: 1-based (x, y) per map pixel, 0 where the swath does not reach."""
    glt = np.zeros((9, 11, 2), int)
    for row in range(9):
        for col in range(11):
            line, sample = row + col // 3 - 2, col - row // 4 - 1
            if 0 <= line < 8 and 0 <= sample < 7:
                glt[row, col] = sample + 1, line + 1
    return glt


@pytest.mark.parametrize(("kind", "factor"), [("reflectance", 1.0), ("radiance", 10.0)])
def test_emit_through_its_lookup_table(tmp_path, kind, factor):
    swath = fixtures.truth(8, 7, 6)
    swath[..., 4] = -0.01
    swath[3, 3] = -9999.0
    good = np.array([1, 1, 1, 1, 0, 1])
    glt = lookup_table()
    path = fixtures.emit(tmp_path, kind, swath, glt, good)
    expected = np.full((9, 11, 6), np.nan)
    for row in range(9):
        for col in range(11):
            x, y = glt[row, col]
            if x > 0 and (y - 1, x - 1) != (3, 3):
                expected[row, col] = swath[y - 1, x - 1] * factor
    expected[..., 4] = np.nan
    with open_scene(path) as scene:
        tile = read_all(scene)
        assert (scene.product, scene.quantity) == ("EMIT", kind)
        np.testing.assert_allclose(tile.values, expected, rtol=1e-6)
        np.testing.assert_array_equal(tile.valid, np.isfinite(expected[..., 0]))
        assert scene.bands.good.tolist() == good.astype(bool).tolist()
        np.testing.assert_allclose(scene.bands.wavelength_nm, fixtures.WAVELENGTHS, atol=1e-3)
        np.testing.assert_allclose(scene.bands.fwhm_nm, 8.5)
        grid = scene.grid
        assert (grid.width, grid.height, grid.crs.to_epsg()) == (11, 9, 4326)
        assert (grid.transform.a, grid.transform.c, grid.transform.f) == (0.000542, 12.0, 45.0)
        assert scene.acquisition.time.isoformat() == "2023-08-15T10:20:30+00:00"


def test_emit_sun_from_companion_else_computed(tmp_path):
    path = fixtures.emit(tmp_path, "reflectance", fixtures.truth(8, 7, 6), lookup_table(), np.ones(6))
    with open_scene(path) as scene:
        computed = scene.acquisition
    # 10:20:30 UTC at 12 E in mid August: about an hour before solar noon (declination +14 deg, 45 N).
    assert 31.0 < computed.sun_zenith_deg < 37.0 and 130.0 < computed.sun_azimuth_deg < 165.0
    fixtures.emit_observation(tmp_path, sun_zenith=35.25, sun_azimuth=359.0, view_zenith=6.5)
    with open_scene(path) as scene:
        assert scene.acquisition.sun_zenith_deg == pytest.approx(35.25)
        assert scene.acquisition.sun_azimuth_deg == pytest.approx(359.0)
        assert scene.acquisition.view_zenith_deg == pytest.approx(6.5)


def test_emit_without_lookup_table_is_refused(tmp_path):
    path = fixtures.emit(tmp_path, "reflectance", fixtures.truth(8, 7, 6), lookup_table(), np.ones(6))
    with h5py.File(path, "r+") as file:
        del file["location/glt_x"]
    with pytest.raises(SceneError, match="lookup table"):
        open_scene(path)
