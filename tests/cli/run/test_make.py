"""From spectra to files: whole, right, styled, and the same however the scene is cut."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import rasterio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rasterio.errors import NotGeoreferencedWarning
from rasterio.warp import transform as transform_points

from p3vae.cli.errors import SceneError, UsageError
from p3vae.cli.rasters.files import MapSpec, class_map, parse_creation_options
from p3vae.cli.records.manifest import Provenance, sha256
from p3vae.cli.run.brightness import Brightness
from p3vae.cli.scenes.base import Grid
from p3vae.cli.styles.rasters import Categories, Category, Ramp
from tests.cli import fake_scene
from tests.cli.fake_scene import FunctionMapper, map_grid, memory_scene, random_cube, swath_grid

RIO = Path(sys.executable).with_name("rio")

CLASSES = Categories((Category(1, "dark", "#202020"), Category(2, "bright", "#f0f0f0")))
PROVENANCE = Provenance(command="p3vae test")


def two_maps(tile):
    mean = tile.values.mean(axis=-1)
    return {
        "classes": np.where(mean > 0.3, 2, 1),
        "probability": np.stack([1.0 - mean, mean]),
    }


SPECS = {
    "classes": class_map("landcover", "land cover", CLASSES),
    "probability": MapSpec(
        "probability",
        "class probability [1]",
        unit="1",
        style=Ramp(0.0, 1.0),
        band_descriptions=("dark", "bright"),
        band_tags=({"color": "#202020"}, {"color": "#f0f0f0"}),
    ),
}


def make(scene, folder, **options):
    mapper = FunctionMapper(two_maps, SPECS, model_sha256="ab" * 32, settings={"seed": 3})
    return fake_scene.make(scene, mapper, folder, provenance=PROVENANCE, **options)


def paths_of(maps):
    return list(maps.paths.values())


def read(path):
    with rasterio.open(path) as raster:
        return raster.read()


def test_values_grid_and_nodata_survive(tmp_path):
    cube = random_cube()
    maps = make(memory_scene(cube), tmp_path)
    mean = cube.mean(axis=-1)
    hole = np.isnan(mean)
    classes, probability = (read(path) for path in paths_of(maps))
    np.testing.assert_array_equal(classes[0], np.where(hole, 0, np.where(mean > 0.3, 2, 1)))
    np.testing.assert_array_equal(probability[1], mean)
    with rasterio.open(paths_of(maps)[0]) as raster:
        grid = map_grid(70, 90)
        assert (raster.crs, raster.transform) == (grid.crs, grid.transform)
        assert (raster.nodata, raster.dtypes) == (0, ("uint8",))
        assert raster.colormap(1)[2] == (0xF0, 0xF0, 0xF0, 255)
        assert raster.descriptions == ("land cover",)
    assert (maps.pixels, maps.valid_pixels) == (70 * 90, 70 * 90 - hole.sum())


def test_statistics_are_exact(tmp_path):
    cube = random_cube()
    maps = make(memory_scene(cube), tmp_path, tile_size=13)
    values = cube.mean(axis=-1).astype(float)
    found = maps.statistics["probability"][1]
    assert found.count == np.isfinite(values).sum()
    assert found.minimum == np.nanmin(values)
    assert found.maximum == np.nanmax(values)
    assert found.mean == pytest.approx(np.nanmean(values), rel=1e-12)
    assert found.std == pytest.approx(np.nanstd(values), rel=1e-9)
    pixels = [extent.pixels for extent in maps.classes["classes"]]
    assert pixels == [(values <= 0.3).sum(), (values > 0.3).sum()]


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(1, 120), st.tuples(st.integers(1, 90), st.integers(1, 90)), st.integers(2, 4))
def test_any_tiling_gives_the_same_files_byte_for_byte(tmp_path, tile_size, block_shape, in_flight):
    cube = random_cube(40, 50)
    scene = memory_scene(cube, block_shape=block_shape)
    reference = make(memory_scene(cube), tmp_path / "reference", overwrite=True)
    cut = make(scene, tmp_path / "cut", overwrite=True, tile_size=tile_size, in_flight=in_flight)
    for one, other in zip(paths_of(reference), paths_of(cut), strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_a_bbox_gives_that_part_of_the_map(tmp_path):
    scene = memory_scene(random_cube())
    everything = make(scene, tmp_path / "all")
    bbox = (500_000 + 30 * 15, 4_800_000 - 30 * 40, 500_000 + 30 * 60, 4_800_000 - 30 * 8)
    part = make(scene, tmp_path / "part", bbox=bbox, tile_size=9)
    for whole_path, part_path in zip(paths_of(everything), paths_of(part), strict=True):
        np.testing.assert_array_equal(read(part_path), read(whole_path)[:, 8:40, 15:60])
        with rasterio.open(part_path) as raster:
            assert tuple(raster.bounds) == bbox


def test_a_swath_keeps_its_control_points(tmp_path):
    grid = swath_grid(70, 90)
    maps = make(memory_scene(random_cube(), grid), tmp_path)
    with rasterio.open(paths_of(maps)[1]) as raster:
        points, crs = raster.gcps
    assert crs.to_epsg() == 4326
    expected = [(p.row, p.col, p.x, p.y) for p in grid.gcps]
    np.testing.assert_allclose([(p.row, p.col, p.x, p.y) for p in points], expected, rtol=1e-12)


def test_a_swath_is_put_on_a_utm_grid_at_the_right_place(tmp_path):
    rows, cols = np.mgrid[:70, :90]
    cube = np.stack([4.0 + 3e-4 * cols + 5e-5 * rows, 43.0 - 3e-4 * rows], axis=-1).astype(np.float32)
    scene = memory_scene(cube, swath_grid(70, 90))
    specs = {"place": MapSpec("place", "longitude and latitude", band_descriptions=("longitude", "latitude"))}
    mapper = FunctionMapper(lambda tile: {"place": np.moveaxis(tile.values, -1, 0)}, specs)
    maps = fake_scene.make(scene, mapper, tmp_path, to_utm=True, pixel_size=20.0)
    with rasterio.open(paths_of(maps)[0]) as raster:
        assert raster.crs.to_epsg() == 32631
        assert raster.res == (20.0, 20.0)
        assert raster.transform.c % 20 == raster.transform.f % 20 == 0
        values = raster.read()
        r, c = np.nonzero(np.isfinite(values[0]))
        x, y = raster.transform @ (c + 0.5, r + 0.5)
        lon, lat = transform_points(raster.crs, "EPSG:4326", x, y)
    row = (43.0 - np.array(lat)) / 3e-4
    col = (np.array(lon) - 4.0 - 5e-5 * row) / 3e-4
    inner = (row > 0) & (row < 69) & (col > 0) & (col < 89)
    assert inner.sum() > 0.9 * len(r)
    a_tenth_of_a_pixel = 3e-5
    assert np.abs(values[0][r, c] - lon)[inner].max() < a_tenth_of_a_pixel
    assert np.abs(values[1][r, c] - lat)[inner].max() < a_tenth_of_a_pixel


def test_classes_on_a_utm_grid_stay_classes(tmp_path):
    maps = make(memory_scene(random_cube(), swath_grid(70, 90)), tmp_path, to_utm=True)
    assert set(np.unique(read(paths_of(maps)[0]))) == {0, 1, 2}
    with rasterio.open(paths_of(maps)[0]) as raster:
        counts = np.bincount(raster.read(1).ravel())
    assert [extent.pixels for extent in maps.classes["classes"]] == [counts[1], counts[2]]


def test_every_product_has_its_side_files_and_the_manifest_knows_them(tmp_path):
    maps = make(memory_scene(random_cube()), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "town_landcover.qml",
        "town_landcover.tif",
        "town_landcover.tif.aux.xml",
        "town_p3vae.json",
        "town_probability.qml",
        "town_probability.tif",
    ]
    for path in paths_of(maps):
        assert ET.parse(path.with_suffix(".qml")).getroot().tag == "qgis"
    record = json.loads(maps.manifest.read_text())
    assert record["command"] == "p3vae test"
    assert record["settings"] == {"seed": 3}
    assert {p["file"]: p["sha256"] for p in record["products"]} == {p.name: sha256(p) for p in paths_of(maps)}
    classes = {c["name"]: c["pixels"] for c in record["products"][0]["classes"]}
    assert sum(classes.values()) == record["valid_pixels"] == maps.valid_pixels


def test_provenance_is_inside_the_raster(tmp_path):
    maps = make(memory_scene(random_cube()), tmp_path)
    with rasterio.open(paths_of(maps)[0]) as raster:
        tags = raster.tags()
    assert tags["P3VAE_COMMAND"] == "p3vae test"
    assert tags["P3VAE_MODEL_SHA256"] == "ab" * 32
    assert tags["P3VAE_SCENE"] == "town.tif"


@pytest.mark.parametrize("grid", [map_grid(700, 900), swath_grid(700, 900, 100)], ids=["map", "swath"])
def test_products_are_valid_cogs_with_overviews(tmp_path, grid):
    maps = make(memory_scene(random_cube(700, 900, 2), grid), tmp_path)
    for path in paths_of(maps):
        said = subprocess.run([RIO, "cogeo", "validate", path], capture_output=True, text=True, check=True)
        assert "is a valid cloud optimized GeoTIFF" in said.stdout
        assert "NOT" not in said.stdout
        with rasterio.open(path) as raster:
            assert raster.overviews(1) == [2]
    with rasterio.open(paths_of(maps)[0], overview_level=0) as raster:
        assert set(np.unique(raster.read(1))) <= {0, 1, 2}


@pytest.mark.skipif(shutil.which("gdalinfo") is None, reason="Debian's gdal-bin is not installed")
@pytest.mark.parametrize("grid", [map_grid(70, 90), swath_grid(70, 90)], ids=["map", "swath"])
def test_another_gdal_sees_the_same(tmp_path, grid):
    maps = make(memory_scene(random_cube(), grid), tmp_path)

    def info(path):
        said = subprocess.run(["gdalinfo", "-json", path], capture_output=True, text=True, check=True)
        return json.loads(said.stdout)

    classes, probability = (info(path) for path in paths_of(maps))
    (band,) = classes["bands"]
    assert (band["type"], band["noDataValue"], band["description"]) == ("Byte", 0.0, "land cover")
    assert band["colorTable"]["entries"][1] == [0x20, 0x20, 0x20, 255]
    assert [b["description"] for b in probability["bands"]] == ["dark", "bright"]
    assert [b["unit"] for b in probability["bands"]] == ["1", "1"]
    assert probability["bands"][0]["metadata"][""]["color"] == "#202020"
    assert probability["bands"][0]["maximum"] == pytest.approx(
        maps.statistics["probability"][0].maximum, abs=1e-3
    )
    if grid.gcps:
        assert len(classes["gcps"]["gcpList"]) == len(grid.gcps)
        assert "4326" in classes["gcps"]["coordinateSystem"]["wkt"]
    else:
        assert classes["geoTransform"] == [500_000.0, 30.0, 0.0, 4_800_000.0, 0.0, -30.0]
        assert "32631" in classes["coordinateSystem"]["wkt"]


@pytest.mark.skipif(shutil.which("gdalinfo") is None, reason="Debian's gdal-bin is not installed")
def test_another_gdal_reads_category_names(tmp_path):
    path = paths_of(make(memory_scene(random_cube()), tmp_path))[0]
    said = subprocess.run(["gdalinfo", path], capture_output=True, text=True, check=True).stdout
    assert "1: dark" in said
    assert "2: bright" in said


def test_a_scene_without_valid_pixels_is_refused_and_leaves_nothing(tmp_path):
    cube = np.full((20, 30, 3), np.nan, np.float32)
    with pytest.raises(SceneError, match="no pixel has a valid value"):
        make(memory_scene(cube), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_brightness_leaves_bad_bands_out(tmp_path):
    cube = random_cube(bands=6)
    good = np.array([True, False, True, True, True, False])
    cube[..., ~good] = np.nan
    scene = memory_scene(cube, good=good)
    maps = fake_scene.make(scene, Brightness(scene), tmp_path / "b.tif")
    assert paths_of(maps) == [tmp_path / "b.tif"]
    np.testing.assert_allclose(read(paths_of(maps)[0])[0], cube[..., good].mean(axis=-1), rtol=1e-6)


def test_a_scene_that_is_nowhere_on_earth_gives_maps_that_are_nowhere(tmp_path):
    cube = random_cube()
    nowhere = memory_scene(cube, Grid(90, 70, None, None))
    maps = make(nowhere, tmp_path)
    with pytest.warns(NotGeoreferencedWarning):
        np.testing.assert_array_equal(read(paths_of(maps)[1])[1], cube.mean(axis=-1))
    with pytest.raises(UsageError, match="needs a georeferenced scene"):
        make(nowhere, tmp_path / "utm", to_utm=True)


def test_one_file_for_two_maps_is_refused(tmp_path):
    with pytest.raises(UsageError, match="give a folder"):
        make(memory_scene(random_cube()), tmp_path / "one.tif")


def test_creation_options_are_honoured(tmp_path):
    options = parse_creation_options(["compress=ZSTD", "BLOCKSIZE=256"])
    maps = make(memory_scene(random_cube(300, 300, 2)), tmp_path, creation_options=options)
    with rasterio.open(paths_of(maps)[1]) as raster:
        assert raster.compression.name == "zstd"
        assert raster.block_shapes == [(256, 256)] * 2


@pytest.mark.parametrize("pair", ["COMPRESS", "COMPRESS=", "TILED=YES", "COMPRESS=NONSENSE"])
def test_creation_options_that_would_be_ignored_are_refused(pair):
    with pytest.raises(UsageError, match="--co"):
        parse_creation_options([pair])
