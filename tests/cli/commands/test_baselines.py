"""Every model through the same commands: train, classify, irradiance-map."""

from __future__ import annotations

import json

import numpy as np
import pytest
import rasterio

from p3vae.models.checkpoint import read_card
from tests.cli.calls import refusal, run


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    path = tmp_path_factory.mktemp("town") / "town.tif"
    done = run("simulate", "-o", path, "--size", "48x48", "--bands", "20", "--sun-zenith", 30)
    assert done.exit_code == 0, done.output
    return path


def trained(scene, folder, *options):
    path = folder / "model.p3vae"
    labels = scene.with_name("town_labels.gpkg")
    done = run("train", scene, "--labels", labels, "-o", path, "--samples-per-class", 60, "--unlabelled", 200,
               *options)  # fmt: skip
    assert done.exit_code == 0, done.output
    return path


@pytest.mark.parametrize("model", ["cnn", "gaussian-vae", "guided-vae", "ss-infogan", "random-forest"])
def test_baselines_are_trained_and_applied_like_p3vae(scene, tmp_path, model):
    path = trained(scene, tmp_path, "--model", model, "--epochs", 1)
    done = run("classify", scene, "-m", path, "-o", tmp_path / "maps")
    assert done.exit_code == 0, done.output
    assert {p.name for p in (tmp_path / "maps").glob("*.tif")} == {
        "town_landcover.tif",
        "town_confidence.tif",
    }
    with rasterio.open(tmp_path / "maps" / "town_landcover.tif") as source:
        assert (source.read(1) > 0).all()
    manifest = json.loads((tmp_path / "maps" / "town_p3vae.json").read_text())
    assert f'"{model}"' in json.dumps(manifest)
    reported = run("info", scene, "-m", path, "--json").stdout
    assert f"landcover ({model}), bands match" in reported
    refused = refusal(1, "irradiance-map", scene, "-m", path, "-o", tmp_path / "light")
    assert f"a {model} model does not estimate light" in refused
    if model in ("cnn", "ss-infogan", "random-forest"):
        message = refusal(2, "classify", scene, "-m", path, "-o", tmp_path / "p", "--method", "posterior")
        assert "--method classifier" in message
        assert "--unknown" in refusal(2, "classify", scene, "-m", path, "-o", tmp_path / "u", "--unknown")
    assert not (tmp_path / "light").exists() and not (tmp_path / "p").exists()


def test_published_p3vae_tells_light_also_under_another_tile_size(scene, tmp_path):
    path = trained(scene, tmp_path, "--preset", "paper", "--epochs", 1, "--sky-offset", 0.6)
    assert read_card(path)[1]["settings"]["sky_offset"] == 0.6
    maps = []
    for size in (16, 48):
        done = run("classify", scene, "-m", path, "-o", tmp_path / f"{size}", "--tile-size", size)
        assert done.exit_code == 0, done.output
        with rasterio.open(tmp_path / f"{size}" / "town_irradiance.tif") as source:
            maps.append(source.read(1))
    np.testing.assert_allclose(maps[0], maps[1], atol=1e-4)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--no-physics", "without physics"),
        ("--no-stop-gradient", "cnn has no stop-gradient"),
    ],
)
def test_what_a_model_does_not_have_cannot_be_left_out(scene, tmp_path, option, message):
    refused_with = refusal(
        1, "train", scene, "--labels", scene.with_name("town_labels.gpkg"), "-o", tmp_path / "m.p3vae",
        "--model", "cnn", option,
    )  # fmt: skip
    assert message in refused_with
    assert not list(tmp_path.iterdir())
