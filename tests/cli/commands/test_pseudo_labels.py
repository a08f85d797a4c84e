"""A scene with a kind of road that no polygon shows, trained on and mapped as a user does it."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import rasterio

from tests.cli.calls import run
from tests.cli.scenes.fixtures import UTM, UTM_TRANSFORM, wavelength_tags
from tests.models.landcover.toy_ground import BANDS, GRASS, LIGHT, OTHER_ROAD, ROAD, ROOF, lit

SIDE = 20


@pytest.fixture
def folder(tmp_path):
    """Four fields of random light beside each other; flat strips of the first three are labelled."""
    rng = np.random.default_rng(3)
    cube = np.zeros((3 * SIDE, 4 * SIDE, len(BANDS)), np.float32)
    labels = np.zeros(cube.shape[:2], np.uint8)
    for number, material in enumerate((GRASS, ROOF, ROAD, OTHER_ROAD)):
        columns = slice(number * SIDE, (number + 1) * SIDE)
        cube[:, columns] = lit(material, 3 * SIDE * SIDE, rng, flat=False).reshape(3 * SIDE, SIDE, -1)
        if material is OTHER_ROAD:
            break
        for row in (2, 22, 42):
            strip = (slice(row, row + 4), slice(columns.start + 3, columns.start + 10))
            cube[strip] = lit(material, 28, rng, flat=True).reshape(4, 7, -1)
            labels[strip] = number + 1
    profile = {
        "driver": "GTiff",
        "height": 3 * SIDE,
        "width": 4 * SIDE,
        "crs": UTM,
        "transform": UTM_TRANSFORM,
    }
    with rasterio.open(tmp_path / "scene.tif", "w", count=len(BANDS), dtype="float32", **profile) as target:
        target.write(cube.transpose(2, 0, 1))
        for band, tags in enumerate(wavelength_tags(BANDS.wavelength_nm), start=1):
            target.update_tags(band, **tags)
    with rasterio.open(tmp_path / "labels.tif", "w", count=1, dtype="uint8", nodata=0, **profile) as target:
        target.write(labels, 1)
    with (tmp_path / "light.csv").open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["wavelength_nm", "direct", "diffuse"])
        table.writerows(zip(BANDS.wavelength_nm, LIGHT.direct, LIGHT.diffuse, strict=True))
    return tmp_path


def call(folder, *words):
    light = ("--irradiance", folder / "light.csv", "--sun-zenith", 30)
    done = run(*words, *light)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_training_tells_which_class_the_unlabelled_ground_added_to(folder):
    train = ("train", folder / "scene.tif", "--labels", folder / "labels.tif", "--epochs", 2)
    names = ("--class-names", "grass,roof,road")
    said = call(folder, *train, *names, "-o", folder / "grown.p3vae")
    assert "Unlabelled ground added a spectrum to: road\n" in said
    assert "added" not in call(folder, *train, *names, "-o", folder / "plain.p3vae", "--no-adoption")

    call(folder, "classify", folder / "scene.tif", "-m", folder / "grown.p3vae", "-o", folder / "maps")
    with rasterio.open(folder / "maps" / "scene_landcover.tif") as source:
        found = source.read(1)
    assert (found[:, 3 * SIDE :] == 3).mean() > 0.95
