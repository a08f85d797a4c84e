"""train, classify and irradiance-map as a user calls them, on small simulated towns with known truth."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import geopandas
import numpy as np
import pytest
import rasterio

from p3vae.models.landcover.model import load_model, save_model
from tests.cli.calls import refusal, succeed


def read(path):
    with rasterio.open(path) as source:
        return source.read(1)


SIZE = ("--size", "72x72", "--bands", "40")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A town under a 30 degree sun, the same town under 55 degrees, and a model trained on the first."""
    folder = tmp_path_factory.mktemp("towns")
    succeed("simulate", "-o", folder / "noon.tif", *SIZE, "--sun-zenith", 30, "--sun-azimuth", 170)
    succeed("simulate", "-o", folder / "evening.tif", *SIZE, "--sun-zenith", 55, "--sun-azimuth", 250)
    done = succeed(
        "train", folder / "noon.tif", "--labels", folder / "noon_labels.gpkg", "-o", folder / "town.p3vae",
    )  # fmt: skip
    assert "Average F1" in done.stdout
    succeed(
        "classify", folder / "noon.tif", "-m", folder / "town.p3vae", "-o", folder / "maps", "--probabilities"
    )
    return folder


def agreement(folder, name, maps):
    truth, found = read(folder / f"{name}_class.tif"), read(maps / f"{name}_landcover.tif")
    return (truth == found)[truth > 0].mean()


def test_land_cover_agrees_with_the_truth_also_in_shadow(folder):
    assert agreement(folder, "noon", folder / "maps") > 0.9
    shadow = read(folder / "noon_shadow.tif") > 0.9
    truth, found = read(folder / "noon_class.tif"), read(folder / "maps" / "noon_landcover.tif")
    assert (truth == found)[shadow & (truth > 0)].mean() > 0.75


def test_irradiance_agrees_with_the_truth_and_its_std_is_honest(folder):
    truth = read(folder / "noon_irradiance_truth.tif")
    mean, std = (
        read(folder / "maps" / "noon_irradiance.tif"),
        read(folder / "maps" / "noon_irradiance_std.tif"),
    )
    # Every material of the town varies by 8 to 10 % in brightness, which no one can tell from irradiance.
    assert np.corrcoef(truth.ravel(), mean.ravel())[0, 1] > 0.8
    assert abs((mean - truth).mean()) < 0.05
    assert (np.abs(mean - truth) < 1.96 * std).mean() > 0.7


def test_probabilities_are_those_of_the_confidence(folder):
    with rasterio.open(folder / "maps" / "noon_probabilities.tif") as source:
        probabilities, names, tags = source.read(), source.descriptions, source.tags(1)
    np.testing.assert_allclose(probabilities.sum(axis=0), 1.0, atol=1e-4)
    np.testing.assert_allclose(
        probabilities.max(axis=0), read(folder / "maps" / "noon_confidence.tif"), atol=1e-5
    )
    labels = geopandas.read_file(folder / "noon_labels.gpkg")
    assert list(names) == sorted(labels["class"].unique())
    assert tags["color"].startswith("#")


def test_maps_do_not_depend_on_the_tile_size(folder, tmp_path):
    for size in (7, 64):
        succeed("classify", folder / "noon.tif", "-m", folder / "town.p3vae", "-o", tmp_path / f"{size}",
                "--tile-size", size)  # fmt: skip
    for name in ("landcover", "confidence", "irradiance", "irradiance_std"):
        small, large = (read(tmp_path / size / f"noon_{name}.tif") for size in ("7", "64"))
        np.testing.assert_allclose(small, large, atol=2e-5)


def test_a_model_trained_at_noon_works_in_the_evening(folder, tmp_path):
    """Giving f_E the evening's sun keeps the labels right; assuming noon there would not do as well."""
    succeed("classify", folder / "evening.tif", "-m", folder / "town.p3vae", "-o", tmp_path)
    assert agreement(folder, "evening", tmp_path) > 0.85
    truth, mean = read(folder / "evening_irradiance_truth.tif"), read(tmp_path / "evening_irradiance.tif")
    assert np.corrcoef(truth.ravel(), mean.ravel())[0, 1] > 0.9


def test_relit_cube_is_flat_sunlit_reflectance_with_its_wavelengths(folder, tmp_path):
    succeed("irradiance-map", folder / "noon.tif", "-m", folder / "town.p3vae", "-o", tmp_path, "--relight")
    with rasterio.open(tmp_path / "noon_relit.tif") as relit, rasterio.open(folder / "noon.tif") as scene:
        cube, wavelength = relit.read(), float(relit.tags(1)["wavelength"])
        counts = scene.read() * 1e-4
        assert wavelength == pytest.approx(float(scene.tags(1)["wavelength"]))
    reported = json.loads(succeed("info", tmp_path / "noon_relit.tif", "--json").stdout)
    assert reported["quantity"] == "reflectance" and len(reported["bands"]) == len(cube)
    lawn = read(folder / "noon_class.tif") == 6
    shadow = read(folder / "noon_shadow.tif")
    nir = len(cube) // 5
    before = counts[nir][lawn & (shadow > 0.9)].mean() / counts[nir][lawn & (shadow < 0.1)].mean()
    after = cube[nir][lawn & (shadow > 0.9)].mean() / cube[nir][lawn & (shadow < 0.1)].mean()
    assert before < 0.5
    assert 0.7 < after < 1.4


