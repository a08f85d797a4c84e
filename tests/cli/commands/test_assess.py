"""`p3vae assess` and `p3vae sample` on maps whose truth is known."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import geopandas
import numpy as np
import pytest
import rasterio
import shapely
from affine import Affine

from p3vae.models.metrics import reliability
from tests.cli.calls import refusal, run

PLACE = Affine(30.0, 0.0, 500_000.0, 0.0, -30.0, 4_800_000.0)
UTM = "EPSG:32631"
LEGEND = {1: "tile", 2: "soil", 3: "grass"}


def write_raster(path: Path, values, names=None, *, nodata=None, crs=UTM, transform=PLACE, tags=None) -> Path:
    """A raster, with category names where `names` gives them by value."""
    profile = {"driver": "GTiff", "width": values.shape[1], "height": values.shape[0], "count": 1}
    with rasterio.open(
        path,
        "w",
        **profile,
        dtype=values.dtype,
        nodata=nodata,
        crs=crs,
        transform=transform,
        compress="deflate",
    ) as made:
        made.write(values, 1)
        made.update_tags(**(tags or {}))
    if names:
        listed = "".join(f"<Category>{names.get(n, '')}</Category>" for n in range(max(names) + 1))
        band = f"<PAMRasterBand band='1'><CategoryNames>{listed}</CategoryNames></PAMRasterBand>"
        text = f"<PAMDataset>{band}</PAMDataset>"
        path.with_name(path.name + ".aux.xml").write_text(text)
    return path


def write_points(path: Path, rows, cols, classes, crs=UTM, field="class") -> Path:
    x, y = PLACE @ (np.asarray(cols) + 0.5, np.asarray(rows) + 0.5)
    frame = geopandas.GeoDataFrame({field: classes}, geometry=shapely.points(x, y), crs=UTM)
    frame.to_crs(crs).to_file(path, driver="GPKG")
    return path


def assessed(*arguments):
    done = run("assess", *arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


NAMES = ("deforestation", "forest gain", "stable forest", "stable non-forest")
COUNTS = np.array([[66, 0, 5, 4], [0, 55, 8, 12], [1, 0, 153, 11], [2, 1, 9, 313]])
PIXELS = (200_000, 150_000, 3_200_000, 6_450_000)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The worked example of Olofsson et al. (2014), section 5: a map of ten million pixels and 640 points."""
    folder = tmp_path_factory.mktemp("olofsson")
    values = np.repeat(np.arange(1, 5, dtype=np.uint8), PIXELS).reshape(2500, 4000)
    write_raster(folder / "map.tif", values, dict(enumerate(NAMES, start=1)), nodata=0)
    starts = np.concatenate([[0], np.cumsum(PIXELS)])[:4]
    places, classes = [], []
    for stratum, row in enumerate(COUNTS):
        drawn = starts[stratum] + 97 * np.arange(row.sum())
        places += drawn.tolist()
        classes += [NAMES[k] for k, n in enumerate(row) for _ in range(n)]
    rows, cols = np.divmod(places, 4000)
    write_points(folder / "points.gpkg", rows, cols, classes)
    return folder


def test_the_published_example_to_its_printed_digits(published) -> None:
    found = assessed(published / "map.tif", "--reference", published / "points.gpkg")
    assert found["samples"] == 640 and found["error_matrix"] == COUNTS.tolist()
    overall = found["overall"]
    assert (round(overall["area_adjusted"], 2), round(overall["area_adjusted_ci95"], 2)) == (0.95, 0.02)
    classes = found["classes"]
    hectares = [(round(line["adjusted_ha"]), round(line["adjusted_ha_ci95"])) for line in classes]
    assert hectares == [(21158, 6158), (11686, 3756), (285770, 15510), (581386, 16282)]
    users = [(round(c["users_accuracy"], 2), round(c["users_accuracy_ci95"], 2)) for c in classes]
    assert users == [(0.88, 0.07), (0.73, 0.10), (0.93, 0.04), (0.96, 0.02)]
    producers = [c["adjusted_producers_accuracy"] for c in classes]
    assert [round(value, 2) for value in producers] == [0.75, 0.85, 0.93, 0.96]
    # The paper prints .21, .23, .03, .01. Its equation 7 gives .25 and .02 for the second and fourth, as do
    # others: these are the half-widths of the R package mapaccuracy, which takes 1.95996.
    widths = [c["adjusted_producers_accuracy_ci95"] for c in classes]
    shown = run("assess", published / "map.tif", "--reference", published / "points.gpkg").stdout
    assert "21,158 ± 6,158" in shown and max(map(len, shown.splitlines())) <= 80
    assert widths == pytest.approx([0.21330593, 0.25440369, 0.03432379, 0.01836120], rel=5e-5)


