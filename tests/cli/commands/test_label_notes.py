"""What `p3vae train` says about labels that it takes only in part, or not at all: one line each."""

from __future__ import annotations

import geopandas
import numpy as np
import pytest
import rasterio
import shapely

from p3vae.models.landcover.model import load_model
from tests.cli.calls import refusal, run
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import UTM, UTM_TRANSFORM, WAVELENGTHS, wavelength_tags

ROWS, COLS = 40, 60
NODATA, BLACK = slice(0, 10), slice(10, 20)
"""Columns of the scene that hold NaN, and those that hold zeros."""


def write_scene(path, columns_east=0):
    image = np.random.default_rng(0).uniform(0.1, 0.4, (ROWS, COLS, 1)) * np.linspace(1, 2, len(WAVELENGTHS))
    image[:, NODATA], image[:, BLACK] = np.nan, 0.0
    transform = UTM_TRANSFORM @ UTM_TRANSFORM.translation(columns_east, 0)
    return fixtures.raster(
        path, image.astype(np.float32), band_tags=wavelength_tags(WAVELENGTHS), transform=transform
    )


@pytest.fixture
def scene(tmp_path):
    return write_scene(tmp_path / "town.tif")


def square(col, row, size=8):
    """Between pixel corners, on the ground."""
    (west, north), (east, south) = (
        UTM_TRANSFORM @ corner for corner in ((col, row), (col + size, row + size))
    )
    return shapely.box(west, south, east, north)


USUAL = [("lawn", square(22, 2)), ("lawn", square(32, 2)), ("roof", square(22, 22)), ("roof", square(32, 22))]
"""Two classes that can be learned."""


def write_polygons(path, *labels):
    classes, squares = zip(*labels, strict=True)
    geopandas.GeoDataFrame({"class": classes}, geometry=list(squares), crs=UTM).to_file(path)
    return path


def write_raster(path, *layers):
    with rasterio.open(
        path, "w", driver="GTiff", width=COLS, height=ROWS, count=len(layers), dtype=layers[0].dtype, crs=UTM,
        transform=UTM_TRANSFORM,
    ) as target:  # fmt: skip
        target.write(np.stack(layers))
    return path


def call(labels, *scenes):
    model = labels.with_name("m.p3vae")
    return ("train", *scenes, "--labels", labels, "-o", model, "--model", "random-forest", "--sun-zenith", 30)


def notes(labels, *scenes):
    """What a training that succeeds says beside its results, and the classes of its model."""
    done = run(*call(labels, *scenes))
    assert done.exit_code == 0, done.output
    return done.stderr.splitlines(), load_model(labels.with_name("m.p3vae")).legend.names


def test_labels_without_fault_need_no_note(scene, tmp_path):
    assert notes(write_polygons(tmp_path / "l.gpkg", *USUAL), scene) == ([], ("lawn", "roof"))


def test_polygons_without_a_class_are_counted(scene, tmp_path):
    labels = write_polygons(tmp_path / "l.gpkg", *USUAL, (None, square(45, 2)), (" ", square(45, 22)))
    assert notes(labels, scene)[0] == [f"{labels}: 2 label geometries without a class were left out"]


def test_numbers_as_classes_keep_their_names_beside_a_missing_one(scene, tmp_path):
    numbers = {"lawn": 1, "roof": 2}
    named = [(numbers[name], place) for name, place in USUAL]
    labels = write_polygons(tmp_path / "l.gpkg", *named, (np.nan, square(45, 2)))
    assert notes(labels, scene)[1] == ("1", "2")


def test_names_that_differ_in_case_are_pointed_out_and_stay_apart(scene, tmp_path):
    labels = write_polygons(tmp_path / "l.gpkg", *USUAL, ("Lawn", square(45, 2)), (" roof ", square(45, 22)))
    said, classes = notes(labels, scene)
    assert said == [
        f"{labels}: 'Lawn' and 'lawn' differ at most in case or spaces, and stay separate classes"
    ]
    assert classes == ("Lawn", "lawn", "roof")


def test_names_of_raster_values_may_be_alike_too(scene, tmp_path):
    values = np.zeros((ROWS, COLS), np.uint8)
    values[:9, 22:], values[12:19, 22:], values[25:, 22:] = 3, 5, 7
    labels = write_raster(tmp_path / "l.tif", values)
    done = run(*call(labels, scene), "--class-names", "Tree,roof,tree")
    assert done.exit_code == 0, done.output
    assert "l.tif: 'Tree' and 'tree' differ at most in case" in done.stderr


