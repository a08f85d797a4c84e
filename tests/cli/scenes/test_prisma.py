"""PRISMA: orientation, wavelengths, units, masks, georeferencing, delivery."""

from __future__ import annotations

import tempfile
import zipfile

import h5py
import numpy as np
import pytest
from pyproj import Transformer

from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.scenes.tiling import Window
from tests.cli.scenes import fixtures

ROWS, COLS = 9, 7
VNIR_KEPT, SWIR_KEPT = fixtures.VNIR < 943.8, fixtures.SWIR > 977.3


def images(low: float = 1.0, high: float = 200.0) -> tuple[np.ndarray, np.ndarray]:
    both = fixtures.truth(ROWS, COLS, 12, low, high)
    return both[..., :6], both[..., 6:]


def whole(scene) -> np.ndarray:
    return scene.read(Window(0, 0, scene.grid.height, scene.grid.width)).values


@pytest.mark.parametrize("level", ["1", "2B", "2C", "2D"])
def test_image_is_upright_and_in_physical_units(tmp_path, level):
    vnir, swir = images(0.05, 0.9) if level in ("2C", "2D") else images()
    path = fixtures.prisma(tmp_path, level, vnir, swir, high=2.0 if level in ("2C", "2D") else 300.0)
    with open_scene(path) as scene:
        assert (scene.product, scene.level) == ("PRISMA", f"L{level}")
        assert scene.quantity == ("reflectance" if level in ("2C", "2D") else "radiance")
        assert (scene.grid.height, scene.grid.width) == (ROWS, COLS)
        expected = np.concatenate([vnir[..., VNIR_KEPT], swir], axis=-1)
        np.testing.assert_allclose(whole(scene), expected, atol=0.006 if level == "1" else 0.003)


def test_wavelengths_ascend_without_unused_bands(tmp_path):
    with open_scene(fixtures.prisma(tmp_path, "1", *images())) as scene:
        expected = np.concatenate([fixtures.VNIR[VNIR_KEPT], fixtures.SWIR])
        widths = np.concatenate([fixtures.VNIR_FWHM[VNIR_KEPT], fixtures.SWIR_FWHM])
        np.testing.assert_allclose(scene.bands.wavelength_nm, expected, atol=1e-3)
        np.testing.assert_allclose(scene.bands.fwhm_nm, widths, atol=1e-5)
        assert scene.bands.good.all()


def test_overlap_can_be_taken_from_vnir(tmp_path):
    vnir, swir = images()
    with open_scene(fixtures.prisma(tmp_path, "1", vnir, swir), SceneSettings(overlap="vnir")) as scene:
        expected = np.concatenate([fixtures.VNIR, fixtures.SWIR[SWIR_KEPT]])
        np.testing.assert_allclose(scene.bands.wavelength_nm, expected, atol=1e-3)
        cube = np.concatenate([vnir, swir[..., SWIR_KEPT]], axis=-1)
        np.testing.assert_allclose(whole(scene), cube, atol=0.006)


def test_bands_flagged_as_unused_are_dropped(tmp_path):
    path = fixtures.prisma(tmp_path, "1", *images())
    with h5py.File(path, "r+") as file:
        flags = file.attrs["List_Cw_Swir_Flags"]
        flags[0] = 0  # 2497 nm is filed first
        file.attrs["List_Cw_Swir_Flags"] = flags
    with open_scene(path) as scene:
        assert scene.bands.wavelength_nm.max() == pytest.approx(2100.125)


def test_l1_offset_and_l2_minimum_are_honoured(tmp_path):
    vnir, swir = images()
    with open_scene(fixtures.prisma(tmp_path, "1", vnir, swir, offset=12.5)) as scene:
        np.testing.assert_allclose(whole(scene)[..., -6:], swir, atol=0.006)
    vnir, swir = images(0.01, 0.5)
    with open_scene(fixtures.prisma(tmp_path, "2D", vnir, swir, low=-0.25, high=1.25)) as scene:
        np.testing.assert_allclose(whole(scene)[..., -6:], swir, atol=2e-5)


def test_l1_zero_is_dark_unless_all_bands_are_zero(tmp_path):
    vnir, swir = images()
    swir[2, 3, 1] = 0.0
    vnir[5, 1], swir[5, 1] = 0.0, 0.0
    with open_scene(fixtures.prisma(tmp_path, "1", vnir, swir)) as scene:
        tile = scene.read(Window(0, 0, ROWS, COLS))
        assert tile.values[2, 3, -5] == 0.0
        assert np.argwhere(~tile.valid).tolist() == [[5, 1]]
        assert np.isnan(tile.values[5, 1]).all()


