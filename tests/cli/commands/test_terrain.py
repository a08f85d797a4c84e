"""Terrain as an observation of light, through the program, on simulated mountains with their truth."""

import json

import numpy as np
import pytest
import rasterio
from affine import Affine
from rasterio.enums import Resampling
from rasterio.warp import reproject, transform_bounds

from tests.cli.calls import refusal, stdout_of, succeed


@pytest.fixture(scope="module")
def mountains(tmp_path_factory):
    """A scene of 80 x 80 pixels, its truth, and elevations with an error of 5 m."""
    folder = tmp_path_factory.mktemp("mountains")
    call = ["simulate", "-o", folder / "m.tif", "--relief", "mountains", "--size", "80x80", "--seed", 4]
    succeed(*call, "--sun-zenith", 55, "--sun-azimuth", 150, "--dem-error", 5)
    return folder


def values(path):
    with rasterio.open(path) as source:
        return source.read(1)


def truth(folder, layer="irradiance_truth"):
    return values(folder / f"m_{layer}.tif")


def light(scene, out, *more):
    """Mean and standard deviation of the light."""
    done = succeed("irradiance-map", scene, "-m", "town", "-o", out, "--overwrite", *more)
    stem = scene.stem
    return values(out / f"{stem}_irradiance.tif"), values(out / f"{stem}_irradiance_std.tif"), done


def error(found, folder):
    return float(np.abs(found - truth(folder)).mean())


def rewritten(source, target, change=lambda data: data, **profile):
    """A raster with other values or another profile."""
    with rasterio.open(source) as file:
        data, kept = change(file.read()), file.profile | profile
    kept = {key: value for key, value in kept.items() if key not in ("blockxsize", "blockysize", "tiled")}
    with rasterio.open(target, "w", **kept) as file:
        file.write(data.astype(kept["dtype"]))
    return target


def test_light_by_both_is_better_than_by_either(mountains, tmp_path):
    scene, dem = mountains / "m.tif", mountains / "m_dem.tif"
    alone, _, _ = light(scene, tmp_path / "alone")
    both, std, done = light(scene, tmp_path / "both", "--dem", dem, "--terrain")
    of_terrain = values(tmp_path / "both" / "m_terrain_incidence.tif")
    assert error(both, mountains) < error(alone, mountains)
    assert error(both, mountains) < error(of_terrain, mountains)
    assert 0.85 < np.mean(np.abs(both - truth(mountains)) < 1.96 * std) <= 1
    record = json.loads((tmp_path / "both" / "m_p3vae.json").read_text())
    said = record["settings"]["terrain"]["error"]
    true = np.sqrt(np.mean(np.square(of_terrain - truth(mountains))))
    assert true / 1.5 < said < true * 1.5, done.output


def test_layers_are_those_of_the_truth(mountains, tmp_path):
    """From the true elevations of pixels; the truth is made on finer cells."""
    light(mountains / "m.tif", tmp_path, "--dem", mountains / "m_dem_truth.tif", "--terrain")
    sky = values(tmp_path / "m_terrain_sky_view.tif")
    inner = slice(10, -10), slice(10, -10)
    assert np.abs(sky - truth(mountains, "sky_view"))[inner].mean() < 0.02
    assert np.abs(values(tmp_path / "m_terrain_incidence.tif") - truth(mountains))[inner].mean() < 0.04


def test_maps_do_not_depend_on_tiles(mountains, tmp_path):
    scene, dem = mountains / "m.tif", mountains / "m_dem.tif"
    more = ("--dem", dem, "--terrain", "--audit")
    for name, size in (("one", 512), ("many", 16)):
        light(scene, tmp_path / name, *more, "--tile-size", size)
    for path in (tmp_path / "one").glob("*.tif"):
        np.testing.assert_array_equal(values(path), values(tmp_path / "many" / path.name), err_msg=path.name)


def test_gaps_are_mapped_as_without_terrain(mountains, tmp_path):
    def with_gap(data):
        data[0, 40:60, 40:60] = -9999
        return data

    dem = rewritten(mountains / "m_dem.tif", tmp_path / "gap.tif", with_gap)
    scene = mountains / "m.tif"
    alone, alone_std, _ = light(scene, tmp_path / "alone")
    found, std, _ = light(scene, tmp_path / "gap", "--dem", dem)
    hole = slice(20, 32), slice(20, 32)  # the elevations reach 24 pixels beyond the scene
    np.testing.assert_array_equal(found[hole], alone[hole])
    np.testing.assert_array_equal(std[hole], alone_std[hole])
    assert (found[50:] != alone[50:]).mean() > 0.9