def test_the_page_shows_the_adjusted_numbers_of_the_published_example(published, tmp_path) -> None:
    call = ("assess", published / "map.tif", "--reference", published / "points.gpkg")
    assert run(*call, "--html", tmp_path / "a.html").exit_code == 0
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in rows]
    named = {name: row for row in cells for name in NAMES if row and row[0].endswith(name) and len(row) == 6}
    users, producers = (0.88, 0.73, 0.93, 0.96), (0.75, 0.85, 0.93, 0.96)
    hectares = (21158, 11686, 285770, 581386)
    for name, user, producer, area, mapped in zip(NAMES, users, producers, hectares, PIXELS, strict=True):
        row = named[name]
        assert float(row[1].split(" (")[0]) == pytest.approx(user, abs=0.006) and "(" in row[1]
        assert float(row[2].split(" (")[0]) == pytest.approx(producer, abs=0.006) and "(" in row[2]
        assert float(row[4].replace(",", "")) == pytest.approx(mapped * 0.09)
        assert float(row[5].split(" (")[0].replace(",", "")) == pytest.approx(area, abs=0.6)


@pytest.fixture
def small(tmp_path):
    """A map with nodata and unknown pixels, and its truth."""
    rng = np.random.default_rng(1)
    truth = rng.integers(1, 4, (40, 50), dtype=np.uint8)
    wrong = rng.random(truth.shape) < 0.2
    values = np.where(wrong, truth % 3 + 1, truth).astype(np.uint8)
    values[:5], values[5:10] = 0, 255
    write_raster(tmp_path / "a_landcover.tif", values, LEGEND | {255: "unknown"}, nodata=0)
    return tmp_path, values, truth


def test_nodata_and_unknown_are_no_stratum(small) -> None:
    folder, values, truth = small
    reference = write_raster(folder / "truth.tif", truth, {1: "tile", 2: "soil", 3: "grass"}, nodata=0)
    found = assessed(folder / "a_landcover.tif", "--reference", reference)
    assert [line["class"] for line in found["classes"]] == ["tile", "soil", "grass"]
    assert found["samples"] == 30 * 50 == sum(line["mapped_pixels"] for line in found["classes"])
    right = (values == truth)[10:].mean()
    # Every pixel is a sample: the adjusted figures are the plain ones, the areas those of the truth.
    assert found["overall"]["accuracy"] == pytest.approx(right) == found["overall"]["area_adjusted"]
    hectares = [(truth[10:] == k).sum() * 0.09 for k in (1, 2, 3)]
    assert [line["adjusted_ha"] for line in found["classes"]] == pytest.approx(hectares)
    assert any("500 samples lie on nodata or unknown" in note for note in found["notes"])


def test_points_in_another_crs_and_values_without_names(small) -> None:
    folder, values, truth = small
    rows, cols = np.mgrid[10:40:3, 0:50:7].reshape(2, -1)
    names = np.array(["", "Tile", "SOIL", " grass"])[truth[rows, cols]]
    points = write_points(folder / "points.gpkg", rows, cols, names, crs="EPSG:4326", field="seen")
    found = assessed(folder / "a_landcover.tif", "--reference", points, "--class-field", "seen")
    assert found["overall"]["accuracy"] == pytest.approx((values == truth)[rows, cols].mean())
    nameless = write_raster(folder / "truth.tif", truth, nodata=0)
    by_number = assessed(folder / "a_landcover.tif", "--reference", nameless, "--class-map", "values")
    assert by_number["samples"] == 1500
    said = refusal(1, "assess", folder / "a_landcover.tif", "--reference", nameless)
    assert (
        "class 1, class 2, class 3 are not in the map, which has 1 " in said and "--class-map values" in said
    )
    table = folder / "names.csv"
    table.write_text("reference,map\n1,Tile\n2,soil\n3,grass\n")
    named = assessed(folder / "a_landcover.tif", "--reference", nameless, "--class-map", table)
    assert named["overall"] == by_number["overall"]


def test_a_finer_reference_and_unknown_pixels_are_said(small) -> None:
    folder, values, truth = small
    fine = write_raster(
        folder / "fine.tif", truth.repeat(2, 0).repeat(2, 1), nodata=0, transform=PLACE @ Affine.scale(0.5)
    )
    found = assessed(folder / "a_landcover.tif", "--reference", fine, "--class-map", "values")
    assert any("its pixels of 15 are brought to those of the map, 30" in note for note in found["notes"])
    unknown = f"{int((values == 255).sum())} pixels"
    assert any(note.startswith(unknown) and "no stratum" in note for note in found["notes"])