def test_l2_zero_is_missing_and_padding_is_invalid(tmp_path):
    vnir, swir = images(0.05, 0.9)
    vnir[:3], swir[:3] = 0.0, 0.0
    swir[6, 2, 0] = 0.0
    with open_scene(fixtures.prisma(tmp_path, "2D", vnir, swir)) as scene:
        valid = scene.read(Window(0, 0, ROWS, COLS)).valid
        expected = np.ones((ROWS, COLS), bool)
        expected[:3], expected[6, 2] = False, False
        np.testing.assert_array_equal(valid, expected)


@pytest.mark.parametrize("level", ["1", "2D"])
def test_error_matrices_mask_single_values(tmp_path, level):
    vnir, swir = images(0.05, 0.9) if level == "2D" else images()
    saturated = np.zeros(swir.shape, np.uint8)
    saturated[1, 5, 2] = 4
    dead = np.zeros(vnir.shape, np.uint8)
    dead[:, 2, 0] = 1
    path = fixtures.prisma(tmp_path, level, vnir, swir, errors={"SWIR": saturated, "VNIR": dead})
    with open_scene(path) as scene:
        tile = scene.read(Window(0, 0, ROWS, COLS))
        holes = np.argwhere(np.isnan(tile.values)).tolist()
        swir_start = len(scene.bands) - len(fixtures.SWIR)
        assert holes == sorted([[1, 5, swir_start + 2], *([row, 2, 0] for row in range(ROWS))])
        assert (
            not tile.valid[1, 5] and not tile.valid[:, 2].any() and tile.valid.sum() == ROWS * COLS - ROWS - 1
        )


@pytest.mark.parametrize("text", [bytes, str])
def test_sun_time_and_place(tmp_path, text):
    with open_scene(fixtures.prisma(tmp_path, "2C", *images(0.05, 0.9), text=text)) as scene:
        acquired = scene.acquisition
        assert acquired.sun_zenith_deg == pytest.approx(41.5)
        assert acquired.sun_azimuth_deg == pytest.approx(151.25)
        assert acquired.view_zenith_deg == pytest.approx(8.0)
        assert acquired.time.isoformat() == "2024-04-02T10:28:37.932000+00:00"
        assert acquired.longitude_deg == pytest.approx(12.001, abs=0.001)
        assert acquired.latitude_deg == pytest.approx(44.9987, abs=0.001)


def test_sun_zenith_from_pixels_ignores_padding(tmp_path):
    path = fixtures.prisma(tmp_path, "2D", *images(0.05, 0.9))
    with h5py.File(path, "r+") as file:
        del file.attrs["Sun_zenith_angle"]
    with open_scene(path) as scene:
        assert scene.acquisition.sun_zenith_deg == pytest.approx(33.0)


def test_l2d_corners_are_pixel_centres(tmp_path):
    with open_scene(fixtures.prisma(tmp_path, "2D", *images(0.05, 0.9))) as scene:
        assert scene.grid.crs.to_epsg() == 32633
        assert scene.grid.transform.almost_equals(fixtures.UTM_TRANSFORM)
        assert scene.grid.gcps == ()
        assert scene.geolocation(Window(0, 0, 1, 1)) is None


@pytest.mark.parametrize("epsg", [None, 0])
def test_missing_epsg_code_is_found_from_the_geolocation(tmp_path, epsg):
    path = fixtures.prisma(tmp_path, "2D", *images(0.05, 0.9), epsg=epsg)
    # 12.01 E lies in zone 33, but the grid below was projected in the neighbouring zone 32.
    east, north = Transformer.from_crs(4326, 32632, always_xy=True).transform(12.01, 45.0)
    with h5py.File(path, "r+") as file:
        where = file["HDFEOS/SWATHS/PRS_L2D_HCO/Geolocation Fields"]
        where["Longitude"][...], where["Latitude"][...] = 12.01, 45.0
        for corner, x, y in (("UL", east - 90, north + 120), ("LR", east + 90, north - 120)):
            file.attrs[f"Product_{corner}corner_easting"] = x
            file.attrs[f"Product_{corner}corner_northing"] = y
    with open_scene(path) as scene:
        assert scene.grid.crs.to_epsg() == 32632


