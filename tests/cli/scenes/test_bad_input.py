"""Every mistake gives one line that names the file, the problem and a remedy."""

from __future__ import annotations

import warnings
import zipfile

import h5py
import numpy as np
import pytest
import rasterio
from scipy.io import netcdf_file

from p3vae.cli.errors import SceneError, UsageError
from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.scenes.settings import SceneSettings, parse_ranges
from p3vae.cli.scenes.tiling import Window
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, envi_list, wavelength_tags

IMAGE = fixtures.truth(40, 30, len(WAVELENGTHS)).astype(np.float32)
CUBE = fixtures.truth(8, 6, 6)


def refusal(path, **options) -> str:
    """The message of a refused scene, checked to be complete and on one line."""
    with pytest.raises(SceneError) as caught:
        open_scene(path, SceneSettings(**options)).close()
    error = caught.value
    assert error.path is not None and error.problem and error.remedy
    assert "\n" not in str(error)
    return str(error)


def geotiff(folder, **options):
    return fixtures.raster(folder / "a.tif", IMAGE, **({"band_tags": wavelength_tags(WAVELENGTHS)} | options))


def envi(folder, **fields):
    return fixtures.envi(folder / "a.img", IMAGE, "bil", {"wavelength": envi_list(WAVELENGTHS)} | fields)


def cut(path, keep: float):
    """Keeps the first part of a file."""
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)])
    return path


def test_missing_file_folder_and_empty_file(tmp_path):
    assert "no such file" in refusal(tmp_path / "absent.tif")
    assert "is a folder" in refusal(tmp_path)
    (tmp_path / "empty.he5").touch()
    assert "is empty" in refusal(tmp_path / "empty.he5")


@pytest.mark.parametrize(
    "content", [b"just some words\n", b"<html></html>", b"PK\x03\x04 not a zip", b"\x89PNG"]
)
def test_not_a_raster(tmp_path, content):
    path = tmp_path / "a.tif"
    path.write_bytes(content)
    message = refusal(path)
    assert str(path) in message


def test_no_wavelengths_says_how_to_give_them(tmp_path):
    assert "--wavelengths" in refusal(geotiff(tmp_path, band_tags=None))
    assert "--wavelengths" in refusal(envi(tmp_path, wavelength=""))


def test_wavelength_count_differs_from_band_count(tmp_path):
    assert "lists 3 wavelengths for 6 bands" in refusal(envi(tmp_path, wavelength="{500, 600, 700}"))
    table = tmp_path / "bands.csv"
    table.write_text("wavelength_nm\n500\n600\n")
    assert "lists 2 wavelengths" in refusal(geotiff(tmp_path), wavelengths_file=table)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"wavelength_nm\n500\nabc\n", "not a number"),
        (b"wavelength_nm,good\n500,1\n600,maybe\n", "neither 1 nor 0"),
        (b"wavelength_nm\n0.5\n0.6\n", "not in nm"),
        (b"wavelength_nm\n", "no wavelengths"),
        (b"", "no wavelengths"),
        (b"wavelength_nm,fwhm_nm\n500,5\n600\n", "different length"),
        (b"wavelength_nm,fwhm_nm\n500,0\n600,5\n", "not positive"),
        (b"wavelength_nm\nnan\n500\n", "not finite"),
        (b"\xff\xfe\x00\x01", "CSV"),
    ],
)
def test_bad_wavelengths_file(tmp_path, content, problem):
    table = tmp_path / "bands.csv"
    table.write_bytes(content)
    message = refusal(geotiff(tmp_path), wavelengths_file=table)
    assert problem in message and str(table) in message


def test_missing_wavelengths_file(tmp_path):
    assert "no such file" in refusal(geotiff(tmp_path), wavelengths_file=tmp_path / "none.csv")


def test_zero_bands_left(tmp_path):
    assert "no good band left" in refusal(geotiff(tmp_path), bad_bands=((300.0, 2600.0),))
    assert "no good band left" in refusal(envi(tmp_path, bbl="{0, 0, 0, 0, 0, 0}"))


@pytest.mark.parametrize("keep", [0.3, 0.7, 0.95])
@pytest.mark.parametrize("level", ["1", "2D"])
def test_truncated_hdf5(tmp_path, keep, level):
    path = cut(fixtures.prisma(tmp_path, level, CUBE, CUBE), keep)
    assert str(path) in refusal(path)


