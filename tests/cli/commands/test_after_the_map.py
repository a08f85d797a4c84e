"""`p3vae stats`, `change`, `smooth` and `polygons` on maps written by hand."""

from __future__ import annotations

import json
from pathlib import Path

import geopandas
import numpy as np
import pytest
import rasterio
import shapely
from scipy import stats as scipy_stats

from tests.cli.calls import refusal, run
from tests.cli.commands.test_assess import PLACE, UTM, write_raster

NAMES = {1: "tile", 2: "soil", 3: "grass", 255: "unknown"}


@pytest.fixture
def maps(tmp_path):
    rng = np.random.default_rng(0)
    first = rng.integers(1, 4, (30, 40), dtype=np.uint8)
    second = np.where(rng.random(first.shape) < 0.1, first % 3 + 1, first).astype(np.uint8)
    first[:2], second[2:4] = 0, 255
    write_raster(tmp_path / "a_landcover.tif", first, NAMES, nodata=0)
    write_raster(tmp_path / "b_landcover.tif", second, NAMES, nodata=0)
    return tmp_path, first, second


def zones(path, *boxes, crs=UTM):
    """Rectangles of whole pixels, (left, top, right, bottom) each."""
    corners = [(*(PLACE @ (left, bottom)), *(PLACE @ (right, top))) for left, top, right, bottom in boxes]
    shapes = [shapely.box(*corner) for corner in corners]
    frame = geopandas.GeoDataFrame(
        {"name": [f"zone {k}" for k in range(len(boxes))]}, geometry=shapes, crs=UTM
    )
    frame.to_crs(crs).to_file(path, driver="GPKG")
    return path


def test_classes_in_zones_that_overlap(maps) -> None:
    folder, first, _ = maps
    parcels = zones(folder / "parcels.gpkg", (0, 5, 10, 15), (5, 5, 20, 25), (900, 900, 910, 910))
    call = ("stats", folder / "a_landcover.tif", "--zones", parcels, "--zone-field", "name")
    rows = json.loads(run(*call, "--json").stdout)
    assert [row["zone"] for row in rows] == ["zone 0", "zone 1", "zone 2"]
    inside = first[5:25, 5:20]
    assert rows[1]["pixels"] == inside.size and rows[2]["pixels"] == 0
    assert rows[1]["tile"] == pytest.approx((inside == 1).sum() * 0.09)
    shown = run(*call, "--csv", folder / "z.csv").stdout
    assert "grass" in shown and max(map(len, shown.splitlines())) <= 80
    assert (folder / "z.csv").read_text().startswith("zone,pixels,hectares,tile,soil,grass")


def test_a_quantity_in_zones_of_another_crs(maps) -> None:
    folder, first, _ = maps
    write_raster(folder / "light.tif", first.astype(np.float32), nodata=0)
    parcels = zones(folder / "parcels.gpkg", (4, 6, 30, 28), crs="EPSG:3857")
    row = json.loads(run("stats", folder / "light.tif", "--zones", parcels, "--json").stdout)[0]
    inside = first[6:28, 4:30]
    assert (row["pixels"], row["mean"]) == (inside.size, pytest.approx(inside.mean()))
    assert row["std"] == pytest.approx(inside.std())
    far = zones(folder / "far.gpkg", (900, 900, 910, 910))
    assert "no zone falls on the map" in refusal(1, "stats", folder / "light.tif", "--zones", far)
    call = ("stats", folder / "light.tif", "--zones", parcels, "--zone-field", "owner")
    assert "--zone-field may be: name" in refusal(1, *call)
    assert "cannot be read" in refusal(1, "stats", folder / "light.tif", "--zones", folder / "none.gpkg")


