"""fg-unet from the command line: trained on patches of a scene, applied tile by tile without seams."""

from __future__ import annotations

import json
import re

import geopandas
import numpy as np
import pytest
import rasterio

from p3vae import classify, load_model, open_scene
from tests.cli.calls import refusal, succeed
from tests.cli.commands.test_landcover import agreement, read

TILES = ("--tile-size", 21), ("--tile-size", 30), ("--tile-size", 50)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A town whose sides are no multiples of a pooling cell, and a network shortly trained on it."""
    folder = tmp_path_factory.mktemp("fg_unet")
    succeed("simulate", "-o", folder / "noon.tif", "--size", "71x74", "--bands", 24, "--sun-zenith", 30)
    done = succeed(
        "train", folder / "noon.tif", "--labels", folder / "noon_labels.gpkg", "-o", folder / "net.p3vae",
        "--model", "fg-unet", "--epochs", 25,
    )  # fmt: skip
    assert "Average F1" in done.stdout
    succeed(
        "classify", folder / "noon.tif", "-m", folder / "net.p3vae", "-o", folder / "maps", "--probabilities"
    )
    return folder


def test_land_cover_is_found_and_no_light_is_claimed(folder):
    """Six classes; the largest covers less than half of the town."""
    assert agreement(folder, "noon", folder / "maps") > 0.75
    made = {path.name for path in (folder / "maps").glob("*.tif")}
    assert made == {f"noon_{name}.tif" for name in ("landcover", "confidence", "probabilities")}
    manifest = json.loads((folder / "maps" / "noon_p3vae.json").read_text())
    assert "fg-unet" in json.dumps(manifest)


def sparse_mask(folder, tmp_path):
    """A raster mask with holes, so that nodata lies across tile borders."""
    with rasterio.open(folder / "noon_class.tif") as source:
        profile = {k: source.profile[k] for k in ("crs", "transform", "width", "height", "count", "dtype")}
    kept = np.random.default_rng(3).random((71, 74)) > 0.1
    kept[15:25, 18:30] = False
    with rasterio.open(tmp_path / "mask.tif", "w", driver="GTiff", **profile) as target:
        target.write(kept.astype(np.uint8), 1)
    return tmp_path / "mask.tif"


def test_no_tiling_shows_in_the_maps_also_around_nodata(folder, tmp_path):
    mask = sparse_mask(folder, tmp_path)
    for name, options in (("whole", ()), *((f"tiles{n}", tile) for n, tile in enumerate(TILES))):
        succeed("classify", folder / "noon.tif", "-m", folder / "net.p3vae", "-o", tmp_path / name,
                "--probabilities", "--mask", mask, *options)  # fmt: skip
    for name in ("confidence", "probabilities", "landcover"):
        whole, *others = (read(tmp_path / part / f"noon_{name}.tif")
                          for part in ("whole", "tiles0", "tiles1", "tiles2"))  # fmt: skip
        for other in others:
            np.testing.assert_allclose(other, whole, atol=2e-5)
    masked = read(tmp_path / "whole" / "noon_confidence.tif")[25:60, 10:40]
    assert np.nanmax(np.abs(masked - read(folder / "maps" / "noon_confidence.tif")[25:60, 10:40])) > 1e-3


def test_a_part_of_a_scene_is_mapped_as_in_the_whole(folder, tmp_path):
    with rasterio.open(folder / "noon.tif") as source:
        (left, top), (right, bottom) = source.xy(10, 13, offset="ul"), source.xy(39, 54, offset="lr")
    succeed("classify", folder / "noon.tif", "-m", folder / "net.p3vae", "-o", tmp_path,
            "--bbox", f"{left},{bottom},{right},{top}")  # fmt: skip
    part = read(tmp_path / "noon_confidence.tif")
    np.testing.assert_allclose(part, read(folder / "maps" / "noon_confidence.tif")[10:40, 13:55], atol=2e-5)


def test_the_same_in_python_and_only_for_images(folder):
    model = load_model(folder / "net.p3vae")
    with open_scene(folder / "noon.tif") as scene:
        maps = classify(scene, model)
    np.testing.assert_array_equal(maps["landcover"], read(folder / "maps" / "noon_landcover.tif"))
    with pytest.raises(ValueError, match="neighbours"):
        model.predict(np.full((5, len(model.bands)), 0.2, np.float32), model.irradiance)


def test_unknown_spectra_are_marked(folder, tmp_path):
    with rasterio.open(folder / "noon.tif") as source:
        cube, profile, general = source.read(), source.profile, source.tags()
        tags, scales = [source.tags(band) for band in source.indexes], source.scales
    cube[:, 40:50, 40:50] = np.random.default_rng(0).integers(500, 9000, (len(cube), 10, 10))
    with rasterio.open(tmp_path / "odd.tif", "w", **profile) as target:
        target.write(cube)
        target.scales = scales
        target.update_tags(**general)
        for band, band_tags in enumerate(tags, 1):
            target.update_tags(band, **band_tags)
    succeed("classify", tmp_path / "odd.tif", "-m", folder / "net.p3vae", "-o", tmp_path, "--unknown")
    found = read(tmp_path / "odd_landcover.tif")
    assert (found[40:50, 40:50] == 255).mean() > 0.9
    assert (found[:15] == 255).mean() < 0.3


def test_what_it_cannot_do_is_said(folder, tmp_path):
    scene, model = folder / "noon.tif", folder / "net.p3vae"
    assert "does not estimate light" in refusal(1, "irradiance-map", scene, "-m", model, "-o", tmp_path / "x")
    assert "--method" in refusal(
        2, "classify", scene, "-m", model, "-o", tmp_path / "x", "--method", "posterior"
    )
    assert not (tmp_path / "x").exists()


def test_training_is_reproducible_and_an_unlabelled_scene_takes_part(folder, tmp_path):
    labels = geopandas.read_file(folder / "noon_labels.gpkg")
    common = ("--model", "fg-unet", "--epochs", 2, "--labels", folder / "noon_labels.gpkg")
    for name in ("a", "b"):
        succeed("train", folder / "noon.tif", *common, "-o", tmp_path / f"{name}.p3vae")
    assert (tmp_path / "a.p3vae").read_bytes() == (tmp_path / "b.p3vae").read_bytes()
    succeed("simulate", "-o", tmp_path / "far.tif", "--size", "40x40", "--bands", 24, "--sun-zenith", 30,
            "--seed", 2)  # fmt: skip
    corner = labels.total_bounds[0] + 40
    labels.cx[corner:, :].to_file(tmp_path / "east.gpkg")
    succeed("train", tmp_path / "far.tif", folder / "noon.tif", *common[:-1], tmp_path / "east.gpkg",
            "-o", tmp_path / "two.p3vae")  # fmt: skip
    assert load_model(tmp_path / "two.p3vae").data_sha256 != load_model(tmp_path / "a.p3vae").data_sha256


def test_labels_that_memory_has_no_room_for_are_told(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("p3vae.models.landcover.patches.MOST_BYTES", 3 * 32**2 * 24 * 4)
    done = succeed("train", folder / "noon.tif", "--labels", folder / "noon_labels.gpkg",
                   "--model", "fg-unet", "--epochs", 1, "-o", tmp_path / "small.p3vae")  # fmt: skip
    assert re.search(r"noon.tif: \d+ of \d+ labelled pixels are left out", " ".join(done.stderr.split()))
