"""Tanager basic and ortho products: units, footprint, place, time."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from p3vae.cli.errors import SceneError
from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.scenes.tiling import Window
from tests.cli.calls import refusal
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS

ROWS, COLS = 24, 18
IMAGE = fixtures.truth(ROWS, COLS, len(WAVELENGTHS), 5.0, 90.0)
RADIANCE = "HDFEOS/SWATHS/HYP/Data Fields/toa_radiance"


def read_all(scene):
    return scene.read(Window(0, 0, scene.grid.height, scene.grid.width))


@pytest.mark.parametrize(
    ("unit", "factor"), [("W/(m^2 sr um)", 1.0), ("uW/(cm^2 sr nm)", 10.0), ("W/(m^2 sr nm)", 1000.0)]
)
def test_basic_radiance_in_any_of_its_units(tmp_path, unit, factor):
    path = fixtures.tanager(tmp_path, IMAGE, WAVELENGTHS, unit=unit)
    with open_scene(path) as scene:
        assert (scene.product, scene.level, scene.quantity) == ("Tanager", "basic radiance", "radiance")
        tile = read_all(scene)
        assert not tile.valid[:, 0].any() and tile.valid[:, 1:].all()
        np.testing.assert_allclose(tile.values[:, 1:], IMAGE[:, 1:] * factor, rtol=1e-6)
        np.testing.assert_allclose(scene.bands.wavelength_nm, WAVELENGTHS, atol=1e-3)
        np.testing.assert_allclose(scene.bands.fwhm_nm, 5.5)
        np.testing.assert_allclose(
            scene.geolocation(Window(0, 0, ROWS, COLS)), fixtures.geolocation(ROWS, COLS)
        )
        acquired = scene.acquisition
        angles = acquired.sun_zenith_deg, acquired.sun_azimuth_deg, acquired.view_zenith_deg
        assert angles == pytest.approx((38.5, 141.0, 12.25))
        assert acquired.time.isoformat() == "2025-04-23T13:40:21+00:00"
        assert scene.grid.transform is None and scene.grid.crs.to_epsg() == 4326 and scene.grid.gcps


def test_ortho_radiance_lies_on_its_utm_grid(tmp_path):
    with open_scene(fixtures.tanager(tmp_path, IMAGE, WAVELENGTHS, ortho=True)) as scene:
        assert scene.level == "ortho radiance" and scene.geolocation(Window(0, 0, 1, 1)) is None
        assert scene.grid.crs.to_epsg() == 32633 and scene.grid.transform == fixtures.UTM_TRANSFORM
        np.testing.assert_allclose(read_all(scene).values[:, 1:], IMAGE[:, 1:], rtol=1e-6)


def test_the_code_of_a_crs_wins_over_the_zone(tmp_path):
    path = fixtures.tanager(tmp_path, IMAGE, WAVELENGTHS, ortho=True)
    with h5py.File(path, "r+") as file:
        file["HDFEOS/GRIDS/HYP"].attrs["epsg_code"] = np.int32(32733)
    with open_scene(path) as scene:
        assert scene.grid.crs.to_epsg() == 32733


def test_surface_reflectance_is_reflectance(tmp_path):
    path = fixtures.tanager(tmp_path, IMAGE / 200, WAVELENGTHS, field="surface_reflectance", unit="unitless")
    with open_scene(path) as scene:
        assert (scene.level, scene.quantity) == ("basic surface reflectance", "reflectance")
        np.testing.assert_allclose(read_all(scene).values[:, 1:], IMAGE[:, 1:] / 200, rtol=1e-6)


def test_bands_that_are_bad_anywhere_are_bad(tmp_path):
    path = fixtures.tanager(tmp_path, IMAGE, WAVELENGTHS)
    flags = np.ones((3, len(WAVELENGTHS)), np.uint8)
    flags[1, 2] = 0
    with h5py.File(path, "r+") as file:
        file[RADIANCE].attrs["all_good_wavelengths"] = flags
    with open_scene(path) as scene:
        assert np.flatnonzero(~scene.bands.good).tolist() == [2]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda file: file[RADIANCE].attrs.__setitem__("Unit", "counts"), "no known unit"),
        (lambda file: file[RADIANCE].attrs.__setitem__("wavelengths", np.ones(4)), "4 wavelengths for 6"),
        (lambda file: file.__delitem__("HDFEOS/SWATHS/HYP/Geolocation Fields"), "Geolocation Fields"),
        (lambda file: file.__delitem__(RADIANCE), "neither toa_radiance nor surface_reflectance"),
    ],
)
def test_damaged_products_are_refused(tmp_path, damage, words):
    path = fixtures.tanager(tmp_path, IMAGE, WAVELENGTHS)
    with h5py.File(path, "r+") as file:
        damage(file)
    with pytest.raises(SceneError, match=words):
        open_scene(path)


def test_an_ortho_product_without_a_grid_is_refused(tmp_path):
    path = fixtures.tanager(tmp_path, IMAGE, WAVELENGTHS, ortho=True)
    with h5py.File(path, "r+") as file:
        del file["HDFEOS INFORMATION/StructMetadata.0"]
    with pytest.raises(SceneError, match="no usable map grid"):
        open_scene(path)


def test_its_own_calibration_is_not_to_be_contradicted(tmp_path):
    path = fixtures.tanager(tmp_path, IMAGE, WAVELENGTHS)
    assert "leave out --quantity" in refusal(1, "info", path, "--quantity", "reflectance")
