"""What the light of the labels and the neighbours of a pixel do to a map, on files as users have them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import geopandas
import numpy as np
import pytest
import rasterio
import shapely
from affine import Affine

import p3vae
from tests.cli.calls import run, succeed

SUN = ("--sun-zenith", 30)
WAVE = np.linspace(450.0, 2400.0, 40)
ROAD = 0.12 + 0.02 * np.sin(WAVE / 400)
ROOF = 0.08 + 0.35 * (1 - np.exp(-(WAVE - 400) / 500))
BUMP = 0.025 * np.exp(-(((WAVE - 1300) / 250) ** 2))
MATERIALS = np.stack([ROAD, ROAD + BUMP, 0.9 * ROAD + 0.1 * ROOF])
NAMES = np.array(["old asphalt", "new asphalt", "concrete"])
SIDE, PATCH = 64, 8
MAPS = ("landcover", "confidence", "irradiance", "irradiance_std")


def read(path: Path) -> np.ndarray:
    with rasterio.open(path) as source:
        return source.read()


def classify(folder: Path, scene: Path, out: Path, *more: object):
    return succeed("classify", scene, "-m", folder / "m.p3vae", "-o", out, *SUN, *more)


def write_scene(path: Path, seed: int, light: float = 1.0) -> np.ndarray:
    """A mosaic of square patches of uneven ground, with a corner of nodata; its classes."""
    rng = np.random.default_rng(seed)
    truth = np.kron(rng.integers(0, 3, (SIDE // PATCH,) * 2), np.ones((PATCH, PATCH), int))
    mixed = 0.6 * rng.standard_normal((SIDE, SIDE, 2)) @ (MATERIALS[1:] - MATERIALS[0])
    image = light * (MATERIALS[truth] + mixed) + 0.001 * rng.standard_normal(mixed.shape)
    stored = np.clip(np.round(image * 1e4), 1, 65535).astype(np.uint16)
    stored[:5, :9] = 0
    profile = {
        "driver": "GTiff", "width": SIDE, "height": SIDE, "count": len(WAVE), "dtype": "uint16", "nodata": 0,
        "crs": "EPSG:32631", "transform": Affine(5, 0, 5e5, 0, -5, 4.8e6), "tiled": True, "blockxsize": 16,
        "blockysize": 16,
    }  # fmt: skip
    with rasterio.open(path, "w", **profile) as raster:
        raster.write(np.moveaxis(stored, 2, 0))
        raster.scales = [1e-4] * len(WAVE)
        for band, centre in enumerate(WAVE, 1):
            raster.update_tags(band, wavelength=f"{centre:.2f}", wavelength_units="nm")
    return truth


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A scene, labels with one polygon wrong, and a model that averages neighbours."""
    folder = tmp_path_factory.mktemp("patches")
    truth = write_scene(folder / "scene.tif", 0)
    corners = np.random.default_rng(1).permutation((SIDE // PATCH) ** 2)[:30]
    row, col = (part * PATCH for part in np.divmod(np.sort(corners), SIDE // PATCH))
    x, y = 5e5 + 5 * col, 4.8e6 - 5 * row
    names = NAMES[truth[row, col]]
    names[7] = NAMES[(truth[row[7], col[7]] + 1) % 3]
    squares = shapely.box(x, y - 5 * PATCH, x + 5 * PATCH, y)
    geopandas.GeoDataFrame({"class": names}, geometry=squares, crs="EPSG:32631").to_file(
        folder / "labels.gpkg"
    )
    done = succeed(
        "train", folder / "scene.tif", "--labels", folder / "labels.gpkg", "-o", folder / "m.p3vae", *SUN,
        "--doubtful", folder / "doubtful.gpkg",
    )  # fmt: skip
    (folder / "train.txt").write_text(done.output)
    np.save(folder / "names.npy", np.array([names[7], NAMES[truth[row[7], col[7]]]]))
    return folder


def test_maps_with_neighbours_do_not_depend_on_tiles(folder, tmp_path):
    found = []
    for tile in (512, 16, 23):
        out = tmp_path / str(tile)
        succeed(
            "classify", folder / "scene.tif", "-m", folder / "m.p3vae", "-o", out, "--tile-size", tile, *SUN
        )
        maps = [read(out / f"scene_{name}.tif") for name in MAPS]
        results = json.loads((out / "scene_p3vae.json").read_text())["results"]
        found.append((maps, results["out_of_distribution"], results["lit_like_labels"]))
    for maps, *shares in found[1:]:
        assert shares == pytest.approx(list(found[0][1:]), abs=1e-4)
        for one, other in zip(found[0][0], maps, strict=True):
            np.testing.assert_array_equal(one, other)
    with p3vae.open_scene(folder / "scene.tif", sun_zenith=30) as scene:
        in_python = p3vae.classify(scene, p3vae.load_model(folder / "m.p3vae"))
    np.testing.assert_array_equal(in_python.arrays["landcover"], found[0][0][0][0])


def test_neighbours_take_away_pepper_and_confidence_is_that_of_the_map(folder, tmp_path):
    truth = write_scene(tmp_path / "other.tif", 5)
    classify(folder, tmp_path / "other.tif", tmp_path / "with", "--probabilities")
    classify(folder, tmp_path / "other.tif", tmp_path / "without", "--probabilities", "--no-neighbours")
    right, sure = {}, {}
    order = np.argsort(NAMES)  # ids follow the names
    for way in ("with", "without"):
        classes, confidence = (
            rasterio.open(tmp_path / way / f"other_{name}.tif").read(1)
            for name in ("landcover", "confidence")
        )
        valid = classes > 0
        right[way] = (order[classes[valid].astype(int) - 1] == truth[valid]).mean()
        sure[way] = confidence[valid].mean()
        chances = read(tmp_path / way / "other_probabilities.tif")[:, valid]
        np.testing.assert_array_equal(chances.argmax(0) + 1, classes[valid])
        np.testing.assert_allclose(chances.max(0), confidence[valid], atol=1e-6)
        assert not valid[:5, :9].any() and np.isnan(confidence[:5, :9]).all()
    assert right["with"] > right["without"] + 0.05


def test_doubtful_labels_are_named_and_written(folder):
    wrong, true = np.load(folder / "names.npy").tolist()
    frame = geopandas.read_file(folder / "doubtful.gpkg")
    first = frame.iloc[0]
    assert (first["rank"], first["class"], first["likelier"], first["polygon"]) == (1, wrong, true, 8)
    labels = geopandas.read_file(folder / "labels.gpkg")
    assert first.geometry.symmetric_difference(labels.geometry[7]).area < 1e-6
    assert frame.crs == labels.crs
    said = (folder / "train.txt").read_text()
    assert "Labels to look at again" in said and wrong in said.split("Labels to look at again")[1]


def test_explain_says_which_hypothesis_decided(folder, tmp_path):
    model = ("-m", folder / "m.p3vae", *SUN, "--pixel", "30,30")
    known = succeed("explain", folder / "scene.tif", *model).output
    assert "the classifier decides" in known and "averaged over the pixel and its neighbours" in known
    write_scene(tmp_path / "dim.tif", 0, light=0.25)
    assert "physics decides" in succeed("explain", tmp_path / "dim.tif", *model).output
    record = json.loads(succeed("explain", tmp_path / "dim.tif", *model, "--json").stdout)
    assert record["lit_like_labels"] < 0.25


def test_a_scene_that_is_lit_otherwise_is_said_in_one_line(folder, tmp_path):
    write_scene(tmp_path / "dim.tif", 0, light=0.2)
    said = succeed(
        "classify", tmp_path / "dim.tif", "-m", folder / "m.p3vae", "-o", tmp_path / "o", *SUN
    ).output
    lines = [line for line in said.splitlines() if "lit as the labels" in line]
    assert len(lines) == 1 and "physics decides" in lines[0]
    usual = succeed(
        "classify", folder / "scene.tif", "-m", folder / "m.p3vae", "-o", tmp_path / "u", *SUN
    ).output
    assert "lit as the labels" not in usual


def test_info_says_how_much_of_the_light_is_known(folder):
    said = succeed("info", folder / "m.p3vae").output
    assert "Labels' light" in said and "Neighbours" in said


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_scenes_without_a_place_refuse_doubtful_before_training(folder, tmp_path):
    with rasterio.open(folder / "scene.tif") as source:
        profile, values = source.profile, source.read()
        tags = [source.tags(band) for band in source.indexes]
    del profile["crs"], profile["transform"]
    with rasterio.open(tmp_path / "bare.tif", "w", **profile) as raster:
        raster.write(values)
        raster.scales = [1e-4] * raster.count
        for band, own in enumerate(tags, 1):
            raster.update_tags(band, **own)
    labels = np.zeros((SIDE, SIDE), np.uint8)
    labels[8:24, 8:24], labels[32:48, 32:48] = 1, 2
    with rasterio.open(
        tmp_path / "l.tif", "w", driver="GTiff", width=SIDE, height=SIDE, count=1, dtype="uint8"
    ) as raster:
        raster.write(labels, 1)
    call = ("train", tmp_path / "bare.tif", "--labels", tmp_path / "l.tif", "-o", tmp_path / "m.p3vae", *SUN)
    done = run(*call, "--doubtful", str(tmp_path / "d.gpkg"))
    assert done.exit_code != 0 and "not georeferenced" in done.stderr
    assert not (tmp_path / "m.p3vae").exists()
    succeed(*call)


def test_models_of_earlier_builds_are_refused_in_one_line(folder, tmp_path):
    from p3vae.models.checkpoint import ModelFile, read_model_file, write_model_file

    file = read_model_file(folder / "m.p3vae", kind="landcover")
    tensors = {name: v for name, v in file.tensors.items() if not name.startswith("known_light")}
    card = dict(file.card) | {"settings": file.card["settings"] | {"with_classifier": False}}
    write_model_file(tmp_path / "old.p3vae", ModelFile("landcover", card, tensors))
    call = ("classify", folder / "scene.tif", "-m", tmp_path / "old.p3vae", "-o", tmp_path / "o", *SUN)
    done = run(*call)
    assert done.exit_code != 0 and "train it again" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    shutil.copy(folder / "m.p3vae", tmp_path / "new.p3vae")
    assert p3vae.load_model(tmp_path / "new.p3vae").averages_neighbours