def test_truncated_tiff_is_told_at_opening_or_while_reading(tmp_path):
    big = fixtures.truth(400, 300, len(WAVELENGTHS)).astype(np.float32)
    profile = {"tiled": True, "blockxsize": 64, "blockysize": 64}
    path = fixtures.raster(tmp_path / "a.tif", big, band_tags=wavelength_tags(WAVELENGTHS), **profile)
    assert "truncated" in refusal(cut(path, 0.5))


def test_file_damaged_after_opening_is_told_by_the_window(tmp_path):
    profile = {"tiled": True, "blockxsize": 16, "blockysize": 16, "compress": "deflate"}
    path = geotiff(tmp_path, **profile)
    with open_scene(path) as scene, rasterio.Env(GDAL_CACHEMAX=0):
        rest = path.read_bytes()
        with path.open("r+b") as file:
            file.seek(1024)
            file.write(b"\x55" * (len(rest) - 4096))
        with pytest.raises(SceneError, match="truncated or damaged") as caught:
            for _ in range(3):
                open_scene(path).read(Window(0, 0, 40, 30))
        assert caught.value.path == path
        assert scene.grid.width == 30


def test_truncated_envi_and_bad_headers(tmp_path):
    assert "is truncated" in refusal(cut(envi(tmp_path), 0.9))
    assert "unreadable field" in refusal(envi(tmp_path, bands="six"))
    assert "data type 6" in refusal(envi(tmp_path, **{"data type": "6"}))
    assert "unreadable field" in refusal(envi(tmp_path, interleave="bzq"))
    assert "unreadable field" in refusal(envi(tmp_path, wavelength="{a, b}"))


def test_envi_header_without_data(tmp_path):
    path = envi(tmp_path)
    path.unlink()
    assert "no data file" in refusal(path.with_suffix(".hdr"))


@pytest.mark.parametrize("swath", ["HRC", "PCO", "PRC"])
def test_wrong_prisma_swath(tmp_path, swath):
    message = refusal(fixtures.prisma(tmp_path, "1", CUBE, CUBE, swath=swath))
    assert "HCO" in message and swath in message


def test_prisma_without_cubes_or_attributes(tmp_path):
    path = fixtures.prisma(tmp_path, "1", CUBE, CUBE)
    with h5py.File(path, "r+") as file:
        del file.attrs["ScaleFactor_Vnir"]
    assert "ScaleFactor_Vnir" in refusal(path)
    with h5py.File(path, "r+") as file:
        for name in ("VNIR_Cube", "SWIR_Cube"):
            del file[f"HDFEOS/SWATHS/PRS_L1_HCO/Data Fields/{name}"]
    assert "no hyperspectral cube" in refusal(path)


def test_prisma_list_length_and_unknown_crs(tmp_path):
    path = fixtures.prisma(tmp_path, "2D", CUBE, CUBE, epsg=None, with_location=False)
    assert "Epsg_Code" in refusal(path)
    with h5py.File(path, "r+") as file:
        file.attrs["List_Cw_Vnir"] = np.array([900.0, 800.0], np.float32)
        file.attrs["Epsg_Code"] = 32633
    assert "lists 2 wavelengths" in refusal(path)