def with_corner(scene, path, values):
    """A copy of a scene with other counts (bands, 9, 9) in its first corner."""
    with rasterio.open(scene) as source:
        cube, profile = source.read(), source.profile
        tags = [source.tags(band) for band in source.indexes]
        scales, general = source.scales, source.tags()
    cube[:, :9, :9] = values
    with rasterio.open(path, "w", **profile) as target:
        target.write(cube)
        target.scales = scales
        target.update_tags(**general)
        for band, band_tags in enumerate(tags, 1):
            target.update_tags(band, **band_tags)


def test_ground_too_dark_to_judge_is_nodata_in_every_map(folder, tmp_path):
    with_corner(folder / "noon.tif", tmp_path / "dark.tif", np.zeros((40, 9, 9)))
    model = ("-m", folder / "town.p3vae")
    succeed("classify", tmp_path / "dark.tif", *model, "-o", tmp_path, "--probabilities", "--unknown")
    succeed("irradiance-map", tmp_path / "dark.tif", *model, "-o", tmp_path / "light", "--relight")
    found = read(tmp_path / "dark_landcover.tif")
    assert not found[:9, :9].any() and found[9:, 9:].all()
    names = [tmp_path / f"dark_{name}.tif" for name in ("confidence", "irradiance", "irradiance_std")]
    for path in (*names, tmp_path / "dark_probabilities.tif", tmp_path / "light" / "dark_relit.tif"):
        values = read(path)
        assert np.isnan(values[:9, :9]).all() and np.isfinite(values[9:, 9:]).all(), path.name


def test_the_classifier_alone(folder, tmp_path):
    call = ("classify", folder / "noon.tif", "-o", tmp_path / "q", "--method", "classifier")
    succeed(*call, "-m", folder / "town.p3vae")
    assert agreement(folder, "noon", tmp_path / "q") > 0.6


def test_unknown_and_mask(folder, tmp_path):
    noise = np.random.default_rng(0).integers(500, 9000, (40, 9, 9))
    with_corner(folder / "noon.tif", tmp_path / "odd.tif", noise)
    succeed("classify", tmp_path / "odd.tif", "-m", folder / "town.p3vae", "-o", tmp_path / "u", "--unknown")
    found = read(tmp_path / "u" / "odd_landcover.tif")
    assert (found[:9, :9] == 255).mean() > 0.95
    assert (found[12:, 12:] == 255).mean() < 0.1
    succeed("classify", folder / "noon.tif", "-m", folder / "town.p3vae", "-o", tmp_path / "m",
            "--mask", folder / "noon_labels.gpkg")  # fmt: skip
    assert 0 < (read(tmp_path / "m" / "noon_landcover.tif") > 0).mean() < 0.5


def test_unknown_is_never_mixed_up_with_a_class(folder, tmp_path):
    model = load_model(folder / "town.p3vae")
    ids = (*model.legend.ids[:-1], 255)
    save_model(tmp_path / "full.p3vae", replace(model, legend=replace(model.legend, ids=ids)))
    call = ("classify", folder / "noon.tif", "-m", tmp_path / "full.p3vae", "-o", tmp_path / "maps")
    message = refusal(2, *call, "--unknown")
    assert "255" in message and model.legend.names[-1] in message
    assert not (tmp_path / "maps").exists()
    succeed(*call)


def test_irradiance_from_a_table_replaces_the_clear_sky(folder, tmp_path):
    table = tmp_path / "sky.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["wavelength_nm", "direct", "diffuse"])
        writer.writerows([[nm, 1000, 1000] for nm in range(300, 2600, 50)])
    succeed(
        "classify", folder / "noon.tif", "-m", folder / "town.p3vae", "-o", tmp_path, "--irradiance", table
    )
    changed = read(tmp_path / "noon_irradiance.tif") - read(folder / "maps" / "noon_irradiance.tif")
    assert np.abs(changed).mean() > 0.01
    table.write_text("wavelength_nm,direct\n400,1\n")
    assert "no column 'diffuse'" in refusal(
        2,
        "classify",
        folder / "noon.tif",
        "-m",
        folder / "town.p3vae",
        "-o",
        tmp_path / "x",
        "--irradiance",
        table,
    )


