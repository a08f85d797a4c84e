"""Maps are the same to the bit for any tile size and number of threads, also where bands are resampled."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rasterio

SAMPLES = Path(__file__).parents[3] / "sample_data"
MAPS = ("landcover", "confidence", "irradiance", "irradiance_std")


def classified(scene: Path, out: Path, tile: int, threads: int) -> list[np.ndarray]:
    call = ["classify", scene, "-m", "town", "-o", out, "--tile-size", tile, "-q"]
    code = f"import torch; torch.set_num_threads({threads}); from p3vae.cli.main import main; main()"
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    subprocess.run([sys.executable, "-c", code, *map(str, call)], check=True, env=environment)
    found = []
    for name in MAPS:
        with rasterio.open(out / f"{scene.stem}_{name}.tif") as source:
            found.append(source.read(1))
    return found


@pytest.mark.parametrize(("tile", "threads"), [(16, 1), (48, 2), (144, 2)])
def test_a_resampled_scene_is_mapped_alike(tmp_path, tile, threads):
    scene = tmp_path / "other.tif"
    size = ["--size", "60x60", "--bands", "97", "--seed", "3"]
    code = "from p3vae.cli.main import main; main()"
    subprocess.run([sys.executable, "-c", code, "simulate", "-o", str(scene), *size], check=True)
    whole = classified(scene, tmp_path / "whole", 512, 1)
    parts = classified(scene, tmp_path / "parts", tile, threads)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)