def test_classes_are_no_reference_for_a_quantity(small) -> None:
    folder, _, truth = small
    write_raster(folder / "q_confidence.tif", np.full(truth.shape, 0.5, np.float32), nodata=np.nan)
    said = refusal(1, "assess", folder / "q_confidence.tif", "--reference", folder / "a_landcover.tif")
    assert "holds classes, and the map a quantity" in said


def test_a_missing_map_is_not_called_damaged(small, tmp_path) -> None:
    folder, _, _ = small
    for call in (
        ("assess", tmp_path / "no.tif", "--reference", folder / "a_landcover.tif"),
        ("stats", tmp_path / "no.tif", "--zones", folder / "a_landcover.tif"),
        ("smooth", tmp_path / "no.tif", "-o", tmp_path / "s.tif"),
        ("change", folder / "a_landcover.tif", tmp_path / "no.tif"),
    ):
        assert "no.tif: no such file (check the path)" in run(*call).output


def test_reliability_of_the_confidence_beside_the_map(small) -> None:
    folder, values, truth = small
    confidence = np.random.default_rng(2).random(truth.shape).astype(np.float32)
    write_raster(folder / "a_confidence.tif", confidence, nodata=np.nan)
    reference = write_raster(folder / "truth.tif", truth, LEGEND, nodata=0)
    found = assessed(folder / "a_landcover.tif", "--reference", reference)["reliability"]
    expected = reliability(confidence[10:].ravel(), (values == truth)[10:].ravel(), bins=10)
    assert found["samples"] == expected.count.tolist()
    assert found["expected_calibration_error"] == pytest.approx(expected.expected_calibration_error)


def test_two_maps_on_the_same_samples(small) -> None:
    folder, values, truth = small
    better = np.where(np.random.default_rng(3).random(truth.shape) < 0.1, truth % 3 + 1, truth)
    write_raster(folder / "b.tif", better.astype(np.uint8), {1: "tile", 2: "soil", 3: "grass"}, nodata=0)
    reference = write_raster(folder / "truth.tif", truth, LEGEND, nodata=0)
    call = ("--reference", reference, "--compare", folder / "b.tif")
    found = assessed(folder / "a_landcover.tif", *call)["compared_with"]
    first, second = (values == truth)[10:], (better == truth)[10:]
    assert found["samples"] == len(first.ravel()) and found["accuracy_of_first"] == pytest.approx(
        first.mean()
    )
    assert found["right_in_first_only"] == (first & ~second).sum()
    assert found["right_in_second_only"] == (second & ~first).sum()
    assert found["accuracy"] == pytest.approx(second.mean()) and found["mcnemar_p"] < 1e-6
    assert "McNemar" in run("assess", folder / "a_landcover.tif", *call).stdout


def test_a_table_for_spreadsheets(small) -> None:
    folder, _, truth = small
    reference = write_raster(folder / "truth.tif", truth, LEGEND, nodata=0)
    call = ("assess", folder / "a_landcover.tif", "--reference", reference, "--csv", folder / "t.csv")
    assert run(*call, "--html", folder / "t.html").exit_code == 0
    assert "User&#x27;s" in (folder / "t.html").read_text()
    rows = list(csv.DictReader((folder / "t.csv").read_text().splitlines()))
    assert [row["class"] for row in rows] == ["tile", "soil", "grass"]
    assert "exists already" in refusal(1, *call)


