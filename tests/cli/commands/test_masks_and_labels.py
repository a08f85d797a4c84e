"""Masks and labels that do not fit, are damaged or say nothing: one line, and no map or model."""

from __future__ import annotations

import json

import geopandas
import numpy as np
import pytest
import rasterio
import shapely
from affine import Affine

from tests.cli.calls import refusal, run
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import UTM, UTM_TRANSFORM, WAVELENGTHS, wavelength_tags

ROWS, COLS = 64, 48
LOWER_HALF = np.repeat([0, 1], ROWS // 2)[:, None] * np.ones((1, COLS))


@pytest.fixture
def scene(tmp_path):
    image = fixtures.truth(ROWS, COLS, len(WAVELENGTHS)).astype(np.float32)
    return fixtures.raster(tmp_path / "town.tif", image, band_tags=wavelength_tags(WAVELENGTHS))


def write_raster(path, values, crs=UTM, transform=UTM_TRANSFORM):
    with rasterio.open(
        path, "w", driver="GTiff", width=COLS, height=ROWS, count=1, dtype=values.dtype, crs=crs,
        transform=transform,
    ) as target:  # fmt: skip
        target.write(values, 1)
    return path


def masked_run(scene, mask):
    return "brightness", scene, "--mask", mask, "-o", scene.parent / "out"


@pytest.mark.parametrize(
    ("crs", "transform"),
    [
        ("EPSG:4326", Affine(1e-5, 0, -70, 0, -1e-5, 10)),
        ("EPSG:32632", UTM_TRANSFORM),
        (UTM, UTM_TRANSFORM @ Affine.translation(1, 0)),
    ],
)
def test_a_mask_that_lies_elsewhere_is_refused(scene, tmp_path, crs, transform):
    mask = write_raster(tmp_path / "m.tif", LOWER_HALF.astype("u1"), crs, transform)
    said = refusal(2, *masked_run(scene, mask))
    assert "m.tif" in said and "elsewhere" in said and "scene's grid" in said
    assert not (tmp_path / "out").exists()


def test_a_mask_keeps_what_is_neither_zero_nor_nan(scene, tmp_path):
    values = LOWER_HALF.astype("f4")
    values[-8:] = np.nan
    mask = write_raster(tmp_path / "m.tif", values)
    assert run(*masked_run(scene, mask)).exit_code == 0
    with rasterio.open(tmp_path / "out" / "town_brightness.tif") as made:
        np.testing.assert_array_equal(made.read_masks(1) > 0, values == 1)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_a_mask_without_a_place_is_taken_pixel_by_pixel(scene, tmp_path):
    mask = write_raster(tmp_path / "m.tif", LOWER_HALF.astype("u1"), None, Affine.identity())
    assert run(*masked_run(scene, mask)).exit_code == 0


def in_metres_without_crs(path):
    """Polygons as GeoJSON, whose coordinates are read as degrees when no CRS is named."""
    square = shapely.box(500_030, 4_599_000, 500_600, 4_599_900)
    feature = {"type": "Feature", "properties": {"class": "a"}, "geometry": shapely.geometry.mapping(square)}
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    return path


def trained(scene, labels):
    return "train", scene, "--labels", labels, "-o", scene.parent / "m.p3vae", "--sun-zenith", 30


def test_coordinates_that_do_not_fit_their_crs_are_refused(scene, tmp_path):
    polygons = in_metres_without_crs(tmp_path / "p.geojson")
    for code, command in ((1, trained), (2, masked_run)):
        said = refusal(code, *command(scene, polygons))
        assert "p.geojson: coordinates do not fit its CRS" in said and "ogr2ogr" in said


def test_polygons_beyond_the_reach_of_the_scenes_crs_are_left_out(scene, tmp_path):
    here = shapely.box(500_000, 4_599_400, 500_300, 4_599_700)
    world = geopandas.GeoSeries([here], crs=UTM).to_crs(4326)
    far = geopandas.GeoSeries([shapely.box(-80, 0, -70, 10)], crs=4326)
    geopandas.GeoDataFrame(geometry=[*world, *far], crs=4326).to_file(tmp_path / "p.gpkg")
    assert run(*masked_run(scene, tmp_path / "p.gpkg")).exit_code == 0
    with rasterio.open(tmp_path / "out" / "town_brightness.tif") as made:
        assert (made.read_masks(1) > 0).sum() == 100


def truncated(path):
    write_raster(path, LOWER_HALF.astype("u1"))
    path.write_bytes(path.read_bytes()[:-1500])
    return path


def test_a_truncated_mask_or_label_raster_is_blamed_itself(scene, tmp_path):
    path = truncated(tmp_path / "cut.tif")
    for command in (masked_run, trained):
        said = refusal(1, *command(scene, path))
        assert "cut.tif: cannot be read" in said and "truncated" in said and "previous exception" not in said
    assert not list(tmp_path.glob("out/*")) and not (tmp_path / "m.p3vae").exists()


def test_a_mask_without_geometries_is_refused(scene, tmp_path):
    table, nowhere = tmp_path / "table.csv", tmp_path / "nowhere.gpkg"
    table.write_text("a,b\n1,2\n")
    geopandas.GeoDataFrame({"a": [1, 2]}, geometry=[None, shapely.Polygon()], crs=UTM).to_file(nowhere)
    assert "nowhere.gpkg: holds no geometries" in refusal(2, *masked_run(scene, nowhere))
    assert "table.csv: is neither a raster nor a known vector" in refusal(2, *masked_run(scene, table))


def test_an_absent_mask_is_named_whatever_its_option(scene, tmp_path):
    said = refusal(2, *masked_run(scene, tmp_path / "absent.tif"))
    assert "absent.tif: cannot be read: No such file" in said and "--mask" not in said


@pytest.mark.parametrize("values", [[np.nan, np.nan], [None, None], ["", "  "]])
def test_a_class_field_without_classes_is_told(scene, tmp_path, values):
    squares = [shapely.box(500_000 + x, 4_599_400, 500_100 + x, 4_599_700) for x in (0, 500)]
    geopandas.GeoDataFrame({"class": values}, geometry=squares, crs=UTM).to_file(tmp_path / "l.gpkg")
    assert "l.gpkg: the field 'class' is empty" in refusal(1, *trained(scene, tmp_path / "l.gpkg"))


def test_a_name_too_long_for_a_mask_or_labels_is_told(scene, tmp_path):
    for command, code in ((masked_run, 2), (trained, 1)):
        assert "File name too long" in refusal(code, *command(scene, tmp_path / ("a" * 300)))
