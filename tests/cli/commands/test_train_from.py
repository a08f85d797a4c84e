"""`train --from earth`: one polygon per class, and what the library knows of the rest."""

from __future__ import annotations

import json

import geopandas
import numpy as np
import pytest
import rasterio
from affine import Affine
from shapely.geometry import box

from p3vae.physics.snow import snow_albedo
from p3vae.physics.water import water_reflectance
from tests.cli.calls import refusal, run

SIDE, STRIPE = 12, 8
NM = np.arange(420, 2440, 20.0)
CORNER = (500_000.0, 4_800_000.0)
OPTIONS = ("--sun-zenith", 35, "--quantity", "reflectance", "--scale", 1)


def stripes():
    """Clear water, muddy water, fresh snow, old snow."""
    water = [water_reflectance(NM, sediment=sediment) for sediment in (0.3, 60.0)]
    return np.stack([*water, snow_albedo(NM, 60.0, 1.0), 0.6 * snow_albedo(NM, 1.0, 800.0)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A scene of four stripes, of which the first and the third have one polygon each."""
    folder = tmp_path_factory.mktemp("few")
    cube = np.repeat(np.repeat(stripes()[:, None], SIDE, 1), STRIPE, 0)
    cube = cube * np.random.default_rng(0).normal(1, 0.03, (*cube.shape[:2], 1))
    cube = cube + np.random.default_rng(1).normal(0, 0.002, cube.shape)
    profile = {"driver": "GTiff", "height": len(cube), "width": SIDE, "count": len(NM), "dtype": "float32"}
    profile |= {"crs": "EPSG:32631", "transform": Affine(30.0, 0.0, CORNER[0], 0.0, -30.0, CORNER[1])}
    with rasterio.open(folder / "scene.tif", "w", **profile) as raster:
        raster.write(np.moveaxis(cube, -1, 0).astype(np.float32))
        for band, centre in enumerate(NM, start=1):
            raster.update_tags(band, wavelength=centre, wavelength_units="nm", fwhm=20.0)
    for name, classes in (("known", ("water", "snow and ice")), ("own", ("lake", "glacier"))):
        labels(folder / f"{name}.gpkg", *classes)
    return folder


def labels(path, wet, white):
    """One polygon of clear water, one of fresh snow."""
    places = [box(60, -180, 240, -60), box(60, -660, 240, -540)]
    shapes = geopandas.GeoSeries(places, crs="EPSG:32631").translate(*CORNER)
    geopandas.GeoDataFrame({"class": [wet, white]}, geometry=shapes).to_file(path)
    return path


def train(folder, name, *more):
    model = folder / f"{name}.p3vae"
    words = ("train", folder / "scene.tif", *OPTIONS, "-o", model, "--overwrite")
    done = run(*words, *more)
    assert done.exit_code == 0, done.output
    return model, done


def right(folder, model, wet, *more):
    """Share of each stripe that is mapped as it should be."""
    out = folder / model.stem
    done = run("classify", folder / "scene.tif", *OPTIONS, "-m", model, "-o", out, "--overwrite", *more)
    assert done.exit_code == 0, done.output
    with rasterio.open(out / "scene_landcover.tif") as raster:
        is_wet = (raster.read(1) == wet).reshape(4, -1).mean(1)
    return [is_wet[0], is_wet[1], 1 - is_wet[2], 1 - is_wet[3]]


def wet_id(model, name):
    classes = json.loads(run("info", model, "--json").stdout)["classes"]
    return dict(zip(classes["names"], classes["ids"], strict=True))[name]


def test_the_library_knows_what_one_polygon_does_not_show(folder):
    given = ("--labels", folder / "known.gpkg")
    alone, _ = train(folder, "alone", *given)
    helped, done = train(folder, "helped", *given, "--from", "earth")
    assert "water is its water" in done.stderr
    with_it = right(folder, helped, wet_id(helped, "water"))
    assert min(right(folder, alone, wet_id(alone, "water"))) < 0.5
    assert min(with_it) > 0.9, with_it


def test_an_alias_names_the_class_of_the_library(folder):
    given = ("--labels", folder / "own.gpkg", "--from", "earth")
    _, done = train(folder, "unnamed", *given)
    assert "glacier, lake may be any of its materials" in done.stderr
    model, _ = train(folder, "named", *given, "--alias", "lake=water", "--alias", "glacier=snow and ice")
    assert min(right(folder, model, wet_id(model, "lake"))) > 0.9


def test_the_library_goes_without_the_bands_that_a_scene_lacks(folder):
    model, _ = train(folder, "fewer", "--labels", folder / "known.gpkg", "--from", "earth")
    without = right(folder, model, wet_id(model, "water"), "--bad-bands", "1000-1500")
    assert min(without) > 0.9, without


def test_the_card_says_where_the_prior_came_from(folder):
    model, _ = train(folder, "card", "--labels", folder / "known.gpkg", "--from", "earth")
    card = json.loads(run("info", model, "--json").stdout)
    assert card["settings"]["prior"] == "earth"
    assert card["prior"]["matches"] == {"water": "water", "snow and ice": "snow and ice"}
    source = next(source for source in card["sources"] if source["role"] == "prior")
    assert source["name"] == "earth.p3vae" and len(source["sha256"]) == 64
    assert "earth, weight 0.80" in run("info", model).stdout


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (("--from", "town"), 2, "--from needs a model of materials"),
        (("--from", "none.p3vae"), 1, "none.p3vae"),
        (("--from", "earth", "--model", "lda"), 1, "takes no other model as prior"),
        (("--from", "earth", "--alias", "lake=lava"), 1, "the library has no 'lava'"),
        (("--from", "earth", "--alias", "pond=water"), 1, "the labels have no class 'pond'"),
        (("--from", "earth", "--alias", "lake"), 2, "is not CLASS=NAME"),
        (("--alias", "lake=water"), 2, "give that model with --from"),
    ],
)
def test_what_cannot_be_a_prior_is_refused(folder, tmp_path, more, code, said):
    words = ("train", folder / "scene.tif", *OPTIONS, "--labels", folder / "own.gpkg")
    assert said in refusal(code, *words, "-o", tmp_path / "m.p3vae", *more)
    assert not list(tmp_path.iterdir())


def test_a_class_that_two_names_of_the_library_match_needs_an_alias(folder, tmp_path):
    doubtful = labels(tmp_path / "doubtful.gpkg", "vegetation", "lake")
    words = ("train", folder / "scene.tif", *OPTIONS, "--labels", doubtful, "--from", "earth")
    said = refusal(1, *words, "-o", tmp_path / "m.p3vae")
    assert "may be grass and low vegetation or dry vegetation" in said and "--alias" in said