def test_changes_with_their_confidence(maps) -> None:
    folder, first, second = maps
    for name, value in (("a", 0.8), ("b", 0.5)):
        confidence = np.full(first.shape, value, np.float32)
        write_raster(folder / f"{name}_confidence.tif", confidence, nodata=np.nan)
    pair = (folder / "a_landcover.tif", folder / "b_landcover.tif")
    found = json.loads(run("change", *pair, "-o", folder / "change.tif", "--json").stdout)
    assert found["pixels"] == 26 * 40
    assert found["changed"] == (first != second)[4:].sum()
    pixels = {(t["before"], t["after"]): t["pixels"] for t in found["transitions"]}
    assert pixels["tile", "soil"] == ((first == 1) & (second == 2))[4:].sum()
    assert found["transitions"][0]["confidence"] == pytest.approx(0.4)
    assert found["transitions"][0]["hectares"] == pytest.approx(0.09 * found["transitions"][0]["pixels"])
    with rasterio.open(folder / "change.tif") as source:
        values = source.read(1)
    assert (values == 0).sum() == 4 * 40 and (values > 1).sum() == found["changed"]
    assert "→" in (folder / "change.tif.aux.xml").read_text()
    with rasterio.open(folder / "change_confidence.tif") as source:
        assert source.read(1)[10, 10] == pytest.approx(0.4)
    shifted = write_raster(
        folder / "c.tif", first, NAMES, nodata=0, transform=PLACE.translation(30, 0) @ PLACE
    )
    assert "is not on the grid" in refusal(2, "change", pair[0], shifted)


def test_smoothing_is_the_majority_of_the_neighbours(maps) -> None:
    folder, first, _ = maps
    made = folder / "smooth.tif"
    assert run("smooth", folder / "a_landcover.tif", "-o", made).exit_code == 0
    with rasterio.open(made) as source:
        smooth = source.read(1)
    assert (smooth[:2] == 0).all()
    for row, col in ((10, 10), (2, 5), (29, 39), (15, 0)):
        around = first[max(row - 1, 0) : row + 2, max(col - 1, 0) : col + 2]
        counts = np.bincount(around[around > 0], minlength=4)
        own = first[row, col]
        expected = own if counts[own] == counts.max() else None
        if expected is None and (counts == counts.max()).sum() == 1:
            expected = scipy_stats.mode(around[around > 0]).mode
        assert expected is None or smooth[row, col] == expected
    assert "exists already" in refusal(1, "smooth", folder / "a_landcover.tif", "-o", made)


def test_polygons_cover_the_map_with_its_areas(maps) -> None:
    folder, _, second = maps
    made = folder / "map.gpkg"
    assert run("polygons", folder / "b_landcover.tif", "-o", made).exit_code == 0
    frame = geopandas.read_file(made)
    assert frame.geometry.area.sum() == pytest.approx(second.size * 900)
    assert frame["hectares"].to_numpy() == pytest.approx(frame.geometry.area.to_numpy() / 1e4)
    soil = frame[frame["class"] == "soil"]
    assert soil["pixels"].sum() == (second == 2).sum() and set(soil["value"]) == {2}


def test_files_of_another_kind_are_refused(tmp_path) -> None:
    cube = Path("sample_data/town.tif")
    for command in (("polygons", cube, "-o", tmp_path / "a.gpkg"), ("stats", cube, "--zones", cube)):
        assert "has 80 bands, and a map has one" in refusal(2, *command)
    assert "has 80 bands" in refusal(2, "assess", cube, "--reference", "sample_data/town_class.tif")
    points = geopandas.GeoDataFrame({"a": [1]}, geometry=shapely.points([[373010, 4829990]]), crs=UTM)
    points.to_file(tmp_path / "points.gpkg")
    call = ("stats", "sample_data/town_class.tif", "--zones", tmp_path / "points.gpkg")
    assert "holds points or lines, no polygons" in refusal(1, *call)


def test_a_device_that_does_not_exist_and_the_shipped_model(tmp_path) -> None:
    said = refusal(2, "classify", "sample_data/town.tif", "-m", "town", "--device", "gpu", "-o", tmp_path)
    assert "--device gpu is unknown (auto, cpu, cuda, cuda:N or mps)" in said
    done = run("classify", "sample_data/town.tif", "-o", tmp_path, "--bbox", "373000,4829980,373030,4830000")
    assert done.exit_code == 0 and "the shipped one, earth, maps broad classes" in done.stderr
