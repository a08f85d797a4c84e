"""EnMAP and EMIT: metadata beside the image, fill, units, lookup tables."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from p3vae.cli.errors import SceneError
from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.scenes.tiling import Window
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


L1B_ROWS, L1B_COLS = 60, 40


def l1b(folder):
    counts = np.arange(1, L1B_ROWS * L1B_COLS * 12 + 1).reshape(L1B_ROWS, L1B_COLS, 12).astype("uint16")
    counts[0, 0] = 0
    return counts, fixtures.enmap_l1b(folder, counts[..., :6], counts[..., 6:], gain=2e-5, offset=-1e-4)


def test_enmap_l1b_is_one_scene_per_detector(tmp_path):
    counts, (vnir, swir) = l1b(tmp_path)
    for path, part, centre in (
        (vnir, counts[..., :6], fixtures.VNIR),
        (swir, counts[..., 6:], fixtures.SWIR),
    ):
        with open_scene(path) as scene:
            assert (scene.level, scene.quantity) == ("L1B", "radiance")
            np.testing.assert_allclose(scene.bands.wavelength_nm, centre)
            tile = read_all(scene)
            assert not tile.valid[0, 0] and tile.valid.sum() == L1B_ROWS * L1B_COLS - 1
            np.testing.assert_allclose(tile.values[1:], part[1:] * 2e-2 - 0.1, rtol=1e-5)
            assert scene.acquisition.sun_zenith_deg == pytest.approx(27.5)


def test_enmap_l1b_pixels_lie_where_the_polynomials_of_their_detector_say(tmp_path):
    _, images = l1b(tmp_path)
    for path, shift in zip(images, (0, 20), strict=True):
        with open_scene(path) as scene:
            lon, lat = scene.geolocation(Window(10, 5, 3, 4))
            row, col = np.mgrid[10:13, 5:9]
            np.testing.assert_allclose(lon, 12.0 + 0.0004 * col, atol=1e-6)
            np.testing.assert_allclose(lat, 45.0 - 0.00027 * (row + shift), atol=1e-6)
            assert scene.grid.transform is None and len(scene.grid.gcps) == 400
            point = scene.grid.gcps[0]
            assert (point.row, point.col) == (0.5, 0.5)
            assert (point.x, point.y) == pytest.approx((12.0, 45.0 - 0.00027 * shift), abs=1e-6)
            assert scene.acquisition.longitude_deg == pytest.approx(12.0 + 0.0004 * 19.5, abs=1e-5)


def test_enmap_l1b_as_a_whole_is_refused_with_a_remedy(tmp_path):
    _, (vnir, _) = l1b(tmp_path)
    metadata = tmp_path / vnir.name.replace("-SPECTRAL_IMAGE_VNIR.TIF", "-METADATA.XML")
    remedy = "SPECTRAL_IMAGE_SWIR.TIF for methane, or order the scene as L1C or L2A"
    with pytest.raises(SceneError, match=remedy):
        open_scene(metadata)
    alone = tmp_path / "alone"
    alone.mkdir()
    image = fixtures.enmap(alone, "L1B", enmap_counts("uint16"), CENTRES, gain=1.0, offset=0.0)
    with pytest.raises(SceneError, match=remedy):
        open_scene(image)


def test_enmap_l1b_without_polynomials_is_refused(tmp_path):
    _, (_, swir) = l1b(tmp_path)
    metadata = tmp_path / swir.name.replace("-SPECTRAL_IMAGE_SWIR.TIF", "-METADATA.XML")
    text = metadata.read_text()
    metadata.write_text(text.replace("RPC>", "other>"))
    with pytest.raises(SceneError, match="no geolocation"):
        open_scene(swir)
    metadata.write_text(text.replace("ROW_NUM_07>", "ROW_NUM_77x>"))
    with pytest.raises(SceneError, match="laid out"):
        open_scene(swir)


def lookup_table() -> np.ndarray:
    """A map turned against the swath: 1-based (x, y) per map pixel, 0 where the swath does not reach."""
    glt = np.zeros((9, 11, 2), int)
    for row in range(9):
        for col in range(11):
            line, sample = row + col // 3 - 2, col - row // 4 - 1
            if 0 <= line < 8 and 0 <= sample < 7:
                glt[row, col] = sample + 1, line + 1
    return glt


def test_emit_reflectance_through_its_lookup_table(tmp_path):
    swath = fixtures.truth(8, 7, 6)
    swath[..., 4] = -0.01
    swath[3, 3] = -9999.0
    good = np.array([1, 1, 1, 1, 0, 1])
    glt = lookup_table()
    path = fixtures.emit(tmp_path, "reflectance", swath, glt, good)
    expected = np.full((9, 11, 6), np.nan)
    for row in range(9):
        for col in range(11):
            x, y = glt[row, col]
            if x > 0 and (y - 1, x - 1) != (3, 3):
                expected[row, col] = swath[y - 1, x - 1]
    expected[..., 4] = np.nan
    with open_scene(path) as scene:
        tile = read_all(scene)
        assert (scene.product, scene.quantity) == ("EMIT", "reflectance")
        np.testing.assert_allclose(tile.values, expected, rtol=1e-6)
        np.testing.assert_array_equal(tile.valid, np.isfinite(expected[..., 0]))
        assert scene.bands.good.tolist() == good.astype(bool).tolist()
        np.testing.assert_allclose(scene.bands.wavelength_nm, fixtures.WAVELENGTHS, atol=1e-3)
        np.testing.assert_allclose(scene.bands.fwhm_nm, 8.5)
        grid = scene.grid
        assert (grid.width, grid.height, grid.crs.to_epsg()) == (11, 9, 4326)
        assert (grid.transform.a, grid.transform.c, grid.transform.f) == (0.000542, 12.0, 45.0)
        assert scene.acquisition.time.isoformat() == "2023-08-15T10:20:30+00:00"


def test_emit_radiance_stays_on_the_detector_grid(tmp_path):
    swath = fixtures.truth(8, 7, 6)
    swath[3, 3] = -9999.0
    glt = lookup_table()
    path = fixtures.emit(tmp_path, "radiance", swath, glt, np.ones(6))
    with open_scene(path) as scene:
        tile = read_all(scene)
        expected = np.where(swath == -9999.0, np.nan, swath * 10.0)
        np.testing.assert_allclose(tile.values, expected, rtol=1e-6)
        lon, lat = fixtures.emit_location(8, 7, glt)
        np.testing.assert_allclose(scene.geolocation(Window(2, 1, 3, 4)), (lon[2:5, 1:5], lat[2:5, 1:5]))
        assert scene.grid.transform is None and scene.grid.crs.to_epsg() == 4326
        assert scene.acquisition.latitude_deg == pytest.approx(lat.mean(), abs=1e-6)
        ortho = scene.ortho
        assert (ortho.grid.width, ortho.grid.height) == (11, 9)
        row, col = ortho.swath_pixels(Window(0, 0, 9, 11))
        np.testing.assert_array_equal(np.stack([col, row], axis=-1), glt - 1)


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