def test_hdf5_of_another_kind(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = 1
    assert "another kind" in refusal(tmp_path / "a.h5")


@pytest.mark.parametrize("member", ["../../evil.he5", "/etc/evil.he5", "..\\evil.he5", "C:evil.he5"])
def test_unsafe_zip_members_are_refused(tmp_path, member):
    path = fixtures.prisma(tmp_path, "1", CUBE, CUBE)
    assert "unsafe name" in refusal(fixtures.zipped(path, zipfile.ZIP_DEFLATED, member))


def test_zip_without_product_or_damaged(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("readme.txt", "nothing")
    assert "0 .he5 files" in refusal(tmp_path / "a.zip")
    path = fixtures.zipped(fixtures.prisma(tmp_path, "1", CUBE, CUBE), zipfile.ZIP_DEFLATED)
    assert str(path) in refusal(cut(path, 0.8))
    path = fixtures.zipped(fixtures.prisma(tmp_path, "1", CUBE, CUBE), zipfile.ZIP_DEFLATED)
    damaged = bytearray(path.read_bytes())
    middle = len(damaged) // 3
    damaged[middle : middle + 100] = b"\x55" * 100
    path.write_bytes(damaged)
    assert str(path) in refusal(path)


def test_enmap_sidecar_missing_unreadable_or_foreign(tmp_path):
    counts = np.ones((8, 6, 6), np.int16)
    image = fixtures.enmap(tmp_path, "L2A", counts, WAVELENGTHS, gain=1e-4, offset=0.0)
    metadata = tmp_path / image.name.replace("-SPECTRAL_IMAGE.TIF", "-METADATA.XML")
    whole = metadata.read_text()
    metadata.write_text(whole[:200])
    assert "not readable XML" in refusal(image)
    metadata.write_text('<!DOCTYPE x [<!ENTITY a "b">]><level_X/>')
    assert "entities" in refusal(image)
    metadata.write_text(whole.replace("<center>62.5</center>", ""))
    assert "sunElevationAngle/center" in refusal(image)
    metadata.write_text(whole.replace('number="6"', 'number="seven"'))
    assert "laid out" in refusal(image)
    metadata.unlink()
    assert "METADATA.XML beside" in refusal(image)


def test_enmap_band_count_differs(tmp_path):
    image = fixtures.enmap(
        tmp_path, "L2A", np.ones((8, 6, 6), np.int16), WAVELENGTHS[:5], gain=1e-4, offset=0.0
    )
    assert "6 bands" in refusal(image)


def test_calibration_options_are_refused_for_products(tmp_path):
    path = fixtures.prisma(tmp_path, "1", CUBE, CUBE)
    assert "leave out" in refusal(path, scale=0.1)
    assert "holds radiance" in refusal(path, quantity="reflectance")


def test_complex_raster(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = fixtures.raster(tmp_path / "c.tif", IMAGE.astype(np.complex64))
    assert "complex64" in refusal(path)


def test_unreadable_tags(tmp_path):
    tags = wavelength_tags(WAVELENGTHS)
    tags[2]["wavelength"] = "green"
    assert "unreadable metadata" in refusal(geotiff(tmp_path, band_tags=tags))


def test_ranges_of_wavelengths():
    assert parse_ranges("1340-1450,1800 - 1950.5") == ((1340.0, 1450.0), (1800.0, 1950.5))
    assert parse_ranges(" 760 ") == ((760.0, 760.0),)
    assert parse_ranges("") == ()


@pytest.mark.parametrize("text", ["abc", "1450-1340", "1-2-3", "-5", "1e3-2e3"])
def test_bad_ranges_are_usage_errors(text):
    with pytest.raises(UsageError):
        parse_ranges(text)


def test_damaged_emit_layouts(tmp_path):
    glt = np.ones((9, 8, 2), int)
    path = fixtures.emit(tmp_path, "reflectance", CUBE, glt, np.ones(6))
    with h5py.File(path, "r+") as file:
        del file.attrs["spatial_ref"]
    assert "no usable map grid" in refusal(path)
    with h5py.File(path, "r+") as file:
        del file["sensor_band_parameters/wavelengths"]
        file.attrs["spatial_ref"] = "EPSG:4326"
    assert "laid out" in refusal(path)
    with h5py.File(path, "r+") as file:
        del file["reflectance"]
    assert "neither radiance nor reflectance" in refusal(path)


def test_lookup_table_that_points_outside_the_swath(tmp_path):
    glt = np.full((9, 8, 2), 99)
    location = np.full(CUBE.shape[:2], 12.0), np.full(CUBE.shape[:2], 45.0)
    for kind in ("reflectance", "radiance"):
        path = fixtures.emit(tmp_path, kind, CUBE, glt, np.ones(6), location=location)
        assert "points to line 99, column 99 of a swath of" in refusal(path)


def test_lookup_tables_and_geolocation_of_other_sizes(tmp_path):
    glt = np.ones((9, 8, 2), int)
    path = fixtures.emit(tmp_path, "radiance", CUBE, glt, np.ones(6))
    with h5py.File(path, "r+") as file:
        del file["location/lon"]
        file["location/lon"] = np.zeros((3, 4))
    assert "its geolocation has (3, 4) values for a swath of" in refusal(path)
    with h5py.File(path, "r+") as file:
        del file["location/lon"], file["location/glt_y"]
        file["location/lon"], file["location/glt_y"] = np.zeros(CUBE.shape[:2]), np.ones((9, 7), np.int32)
    assert "lookup tables for columns and lines have (9, 8) and (9, 7) values" in refusal(path)
    with h5py.File(path, "r+") as file:
        del file["location/glt_y"]
        file.create_dataset("location/glt_y", (10**6, 10**6), np.int32, chunks=(1000, 1000))
        del file["location/glt_x"]
        file["location/glt_x"] = file["location/glt_y"]
    assert "claims 1000000000000 values" in refusal(path)


def test_envi_truncated_after_opening_is_told_by_the_window(tmp_path):
    path = envi(tmp_path)
    with open_scene(path) as scene:
        cut(path, 0.5)
        with pytest.raises(SceneError, match=str(path)):
            scene.read(Window(0, 0, 40, 30))


def test_a_brace_that_is_never_closed_ends_with_its_line(tmp_path):
    path = envi(tmp_path)
    header = path.with_suffix(".hdr")
    with open_scene(path) as scene:
        bands = len(scene.bands)
    header.write_text(header.read_text().rstrip() + "\nnotes = {closed}\nremark = {never closed\n")
    with open_scene(path) as scene:
        assert len(scene.bands) == bands


def test_swath_without_any_geolocation(tmp_path):
    assert "no geolocation" in refusal(fixtures.prisma(tmp_path, "1", CUBE, CUBE, with_location=False))


def with_header(path, *, method=None, flags=0):
    """The archive `path`, with another compression method or flags in the headers of its only member."""
    content = bytearray(path.read_bytes())
    for start in (0, content.rfind(b"PK\x01\x02")):
        at = start + (6 if start == 0 else 8)
        content[at] |= flags
        if method is not None:
            content[at + 2 : at + 4] = method.to_bytes(2, "little")
    path.write_bytes(content)
    return path


def test_a_zip_that_is_packed_otherwise_or_encrypted_is_not_called_damaged(tmp_path):
    packed = zipfile.ZIP_DEFLATED
    odd = ((packed, {"method": 93}, "packed in a way"), (packed, {"flags": 1}, "is encrypted"))
    for compression, options, problem in (*odd, (zipfile.ZIP_STORED, {"flags": 1}, "is encrypted")):
        scene = fixtures.prisma(tmp_path, "1", CUBE, CUBE)
        message = refusal(with_header(fixtures.zipped(scene, compression), **options))
        assert problem in message and "give the .he5" in message
        assert "damaged" not in message and "download" not in message


def test_a_damaged_lzma_zip_is_refused(tmp_path):
    path = fixtures.zipped(fixtures.prisma(tmp_path, "1", CUBE, CUBE), zipfile.ZIP_LZMA)
    content = bytearray(path.read_bytes())
    middle = len(content) // 3
    content[middle : middle + 100] = b"\x55" * 100
    path.write_bytes(content)
    assert "damaged zip" in refusal(path)


def test_a_file_of_several_rasters_is_refused(tmp_path):
    path = tmp_path / "several.nc"
    with netcdf_file(path, "w") as file:
        file.createDimension("y", 4)
        file.createDimension("x", 5)
        for name in ("a", "b"):
            file.createVariable(name, "f4", ("y", "x"))[:] = 1.0
    assert "is not a raster" in refusal(path)
    assert "no bands of its own" in refusal(path, drivers=("netCDF",))


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00"])
def test_a_time_beyond_the_calendar_is_no_time(tmp_path, time):
    with open_scene(envi(tmp_path, **{"acquisition time": time})) as scene:
        assert scene.acquisition.time is None


def test_sun_angles_that_are_no_numbers_are_unknown(tmp_path):
    with open_scene(envi(tmp_path, **{"sun elevation": "nan", "sun azimuth": "inf"})) as scene:
        assert (scene.acquisition.sun_zenith_deg, scene.acquisition.sun_azimuth_deg) == (None, None)
