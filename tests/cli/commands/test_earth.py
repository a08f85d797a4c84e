"""The shipped model `earth` as a user meets it: any sensor, one command."""

from __future__ import annotations

import json

import numpy as np
import pytest
import rasterio
from affine import Affine

from p3vae.physics.clouds import cloud_over
from p3vae.physics.snow import snow_albedo
from p3vae.physics.water import water_reflectance, wet_reflectance
from tests.cli.calls import refusal, run

SIDE = 12


def canopy(nm):
    """A green leaf as textbooks draw it: dark in the visible, bright to 1300 nm, water bands beyond."""
    red_edge = 1 / (1 + np.exp(-(nm - 718) / 12))
    visible = 0.035 + 0.05 * np.exp(-0.5 * ((nm - 550) / 35) ** 2)
    infrared = wet_reflectance(nm, np.full(nm.shape, 0.5), 0.25) / wet_reflectance(
        np.full(nm.shape, 800.0), np.full(nm.shape, 0.5), 0.25
    )
    return visible * (1 - red_edge) + 0.42 * infrared * red_edge


def scene(path, nm, width=None, sun=35.0, **change):
    """Three stripes of ground: water, green canopy, snow."""
    nm = np.asarray(nm, dtype=float)
    rows = [water_reflectance(nm, sediment=1.0), canopy(nm), snow_albedo(nm, 30.0, 30.0)]
    cube = np.repeat(np.repeat(np.stack(rows)[:, None], SIDE, 1), 4, 0)
    cube = cube * change.get("scale", 1.0) + change.get("bias", 0.0)
    cube = cube + np.random.default_rng(0).normal(0, 0.002, cube.shape)
    profile = {"driver": "GTiff", "height": len(cube), "width": SIDE, "count": len(nm), "dtype": "float32"}
    profile |= {"crs": "EPSG:32631", "transform": Affine(30.0, 0.0, 500_000.0, 0.0, -30.0, 4_800_000.0)}
    with rasterio.open(path, "w", **profile) as raster:
        raster.write(np.moveaxis(cube, -1, 0).astype(np.float32))
        for band, centre in enumerate(nm, start=1):
            raster.update_tags(band, wavelength=centre, wavelength_units="nm", fwhm=width or 10.0)
    return path, ("--sun-zenith", sun, "--quantity", "reflectance", "--scale", 1)


def read(path):
    with rasterio.open(path) as raster:
        return raster.read()


FULL = np.arange(420, 2440, 10.0)


def test_one_command_maps_a_scene_nobody_trained_for(tmp_path):
    path, options = scene(tmp_path / "a.tif", FULL)
    done = run("classify", path, *options, "-o", tmp_path, "--materials", "--fractions", "--json")
    assert done.exit_code == 0, done.output
    assert set(json.loads(done.stdout)["products"]) >= {"landcover", "material", "fractions", "fractions_std"}
    landcover = read(tmp_path / "a_landcover.tif")[0]
    assert (landcover[:4] == 80).all() and np.isin(landcover[4:8], (10, 30)).all()
    assert (landcover[8:] == 70).all()
    fractions = read(tmp_path / "a_fractions.tif")
    np.testing.assert_allclose(fractions.sum(0), 1, atol=1e-3)
    with rasterio.open(tmp_path / "a_fractions.tif") as raster:
        assert raster.descriptions[0] == "tree" and raster.count == 9
        assert fractions[raster.descriptions.index("water"), :4].mean() > 0.7
    light = read(tmp_path / "a_irradiance.tif")[0, 4:8]
    assert np.median(light) == pytest.approx(np.cos(np.radians(35.0)), abs=0.15)
    with rasterio.open(tmp_path / "a_material.tif") as raster:
        assert raster.read(1).min() >= 1
    probability = read(tmp_path / "a_material_probability.tif")
    assert (probability > 0).all() and (probability <= 1).all()


def test_a_material_belongs_to_the_class_of_the_map(tmp_path):
    from benchmarks.earth_library.legend import CLASSES, MATERIALS

    path, options = scene(tmp_path / "a.tif", FULL)
    run("classify", path, *options, "-o", tmp_path, "--materials")
    landcover, material = read(tmp_path / "a_landcover.tif")[0], read(tmp_path / "a_material.tif")[0]
    owner = [CLASSES[MATERIALS[name]][0] for name in MATERIALS]
    np.testing.assert_array_equal(np.take(owner, material - 1), landcover)