def test_a_quantity_against_a_raster(tmp_path) -> None:
    rng = np.random.default_rng(4)
    truth = rng.random((60, 60)).astype(np.float32)
    error = rng.normal(0, 0.1, truth.shape).astype(np.float32)
    write_raster(tmp_path / "light.tif", 0.5 * truth + 0.1 + error, nodata=np.nan)
    write_raster(tmp_path / "light_std.tif", np.full_like(truth, 0.1), nodata=np.nan)
    reference = write_raster(tmp_path / "truth.tif", 0.5 * truth + 0.1, nodata=-9999)
    found = assessed(tmp_path / "light.tif", "--reference", reference)
    assert found["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-5)
    assert found["bias"] == pytest.approx(error.mean(), abs=1e-6)
    assert found["slope"] == pytest.approx(1.0, abs=0.05)
    assert found["r_squared"] == pytest.approx(1 - error.var() / (0.25 * truth.var()), abs=0.01)
    assert found["within_1_std"] == pytest.approx(0.683, abs=0.03)
    finer = PLACE @ Affine.scale(1 / 3)
    fine = np.kron(0.5 * truth + 0.1, np.ones((3, 3), np.float32))
    averaged = write_raster(tmp_path / "fine.tif", fine, transform=finer)
    assert assessed(tmp_path / "light.tif", "--reference", averaged)["mae"] == pytest.approx(found["mae"])
    assert "is no raster" in refusal(
        2, "assess", tmp_path / "light.tif", "--reference", Path("sample_data/town_labels.gpkg")
    )


def test_bad_references_are_refused_in_one_line(small) -> None:
    folder, _, _ = small
    of_map = ("assess", folder / "a_landcover.tif", "--reference")
    far = write_points(folder / "far.gpkg", [5000], [5000], ["tile"])
    assert "no reference sample falls on the map" in refusal(1, *of_map, far)
    assert "no such file" in refusal(1, *of_map, folder / "none.gpkg")
    other = write_points(folder / "other.gpkg", [20, 21], [20, 21], ["roof", "tile"])
    said = refusal(1, *of_map, other)
    assert "roof" in said and "tile, soil, grass" in said and "--class-map" in said
    mapping = folder / "names.csv"
    mapping.write_text("reference,map\nroof,\n")
    assert assessed(*of_map[1:], other, "--class-map", mapping)["samples"] == 1
    mapping.write_text("roof;tile\n")
    assert "reference,map" in refusal(2, *of_map, other, "--class-map", mapping)
    on_nodata = write_points(folder / "nodata.gpkg", [0, 6], [20, 21], ["tile", "tile"])
    assert "no reference sample lies on a classified pixel" in refusal(1, *of_map, on_nodata)


def test_one_point_per_class_has_no_interval(small) -> None:
    folder, values, truth = small
    rows, cols = zip(*(np.argwhere(values == k)[0] for k in (1, 2, 3)), strict=True)
    names = np.array(["", "tile", "soil", "grass"])[truth[rows, cols]]
    points = write_points(folder / "few.gpkg", rows, cols, names)
    found = assessed(folder / "a_landcover.tif", "--reference", points)
    assert found["overall"]["area_adjusted_ci95"] is None
    assert "–" in run("assess", folder / "a_landcover.tif", "--reference", points).stdout
    one = write_points(folder / "one.gpkg", rows[:1], cols[:1], names[:1])
    found = assessed(folder / "a_landcover.tif", "--reference", one)
    assert "area_adjusted" not in found["overall"]
    assert any("area-adjusted estimates cannot be made" in note for note in found["notes"])


def test_a_tiny_class_without_a_sample_is_left_out(small) -> None:
    folder, values, truth = small
    values[12, 12] = 9  # one pixel of 2,000
    names = {1: "tile", 2: "soil", 3: "grass", 9: "snow", 255: "unknown"}
    write_raster(folder / "b_landcover.tif", values, names, nodata=0)
    rows, cols = (part[::7] for part in np.nonzero(np.isin(values, (1, 2, 3))))
    names_at = np.array(["", "tile", "soil", "grass"])[truth[rows, cols]]
    points = write_points(folder / "p.gpkg", rows, cols, names_at)
    found = assessed(folder / "b_landcover.tif", "--reference", points)
    assert any("leave out 0.07 % of the map: no sample lies on snow" in note for note in found["notes"])
    sampled = np.isin(values, (1, 2, 3)).sum() * 0.09
    assert sum(line["adjusted_ha"] for line in found["classes"]) == pytest.approx(sampled)


def test_a_sample_is_stratified_random_and_can_be_labelled(small) -> None:
    folder, values, truth = small
    made = folder / "points.gpkg"
    done = run("sample", folder / "a_landcover.tif", "-o", made, "-n", 200, "--minimum", 30, "--json")
    assert done.exit_code == 0, done.output
    drawn = json.loads(done.stdout)["samples"]
    assert sum(drawn.values()) == 200 and min(drawn.values()) >= 30
    frame = geopandas.read_file(made)
    cols, rows = ~PLACE @ (frame.geometry.x.to_numpy(), frame.geometry.y.to_numpy())
    assert np.allclose(cols % 1, 0.5) and len(set(zip(rows, cols, strict=True))) == 200
    rows, cols = rows.astype(int), cols.astype(int)
    names = np.array(["", "tile", "soil", "grass"])
    assert (frame["map_class"] == names[values[rows, cols]]).all() and frame["class"].isna().all()
    frame["class"] = names[truth[rows, cols]]
    frame.to_file(made, driver="GPKG", layer="samples")
    found = assessed(folder / "a_landcover.tif", "--reference", made)
    gap = abs(found["overall"]["area_adjusted"] - (values == truth)[10:].mean())
    assert found["samples"] == 200 and gap < 2 * found["overall"]["area_adjusted_ci95"]
    assert ["are unknown" in note for note in found["notes"]] == [True]
    assert "exists already" in refusal(1, "sample", folder / "a_landcover.tif", "-o", made)
    assert "holds a quantity" in refusal(
        2, "sample", Path("sample_data/town_irradiance_truth.tif"), "-o", folder / "x.gpkg"
    )