def test_what_is_wrong_with_the_whole_file_is_said_once_for_two_scenes(scene, tmp_path):
    labels = write_polygons(tmp_path / "l.gpkg", *USUAL, (None, square(45, 2)))
    said, _ = notes(labels, scene, write_scene(tmp_path / "copy.tif"))
    assert len(said) == 1 and "1 label geometries without a class" in said[0]


def test_a_label_raster_with_several_bands_is_refused(scene, tmp_path):
    layer = np.ones((ROWS, COLS), np.uint8)
    said = refusal(1, *call(write_raster(tmp_path / "rgb.tif", layer, layer, layer), scene))
    assert "rgb.tif: has 3 bands" in said and "gdal_translate -b" in said


def test_measurements_are_no_classes(scene, tmp_path):
    elevation = np.arange(ROWS * COLS, dtype=np.int16).reshape(ROWS, COLS)
    said = refusal(1, *call(write_raster(tmp_path / "dem.tif", elevation), scene))
    assert "dem.tif: its 2399 different values look like measurements" in said and "1 to 255" in said


def test_an_image_of_bytes_is_taken_for_measurements_but_tried(scene, tmp_path):
    labels = write_raster(
        tmp_path / "grey.tif", np.repeat(np.arange(60, 180, dtype="u1"), 20).reshape(ROWS, -1)
    )
    said = run(*call(labels, scene), "--samples-per-class", 2, "--unlabelled", 10).stderr.splitlines()
    assert said[0] == f"{labels}: its 120 different values look like measurements, not classes"


def test_an_undeclared_nodata_of_floats_is_named(scene, tmp_path):
    values = np.full((ROWS, COLS), np.finfo(np.float32).min)
    values[:9, 22:], values[25:, 22:] = 3, 7
    said = refusal(1, *call(write_raster(tmp_path / "l.tif", values), scene))
    assert "l.tif: class ids go from -3.40282e+38 to 7" in said


def test_numbers_of_polygons_are_taken_for_the_wrong_field_but_tried(scene, tmp_path):
    many = [(str(n), square(22 + n % 30, n // 30, 1)) for n in range(110)]
    labels = write_polygons(tmp_path / "l.gpkg", *many)
    said = run(*call(labels, scene)).stderr.splitlines()
    assert said[0] == f"{labels}: 110 classes in the field 'class': is it the right one?"


LOST = {
    "all lie outside the scene or cover no pixel": [("pond", square(500, 2))],
    "all are claimed by another class too": [("pond", square(46, 4, 3)), ("lawn", square(45, 3))],
    "all that were drawn are nodata in the scene": [("pond", square(1, 2))],
    "all that were drawn are black in the scene": [("pond", square(11, 2))],
}


@pytest.mark.parametrize("reason", LOST)
def test_a_class_that_lost_all_its_pixels_is_named(scene, tmp_path, reason):
    labels = write_polygons(tmp_path / "l.gpkg", *USUAL, *LOST[reason])
    said, classes = notes(labels, scene)
    about_pond = [line for line in said if "pond" in line]
    assert about_pond == [f"{labels}: no usable pixel of pond: {reason}; the model is trained without"]
    assert classes == ("lawn", "roof")


@pytest.mark.parametrize("reason", LOST)
def test_where_one_class_is_left_the_lost_one_is_named_by_the_error(scene, tmp_path, reason):
    labels = write_polygons(tmp_path / "l.gpkg", *USUAL[:2], *LOST[reason])
    done = run(*call(labels, scene))
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == (
        f"Error: {labels}: 1 class has labelled pixels in the scene; no usable pixel of pond: {reason} "
        "(at least two are needed)"
    )


def test_a_class_that_another_scene_shows_is_not_lost(scene, tmp_path):
    east = write_scene(tmp_path / "east.tif", columns_east=COLS)
    labels = write_polygons(tmp_path / "l.gpkg", *USUAL, ("pond", square(COLS + 30, 2)))
    said, classes = notes(labels, scene, east)
    assert classes == ("lawn", "pond", "roof")
    assert not any("pond" in line for line in said)
