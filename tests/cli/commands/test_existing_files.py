"""What a command may not write over, and names that it must not take for something else."""

from __future__ import annotations

import json
import shutil
import signal

import numpy as np
import pytest
import rasterio

from p3vae.models.landcover.types import EpochReport
from tests.cli.calls import refusal, run
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, wavelength_tags


@pytest.fixture
def scene(tmp_path):
    image = fixtures.truth(20, 30, len(WAVELENGTHS)).astype(np.float32)
    return fixtures.raster(tmp_path / "town.tif", image, band_tags=wavelength_tags(WAVELENGTHS))


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    folder = tmp_path_factory.mktemp("town")
    assert run("simulate", "-o", folder / "town.tif", "--size", "32x32", "--bands", "40").exit_code == 0
    return folder


def test_a_map_does_not_replace_its_own_scene(scene):
    before = scene.read_bytes()
    assert "is an input" in refusal(1, "brightness", scene, "-o", scene, "--overwrite")
    assert scene.read_bytes() == before


def test_a_map_does_not_replace_a_scene_that_is_still_to_come(scene, tmp_path):
    second = shutil.copy(scene, tmp_path / "town_brightness.tif")
    done = run("brightness", scene, second, "-o", tmp_path, "--overwrite")
    assert done.exit_code == 3, done.output
    assert "town_brightness.tif: is an input" in done.stderr
    assert second.read_bytes() == scene.read_bytes()
    assert (tmp_path / "town_brightness_brightness.tif").exists()


def test_a_map_does_not_replace_its_mask(scene, tmp_path):
    mask = fixtures.raster(tmp_path / "town_brightness.tif", np.ones((20, 30, 1), np.uint8))
    before = mask.read_bytes()
    said = refusal(1, "brightness", scene, "--mask", mask, "-o", tmp_path, "--overwrite")
    assert "is an input" in said and mask.read_bytes() == before


def test_a_model_replaces_neither_labels_nor_scene_nor_a_folder(town, tmp_path):
    labels = shutil.copy(town / "town_labels.gpkg", tmp_path / "labels.gpkg")
    scene = shutil.copy(town / "town.tif", tmp_path / "town.tif")
    (tmp_path / "folder").mkdir()
    for target, words in ((labels, "is an input"), (scene, "is an input"), (tmp_path / "folder", "folder")):
        before = None if target.is_dir() else target.read_bytes()
        said = refusal(
            1, "train", scene, "--labels", labels, "--model", "random-forest", "-o", target, "--overwrite"
        )
        assert words in said
        assert before is None or target.read_bytes() == before


def test_scenes_of_one_name_are_told_before_one_replaces_the_other(scene, tmp_path):
    (tmp_path / "other").mkdir()
    twin = shutil.copy(scene, tmp_path / "other" / "town.tif")
    said = refusal(2, "brightness", scene, twin, "-o", tmp_path / "out", "--overwrite")
    assert "same products" in said and not (tmp_path / "out").exists()
    assert "one file" in refusal(2, "brightness", scene, twin, "-o", tmp_path / "one.tif")


def test_a_folder_named_like_a_map_stays(scene, tmp_path):
    (tmp_path / "map.tif").mkdir()
    assert "is a folder" in refusal(1, "brightness", scene, "-o", tmp_path / "map.tif", "--overwrite")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["map.tif", "town.tif"]


@pytest.mark.parametrize("option", ["COMPRESS=JPEG", "TILING_SCHEME=GoogleMapsCompatible", "RES=60"])
def test_creation_options_that_would_spoil_a_map_are_refusal(scene, tmp_path, option):
    assert "--co" in refusal(2, "brightness", scene, "-o", tmp_path / "out", "--co", option)
    assert not (tmp_path / "out").exists()


def test_json_has_no_colours_and_no_nan(scene, tmp_path):
    done = run("brightness", scene, "-o", tmp_path / "out", "--json", env={"FORCE_COLOR": "1"}, color=True)
    assert json.loads(done.stdout)["pixels"] == 600
    with rasterio.open(scene, "r+") as raster:
        raster.update_tags(sun_zenith_deg="nan")
    assert (
        json.loads(run("info", scene, "--json").stdout, parse_constant=pytest.fail)["sun_zenith_deg"] is None
    )


@pytest.mark.parametrize("name", ["a[red]b", "a[/b]"])
def test_brackets_in_a_name_are_part_of_it(scene, tmp_path, name):
    path = tmp_path / f"{name.replace('/', '-')}.tif"
    folder = tmp_path / name
    folder.mkdir(parents=True)
    shutil.copy(scene, path)
    assert path.name in run("info", path).stdout
    done = run("brightness", path, "-o", folder, env={"COLUMNS": "300"})
    assert done.exit_code == 0, done.output
    assert str(folder / f"{path.stem}_brightness.tif") in done.stdout


def test_a_long_name_is_told_whole_on_a_narrow_terminal(scene, tmp_path):
    path = shutil.copy(scene, tmp_path / "PRS_L2D_STD_20240402102837_20240402102842_0001_and_more.tif")
    reported = run("brightness", path, "-o", tmp_path / "maps", env={"COLUMNS": "60"}).stdout
    assert "_and_more_brightness.tif" in "".join(reported.split())


def test_an_unfinished_training_is_no_model(town, tmp_path):
    from p3vae.models.checkpoint import save_state
    from p3vae.models.nn.trainer import TrainingState

    save_state(tmp_path / "x.p3vae.checkpoint", TrainingState(1, {}))
    done = run("info", town / "town.tif", "-m", tmp_path / "x.p3vae.checkpoint")
    assert done.exit_code == 0, done.output
    assert "training-state" in done.stdout


@pytest.mark.parametrize(
    ("struck", "said"),
    [
        (2, "stopped by SIGINT (run it again with --resume)"),
        (1, "Error: stopped (no product is half-written; the same line goes on)"),
    ],
    ids=["once an epoch is done", "at once before"],
)
def test_ctrl_c_stops_a_training(scene, tmp_path, monkeypatch, struck, said):
    """Also before there is a state to keep: the first epochs are of classifiers that only give a score."""
    reached = []

    def trained(*_, on_epoch, **__):
        for epoch in (1, 2, 3):
            if epoch == struck:
                signal.raise_signal(signal.SIGINT)
            reached.append(epoch)
            on_epoch(EpochReport(epoch, 3, {}, 0.5))

    monkeypatch.setattr("p3vae.cli.landcover.train.gather", lambda *_: (None,) * 4)
    monkeypatch.setattr("p3vae.models.landcover.train.train_land_cover", trained)
    before = sorted(tmp_path.iterdir())
    done = run("train", scene, "--labels", scene, "-o", tmp_path / "m.p3vae")
    assert done.exit_code == 130
    assert said in done.stderr
    assert reached == [1, 2][: 2 * (struck - 1)]
    assert sorted(tmp_path.iterdir()) == before