@pytest.mark.parametrize(
    ("nm", "said"),
    [
        (np.arange(420, 1000, 10.0), "bare ground and dry vegetation are one class"),
        (np.arange(1480, 2400, 10.0), "tree and grass and low vegetation are one class"),
        ((480.0, 560.0, 660.0, 860.0), "only 4 bands can be used"),
    ],
)
def test_a_sensor_with_less_is_mapped_and_told_what_is_lost(tmp_path, nm, said):
    path, options = scene(tmp_path / "a.tif", nm)
    done = run("classify", path, *options, "-o", tmp_path)
    assert done.exit_code == 0, done.output
    assert said in done.stderr
    if nm[0] < 1000:
        landcover = read(tmp_path / "a_landcover.tif")[0]
        assert (landcover[8:] == 70).mean() > 0.9 and np.isin(landcover[4:8], (10, 30)).mean() > 0.9


def test_bands_in_a_gap_and_night_are_refused(tmp_path):
    path, options = scene(tmp_path / "a.tif", np.arange(1380, 1440, 10.0))
    assert "0 of its bands lie where the model has any" in refusal(1, "classify", path, *options)
    path, options = scene(tmp_path / "b.tif", FULL, sun=90)
    assert "gives no direct light" in refusal(1, "classify", path, *options)
    assert not list(tmp_path.glob("*_landcover.tif"))


@pytest.mark.parametrize("change", [{"bias": 0.02}, {"scale": 1.2}])
def test_a_bias_or_a_wrong_scale_changes_few_classes(tmp_path, change):
    path, options = scene(tmp_path / "a.tif", FULL, **change)
    run("classify", path, *options, "-o", tmp_path)
    landcover = read(tmp_path / "a_landcover.tif")[0]
    assert np.isin(landcover[4:8], (10, 30)).all() and (landcover[8:] == 70).all()


def test_models_lists_what_is_shipped_and_what_is_given(tmp_path):
    entries = json.loads(run("models", "--json").stdout)
    assert {"earth", "town"} <= {entry["model"] for entry in entries if entry["shipped"]}
    missing = json.loads(run("models", "--json", tmp_path / "no.p3vae").stdout)[-1]
    assert not missing["shipped"] and missing["error"]
    assert "tree, grass and low vegetation" in run("models").stdout


def test_info_shows_the_card_of_a_model():
    text = run("info", "earth").stdout
    for said in ("ICRAF-ISRIC", "CC-BY 4.0", "Limits", "Mean reflectance", "▁"):
        assert said in text
    card = json.loads(run("info", "earth", "--json").stdout)
    assert card["classes"]["ids"][0] == 10 and len(card["spectra"]) == 9


def test_info_of_a_scene_says_that_earth_fits(tmp_path):
    path, options = scene(tmp_path / "a.tif", np.arange(420, 1000, 10.0))
    verdicts = json.loads(run("info", path, *options, "--json").stdout)["models"]
    assert next(v for v in verdicts if v["model"] == "earth.p3vae")["applicable"]


def one_ground(path, spectrum, nm=FULL):
    """A scene of one kind of ground."""
    found = scene(path, nm)
    with rasterio.open(path, "r+") as raster:
        noise = np.random.default_rng(1).normal(0, 0.002, raster.shape)
        for band, value in enumerate(spectrum, start=1):
            raster.write((value + noise).astype(np.float32), band)
    return found


def test_a_scene_of_water_alone_is_water(tmp_path):
    path, options = one_ground(tmp_path / "a.tif", water_reflectance(FULL, sediment=3.0))
    assert run("classify", path, *options, "-o", tmp_path).exit_code == 0
    assert (read(tmp_path / "a_landcover.tif") == 80).all()


@pytest.mark.parametrize(("area", "soot"), [(60.0, 1.0), (20.0, 30.0), (5.0, 300.0)])
def test_a_scene_of_snow_alone_is_snow(tmp_path, area, soot):
    path, options = one_ground(tmp_path / "a.tif", snow_albedo(FULL, area, soot))
    done = run("classify", path, *options, "-o", tmp_path)
    assert done.exit_code == 0, done.output
    assert (read(tmp_path / "a_landcover.tif") == 70).all()


