"""invert-methane over sea, cloud and shadow, and what it says about plumes: place, wind, style."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import geopandas
import h5py
import numpy as np
import pytest
import rasterio

from p3vae.cli.styles.rasters import Ramp, style_document
from p3vae.physics.quality import top_of_atmosphere_reflectance
from tests.cli.calls import refusal, stdout_of, succeed

ROWS, COLS, SEA = 120, 90, 30
CUBES = "HDFEOS/SWATHS/PRS_L1_HCO/Data Fields"


def read(path):
    with rasterio.open(path) as source:
        return source.read(1)


def refused(code, *arguments):
    return refusal(code, "invert-methane", *arguments)


@pytest.fixture(scope="module")
def scene(mapped_plumes) -> Path:
    return mapped_plumes / "two.he5"


def flood(source: Path, target: Path, columns: int) -> Path:
    """The same scene with sea over the last image columns: hardly any light beyond 1 um, and noise."""
    shutil.copy(source, target)
    rng = np.random.default_rng(0)
    with h5py.File(target, "r+") as file:
        for name, share, noise in (("VNIR_Cube", 0.3, 10.0), ("SWIR_Cube", 0.003, 2.0)):
            cube = file[f"{CUBES}/{name}"]
            ground = cube[:columns].astype(float)  # stored east to west
            level = share * ground.mean(axis=(0, 2), keepdims=True)
            sea = level + noise * rng.standard_normal(ground.shape)
            cube[:columns] = np.clip(np.rint(sea), 0, 65535).astype("u2")
    return target


@pytest.fixture(scope="module")
def coast(scene, tmp_path_factory):
    folder = tmp_path_factory.mktemp("coast")
    said = stdout_of("invert-methane", flood(scene, folder / "coast.he5", SEA), "-o", folder, "--wind", 4)
    (folder / "said.txt").write_text(said)
    return folder


def test_a_third_of_sea_leaves_the_land_as_it_is(scene, coast):
    truth = read(scene.with_name("two_methane_truth.tif"))[:, :-SEA]
    found, std = (read(coast / f"coast_{name}.tif")[:, :-SEA] for name in ("methane", "methane_std"))
    reported = found != -9999.0
    assert reported.mean() > 0.85
    assert (np.abs(found - truth) < 1.96 * std)[reported].mean() > 0.9
    strong = reported & (truth > 3000)
    assert found[strong].mean() == pytest.approx(truth[strong].mean(), rel=0.1)


def test_more_sea_than_land_leaves_the_land_as_it_is(scene, coast, tmp_path):
    sea = round(0.6 * COLS)
    succeed("invert-methane", flood(scene, tmp_path / "most.he5", sea), "-o", tmp_path)
    land = np.s_[:, : COLS - sea]
    found, usual = (read(path)[land] for path in (tmp_path / "most_methane.tif", coast / "coast_methane.tif"))
    both = (found != -9999.0) & (usual != -9999.0)
    assert both.mean() > 0.85
    assert np.abs(found - usual)[both].mean() < 200.0


def test_sea_is_called_water_and_has_no_value(coast):
    assert (read(coast / "coast_quality.tif")[:, -SEA:] == 3).mean() > 0.99
    assert (read(coast / "coast_methane.tif")[:, -SEA:] == -9999.0).all()
    assert "water, deep shadow or snow" in (coast / "said.txt").read_text()


def test_without_the_mask_dark_ground_is_near_zero(scene, tmp_path):
    """Neither the mask nor its absence changes what is learned: that is always clear ground."""
    call = ("invert-methane", scene, "-o", tmp_path, "-m", scene.with_name("ground.p3vae"))
    said = json.loads(stdout_of(*call, "--no-quality-mask", "--json"))
    found, quality = read(tmp_path / "two_methane.tif"), read(tmp_path / "two_quality.tif")
    truth = read(scene.with_name("two_methane_truth.tif"))
    dark = (quality == 3) & (found != -9999.0) & (truth < 1.0)
    clear = (quality == 1) & (truth < 1.0)
    assert dark.sum() > 50
    assert abs(found[dark].mean()) < 500.0
    assert found[dark | clear].std() < 1.1 * found[clear].std()
    assert abs(found[clear].mean()) < 50.0
    figures, known = said["clear"], found[(quality == 1) & (found != -9999.0)]
    assert (figures["pixels"], figures["mean_ppm_m"]) == (known.size, pytest.approx(known.mean(), rel=1e-4))
    assert figures["others"] == ((quality != 1) & (found != -9999.0)).sum()


def test_scenes_of_sea_and_of_cloud_are_refused_for_what_they_are(scene, tmp_path):
    sea = flood(scene, tmp_path / "sea.he5", COLS)
    assert "no clear ground to learn from: 100 % water" in refused(1, sea, "-o", tmp_path / "maps")
    cloud = shutil.copy(scene, tmp_path / "cloud.he5")
    with h5py.File(cloud, "r+") as file:
        for name in ("Vnir", "Swir"):
            nm = file.attrs[f"List_Cw_{name}"].astype(float)
            white = 0.6 / top_of_atmosphere_reflectance(np.ones_like(nm), np.maximum(nm, 400.0), 30.0)
            light = np.where(nm > 0, 100.0 * white, 0.0)[None, :, None]
            file[f"{CUBES}/{name.upper()}_Cube"][...] = np.rint(light).astype("u2")
    assert "% cloud" in refused(1, cloud, "-o", tmp_path / "maps")
    assert not (tmp_path / "maps").exists()


def test_a_plume_knows_where_it_is_and_where_it_goes(scene, coast):
    plumes = geopandas.read_file(coast / "coast_plumes.geojson")
    assert plumes.crs.to_epsg() == 4326 and len(plumes) >= 1
    first = plumes.iloc[0]
    assert first["id"] == "coast-1" and first["scene"] == "coast.he5" and first["sensor"] == "PRISMA"
    assert first.probability > 0.95 and 0.0 < first.clear_share <= 1.0
    with rasterio.open(scene.with_name("two_methane_truth.tif")) as source:
        truth, to_ground = source.read(1), rasterio.transform.GCPTransformer(source.gcps[0])
    truth[:, -SEA:] = 0.0
    x, y = to_ground.xy(*np.unravel_index(truth.argmax(), truth.shape))
    assert first.peak_lon == pytest.approx(x, abs=0.002) and first.peak_lat == pytest.approx(y, abs=0.002)
    assert np.hypot(first.source_lon - x, first.source_lat - y) < 0.004
    parts = first[["ime_std_noise_kg", "ime_std_background_kg", "ime_std_mask_kg", "ime_std_absorption_kg"]]
    assert first.ime_std_kg == pytest.approx(np.sqrt(np.square(parts.astype(float)).sum()))
    assert first.q_std_kg_h == pytest.approx(np.hypot(first.q_std_ime_kg_h, first.q_std_wind_kg_h))


def test_a_table_gives_every_scene_its_wind(scene, tmp_path):
    table = tmp_path / "wind.csv"
    table.write_text("scene,wind_m_s,wind_std_m_s,source\nother.he5,9,1,mast\ntwo,3.5,0.7,ERA5\n")
    asked = ("invert-methane", scene, "-o", tmp_path / "maps", "--method", "mf-log", "--json")
    plume = json.loads(stdout_of(*asked, "--wind", table))["plumes"][0]
    assert (plume["wind_m_s"], plume["wind_std_m_s"], plume["wind_source"]) == (3.5, 0.7, "ERA5")
    speed = 0.34 * 3.5 + 0.44
    assert plume["q_kg_h"] == pytest.approx(3600 * speed * plume["ime_kg"] / np.sqrt(plume["area_m2"]))
    manifest = json.loads((tmp_path / "maps" / "two_p3vae.json").read_text())
    assert manifest["settings"]["wind_source"] == "ERA5"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scene,wind_m_s\nother,4\n", "no wind for the scene two.he5"),
        ("scene,wind_m_s\ntwo,nan\n", "nan is no wind speed"),
        ("scene,speed\ntwo,4\n", "no column 'wind_m_s'"),
        ("", "no column"),
        (None, "cannot be read"),
    ],
)
def test_a_wind_table_that_does_not_help_is_refused_before_the_work(scene, tmp_path, text, words):
    table = tmp_path / "wind.csv"
    if text is not None:
        table.write_text(text)
    assert words in refused(2, scene, "-o", tmp_path / "maps", "--wind", table)
    assert not (tmp_path / "maps").exists()


@pytest.mark.parametrize("wind", ["nan", "-3", "inf"])
def test_a_wind_that_is_no_speed_is_refused(scene, tmp_path, wind):
    assert "is no speed" in refused(2, scene, "-o", tmp_path / "maps", f"--wind={wind}")


@pytest.mark.parametrize("method", ["p3vae", "mf-log"])
def test_faint_methane_is_transparent_on_a_scale_that_all_scenes_share(coast, tmp_path, method):
    if method != "p3vae":
        succeed("invert-methane", coast / "coast.he5", "-o", tmp_path, "--method", method)
        coast = tmp_path
    shader = ET.parse(coast / "coast_methane.qml").getroot().find(".//colorrampshader")
    items = [(float(item.get("value")), int(item.get("alpha"))) for item in shader.findall("item")]
    assert shader.get("maximumValue") == "10000" and items[-1] == (10_000.0, 255)
    hidden = max(value for value, alpha in items if alpha == 0)
    shown = min(value for value, alpha in items if alpha == 255)
    assert shown % 500 == 0 and shown - hidden < 1.0
    std, quality = (read(coast / f"coast_{name}.tif") for name in ("methane_std", "quality"))
    usual = np.median(std[(quality == 1) & (std >= 0.0)])
    assert usual > 250.0 and 2.0 * usual <= shown < 2.0 * usual + 500.0


def test_colours_of_a_ramp_that_begins_in_the_middle_are_those_of_the_whole_ramp():
    whole, part = (
        ET.fromstring(style_document(Ramp(0.0, 8.0, "gray", shown_from=start)).split(b"\n", 1)[1])
        for start in (None, 3.0)
    )
    colours = {item.get("value"): item.get("color") for item in whole.iter("item")}
    shown = [item for item in part.iter("item") if item.get("alpha") == "255"]
    assert all(colours.get(item.get("value"), item.get("color")) == item.get("color") for item in shown)
    assert shown[0].get("value") == "3" and shown[0].get("color") == "#606060"