def test_feet_another_crs_and_other_pixels_are_read(mountains, tmp_path):
    scene = mountains / "m.tif"
    found, _, _ = light(scene, tmp_path / "metres", "--dem", mountains / "m_dem.tif")
    feet = rewritten(mountains / "m_dem.tif", tmp_path / "feet.tif", lambda data: data / 0.3048)
    with rasterio.open(feet, "r+") as file:
        file.units = ("ft",)
    in_feet, _, _ = light(scene, tmp_path / "ft", "--dem", feet)
    np.testing.assert_allclose(in_feet, found, atol=5e-3)
    with rasterio.open(mountains / "m_dem.tif") as source:
        west, south, east, north = transform_bounds(source.crs, "EPSG:4326", *source.bounds)
        size = {"width": 170, "height": 130}
        there = Affine((east - west) / 170, 0, west, 0, (south - north) / 130, north)
        data = np.full((130, 170), -9999, np.float32)
        reproject(
            rasterio.band(source, 1),
            data,
            dst_crs="EPSG:4326",
            dst_transform=there,
            dst_nodata=-9999,
            resampling=Resampling.cubic,
        )
    lonlat = tmp_path / "lonlat.tif"
    profile = {"driver": "GTiff", "count": 1, "dtype": "float32", "nodata": -9999, **size}
    with rasterio.open(lonlat, "w", crs="EPSG:4326", transform=there, **profile) as file:
        file.write(data, 1)
    by_degrees, _, _ = light(scene, tmp_path / "deg", "--dem", lonlat)
    assert np.abs(by_degrees - found).mean() < 0.03
    assert error(by_degrees, mountains) < 0.06


def test_incidence_of_the_product_is_taken_by_its_name(mountains, tmp_path):
    """Of an observation file with several bands."""
    with rasterio.open(mountains / "m_incidence.tif") as source:
        profile = source.profile | {"count": 3}
        lit = source.read(1) * (truth(mountains, "shadow") < 0.5)
    obs = tmp_path / "obs.tif"
    with rasterio.open(obs, "w", **profile) as target:
        for number, name in enumerate(("Slope", "Aspect", "Cosine(i)"), start=1):
            target.write(lit if number == 3 else 50 * np.ones_like(lit), number)
            target.set_band_description(number, name)
    found, _, _ = light(mountains / "m.tif", tmp_path / "out", "--incidence", obs)
    assert error(found, mountains) < 0.03


def test_a_displaced_elevation_model_is_found(mountains, tmp_path):
    moved = tmp_path / "moved.tif"
    with rasterio.open(mountains / "m_dem.tif") as source:
        there = Affine.translation(60, 0) @ source.transform
    rewritten(mountains / "m_dem.tif", moved, transform=there)
    _, _, done = light(mountains / "m.tif", tmp_path / "moved", "--dem", moved, "--audit")
    assert "fits the spectra better 60 m to the west" in done.output
    _, _, done = light(mountains / "m.tif", tmp_path / "right", "--dem", mountains / "m_dem.tif", "--audit")
    assert "lies where the spectra say" in done.output
    of = {name: values(tmp_path / name / "m_terrain_disagreement.tif") for name in ("moved", "right")}
    assert np.abs(of["moved"]).mean() > np.abs(of["right"]).mean()


def test_classes_gain(mountains, tmp_path):
    classes = truth(mountains, "class")
    for name, more in (("without", ()), ("with", ("--dem", mountains / "m_dem.tif"))):
        succeed("classify", mountains / "m.tif", "-m", "town", "-o", tmp_path / name, *more)
    right = [
        float(np.mean(values(tmp_path / name / "m_landcover.tif") == classes)) for name in ("without", "with")
    ]
    assert right[1] >= right[0] - 0.01


def test_explain_knows_the_terrain(mountains, tmp_path):
    """The light of a pixel is that of the map."""
    scene, dem = mountains / "m.tif", mountains / "m_dem.tif"
    found, _, _ = light(scene, tmp_path, "--dem", dem)
    call = ["explain", scene, "-m", "town", "--pixel", "30,40", "--json", "--dem", dem]
    said = json.loads(stdout_of(*call))["irradiance"]
    assert said == pytest.approx(float(found[40, 30]), abs=1e-4)


def test_labels_of_known_light_teach_light(mountains, tmp_path):
    """The light of other mountains by their spectra alone is nearer to the truth."""
    other = tmp_path / "other"
    call = ["simulate", "-o", other / "m.tif", "--relief", "mountains", "--size", "80x80", "--seed", 5]
    succeed(*call, "--sun-zenith", 60, "--sun-azimuth", 170)
    errors = []
    for name, more in (("plain", ()), ("known", ("--dem", mountains / "m_dem.tif"))):
        model, out = tmp_path / f"{name}.p3vae", tmp_path / name
        labels = mountains / "m_labels.gpkg"
        succeed("train", mountains / "m.tif", "--labels", labels, "-o", model, "-q", *more)
        succeed("irradiance-map", other / "m.tif", "-m", model, "-o", out)
        errors.append(error(values(out / "m_irradiance.tif"), other))
    assert errors[1] < errors[0] - 0.005


