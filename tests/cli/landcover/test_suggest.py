"""Where labels would help: unknown ground first, then ground between two classes."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import rasterio

from tests.cli.calls import refusal, run

ODD = np.s_[10:16, 20:30]


@pytest.fixture(scope="module")
def town_with_unknown_ground(mapped_town, tmp_path_factory):
    """The town with a roof of a paint that no class has: bright and dark bands by turns."""
    path = tmp_path_factory.mktemp("suggest") / "town.tif"
    shutil.copy(mapped_town / "town.tif", path)
    with rasterio.open(path, "r+") as scene:
        image = scene.read()
        image[(slice(None), *ODD)] = np.where(np.arange(len(image)) % 2, 6000, 500)[:, None, None]
        scene.write(image)
    return path


def suggested(town, model, folder, *words):
    done = run("suggest", town, "-m", model, "-o", folder / "label.gpkg", "--json", *words)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_unknown_ground_is_asked_for_before_doubtful_ground(town_with_unknown_ground, mapped_town, tmp_path):
    found = suggested(town_with_unknown_ground, mapped_town / "town.p3vae", tmp_path, "-n", 6)
    first = found[0]
    assert ODD[0].start <= first["row"] < ODD[0].stop and ODD[1].start <= first["col"] < ODD[1].stop
    assert first["reason"] == "unknown" and first["misfit"] > 10.0
    misfit = np.array([place["misfit"] for place in found])
    known = [place["confidence"] for place in found if place["reason"] == "uncertain"]
    assert [place["reason"] for place in found] == [
        "unknown" if each > 1.0 else "uncertain" for each in misfit
    ]
    assert max(known, default=0.0) < 0.95


def test_the_two_likeliest_classes_are_those_of_the_probabilities(mapped_town, tmp_path):
    """Of the map of probabilities, at the same pixels."""
    town, model = mapped_town / "town.tif", mapped_town / "town.p3vae"
    assert run("classify", town, "-m", model, "-o", tmp_path, "--probabilities").exit_code == 0
    with rasterio.open(tmp_path / "town_probabilities.tif") as source:
        probability, names = source.read(), source.descriptions
    with rasterio.open(tmp_path / "town_confidence.tif") as source:
        confidence = source.read(1)
    found = suggested(town, model, tmp_path, "-n", 8)
    for place in found:
        here = probability[:, place["row"], place["col"]]
        likeliest, second = np.argsort(-here)[:2]
        assert names[likeliest].startswith(place["likeliest"]) and names[second].startswith(place["second"])
        assert place["confidence"] == pytest.approx(confidence[place["row"], place["col"]], abs=0.01)
    entropy = [
        -(p := probability[:, place["row"], place["col"]].clip(1e-12)) @ np.log(p)
        for place in found
        if place["reason"] == "uncertain"
    ]
    assert entropy == sorted(entropy, reverse=True)


def test_a_seed_repeats_the_suggestions_and_another_one_may_not(mapped_town, tmp_path):
    town, model = mapped_town / "town.tif", mapped_town / "town.p3vae"
    one, same = (suggested(town, model, tmp_path, "-n", 5, "--seed", 3, "--overwrite") for _ in range(2))
    assert one == same


def test_more_suggestions_than_pixels_are_refused(mapped_town, tmp_path):
    with rasterio.open(mapped_town / "town.tif") as source:
        profile, tags, scales = source.profile, source.tags(), source.scales
        image, of_bands = source.read(), [source.tags(band) for band in source.indexes]
    image[:, 2:] = profile["nodata"]
    with rasterio.open(tmp_path / "strip.tif", "w", **profile) as made:
        made.write(image)
        made.update_tags(**tags)
        made.scales = scales
        for band, its in enumerate(of_bands, start=1):
            made.update_tags(band, **its)
    call = (
        "suggest",
        tmp_path / "strip.tif",
        "-m",
        mapped_town / "town.p3vae",
        "-o",
        tmp_path / "label.gpkg",
    )
    assert f"200 suggestions are more than the {2 * image.shape[2]} pixels" in refusal(2, *call, "-n", 200)