@pytest.mark.parametrize("valid", [20, 1, 0])
def test_a_scene_of_few_valid_pixels_is_mapped_where_there_are_any(tmp_path, valid):
    path, options = scene(tmp_path / "a.tif", FULL)
    kept = np.zeros((12, SIDE), dtype=bool)
    places = np.random.default_rng(2).permutation(kept.size)[:valid]
    kept.flat[places] = True
    with rasterio.open(path, "r+") as raster:
        raster.nodata = -9999
        raster.write(np.where(kept, raster.read(), -9999).astype(np.float32))
    if not valid:
        refusal(1, "classify", path, *options, "-o", tmp_path)
        assert not list(tmp_path.glob("*_landcover.tif"))
        return
    done = run("classify", path, *options, "-o", tmp_path)
    assert done.exit_code == 0, done.output
    landcover = read(tmp_path / "a_landcover.tif")[0]
    assert (landcover[~kept] == 0).all()
    right = [np.isin(landcover[4 * k : 4 * k + 4], ids) for k, ids in enumerate(((80,), (10, 30), (70,)))]
    assert np.concatenate(right)[kept].all()


@pytest.mark.parametrize(("depth", "phase"), [(5.0, "water"), (40.0, "water"), (5.0, "ice"), (40.0, "ice")])
def test_a_cloud_is_cloud_over_dark_and_bright_ground(tmp_path, depth, phase):
    for number, ground in enumerate((canopy(FULL), water_reflectance(FULL), np.full(len(FULL), 0.3))):
        cloud = cloud_over(FULL, ground, depth, 12.0 if phase == "water" else 30.0, phase)
        path, options = one_ground(tmp_path / f"{number}.tif", cloud)
        done = run("classify", path, *options, "-o", tmp_path)
        assert done.exit_code == 0, done.output
        assert (read(tmp_path / f"{number}_landcover.tif") == 130).mean() > 0.95


def test_without_bands_about_1600_nm_snow_and_cloud_are_one_class(tmp_path):
    nm = np.arange(420.0, 1000.0, 10.0)
    path, options = one_ground(tmp_path / "a.tif", cloud_over(nm, canopy(nm), 30.0), nm)
    done = run("classify", path, *options, "-o", tmp_path)
    assert "snow and ice and cloud are one class" in done.stderr
    assert (read(tmp_path / "a_landcover.tif") == 70).mean() > 0.95


def test_a_scale_that_no_light_explains_is_said(tmp_path):
    ground = canopy(FULL)
    for scale, said in ((1.0, False), (0.05, True), (8.0, True)):
        path, options = one_ground(tmp_path / f"{scale}.tif", scale * ground)
        done = run("classify", path, *options, "-o", tmp_path)
        assert done.exit_code == 0, done.output
        assert ("the direct light of land is" in done.output) == said


def test_a_gain_of_the_scene_is_said_and_undone(tmp_path):
    """A blue too bright by a fifth, as a wrong atmospheric correction gives."""
    path, options = scene(tmp_path / "a.tif", FULL)
    with rasterio.open(path, "r+") as raster:
        gain = 1 + 0.3 * np.exp(-(FULL - 400) / 300)
        raster.write((raster.read() * gain[:, None, None]).astype(np.float32))
    done = run("classify", path, *options, "-o", tmp_path)
    assert "compared with the libraries of earth" in done.stderr
    manifest = json.loads((tmp_path / "a_p3vae.json").read_text())
    assert "scene" in str(manifest)
    left = run("classify", path, *options, "-o", tmp_path / "left", "--no-scene-gain")
    assert "compared with the libraries" not in left.stderr


def test_the_classifier_needs_bands_that_a_network_knows(tmp_path):
    path, options = scene(tmp_path / "a.tif", np.arange(1480.0, 2400.0, 10.0))
    call = ("classify", path, *options, "-o", tmp_path / "q", "--method", "classifier")
    done = run(*call)
    assert done.exit_code == 2 and "--method classifier" in done.stderr and not (tmp_path / "q").exists()
    path, options = scene(tmp_path / "b.tif", FULL)
    assert run("classify", path, *options, "-o", tmp_path, "--method", "classifier").exit_code == 0
    assert (read(tmp_path / "b_landcover.tif")[0, 8:] == 70).all()
