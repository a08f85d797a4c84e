"""Scenes that lack something or have odd names: they are mapped, or refused with one line."""

from __future__ import annotations

import json

import geopandas
import numpy as np
import pytest
import rasterio
import shapely
from affine import Affine
from rasterio.control import GroundControlPoint
from rasterio.crs import CRS

from tests.cli.calls import refusal, run
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, envi_list, wavelength_tags

IMAGE = fixtures.truth(48, 48, len(WAVELENGTHS)).astype(np.float32)
LOCAL = CRS.from_wkt('LOCAL_CS["arbitrary",UNIT["metre",1]]')


def write_scene(path, image=IMAGE, **profile):
    return fixtures.raster(path, image, band_tags=wavelength_tags(WAVELENGTHS), **profile)


@pytest.mark.parametrize("black", [33, 40])
def test_counts_are_told_from_reflectance_also_beside_a_black_border(tmp_path, black):
    counts = np.round(IMAGE * 10_000).astype(np.uint16)
    counts[:, :black] = 0
    said = refusal(1, "brightness", write_scene(tmp_path / "counts.tif", counts), "-o", tmp_path / "out")
    assert "is no reflectance" in said and "--scale 1e-4" in said


def test_a_scene_in_a_local_crs_is_mapped_and_its_sun_is_unknown(tmp_path):
    scene = write_scene(tmp_path / "local.tif", crs=LOCAL, tags={"acquisition_time": "2024-06-01T10:00:00"})
    reported = json.loads(run("info", scene, "--json").stdout)
    assert reported["sun_zenith_deg"] is None
    done = run("brightness", scene, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output


def test_a_box_of_the_world_does_not_fit_a_local_crs(tmp_path):
    scene = write_scene(tmp_path / "local.tif", crs=LOCAL)
    box = ("--bbox", "1,43,2,44", "--bbox-crs", "EPSG:4326")
    assert "--bbox-crs" in refusal(2, "brightness", scene, "-o", tmp_path / "out", *box)


def test_polygons_of_the_world_do_not_fit_a_local_crs(tmp_path):
    scene, mask = write_scene(tmp_path / "local.tif", crs=LOCAL), tmp_path / "m.gpkg"
    geopandas.GeoDataFrame(geometry=[shapely.box(1, 43, 2, 44)], crs=4326).to_file(mask)
    said = refusal(2, "brightness", scene, "-o", tmp_path / "out", "--mask", mask)
    assert "m.gpkg" in said and "CRS" in said


def test_a_label_raster_in_utm_does_not_fit_a_local_crs(tmp_path):
    scene = write_scene(tmp_path / "local.tif", crs=LOCAL)
    labels = fixtures.raster(tmp_path / "labels.tif", np.ones((48, 48, 1), np.uint8))
    said = refusal(1, "train", scene, "--labels", labels, "-o", tmp_path / "m.p3vae", "--sun-zenith", 30)
    assert "labels.tif" in said and "scene's grid" in said


def test_a_path_that_cannot_be_is_told(tmp_path):
    scene = write_scene(tmp_path / "a.tif")
    assert "no such file" in refusal(1, "info", scene / "b.tif")
    said = refusal(1, "info", tmp_path / ("a" * 300 + ".tif"))
    assert "File name too long" in said and "check the path" in said


CORNERS = [(row, col, 12.0 + 0.0004 * col, 45.0 - 0.0003 * row) for row in (0, 48) for col in (0, 48)]
DIAGONAL = [(at, at, 12.0 + 0.0004 * at, 45.0 - 0.0003 * at) for at in (0, 12, 30, 48)]


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
@pytest.mark.parametrize(
    ("points", "crs"),
    [
        (CORNERS, None),
        (CORNERS[:2], "EPSG:4326"),
        (CORNERS[:1], "EPSG:4326"),
        (DIAGONAL, "EPSG:4326"),
    ],
)
def test_control_points_that_cannot_place_a_scene_leave_it_without_a_place(tmp_path, points, crs):
    scene = write_scene(tmp_path / "a.tif", crs=None, transform=Affine.identity())
    with rasterio.open(scene, "r+") as target:
        target.gcps = ([GroundControlPoint(*point) for point in points], CRS.from_user_input(crs or CRS()))
    out = ("-o", tmp_path / "out")
    done = run("brightness", scene, *out)
    assert done.exit_code == 0, done.output
    with rasterio.open(tmp_path / "out" / "a_brightness.tif") as made:
        assert not made.gcps[0] and made.crs is None
    for options in (("--bbox", "12,44,13,45"), ("--grid", "utm")):
        assert "georeferenced scene" in refusal(2, "brightness", scene, *out, "--overwrite", *options)


@pytest.mark.parametrize("given", ["E2.HDR", "E2.IMG"])
def test_envi_files_may_be_named_in_upper_case(tmp_path, given):
    cube = fixtures.envi(tmp_path / "a.img", IMAGE, "bil", {"wavelength": envi_list(WAVELENGTHS)})
    cube.rename(tmp_path / "E2.IMG")
    cube.with_suffix(".hdr").rename(tmp_path / "E2.HDR")
    done = run("info", tmp_path / given, "--json")
    assert done.exit_code == 0, done.output
    reported = json.loads(done.stdout)
    assert (reported["product"], reported["crs"]) == ("ENVI", "EPSG:32633")
