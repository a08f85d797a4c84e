"""Classes have the colours that their names promise, in the model, the map and its style."""

from __future__ import annotations

import colorsys
import json
from pathlib import Path

import geopandas
import pytest
import rasterio

from p3vae.cli.class_colours import class_colours
from p3vae.cli.colours import rgb_colour
from tests.cli.calls import refusal, stdout_of, succeed

TOWN, LABELS = Path("sample_data/town.tif"), Path("sample_data/town_labels.gpkg")


def hue(colour: str) -> float:
    """Degrees on the circle of colours: 0 red, 120 green, 240 blue."""
    return 360 * colorsys.rgb_to_hsv(*(part / 255 for part in rgb_colour(colour)))[0]


@pytest.mark.parametrize("name", ["water", "Lakes", "Gewässer", "rivière", "lagos", "acqua"])
def test_water_is_blue_in_every_language(name) -> None:
    assert 190 < hue(class_colours([name])[0]) < 250


@pytest.mark.parametrize(
    "name", ["Trees", "Wälder", "forêts", "bosques", "foresta", "grass", "Wiese", "Vegetation"]
)
def test_what_is_green_is_green(name) -> None:
    assert 75 < hue(class_colours([name])[0]) < 160


def test_order_does_not_matter_and_siblings_differ() -> None:
    names = ["impervious", "vegetation", "water", "grass", "road", "oak", "pine", "beech"]
    colours = dict(zip(names, class_colours(names), strict=True))
    assert colours["water"] == dict(zip(names[::-1], class_colours(names[::-1]), strict=True))["water"]
    assert len(set(colours.values())) == len(names)
    assert all(75 < hue(colours[tree]) < 160 for tree in ("oak", "pine"))


@pytest.mark.parametrize("kind", ["crop", "rock", "thing"])
def test_as_many_classes_as_a_map_can_have_differ_in_colour(kind) -> None:
    assert len(set(class_colours([f"{kind} {number}" for number in range(254)]))) == 254


@pytest.fixture(scope="module")
def labels(tmp_path_factory) -> Path:
    """Those of the town without colours."""
    path = tmp_path_factory.mktemp("labels") / "labels.gpkg"
    geopandas.read_file(LABELS)[["class", "geometry"]].to_file(path)
    return path


def train(labels: Path, model: Path, *more: object) -> dict[str, tuple[int, ...]]:
    succeed("train", TOWN, "--labels", labels, "--model", "lda", "-o", model, "-q", *more)
    classes = json.loads(stdout_of("info", model, "--json"))["classes"]
    return {name: tuple(colour) for name, colour in zip(classes["names"], classes["colours"], strict=True)}


def test_labels_without_colours_give_a_map_in_natural_ones(labels, tmp_path) -> None:
    model = tmp_path / "m.p3vae"
    colours = train(labels, model)
    assert colours["vegetation"][1] > max(colours["vegetation"][0], colours["vegetation"][2])
    succeed("classify", TOWN, "-m", model, "-o", tmp_path / "maps", "-q")
    with rasterio.open(tmp_path / "maps" / "town_landcover.tif") as raster:
        assert {value[:3] for value in raster.colormap(1).values()} >= set(colours.values())


def test_a_file_of_colours_wins_whatever_its_kind(labels, tmp_path) -> None:
    table = tmp_path / "c.csv"
    table.write_text("name,color\nVegetation,#0102ff\ntile,#aabbcc\n")
    palette = tmp_path / "c.gpl"
    palette.write_text("GIMP Palette\nName: mine\n#\n  1   2 255\tvegetation\n170 187 204\ttile\n")
    maps = tmp_path / "maps"
    succeed("classify", TOWN, "-m", "town", "-o", maps, "-q")
    for number, path in enumerate((table, palette)):
        found = train(labels, tmp_path / f"{number}.p3vae", "--colours", path)
        assert (found["vegetation"], found["tile"]) == ((1, 2, 255), (170, 187, 204))
    of_style = train(labels, tmp_path / "q.p3vae", "--colours", maps / "town_landcover.qml")
    with rasterio.open(maps / "town_landcover.tif") as raster:
        names, shown = json.loads(raster.tags()["CLASS_NAMES"]), raster.colormap(1)
    assert of_style == {name: shown[int(value)][:3] for value, name in names.items()}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("c.csv", "a,b\n1,2\n", "lacks the columns name and color"),
        ("c.csv", "name,color\ntile,red\n", "is not #rrggbb"),
        ("c.gpl", "1 2 3 tile\n", "does not begin with GIMP Palette"),
        ("c.qml", "<!DOCTYPE qgis [<!ENTITY a 'b'>]><qgis/>", "declares XML entities"),
        ("c.txt", "", "is no file of colours"),
    ],
)
def test_files_that_hold_no_colours_are_refused(labels, tmp_path, name, content, said) -> None:
    (tmp_path / name).write_text(content)
    call = ("train", TOWN, "--labels", labels, "-o", tmp_path / "m.p3vae", "--colours", tmp_path / name)
    assert said in refusal(2, *call)
