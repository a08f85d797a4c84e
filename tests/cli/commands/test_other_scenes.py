"""A model on scenes that see the same ground otherwise: hazier, noisier, with fewer bands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import rasterio

from p3vae.models.landcover.model import load_model
from tests.cli.calls import succeed

SIZE = ("--size", "96x96", "--bands", "60")


def read(path: Path) -> np.ndarray:
    with rasterio.open(path) as source:
        return source.read()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A town to learn from, another one, and a model of the first."""
    folder = tmp_path_factory.mktemp("scenes")
    succeed("simulate", "-o", folder / "home.tif", *SIZE, "--seed", 3)
    succeed("simulate", "-o", folder / "away.tif", *SIZE, "--seed", 4)
    labels = ("--labels", folder / "home_labels.gpkg")
    succeed("train", folder / "home.tif", *labels, "-o", folder / "m.p3vae")
    return folder


def changed(folder: Path, path: Path, change) -> Path:
    """The other town after `change` of its reflectance (bands, rows, cols) at these wavelengths [nm]."""
    shutil.copy(folder / "away.tif", path)
    with rasterio.open(path, "r+") as raster:
        wave = np.array([float(raster.tags(band)["wavelength"]) for band in raster.indexes])
        seen = change(raster.read() * raster.scales[0], wave[:, None, None]) / raster.scales[0]
        raster.write(np.clip(np.round(seen), 1, 32767).astype(raster.dtypes[0]))
    return path


def mapped(folder: Path, scene: Path, out: Path, *more: object):
    """Accuracy, mean confidence, manifest and what was said."""
    done = succeed("classify", scene, "-m", folder / "m.p3vae", "-o", out, *more)
    classes, truth = read(out / f"{scene.stem}_landcover.tif")[0], read(folder / "away_class.tif")[0]
    confidence = read(out / f"{scene.stem}_confidence.tif")[0]
    manifest = json.loads((out / f"{scene.stem}_p3vae.json").read_text())
    return (classes == truth).mean(), float(np.nanmean(confidence)), manifest["settings"], done.output


def haze(x, wave):
    return x + 0.05 * np.exp(-(wave - 400) / 150)


def noise(x, wave):
    return x + np.random.default_rng(0).normal(0, 0.015, x.shape)


@pytest.mark.parametrize(("change", "said"), [(haze, "hazier by 0.0"), (noise, "its noise is")])
def test_haze_and_noise_are_found_said_and_corrected(folder, tmp_path, change, said):
    usual = mapped(folder, folder / "away.tif", tmp_path / "usual")
    scene = changed(folder, tmp_path / "other.tif", change)
    corrected = mapped(folder, scene, tmp_path / "corrected")
    left = mapped(folder, scene, tmp_path / "left", "--no-scene-gain")
    assert said in corrected[3] and "--no-scene-gain" in corrected[3]
    assert said not in left[3] and left[2]["scene"] is None
    assert corrected[0] > left[0] + 0.05
    assert corrected[0] > usual[0] - (0.02 if change is haze else 0.1)
    if change is haze:
        assert corrected[2]["scene"]["haze"] == pytest.approx(0.05, abs=0.015)
    else:
        assert corrected[2]["scene"]["noise_ratio"] > 1.5


def test_the_training_scene_itself_is_mapped_to_the_bit_as_without(folder, tmp_path):
    for name, more in (("with", ()), ("without", ("--no-scene-gain",))):
        succeed("classify", folder / "home.tif", "-m", folder / "m.p3vae", "-o", tmp_path / name, *more)
    for product in ("landcover", "confidence", "irradiance", "irradiance_std"):
        one, other = (read(tmp_path / way / f"home_{product}.tif") for way in ("with", "without"))
        np.testing.assert_array_equal(one, other)


def test_another_scene_of_the_same_kind_is_hardly_changed(folder, tmp_path):
    found = mapped(folder, folder / "away.tif", tmp_path / "with")
    left = mapped(folder, folder / "away.tif", tmp_path / "without", "--no-scene-gain")
    assert found[0] > left[0] - 0.01
    assert "compared with the scene" not in found[3]


@pytest.mark.parametrize("lost", ["1000-2500", "400-900"])
def test_missing_bands_are_integrated_out(folder, tmp_path, lost):
    found = mapped(folder, folder / "away.tif", tmp_path / "o", "--bad-bands", lost)
    assert found[0] > 0.8
    assert "goes without the others" in found[3]


def test_tiles_do_not_matter_for_a_corrected_scene(folder, tmp_path):
    scene = changed(folder, tmp_path / "hazy.tif", haze)
    for tile in (512, 17):
        mapped(folder, scene, tmp_path / str(tile), "--tile-size", tile)
    for product in ("landcover", "confidence", "irradiance"):
        one, other = (read(tmp_path / way / f"hazy_{product}.tif") for way in ("512", "17"))
        np.testing.assert_array_equal(one, other)


def test_explain_shows_the_spectrum_and_fits_as_the_scene_saw_them(folder, tmp_path):
    scene = changed(folder, tmp_path / "hazy.tif", haze)
    call = ("explain", scene, "-m", folder / "m.p3vae", "--pixel", "40,40", "--json")
    record = json.loads(succeed(*call).stdout)
    observed, fitted = np.array(record["observed"]), np.array(record["classes"][0]["fitted"])
    assert np.abs(observed - fitted).mean() < 0.02


def test_the_manifest_names_the_model_and_not_what_a_scene_made_of_it(folder, tmp_path):
    scene = changed(folder, tmp_path / "hazy.tif", haze)
    digest = load_model(folder / "m.p3vae").digest
    mapped(folder, scene, tmp_path / "o", "--bad-bands", "1900-2500")
    light = ("irradiance-map", scene, "-m", folder / "m.p3vae", "-o", tmp_path / "light")
    succeed(*light)
    for out in ("o", "light"):
        manifest = json.loads((tmp_path / out / "hazy_p3vae.json").read_text())
        assert manifest["model_sha256"] == digest


def test_clouds_are_not_corrected_into_ground(folder, tmp_path):
    cloud = np.random.default_rng(0)
    scene = changed(folder, tmp_path / "c.tif", lambda x, wave: 0.7 + 0.01 * cloud.standard_normal(x.shape))
    found = mapped(folder, scene, tmp_path / "o")
    assert "may not know its ground" in found[3] and found[2]["scene"]["reconciled"] is False
    assert found[1] < 0.5


def test_a_scale_of_ten_is_not_hidden(folder, tmp_path):
    found = mapped(folder, folder / "away.tif", tmp_path / "o", "--scale", "0.001")
    assert "warning" in found[3] or "unlike anything" in found[3]
    assert found[1] < 0.6