def test_a_model_without_light_takes_no_terrain(mountains, tmp_path):
    labels, model = mountains / "m_labels.gpkg", tmp_path / "lda.p3vae"
    succeed("train", mountains / "m.tif", "--labels", labels, "--model", "lda", "-o", model, "-q")
    call = ["classify", mountains / "m.tif", "-m", model, "-o", tmp_path / "out"]
    assert "takes no terrain" in refusal(2, *call, "--dem", mountains / "m_dem.tif")
    call = ["train", mountains / "m.tif", "--labels", labels, "--model", "lda", "-o", tmp_path / "x.p3vae"]
    assert "takes no terrain" in refusal(2, *call, "--dem", mountains / "m_dem.tif")


def described(path, text="", unit=""):
    with rasterio.open(path, "r+") as file:
        file.descriptions, file.units = (text,), (unit,)
    return path


BAD = {
    "no CRS": (lambda d, t: rewritten(d, t, crs=None), "has no CRS"),
    "depth": (lambda d, t: described(rewritten(d, t), "Bathymetric depth", "m"), "not elevations"),
    "slope in degrees": (lambda d, t: described(rewritten(d, t), "Slope", "degree"), "not elevations"),
    "unknown unit": (lambda d, t: described(rewritten(d, t), "", "furlong"), "furlong"),
    "nodata": (lambda d, t: rewritten(d, t, lambda x: 0 * x - 9999), "no elevation in the scene"),
    "constant": (lambda d, t: rewritten(d, t, lambda x: 0 * x + 7), "same elevation everywhere"),
    "elsewhere": (
        lambda d, t: rewritten(d, t, transform=Affine(30, 0, 374000, 0, -30, 4830720)),
        "of the scene",
    ),
    "coarse": (
        lambda d, t: rewritten(d, t, transform=Affine(3000, 0, 270000, 0, -3000, 4930720)),
        "100 times as large",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_elevation_model_is_refused_in_one_line(mountains, tmp_path, kind):
    make, said = BAD[kind]
    dem = make(mountains / "m_dem.tif", tmp_path / "dem.tif")
    out = tmp_path / "out"
    line = refusal_of(mountains / "m.tif", out, "--dem", dem)
    assert said in line and "dem.tif" in line
    assert not list(out.glob("*")) if out.exists() else True


def refusal_of(scene, out, *more):
    for code in (1, 2):
        try:
            return refusal(code, "irradiance-map", scene, "-m", "town", "-o", out, *more)
        except AssertionError as found:
            failed = found
    raise failed


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda x: np.degrees(np.arccos(x)), "angles"),
        (lambda x: 1.5 * x + 0.2, "no cosines"),
        (lambda x: 0 * x - 9999, "no value"),
    ],
)
def test_what_is_no_cosine_is_refused(mountains, tmp_path, change, said):
    bad = rewritten(mountains / "m_incidence.tif", tmp_path / "i.tif", change)
    assert said in refusal_of(mountains / "m.tif", tmp_path / "out", "--incidence", bad)


def test_other_bad_calls_are_refused(mountains, tmp_path):
    scene, dem, out = mountains / "m.tif", mountains / "m_dem.tif", tmp_path / "out"
    shifted = rewritten(
        mountains / "m_incidence.tif", tmp_path / "i.tif", transform=Affine(30, 0, 373015, 0, -30, 4830000)
    )
    assert "another grid" in refusal_of(scene, out, "--incidence", shifted)
    assert "no direct light" in refusal_of(scene, out, "--dem", dem, "--sun-zenith", 90)
    assert "give --dem FILE" in refusal_of(scene, out, "--audit")
    assert "same" in refusal_of(scene, out, "--dem", dem, "--incidence", mountains / "m_incidence.tif")
    assert "no such file" in refusal_of(scene, out, "--dem", tmp_path / "none.tif").lower()
    assert not out.exists() or not list(out.iterdir())


def test_a_scene_behind_a_mountain_is_refused(mountains, tmp_path):
    """Low sun, and a wall towards it all along the scene."""

    def with_wall(data):
        data[0, 90:] = 9000 + np.linspace(0, 2000, 38)[:, None]
        return data

    dem = rewritten(mountains / "m_dem.tif", tmp_path / "wall.tif", with_wall)
    more = ("--sun-zenith", 80, "--sun-azimuth", 180)
    line = refusal_of(
        mountains / "m.tif", tmp_path / "out", "--dem", dem, "--bbox", "373000,4829000,374000,4830000", *more
    )
    assert "shadow" in line