def test_swath_has_control_points_and_geolocation(tmp_path):
    lon, lat = fixtures.geolocation(ROWS, COLS)
    with open_scene(fixtures.prisma(tmp_path, "1", *images())) as scene:
        assert scene.grid.transform is None and scene.grid.crs.to_epsg() == 4326
        points = {(point.row, point.col): (point.x, point.y) for point in scene.grid.gcps}
        assert len(points) == ROWS * COLS
        for corner in [(0, 0), (0, COLS - 1), (ROWS - 1, 0), (ROWS - 1, COLS - 1)]:
            assert points[corner[0] + 0.5, corner[1] + 0.5] == pytest.approx((lon[corner], lat[corner]))
        found = scene.geolocation(Window(2, 3, 4, 2))
        np.testing.assert_allclose(found[0], lon[2:6, 3:5])
        np.testing.assert_allclose(found[1], lat[2:6, 3:5])


def test_large_swath_keeps_the_lattice_small(tmp_path):
    image = np.ones((50, 45, 6))
    with open_scene(fixtures.prisma(tmp_path, "1", image, image)) as scene:
        rows, cols = {point.row for point in scene.grid.gcps}, {point.col for point in scene.grid.gcps}
        assert len(scene.grid.gcps) == 400
        assert (min(rows), max(rows), min(cols), max(cols)) == (0.5, 49.5, 0.5, 44.5)


def test_smile_follows_the_image_columns(tmp_path):
    with open_scene(fixtures.prisma(tmp_path, "1", *images())) as scene:
        centres = np.concatenate([fixtures.VNIR[VNIR_KEPT], fixtures.SWIR])
        np.testing.assert_allclose(scene.column_wavelength_nm, fixtures.smile(COLS, centres), atol=1e-3)
        widths = np.concatenate([fixtures.VNIR_FWHM[VNIR_KEPT], fixtures.SWIR_FWHM])
        np.testing.assert_allclose(scene.column_fwhm_nm, widths + 0.01 * np.arange(COLS)[:, None], atol=1e-4)


def test_l2_has_no_smile_table(tmp_path):
    with open_scene(fixtures.prisma(tmp_path, "2C", *images(0.05, 0.9))) as scene:
        assert scene.column_wavelength_nm is None and scene.column_fwhm_nm is None


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zipped_delivery_reads_the_same_and_leaves_nothing(tmp_path, monkeypatch, compression):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    path = fixtures.prisma(tmp_path, "1", *images())
    with open_scene(path) as scene:
        expected = whole(scene)
    archive = fixtures.zipped(path, compression, "delivery/" + path.name)
    with open_scene(archive) as scene:
        assert scene.path == archive
        np.testing.assert_array_equal(whole(scene), expected)
        assert list(scratch.iterdir()) == [], "what is unpacked has no name"
    assert list(scratch.iterdir()) == []


def test_swath_files_are_read_fastest_by_columns_and_maps_by_rows(tmp_path):
    with open_scene(fixtures.prisma(tmp_path, "1", *images())) as scene:
        assert scene.block_shape == (ROWS, 1)
    with open_scene(fixtures.prisma(tmp_path, "2D", *images(0.05, 0.9))) as scene:
        assert scene.block_shape == (1, COLS)


def test_swath_without_geolocation_is_tied_by_its_corners(tmp_path):
    path = fixtures.prisma(tmp_path, "2C", *images(0.05, 0.9), with_location=False)
    corners = {"UL": (12.0, 45.0), "UR": (12.4, 44.9), "LL": (11.9, 44.7), "LR": (12.3, 44.6)}
    with h5py.File(path, "r+") as file:
        for corner, (lon, lat) in corners.items():
            file.attrs[f"Product_{corner}corner_long"] = np.float32(lon)
            file.attrs[f"Product_{corner}corner_lat"] = np.float32(lat)
    with open_scene(path) as scene:
        points = {(point.row, point.col): (point.x, point.y) for point in scene.grid.gcps}
        assert points[0.5, COLS - 0.5] == pytest.approx(corners["UR"], abs=1e-5)
        assert points[ROWS - 0.5, 0.5] == pytest.approx(corners["LL"], abs=1e-5)
        assert len(points) == 4 and scene.geolocation(Window(0, 0, 1, 1)) is None


def test_a_table_of_wavelengths_covers_both_cubes_as_filed(tmp_path):
    path = fixtures.prisma(tmp_path, "1", *images())
    unused = [399.0, 398.0, 397.0]
    filed = np.concatenate([unused, fixtures.VNIR[::-1] + 1, fixtures.SWIR[::-1] + 1, [2600, 2601]])
    table = tmp_path / "bands.csv"
    table.write_text("wavelength_nm\n" + "".join(f"{value}\n" for value in filed))
    with open_scene(path, SceneSettings(wavelengths_file=table)) as scene:
        assert scene.bands.wavelength_nm[3] == pytest.approx(403.4)
        assert scene.bands.good.tolist() == [False] * 3 + [True] * 10 + [False] * 2
        assert scene.column_wavelength_nm is None
