"""GeoTIFF and ENVI: where wavelengths, units, scale, sun and grid are found."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime

import numpy as np
import pytest
import rasterio
import rasterio.shutil

from p3vae.cli.errors import SceneError
from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.scenes.tiling import Window
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, envi_list, wavelength_tags

ROWS, COLS, BANDS = 8, 5, len(WAVELENGTHS)
REFLECTANCE = fixtures.truth(ROWS, COLS, BANDS).astype(np.float32)


def whole(scene) -> np.ndarray:
    return scene.read(Window(0, 0, scene.grid.height, scene.grid.width)).values


def opened(path, **options):
    with open_scene(path, SceneSettings(**options)) as scene:
        return scene, whole(scene)


def test_geotiff_with_band_tags(tmp_path):
    tags = {"sun_elevation": "35.5", "sun_azimuth": "120.25", "acquisition_time": "2024-06-01T10:00:00Z"}
    path = fixtures.raster(tmp_path / "a.tif", REFLECTANCE, tags=tags, band_tags=wavelength_tags(WAVELENGTHS))
    scene, values = opened(path)
    assert (scene.product, scene.quantity, scene.unit) == ("GeoTIFF", "reflectance", "1")
    np.testing.assert_array_equal(scene.bands.wavelength_nm, WAVELENGTHS)
    np.testing.assert_array_equal(values, REFLECTANCE)
    assert scene.grid.transform == fixtures.UTM_TRANSFORM and scene.grid.crs.to_epsg() == 32633
    assert scene.acquisition.sun_zenith_deg == pytest.approx(54.5)
    assert scene.acquisition.sun_azimuth_deg == pytest.approx(120.25)
    assert scene.acquisition.time.isoformat() == "2024-06-01T10:00:00+00:00"
    assert scene.acquisition.longitude_deg == pytest.approx(15.0, abs=0.01)


def test_sun_is_computed_from_time_and_place(tmp_path):
    # At the June solstice, at solar noon on the meridian of 15 E, the zenith is latitude minus 23.44 deg.
    tags = {"acquisition_time": "2024-06-20T11:01:50Z"}
    path = fixtures.raster(tmp_path / "a.tif", REFLECTANCE, tags=tags, band_tags=wavelength_tags(WAVELENGTHS))
    scene, _ = opened(path)
    assert scene.acquisition.sun_zenith_deg == pytest.approx(scene.acquisition.latitude_deg - 23.44, abs=0.05)
    assert scene.acquisition.sun_azimuth_deg == pytest.approx(180.0, abs=1.0)


@pytest.mark.parametrize(("unit", "factor"), [("Micrometers", 1e-3), ("um", 1e-3), ("", 1e-3), ("nm", 1.0)])
def test_wavelength_units(tmp_path, unit, factor):
    tags = wavelength_tags(WAVELENGTHS * factor, unit)
    scene, _ = opened(fixtures.raster(tmp_path / "a.tif", REFLECTANCE, band_tags=tags))
    np.testing.assert_allclose(scene.bands.wavelength_nm, WAVELENGTHS, rtol=1e-12)


def test_precise_tags_win_over_rounded_imagery_domain(tmp_path):
    rounded = [{"CENTRAL_WAVELENGTH_UM": f"{value / 1e3:.3f}", "FWHM_UM": "0.010"} for value in WAVELENGTHS]
    path = fixtures.raster(
        tmp_path / "a.tif", REFLECTANCE, band_tags=wavelength_tags(WAVELENGTHS), imagery=rounded
    )
    np.testing.assert_array_equal(opened(path)[0].bands.wavelength_nm, WAVELENGTHS)
    path = fixtures.raster(tmp_path / "b.tif", REFLECTANCE, imagery=rounded)
    scene, _ = opened(path)
    np.testing.assert_allclose(scene.bands.wavelength_nm, WAVELENGTHS.round(), atol=1e-9)
    np.testing.assert_allclose(scene.bands.fwhm_nm, 10.0)


def test_wavelengths_in_band_descriptions(tmp_path):
    names = [f"Band {i + 1} ({value / 1e3:.4f} Micrometers)" for i, value in enumerate(WAVELENGTHS)]
    scene, _ = opened(fixtures.raster(tmp_path / "a.tif", REFLECTANCE, descriptions=names))
    np.testing.assert_allclose(scene.bands.wavelength_nm, WAVELENGTHS, atol=0.051)


def test_descending_bands_are_sorted_with_their_values(tmp_path):
    path = fixtures.raster(
        tmp_path / "a.tif", REFLECTANCE[..., ::-1].copy(), band_tags=wavelength_tags(WAVELENGTHS[::-1])
    )
    scene, values = opened(path)
    np.testing.assert_array_equal(scene.bands.wavelength_nm, WAVELENGTHS)
    np.testing.assert_array_equal(values, REFLECTANCE)


def test_of_two_bands_at_one_wavelength_the_good_one_is_kept(tmp_path):
    tags = wavelength_tags([450, 550, 550, 650, 650, 850])
    tags[1]["good"] = "0"
    scene, values = opened(fixtures.raster(tmp_path / "a.tif", REFLECTANCE, band_tags=tags))
    assert scene.bands.wavelength_nm.tolist() == [450, 550, 650, 850]
    np.testing.assert_array_equal(values, REFLECTANCE[..., [0, 2, 3, 5]])


def test_widths_and_bad_bands_from_tags(tmp_path):
    tags = wavelength_tags(WAVELENGTHS, fwhm="7.25")
    tags[2]["good"] = "0"
    scene, values = opened(fixtures.raster(tmp_path / "a.tif", REFLECTANCE, band_tags=tags))
    np.testing.assert_array_equal(scene.bands.fwhm_nm, 7.25)
    assert np.flatnonzero(~scene.bands.good).tolist() == [2]
    assert np.isnan(values[..., 2]).all() and np.isfinite(np.delete(values, 2, axis=-1)).all()


def test_widths_are_estimated_from_the_spacing(tmp_path):
    even = np.arange(500.0, 560.0, 10.0)
    scene, _ = opened(fixtures.raster(tmp_path / "a.tif", REFLECTANCE, band_tags=wavelength_tags(even)))
    np.testing.assert_allclose(scene.bands.fwhm_nm, 10.0)


def test_scale_tags_nodata_and_user_scale(tmp_path):
    counts = np.round(REFLECTANCE * 1e4).astype(np.int16)
    counts[3, 2] = -99
    path = fixtures.raster(tmp_path / "a.tif", counts, band_tags=wavelength_tags(WAVELENGTHS), nodata=-99)
    with pytest.raises(SceneError, match="--scale 1e-4"):
        open_scene(path)
    _, values = opened(path, scale=1e-4)
    assert np.isnan(values[3, 2]).all()
    known = np.ones((ROWS, COLS), bool)
    known[3, 2] = False
    np.testing.assert_allclose(values[known], REFLECTANCE[known], atol=5.1e-5)
    with rasterio.open(path, "r+") as file:
        file.scales = [1e-4] * BANDS
    np.testing.assert_allclose(opened(path)[1][known], REFLECTANCE[known], atol=5.1e-5)


def test_user_nodata_wins(tmp_path):
    image = REFLECTANCE.copy()
    image[1, 1] = -5.0
    image[2, 2, 0] = np.inf
    path = fixtures.raster(tmp_path / "a.tif", image, band_tags=wavelength_tags(WAVELENGTHS), nodata=-9999)
    with open_scene(path, SceneSettings(nodata=-5.0)) as scene:
        valid = scene.read(Window(0, 0, ROWS, COLS)).valid
    assert np.argwhere(~valid).tolist() == [[1, 1], [2, 2]]


@pytest.mark.parametrize(
    ("unit", "factor"),
    [
        ("W m-2 sr-1 um-1", 1.0),
        ("mW/(m^2 sr nm)", 1.0),
        ("W/m^2/sr/nm", 1000.0),
        ("uW cm-2 sr-1 nm-1", 10.0),
        ("µW/cm²/sr/nm", 10.0),
        ("mW cm-2 sr-1 um-1", 10.0),
    ],
)
def test_radiance_units_become_one(tmp_path, unit, factor):
    path = fixtures.raster(
        tmp_path / "a.tif", REFLECTANCE, tags={"units": unit}, band_tags=wavelength_tags(WAVELENGTHS)
    )
    scene, values = opened(path)
    assert (scene.quantity, scene.unit) == ("radiance", "W m-2 sr-1 um-1")
    np.testing.assert_allclose(values, REFLECTANCE * factor, rtol=1e-6)


def test_user_overrides(tmp_path):
    path = fixtures.raster(tmp_path / "a.tif", REFLECTANCE, tags={"sun_elevation": "10"})
    table = tmp_path / "bands.csv"
    table.write_text(
        "wavelength_nm,good,fwhm_nm\n"
        + "".join(f"{w},{i != 1:d},{5 + i}\n" for i, w in enumerate(WAVELENGTHS))
    )
    scene, _ = opened(
        path,
        wavelengths_file=table,
        sun_zenith_deg=20.0,
        sun_azimuth_deg=30.0,
        view_zenith_deg=4.0,
        quantity="radiance",
        bad_bands=((600.0, 650.25), (2000.0, 2300.0)),
    )
    np.testing.assert_array_equal(scene.bands.wavelength_nm, WAVELENGTHS)
    np.testing.assert_array_equal(scene.bands.fwhm_nm, 5.0 + np.arange(BANDS))
    assert scene.bands.good.tolist() == [True, False, False, True, True, False]
    assert scene.quantity == "radiance"
    acquired = scene.acquisition
    assert (acquired.sun_zenith_deg, acquired.sun_azimuth_deg, acquired.view_zenith_deg) == (20.0, 30.0, 4.0)


def test_raster_without_georeference_and_with_control_points(tmp_path):
    plain = {"crs": None, "transform": None}
    path = fixtures.raster(
        tmp_path / "a.tiff", REFLECTANCE, band_tags=wavelength_tags(WAVELENGTHS), compress="deflate"
    )
    with pytest.warns(rasterio.errors.NotGeoreferencedWarning):
        bare = fixtures.raster(
            tmp_path / "b.tif", REFLECTANCE, band_tags=wavelength_tags(WAVELENGTHS), **plain
        )
    assert opened(bare)[0].grid.transform is None
    points = [
        rasterio.control.GroundControlPoint(r, c, 12 + c / 100, 45 - r / 100) for r in (0, 8) for c in (0, 5)
    ]
    with rasterio.open(path, "r+") as file:
        file.gcps = (points, rasterio.crs.CRS.from_epsg(4326))
    grid = opened(path)[0].grid
    assert grid.transform is None and len(grid.gcps) == 4 and grid.crs.to_epsg() == 4326


ENVI_FIELDS = {
    "wavelength": envi_list(WAVELENGTHS / 1e3),
    "wavelength units": "Micrometers",
    "fwhm": envi_list(np.full(BANDS, 0.0061234)),
    "bbl": "{1, 1, 0, 1, 1, 1}",
    "sun elevation": "35.5",
    "sun azimuth": "120.25",
    "acquisition time": "2024-06-01T10:00:00Z",
}


@pytest.mark.parametrize("interleave", ["bsq", "bil", "bip"])
@pytest.mark.parametrize("big_endian", [False, True])
def test_envi_interleaves_and_byte_orders(tmp_path, interleave, big_endian):
    counts = np.round(REFLECTANCE * 1e4).astype(np.int16)
    counts[4, 1] = -9999
    fields = ENVI_FIELDS | {"reflectance scale factor": "10000", "data ignore value": "-9999"}
    path = fixtures.envi(tmp_path / "line_1.img", counts, interleave, fields, big_endian=big_endian, skip=7)
    for given in (path, path.with_suffix(".hdr")):
        scene, values = opened(given)
        assert (scene.product, scene.quantity) == ("ENVI", "reflectance")
        np.testing.assert_allclose(scene.bands.wavelength_nm, WAVELENGTHS, rtol=1e-12)
        np.testing.assert_allclose(scene.bands.fwhm_nm, 6.1234)
        assert np.flatnonzero(~scene.bands.good).tolist() == [2]
        expected = REFLECTANCE.copy()
        expected[4, 1], expected[..., 2] = np.nan, np.nan
        np.testing.assert_allclose(values, expected, atol=5.1e-5)
        assert scene.grid.transform == fixtures.UTM_TRANSFORM and scene.grid.crs.to_epsg() == 32633
        assert scene.acquisition.sun_zenith_deg == pytest.approx(54.5)
        assert scene.acquisition.sun_azimuth_deg == pytest.approx(120.25)


def test_envi_nodata_may_be_a_list(tmp_path):
    counts = np.round(REFLECTANCE * 1e4).astype(np.int16)
    counts[4, 1] = -9999
    scaled = ENVI_FIELDS | {"reflectance scale factor": "10000"}
    for stated in ("{-9999}", "{-9999, -9999, -9999, -9999, -9999, -9999}"):
        path = fixtures.envi(tmp_path / "a.img", counts, "bil", scaled | {"data ignore value": stated})
        assert np.isnan(opened(path)[1][4, 1]).all()
    path = fixtures.envi(tmp_path / "b.img", counts, "bil", scaled | {"data ignore value": "{-9999, 0}"})
    with pytest.raises(SceneError, match="data ignore value differs between bands"):
        opened(path)


def test_envi_radiance_in_words_and_rotated_grid(tmp_path):
    rotated = "{UTM, 1, 1, 500000, 4600000, 4, 4, 33, North, WGS-84, units=Meters, rotation=30}"
    fields = ENVI_FIELDS | {
        "description": "{AVIRIS-NG measured radiances in uW nm-1 cm-2 sr-1}",
        "map info": rotated,
    }
    path = fixtures.envi(tmp_path / "ang20240601t100000_rdn_img", REFLECTANCE, "bil", fields)
    scene, values = opened(path)
    assert scene.quantity == "radiance"
    good = scene.bands.good
    np.testing.assert_allclose(values[..., good], REFLECTANCE[..., good] * 10, rtol=1e-6)
    grid = scene.grid.transform
    assert (grid.c, grid.f) == (500000, 4600000)
    # 30 degrees: a step of one column keeps its length of 4 m and turns by 30 degrees from east.
    assert np.hypot(grid.a, grid.d) == pytest.approx(4.0)
    assert abs(np.degrees(np.arctan2(grid.d, grid.a))) == pytest.approx(30.0)


def test_envi_gains_and_offsets(tmp_path):
    counts = np.arange(ROWS * COLS * BANDS, dtype=np.uint16).reshape(ROWS, COLS, BANDS)
    gain, offset = np.linspace(0.001, 0.002, BANDS), np.linspace(-0.1, 0.1, BANDS)
    fields = ENVI_FIELDS | {
        "bbl": "",
        "data gain values": envi_list(gain),
        "data offset values": envi_list(offset),
        "z plot titles": "{Wavelength, Radiance}",
    }
    scene, values = opened(fixtures.envi(tmp_path / "a.dat", counts, "bip", fields))
    assert scene.quantity == "radiance"
    np.testing.assert_allclose(values, counts * gain + offset, rtol=1e-5, atol=1e-6)


def test_geotiff_copy_of_envi_keeps_full_precision(tmp_path):
    path = fixtures.envi(tmp_path / "a.img", REFLECTANCE, "bsq", ENVI_FIELDS)
    rasterio.shutil.copy(path, tmp_path / "copy.tif", driver="GTiff")
    np.testing.assert_allclose(opened(tmp_path / "copy.tif")[0].bands.wavelength_nm, WAVELENGTHS, rtol=1e-9)


def test_content_counts_more_than_the_extension(tmp_path):
    path = fixtures.raster(tmp_path / "a.tif", REFLECTANCE, band_tags=wavelength_tags(WAVELENGTHS))
    disguised = path.rename(tmp_path / "a.he5")
    assert opened(disguised)[0].product == "GeoTIFF"


def test_compressed_envi(tmp_path):
    path = fixtures.envi(tmp_path / "a.img", REFLECTANCE, "bil", ENVI_FIELDS | {"file compression": "1"})
    path.write_bytes(gzip.compress(path.read_bytes()))
    scene, values = opened(path)
    good = scene.bands.good
    assert np.flatnonzero(~good).tolist() == [2]
    np.testing.assert_allclose(scene.bands.wavelength_nm, WAVELENGTHS, rtol=1e-9)
    np.testing.assert_array_equal(values[..., good], REFLECTANCE[..., good])


@pytest.mark.parametrize("name", ["line.v2", "line.v2.dat"])
def test_envi_names_with_dots_and_double_endings(tmp_path, name):
    path = fixtures.envi(tmp_path / "cube.img", REFLECTANCE, "bip", ENVI_FIELDS)
    header = path.with_suffix(".hdr").rename(tmp_path / f"{name}.hdr")
    data = path.rename(tmp_path / name)
    for given in (data, header):
        np.testing.assert_allclose(opened(given)[0].bands.wavelength_nm, WAVELENGTHS, rtol=1e-12)


def test_start_time_gives_time_and_sun(tmp_path):
    """EnMAP-Box writes the time of acquisition as `start_time`."""
    image = fixtures.truth(8, 6, len(WAVELENGTHS)).astype(np.float32)
    path = fixtures.raster(
        tmp_path / "a.tif",
        image,
        tags={"start_time": "2022-06-22T10:00:00"},
        band_tags=wavelength_tags(WAVELENGTHS),
    )
    with open_scene(path) as scene:
        assert scene.acquisition.time == datetime(2022, 6, 22, 10, tzinfo=UTC)
        assert scene.acquisition.sun_zenith_deg is not None
