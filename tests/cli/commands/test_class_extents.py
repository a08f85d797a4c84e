"""How much of a land-cover map each class covers, and the colour of what no class explains."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import rasterio
from affine import Affine

from p3vae.cli.landcover.specs import DISTINCT_RGB, UNKNOWN_COLOURS, unknown_colour
from p3vae.models.landcover.model import load_model, save_model
from tests.cli.calls import succeed
from tests.cli.scenes import fixtures

USUAL_UNKNOWN = (0x3C, 0x3C, 0x3C)


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """A scene with a border of nodata and a model that reconstructs spectra."""
    folder = tmp_path_factory.mktemp("town")
    succeed("simulate", "-o", folder / "whole.tif", "--size", "48x40", "--bands", 20, "--sun-zenith", 30)
    moved(folder / "whole.tif", folder / "town.tif")
    few = ("--epochs", 1, "--samples-per-class", 60, "--unlabelled", 200)
    labels = ("--labels", folder / "whole_labels.gpkg")
    succeed("train", folder / "whole.tif", *labels, "-o", folder / "m.p3vae", "--model", "gaussian-vae", *few)
    return folder


def moved(source, target, **place):
    """A copy with five rows of nodata, at another place on Earth."""
    with rasterio.open(source) as scene:
        image, profile, tags = scene.read(), scene.profile | place, scene.tags()
        band_tags, scales = [scene.tags(band) for band in scene.indexes], scene.scales
    image[:, :5] = profile["nodata"]
    with rasterio.open(target, "w", **profile) as made:
        made.write(image)
        made.update_tags(**tags)
        made.scales = scales
        for band, its in enumerate(band_tags, start=1):
            made.update_tags(band, **its)
    return target


def mapped(town, scene, out, *options):
    """The record of a classification, checked to be that of the manifest, and its map."""
    call = ("classify", scene, "-m", town / "m.p3vae", "-o", out, "--json", *options)
    record = json.loads(succeed(*call).stdout)
    with rasterio.open(record["products"]["landcover"]) as made:
        values = made.read(1)
    manifest = json.loads((out / f"{scene.stem}_p3vae.json").read_text())
    assert manifest["products"][0]["classes"] == record["classes"]["landcover"]
    return record["classes"]["landcover"], values


def test_every_class_has_its_pixels_hectares_and_share(town, tmp_path):
    classes, values = mapped(town, town / "town.tif", tmp_path, "--unknown")
    legend = load_model(town / "m.p3vae").legend
    assert [(c["id"], c["name"]) for c in classes] == [
        *zip(legend.ids, legend.names, strict=True),
        (255, "unknown"),
    ]
    assert [c["pixels"] for c in classes] == [(values == c["id"]).sum() for c in classes]
    with rasterio.open(town / "town.tif") as scene:
        hectare = abs(scene.transform.determinant) / 1e4
    for entry in classes:
        assert entry["hectares"] == pytest.approx(entry["pixels"] * hectare, abs=1e-4)
        assert entry["share"] == pytest.approx(entry["pixels"] / (values > 0).sum(), abs=1e-6)
    assert (values == 0).any()
    assert sum(entry["share"] for entry in classes) == pytest.approx(1.0, abs=1e-5)


def zone_m2(north, south, width):
    """Area between two parallels over `width` degrees on WGS 84, by its closed form."""
    semi_minor, eccentricity = 6_356_752.314245, 0.0818191908426

    def from_equator(latitude):
        sine = np.sin(np.radians(latitude))
        bulge = np.arctanh(eccentricity * sine) / eccentricity
        return semi_minor**2 / 2 * (sine / (1 - (eccentricity * sine) ** 2) + bulge)

    return np.radians(width) * (from_equator(north) - from_equator(south))


def test_hectares_in_degrees_are_those_of_the_ellipsoid_row_by_row(town, tmp_path):
    step, north = 0.05, 65.0
    scene = moved(town / "whole.tif", tmp_path / "north.tif", crs="EPSG:4326",
                  transform=Affine(step, 0, 10, 0, -step, north))  # fmt: skip
    classes, values = mapped(town, scene, tmp_path / "maps")
    edges = north - step * np.arange(len(values) + 1)
    rows = zone_m2(edges[:-1], edges[1:], step) / 1e4
    assert rows[-1] > 1.05 * rows[0]
    for entry in classes:
        expected = (values == entry["id"]).sum(axis=1) @ rows
        assert entry["hectares"] == pytest.approx(expected, rel=1e-5)


def test_feet_are_no_metres(town, tmp_path):
    scene = moved(town / "whole.tif", tmp_path / "feet.tif", crs="EPSG:2229",
                  transform=Affine(100, 0, 6.5e6, 0, -100, 1.8e6))  # fmt: skip
    classes, _ = mapped(town, scene, tmp_path / "maps")
    for entry in classes:
        assert entry["hectares"] == pytest.approx(entry["pixels"] * 30.48006096**2 / 1e4, rel=1e-5, abs=1e-4)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_a_map_that_is_nowhere_has_no_hectares(town, tmp_path):
    place = {"crs": None, "transform": Affine.identity()}
    scene = moved(town / "whole.tif", tmp_path / "nowhere.tif", **place)
    classes, _ = mapped(town, scene, tmp_path / "maps")
    assert all(entry["hectares"] is None for entry in classes)
    assert sum(entry["pixels"] for entry in classes) > 0


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_a_swath_brought_to_a_grid_is_counted_there(tmp_path, town):
    image = np.random.default_rng(0).uniform(0.1, 0.5, (24, 20, 1)) * np.linspace(1.0, 1.5, 12)
    scene = fixtures.prisma(tmp_path, "2C", image[..., :6], image[..., 6:])
    labels = tmp_path / "l.tif"
    with rasterio.open(labels, "w", driver="GTiff", width=20, height=24, count=1, dtype="uint8") as made:
        made.write(np.repeat([1, 2], 12)[None, :, None].repeat(20, 2).astype("u1"))
    succeed("train", scene, "--labels", labels, "-o", tmp_path / "m.p3vae", "--model", "random-forest")
    classes, values = mapped(tmp_path, scene, tmp_path / "utm", "--grid", "utm")
    assert [c["pixels"] for c in classes] == [(values == c["id"]).sum() for c in classes]
    assert sum(c["share"] for c in classes) == pytest.approx(1.0, abs=1e-5)
    on_swath, _ = mapped(tmp_path, scene, tmp_path / "swath")
    ground = [sum(c["hectares"] for c in found) for found in (classes, on_swath)]
    assert ground[0] == pytest.approx(ground[1], rel=0.1)


def test_the_table_shows_hectares(town, tmp_path):
    said = succeed("classify", town / "town.tif", "-m", town / "m.p3vae", "-o", tmp_path).stdout
    assert "Hectares" in said.splitlines()[0]


def test_unknown_pixels_never_look_like_a_class(town, tmp_path):
    model = load_model(town / "m.p3vae")
    colours = (USUAL_UNKNOWN, (250, 250, 250), *model.legend.colours[2:])
    save_model(tmp_path / "m.p3vae", replace(model, legend=replace(model.legend, colours=colours)))
    classes, _ = mapped(tmp_path, town / "town.tif", tmp_path / "maps", "--unknown")
    with rasterio.open(tmp_path / "maps" / "town_landcover.tif") as made:
        table = made.colormap(1)
    distance = [np.linalg.norm(np.subtract(table[255][:3], colour)) for colour in colours]
    assert min(distance) >= DISTINCT_RGB
    style = ET.parse(tmp_path / "maps" / "town_landcover.qml")
    drawn = {entry.get("value"): entry.get("color") for entry in style.iter("paletteEntry")}
    assert drawn["255"] == classes[-1]["color"] == "#{:02x}{:02x}{:02x}".format(*table[255][:3])


def test_the_usual_colour_of_unknown_stays_where_it_is_free():
    assert unknown_colour([(46, 125, 50), (198, 40, 40)]) == "#3c3c3c"
    assert unknown_colour([(60, 60, 60)]) == "#ffffff"


def test_where_every_colour_is_near_a_class_the_farthest_is_taken():
    near = [tuple(bytes.fromhex(colour[1:])) for colour in UNKNOWN_COLOURS]
    near[3] = (0, 255, 225)
    assert unknown_colour(near) == UNKNOWN_COLOURS[3]
