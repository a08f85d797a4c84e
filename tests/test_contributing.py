"""The model and the reader that CONTRIBUTING.md shows work as they stand there, through the command line."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rasterio

ROOT = Path(__file__).parents[1]
TOWN = ROOT / "sample_data" / "town.tif"


@pytest.fixture
def installed_with(tmp_path):
    """A function that adds the example of a section as a file, and gives the command line of that copy."""

    def installed(section, place):
        packages = tmp_path / "packages" / "p3vae"
        packages.mkdir(parents=True)
        ignored = shutil.ignore_patterns("__pycache__")
        for folder, name in (
            ("p3vae_cli", "cli"),
            *((name, name) for name in ("models", "physics", "paper")),
        ):
            shutil.copytree(ROOT / folder, packages / name, ignore=ignored)
        text = (ROOT / "CONTRIBUTING.md").read_text().split(f"## {section}\n")[1]
        (packages / place).write_text(text.split("```python\n")[1].split("```")[0])

        def p3vae(*arguments, code=0):
            call = [sys.executable, "-c", "from p3vae.cli.main import main; main()", *map(str, arguments)]
            environment = {**os.environ, "PYTHONPATH": str(packages.parent)}
            done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == code, done.stderr
            return done.stdout + done.stderr

        return p3vae

    return installed


def agreement(maps):
    with (
        rasterio.open(ROOT / "sample_data" / "town_class.tif") as truth,
        rasterio.open(maps) as found,
    ):
        return (truth.read(1) == found.read(1)).mean()


def test_the_example_is_a_model_of_the_command_line(installed_with, tmp_path):
    p3vae = installed_with("Add a model", "models/landcover/baselines/mahalanobis.py")
    labels, model = ROOT / "sample_data" / "town_labels.gpkg", tmp_path / "m.p3vae"
    trained = p3vae("train", TOWN, "--labels", labels, "--model", "mahalanobis", "-o", model)
    assert "Average F1" in trained
    p3vae("classify", TOWN, "-m", model, "-o", tmp_path / "maps")
    assert agreement(tmp_path / "maps" / "town_landcover.tif") > 0.7


def test_the_example_is_a_reader_of_every_command(installed_with, tmp_path):
    p3vae = installed_with("Add a reader", "cli/scenes/formats/acme.py")
    scene = acme_scene(tmp_path / "ACME_town.npy")
    assert "Acme\n" in p3vae("info", "--formats")
    told = json.loads(p3vae("info", "--json", scene))
    assert (told["product"], told["level"]) == ("Acme", "2")
    assert told["sun_zenith_deg"] == pytest.approx(43.13, abs=0.01)
    p3vae("classify", scene, "-m", "town", "-o", tmp_path / "maps")
    p3vae("classify", TOWN, "-m", "town", "-o", tmp_path / "maps")
    own, other = (agreement(tmp_path / "maps" / f"{name}_landcover.tif") for name in ("ACME_town", "town"))
    assert own == pytest.approx(other, abs=0.002)
    record = json.loads((tmp_path / "maps" / "ACME_town_p3vae.json").read_text())
    assert {"ACME_town.npy", "ACME_town.json"} == {file["name"] for file in record["scene"]["files"]}
    assert "is a Acme product with its own scale" in p3vae("info", "--scale", "1e-4", scene, code=1)
    (tmp_path / "notes.txt").write_text("no scene")
    assert "Acme" in p3vae("info", tmp_path / "notes.txt", code=1)
    scene.with_suffix(".json").write_text("{}")
    assert "ACME_town.npy: is not laid out as expected: level" in p3vae("info", scene, code=1)


def acme_scene(path):
    """The town of the samples as that sensor would deliver it."""
    with rasterio.open(TOWN) as source:
        reflectance = source.read().transpose(1, 2, 0) * source.scales[0]
        tags = [source.tags(band) for band in source.indexes]
        zenith = float(source.tags()["sun_zenith_deg"])
        grid = {"epsg": source.crs.to_epsg(), "transform": tuple(source.transform)[:6]}
    np.save(path, np.maximum(np.rint(reflectance * 20_000), 1).astype(np.uint16))
    bands = {f"{name}_nm": [float(tag[name]) for tag in tags] for name in ("wavelength", "fwhm")}
    about = {"level": "2", "sun_zenith_deg": zenith, "reflectance_per_count": 5e-5, **grid, **bands}
    path.with_suffix(".json").write_text(json.dumps(about))
    return path
