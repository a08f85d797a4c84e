"""Labels of every kind, as pixels of a scene, and the spectra drawn with them."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

import geopandas
import numpy as np
import pytest
import rasterio
from shapely.geometry import Point, Polygon, box

from p3vae.cli.errors import LabelError, UsageError
from p3vae.cli.labels import draw_samples, read_labels
from p3vae.cli.labels.patches import with_patches
from p3vae.cli.labels.quality import usable_bands
from p3vae.cli.scenes.masking import masked
from p3vae.cli.scenes.tiling import Window
from p3vae.cli.scenes.vectors import read_polygons
from p3vae.physics.spectral_response import adapt_bands
from tests.cli.fake_scene import map_grid, memory_scene, random_cube, swath_grid

GRID = map_grid(40, 50)


def pixel_box(col0, row0, col1, row1):
    """A rectangle between pixel corners, on the ground."""
    x0, y0 = GRID.transform @ (col0, row0)
    x1, y1 = GRID.transform @ (col1, row1)
    return box(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))


def write_vector(path, geometries, classes, crs=GRID.crs, **fields):
    frame = geopandas.GeoDataFrame({"class": classes, **fields}, geometry=geometries, crs=crs.to_wkt())
    frame.to_file(path)
    return path


def test_only_pixels_wholly_inside_a_polygon_are_taken(tmp_path):
    path = write_vector(
        tmp_path / "l.gpkg", [pixel_box(3.4, 5.4, 8.6, 9.6), pixel_box(20, 20, 22, 22)], ["b", "a"]
    )
    labels = read_labels(path, GRID)
    first = labels.class_id == 2
    assert set(zip(labels.row[first], labels.col[first], strict=True)) == {
        (row, col) for row in range(6, 9) for col in range(4, 8)
    }
    assert [(c.id, c.name) for c in labels.classes] == [(1, "a"), (2, "b")]
    assert len(np.unique(labels.group)) == 2


def test_a_tiny_polygon_gives_its_mostly_covered_pixel_and_a_note(tmp_path):
    path = write_vector(
        tmp_path / "l.gpkg", [pixel_box(3.0, 5.0, 3.8, 5.8), pixel_box(9, 9, 12, 12)], ["a", "b"]
    )
    labels = read_labels(path, GRID)
    assert (5, 3) in zip(labels.row, labels.col, strict=True)
    assert any("no pure pixel" in note for note in labels.notes)


def test_names_for_raster_values_are_not_ignored_beside_polygons(tmp_path):
    path = write_vector(tmp_path / "l.gpkg", [pixel_box(3, 5, 8, 9), pixel_box(20, 20, 22, 22)], ["b", "a"])
    with pytest.raises(UsageError, match="--class-names"):
        read_labels(path, GRID, class_names=("x", "y"))


def test_labels_in_another_crs_fall_on_the_same_pixels(tmp_path):
    square = pixel_box(10, 10, 20, 20)
    here = write_vector(tmp_path / "here.gpkg", [square, pixel_box(1, 1, 5, 5)], ["a", "b"])
    there = tmp_path / "there.geojson"
    geopandas.read_file(here).to_crs(4326).to_file(there)
    one, other = read_labels(here, GRID), read_labels(there, GRID)
    lost = set(zip(one.row, one.col, strict=True)) ^ set(zip(other.row, other.col, strict=True))
    assert len(one.row) == 116
    assert len(lost) < 30  # a side that is no longer straight may cost its outermost pixels, none farther in
    assert all(r in (1, 4, 10, 19) or c in (1, 4, 10, 19) for r, c in lost)


def test_overlapping_classes_are_left_out(tmp_path):
    path = write_vector(tmp_path / "l.gpkg", [pixel_box(0, 0, 10, 10), pixel_box(5, 0, 15, 10)], ["a", "b"])
    labels = read_labels(path, GRID)
    assert not ((labels.col >= 5) & (labels.col < 10)).any()
    assert any("50 pixels claimed by two classes" in note for note in labels.notes)


def test_points_take_the_pixel_they_lie_in_and_colours_are_kept(tmp_path):
    x, y = GRID.transform @ (7.3, 4.9)
    path = write_vector(
        tmp_path / "l.gpkg", [Point(x, y), pixel_box(0, 0, 2, 2)], ["a", "b"], color=["#AA0001", "red"]
    )
    labels = read_labels(path, GRID)
    assert [tuple(p) for p in np.c_[labels.row, labels.col][labels.class_id == 1]] == [(4, 7)]
    assert [c.colour for c in labels.classes] == ["#aa0001", None]


def test_polygons_fall_on_a_swath_where_its_control_points_say(tmp_path):
    grid = swath_grid(40, 50)

    def ground(col, row):  # the closed form behind the fixture's control points, for pixel corners
        return 4.0 + 3e-4 * (col - 0.5) + 5e-5 * (row - 0.5), 43.0 - 3e-4 * (row - 0.5)

    ring = Polygon([ground(9.9, 4.9), ground(14.1, 4.9), ground(14.1, 8.1), ground(9.9, 8.1)])
    far = Polygon([ground(29.9, 29.9), ground(33.1, 29.9), ground(33.1, 33.1), ground(29.9, 33.1)])
    labels = read_labels(write_vector(tmp_path / "l.gpkg", [ring, far], ["a", "b"], crs=grid.crs), grid)
    first = labels.class_id == 1
    assert set(zip(labels.row[first], labels.col[first], strict=True)) == {
        (row, col) for row in range(5, 8) for col in range(10, 14)
    }


def write_raster(path, values, nodata=None, transform=GRID.transform):
    with rasterio.open(
        path, "w", driver="GTiff", height=values.shape[0], width=values.shape[1], count=1, dtype=values.dtype,
        crs=GRID.crs, transform=transform, nodata=nodata,
    ) as target:  # fmt: skip
        target.write(values, 1)
    return path


def test_raster_labels_keep_their_ids_and_names_come_from_categories(tmp_path):
    values = np.zeros((40, 50), np.uint8)
    values[2:5, 2:5], values[2:5, 20:25], values[30:, 30:] = 3, 3, 7
    values[0, 0] = 9
    path = write_raster(tmp_path / "l.tif", values, nodata=9)
    names = "".join(f"<Category>{n}</Category>" for n in ["", "", "", "roof", "", "", "", "lawn"])
    (tmp_path / "l.tif.aux.xml").write_text(
        '<PAMDataset><PAMRasterBand band="1"><CategoryNames>'
        f"{names}</CategoryNames></PAMRasterBand></PAMDataset>"
    )
    labels = read_labels(path, GRID)
    assert [(c.id, c.name) for c in labels.classes] == [(3, "roof"), (7, "lawn")]
    assert len(labels.row) == 9 + 15 + 200
    assert len(np.unique(labels.group)) == 3  # two patches of roof, one of lawn
    assert [c.name for c in read_labels(path, GRID, class_names=("x", "y")).classes] == ["x", "y"]
    with pytest.raises(UsageError, match="--class-field"):
        read_labels(path, GRID, class_field="kind")


def test_raster_labels_on_another_grid_are_brought_to_the_scene(tmp_path):
    coarse = np.zeros((20, 25), np.uint8)
    coarse[2:4, 3:5], coarse[10:, 10:] = 1, 2
    transform = GRID.transform @ GRID.transform.scale(2, 2)
    labels = read_labels(write_raster(tmp_path / "l.tif", coarse, transform=transform), GRID)
    first = labels.class_id == 1
    assert (labels.row[first].min(), labels.row[first].max()) == (4, 7)
    assert (labels.col[first].min(), labels.col[first].max()) == (6, 9)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda p: p / "nothing.gpkg", "No such file"),
        (
            lambda p: (p / "text.gpkg").write_text("hello") and p / "text.gpkg",
            "is neither a raster nor a known vector format",
        ),
        (lambda p: write_vector(p / "far.gpkg", [pixel_box(900, 900, 950, 950)], ["a"]), "no label falls"),
        (lambda p: write_raster(p / "zero.tif", np.zeros((40, 50), np.uint8)), "no labelled pixel"),
        (lambda p: write_raster(p / "half.tif", np.full((40, 50), 1.5, np.float32)), "whole numbers"),
        (lambda p: write_raster(p / "big.tif", np.full((40, 50), 300, np.uint16)), "class ids go from 300"),
    ],
)
def test_bad_labels_are_refused_by_name(tmp_path, make, problem):
    path = make(tmp_path)
    with pytest.raises(LabelError, match=problem) as caught:
        read_labels(path, GRID)
    assert str(path) in str(caught.value)


def test_a_missing_field_lists_those_there_are(tmp_path):
    path = write_vector(tmp_path / "l.gpkg", [pixel_box(0, 0, 5, 5)], ["a"], cover=["lawn"])
    with pytest.raises(LabelError, match=r"no field 'kind'.*class, cover"):
        read_labels(path, GRID, class_field="kind")


def test_draws_are_balanced_over_polygons_seeded_and_true_to_the_cube(tmp_path):
    cube = random_cube(40, 50, 5, holes=False)
    cube[0, 0] = np.nan
    scene = memory_scene(cube)
    geometries = [pixel_box(0, 0, 20, 20), pixel_box(30, 30, 33, 33), pixel_box(40, 0, 45, 5)]
    labels = read_labels(write_vector(tmp_path / "l.gpkg", geometries, ["a", "a", "b"]), scene.grid)
    samples = draw_samples(scene, labels, per_class=20, unlabelled=300, seed=3)
    pixels = samples.pixels
    np.testing.assert_array_equal(samples.spectra, cube[pixels.row, pixels.col])
    per_group = np.bincount(pixels.group[pixels.class_id == 1])
    assert per_group[1] == 9  # the small polygon gives all it has
    assert (pixels.class_id == 1).sum() in (19, 20)  # one drawn pixel may be the invalid one
    assert not ((pixels.row == 0) & (pixels.col == 0)).any()
    assert 200 < len(samples.unlabelled) < 400
    again = draw_samples(scene, labels, per_class=20, unlabelled=300, seed=3)
    np.testing.assert_array_equal(again.spectra, samples.spectra)
    np.testing.assert_array_equal(again.unlabelled, samples.unlabelled)


def test_patches_of_nodata_are_not_read(tmp_path):
    cube = np.full((100, 100, 3), np.nan, np.float32)
    cube[70:, :40] = np.random.default_rng(0).uniform(0.1, 0.4, (30, 40, 3))
    scene = memory_scene(cube)
    pixels = read_labels(
        write_vector(tmp_path / "l.gpkg", [pixel_box(2, 72, 6, 76), pixel_box(34, 72, 38, 76)], ["a", "b"]),
        scene.grid,
    )
    drawn = draw_samples(scene, pixels, per_class=10, unlabelled=0, seed=0)
    adapter = adapt_bands(scene.bands, scene.bands)
    samples = with_patches(scene, drawn, adapter, unlabelled=100_000, scenes=1, seed=0)
    assert len(samples.patches.images) == 4
    np.testing.assert_array_equal(samples.patches.images[tuple(samples.patches.place.T)], samples.spectra)


def test_noise_and_water_vapour_bands_are_left_out(tmp_path):
    rng = np.random.default_rng(0)
    cube = np.repeat(rng.random((40, 50, 1), np.float32), 30, axis=2)
    cube += 0.01 * rng.random(cube.shape, np.float32)
    cube[..., 4] = rng.random((40, 50))
    scene = memory_scene(cube)
    labels = read_labels(write_vector(tmp_path / "l.gpkg", [pixel_box(0, 0, 9, 9)], ["a"]), scene.grid)
    kept = usable_bands(scene.bands, draw_samples(scene, labels)).wavelength_nm
    assert scene.bands.wavelength_nm[4] not in kept
    assert not ((kept > 1340) & (kept < 1450)).any()
    assert len(kept) >= 20


def test_masks_by_raster_and_by_polygon_agree(tmp_path):
    scene = memory_scene(random_cube(40, 50, 5, holes=False))
    values = np.zeros((40, 50), np.uint8)
    values[10:20, 5:25] = 1
    by_raster = masked(scene, write_raster(tmp_path / "m.tif", values))
    by_polygon = masked(scene, write_vector(tmp_path / "m.gpkg", [pixel_box(5, 10, 25, 20)], ["a"]))
    window = Window(8, 3, 20, 30)
    expected = values[window.slices] == 1
    np.testing.assert_array_equal(by_raster.read(window).valid, expected)
    np.testing.assert_array_equal(by_polygon.read(window).valid, expected)


def test_geometries_whose_class_is_an_empty_text_are_unlabelled(tmp_path):
    boxes = [pixel_box(0, 0, 4, 4), pixel_box(6, 6, 9, 9)]
    labels = read_labels(write_vector(tmp_path / "l.gpkg", boxes, ["a", " "]), GRID)
    assert [entry.name for entry in labels.classes] == ["a"]
    assert labels.row.max() < 4


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_lowest_number_of_a_float_raster_may_be_its_nodata(tmp_path, dtype):
    lowest = float(np.finfo(dtype).min)
    values = np.full((40, 50), lowest, dtype)
    values[2:5, 2:5], values[30:, 30:], values[0, 0] = 3, 7, np.nan
    labels = read_labels(write_raster(tmp_path / "l.tif", values, nodata=lowest), GRID)
    assert [c.id for c in labels.classes] == [3, 7]
    assert len(labels.row) == 9 + 200


def test_complex_or_broken_numbers_are_no_classes(tmp_path):
    for values in (np.ones((40, 50), np.complex64), np.full((40, 50), 1.5, np.float32)):
        with pytest.raises(LabelError, match="whole numbers"):
            read_labels(write_raster(tmp_path / "l.tif", values), GRID)


def test_styles_that_qgis_kept_in_the_geopackage_are_no_labels(tmp_path, capfd) -> None:
    path = tmp_path / "points.gpkg"
    shutil.copy("sample_data/town_labels.gpkg", path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE layer_styles (id INTEGER PRIMARY KEY, styleName TEXT)")
        entry = "INSERT INTO gpkg_contents (table_name, data_type) VALUES ('layer_styles', 'attributes')"
        database.execute(entry)
    assert len(read_polygons(path, LabelError)) > 50
    assert "warning" not in capfd.readouterr().err
