"""Products, projects and the Processing provider in real QGIS: `make test-qgis`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import rasterio

from tests.cli.calls import refusal, run

ROOT = Path(__file__).resolve().parents[2]
SYSTEM_PYTHON = Path("/usr/bin/python3")
PROCESS = shutil.which("qgis_process.bin") or shutil.which("qgis_process")
pytestmark = pytest.mark.skipif(
    PROCESS is None or "P3VAE_TEST_QGIS" not in os.environ, reason="two minutes with QGIS: make test-qgis"
)


def called(folder, *command, **variables) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "HOME": str(folder), **variables}
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )


def seen_by_qgis(project: Path, folder: Path) -> tuple[dict, str]:
    done = called(folder, SYSTEM_PYTHON, ROOT / "tests/qgis/check_project.py", project)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def town(mapped_town, tmp_path_factory):
    """A small town with its maps and a project, in a folder of its own."""
    folder = tmp_path_factory.mktemp("town")
    for name in ("town.tif", "town.p3vae"):
        shutil.copy(mapped_town / name, folder / name)
    calls = (
        ("classify", "--unknown"),
        ("irradiance-map", "--relight", "--overwrite"),
    )
    for command, *options in calls:
        model, out = ("-m", folder / "town.p3vae"), ("-o", folder / "maps")
        done = run(command, folder / "town.tif", *model, *out, *options)
        assert done.exit_code == 0, done.output
    assert run("qgis", folder / "maps").exit_code == 0
    return folder


def test_the_project_opens_after_its_folder_was_moved(town, tmp_path) -> None:
    shutil.copytree(town, tmp_path / "moved")
    found, _ = seen_by_qgis(tmp_path / "moved" / "maps" / "p3vae.qgz", tmp_path)
    assert found["read"] and found["crs"] == "EPSG:32631" and found["groups"] == ["town"]
    names = [layer["name"] for layer in found["layers"]]
    assert names[0] == "Land cover" and names[-1] == "Scene, true colour"
    assert all(layer["valid"] and layer["crs"] == "EPSG:32631" for layer in found["layers"])
    assert found["visible"] == ["Land cover", "Scene, true colour"]
    renderers = {layer["name"]: layer["renderer"] for layer in found["layers"]}
    assert renderers["As flat, sunlit ground"] == renderers["Scene, true colour"] == "multibandcolor"


def test_colours_at_known_pixels(town, tmp_path) -> None:
    found, _ = seen_by_qgis(town / "maps" / "p3vae.qgz", tmp_path)
    with rasterio.open(town / "maps" / "town_landcover.tif") as source:
        values, palette = source.read(1), source.colormap(1)
    for layer in (found["alone"]["town_landcover.tif"], found["layers"][0]):
        assert layer["legend"][-1] == "unknown"
        for place, colour in layer["colours"].items():
            col, row = map(int, place.split(","))
            assert colour == list(palette[values[row, col]])
    relit = found["alone"]["town_relit.tif"]
    assert relit["renderer"] == "multibandcolor"
    assert any(len(set(colour[:3])) > 1 for colour in relit["colours"].values())


def test_plumes_have_outline_label_and_names(tmp_path) -> None:
    scene = next((ROOT / "sample_data").glob("PRS_L1*.he5"))
    assert run("invert-methane", scene, "-o", tmp_path / "ch4", "--wind", 4).exit_code == 0
    assert run("qgis", tmp_path / "ch4").exit_code == 0
    found, said = seen_by_qgis(tmp_path / "ch4" / "p3vae.qgz", tmp_path)
    plumes = found["layers"][0]
    assert plumes["name"] == "Plumes" and plumes["valid"] and plumes["labels"] and plumes["features"] >= 1
    assert "Emission rate [kg/h]" in plumes["aliases"]
    assert next(v for k, v in found["alone"].items() if k.endswith(".gpkg"))["labels"]
    mask = next(v for k, v in found["alone"].items() if k.endswith("plume_mask.tif"))
    assert min(colour[3] for colour in mask["colours"].values()) == 0, "no plume lets the map below shine"
    assert "may only be partially supported" not in said


def test_points_to_label_offer_the_classes(town, tmp_path) -> None:
    shutil.copytree(town, tmp_path / "labelling")
    made = tmp_path / "labelling" / "maps"
    mapped = made / "town_landcover.tif"
    assert run("sample", mapped, "-o", made / "points.gpkg", "-n", 40).exit_code == 0
    assert run("polygons", mapped, "-o", made / "patches.gpkg").exit_code == 0
    found, said = seen_by_qgis(made / "p3vae.qgz", tmp_path)
    points, patches = found["alone"]["points.gpkg"], found["alone"]["patches.gpkg"]
    assert points["features"] == 40 and points["categories"][-1] == "to label"
    assert points["choices"] == points["categories"][:-1] and "vegetation" in points["choices"]
    assert "vegetation" in patches["categories"] and "may only be partially supported" not in said


def test_a_project_saved_from_qgis_is_not_replaced(town, tmp_path) -> None:
    folder = tmp_path / "maps"
    shutil.copytree(town / "maps", folder)
    assert run("qgis", folder).exit_code == 0  # our own may be replaced
    with zipfile.ZipFile(folder / "p3vae.qgz", "a") as archive:
        archive.comment = b""
    assert "saved from QGIS" in refusal(1, "qgis", folder)


@pytest.fixture(scope="module")
def toolbox(tmp_path_factory):
    """A QGIS profile with the plugin that `make qgis-plugin` packs."""
    home = tmp_path_factory.mktemp("home")
    plugins = home / "plugins"
    shutil.copytree(ROOT / "qgis" / "p3vae_provider", plugins / "p3vae_provider")
    variables = {
        "QGIS_PLUGINPATH": str(plugins),
        "P3VAE_EXECUTABLE": str(Path(sys.executable).parent / "p3vae"),
    }
    assert called(home, PROCESS, "plugins", "enable", "p3vae_provider", **variables).returncode == 0
    return home, variables


def test_the_provider_runs_the_program_and_reports(town, toolbox) -> None:
    home, variables = toolbox
    listed = called(home, PROCESS, "list", **variables).stdout
    for name in ("classify", "train", "irradiance_map", "invert_methane", "report"):
        assert f"p3vae:{name}" in listed
    inputs = (f"--SCENE={town / 'town.tif'}", f"--MODEL={town / 'town.p3vae'}", f"--OUTPUT={home / 'maps'}")
    done = called(home, PROCESS, "run", "p3vae:classify", *inputs, **variables)
    assert done.returncode == 0 and "town_landcover.tif" in done.stdout, done.stdout + done.stderr
    assert (home / "maps" / "town_landcover.tif").is_file()
    page = home / "maps" / "page.html"
    made = called(
        home, PROCESS, "run", "p3vae:report", f"--FOLDER={home / 'maps'}", f"--OUTPUT={page}", **variables
    )
    assert made.returncode == 0 and page.is_file(), made.stdout + made.stderr


def test_a_missing_environment_is_one_clear_line(town, toolbox) -> None:
    home, variables = toolbox
    inputs = (f"--SCENE={town / 'town.tif'}", f"--OUTPUT={home / 'x'}")
    done = called(
        home, PROCESS, "run", "p3vae:classify", *inputs, **{**variables, "P3VAE_EXECUTABLE": "/nowhere"}
    )
    assert done.returncode != 0
    assert "/nowhere is no program" in done.stdout + done.stderr
    (home / "broken.tif").write_text("no scene")
    wrong = (f"--SCENE={home / 'broken.tif'}", f"--MODEL={town / 'town.p3vae'}", inputs[1])
    bad = called(home, PROCESS, "run", "p3vae:classify", *wrong, **variables)
    assert bad.returncode != 0 and "broken.tif: " in bad.stdout + bad.stderr
