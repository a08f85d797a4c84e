"""The model that CONTRIBUTING.md shows works as it stands there, through the command line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import rasterio

ROOT = Path(__file__).parents[1]


def test_the_example_is_a_model_of_the_command_line(tmp_path):
    example = (ROOT / "CONTRIBUTING.md").read_text().split("```python\n")[1].split("```")[0]
    packages = tmp_path / "packages" / "p3vae"
    packages.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__")
    for folder, name in (("p3vae_cli", "cli"), *((name, name) for name in ("models", "physics", "paper"))):
        shutil.copytree(ROOT / folder, packages / name, ignore=ignored)
    (packages / "models" / "landcover" / "baselines" / "mahalanobis.py").write_text(example)
    environment = {**os.environ, "PYTHONPATH": str(packages.parent)}

    def p3vae(*arguments):
        call = [sys.executable, "-c", "from p3vae.cli.main import main; main()", *map(str, arguments)]
        done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    town, labels = (ROOT / "sample_data" / name for name in ("town.tif", "town_labels.gpkg"))
    model = tmp_path / "m.p3vae"
    trained = p3vae("train", town, "--labels", labels, "--model", "mahalanobis", "-o", model)
    assert "Average F1" in trained
    p3vae("classify", town, "-m", model, "-o", tmp_path / "maps")
    with (
        rasterio.open(ROOT / "sample_data" / "town_class.tif") as truth,
        rasterio.open(tmp_path / "maps" / "town_landcover.tif") as found,
    ):
        assert (truth.read(1) == found.read(1)).mean() > 0.7