def test_training_is_reproducible_and_raster_labels_keep_their_ids(folder, tmp_path):
    labels = np.where(read(folder / "noon_class.tif") == 6, 7, 0).astype(np.uint8)
    labels[read(folder / "noon_class.tif") == 1] = 40
    labels[read(folder / "noon_shadow.tif") > 0.1] = 0
    with rasterio.open(folder / "noon_class.tif") as source:
        profile = {k: source.profile[k] for k in ("crs", "transform", "width", "height", "count", "dtype")}
    with rasterio.open(tmp_path / "l.tif", "w", driver="GTiff", nodata=0, **profile) as target:
        target.write(labels, 1)
    for name in ("a", "b"):
        succeed("train", folder / "noon.tif", "--labels", tmp_path / "l.tif", "--class-names", "lawn,road",
                "-o", tmp_path / f"{name}.p3vae", "--epochs", 2, "--seed", 5)  # fmt: skip
    assert (tmp_path / "a.p3vae").read_bytes() == (tmp_path / "b.p3vae").read_bytes()
    succeed("classify", folder / "noon.tif", "-m", tmp_path / "a.p3vae", "-o", tmp_path / "maps")
    assert set(np.unique(read(tmp_path / "maps" / "noon_landcover.tif"))) <= {0, 7, 40}
    categories = (tmp_path / "maps" / "noon_landcover.tif.aux.xml").read_text()
    assert "<Category>road</Category>" in categories


def test_info_says_which_models_fit(folder, tmp_path):
    def verdict(*more):
        call = ("info", folder / "noon.tif", "-m", folder / "town.p3vae", "--json", *more)
        return json.loads(succeed(*call).stdout)["models"][-1]

    assert verdict()["applicable"]
    fewer = verdict("--bad-bands", "600-800")
    assert fewer["applicable"] and "of its 34 bands are missing" in fewer["reason"]
    few = verdict("--bad-bands", "300-2000")
    assert not few["applicable"] and "of the 34 bands" in few["reason"]


def test_bad_labels_for_training(folder, tmp_path):
    scene, out = folder / "noon.tif", tmp_path / "m.p3vae"
    labels = geopandas.read_file(folder / "noon_labels.gpkg")
    one = tmp_path / "one.gpkg"
    labels[labels["class"] == labels["class"].iloc[0]].to_file(one)
    assert "at least two" in refusal(1, "train", scene, "--labels", one, "-o", out)
    far = tmp_path / "far.gpkg"
    labels.translate(1e5).to_frame("geometry").assign(**{"class": labels["class"]}).to_file(far)
    assert "no label falls" in refusal(1, "train", scene, "--labels", far, "-o", out)
    assert "no field" in refusal(
        1, "train", scene, "--labels", folder / "noon_labels.gpkg", "--class-field", "x", "-o", out
    )
    assert not list(tmp_path.glob("m.p3vae*"))
    assert "exists already" in refusal(
        1, "train", scene, "--labels", folder / "noon_labels.gpkg", "-o", folder / "town.p3vae"
    )


def damaged(folder: Path, tmp_path: Path, kind: str) -> Path:
    path = tmp_path / f"{kind}.p3vae"
    content = bytearray((folder / "town.p3vae").read_bytes())
    if kind == "truncated":
        content = content[:-1000]
    elif kind == "tampered":
        content[-10] ^= 1
    elif kind == "pickle":
        content = bytearray(b"\x80\x04\x95 not a model")
    elif kind == "newer":
        content = bytearray(bytes(content).replace(b'\\"format\\": 1', b'\\"format\\": 9'))
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("kind", "problem"),
    [("truncated", "truncated"), ("tampered", "hash"), ("pickle", "pickle"), ("newer", "upgrade")],
)
def test_damaged_models_are_refused(folder, tmp_path, kind, problem):
    path = damaged(folder, tmp_path, kind)
    message = refusal(1, "classify", folder / "noon.tif", "-m", path, "-o", tmp_path / "out")
    assert str(path) in message and problem in message
    assert not (tmp_path / "out").exists()


def test_scenes_a_model_cannot_be_fed(folder, tmp_path):
    model = folder / "town.p3vae"
    message = refusal(
        1, "classify", folder / "noon.tif", "-m", model, "-o", tmp_path / "o", "--bad-bands", "300-2000"
    )
    assert "of the 34 bands of the model town.p3vae" in message and "are needed" in message
    message = refusal(
        1, "classify", folder / "noon.tif", "-m", model, "-o", tmp_path / "o", "--quantity", "radiance"
    )
    assert "radiance" in message
    assert "no such model" in refusal(
        1, "classify", folder / "noon.tif", "-m", tmp_path / "none.p3vae", "-o", tmp_path / "o"
    )
    assert "cannot be used" in refusal(
        2, "classify", folder / "noon.tif", "-m", model, "-o", tmp_path / "o", "--device", "cuda:9"
    )
