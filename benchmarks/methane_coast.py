"""Methane on land beside more and more sea.

    python -m benchmarks methane_coast --data DIR

A scene of `protocols/methane_scenes.py` with medium plumes, its last columns replaced by sea: hardly any
light beyond 1 um, and the noise of a dark pixel. Figures are of the land that all have in common, the first
40 % of columns.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import rasterio

from benchmarks import reporting
from benchmarks.methane_scenes import P3VAE
from benchmarks.protocols import add_data_option
from benchmarks.protocols import methane_scenes as protocol
from p3vae.physics.quality import Quality

SHARES = (0.0, 0.05, 0.33, 0.6)
NAMES = ("mae", "bias", "cover95", "off_std", "off_bias")


def main() -> None:
    """Build, flood, invert, score; write JSON and Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_data_option(parser)
    parser.add_argument("--seed", type=int, default=84)
    parser.add_argument("--background", default="potsdam")
    options = parser.parse_args()
    protocol.PEAKS = {"medium": protocol.PEAKS["medium"]}
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        protocol.build(folder, P3VAE, options.background, 500, options.seed, options.data)
        for share in SHARES:
            rows.append({"sea": share, **measure(folder, options.background, share)})
            lines = ["| sea | " + " | ".join(NAMES) + " |", "|---" * (len(NAMES) + 1) + "|"]
            for row in rows:
                cells = [format(row[each], ".3f" if "cover" in each else ",.0f") for each in NAMES]
                lines.append(f"| {row['sea']:.0%} | " + " | ".join(cells) + " |")
            head = f"{options.background}, seed {options.seed}; errors in ppm m, over clear land.\n\n"
            reporting.write("methane_coast", {"rows": rows}, head + "\n".join(lines))


def measure(folder: Path, background: str, share: float) -> dict[str, Any]:
    """Figures on the common land of a scene with a share of sea."""
    source, scene = folder / f"{background}_medium.he5", folder / f"sea_{share:g}.he5"
    shutil.copy(source, scene)
    with h5py.File(scene, "r+") as file:
        for name, level, noise in (("VNIR_Cube", 0.3, 10.0), ("SWIR_Cube", 0.003, 2.0)):
            cube = file[protocol.SWATH + name]
            columns = round(share * cube.shape[0])  # stored east to west
            ground = cube[:].astype(np.float32).mean(axis=(0, 2), keepdims=True)
            shape = (columns, *cube.shape[1:])
            sea = level * ground + noise * np.random.default_rng(0).standard_normal(shape)
            if columns:
                cube[:columns] = np.clip(np.rint(sea), 0, 65535).astype("u2")
    subprocess.run([P3VAE, "invert-methane", scene, "-o", folder / "maps", "-q"], check=True)
    methane, std, quality = (
        _read(folder / "maps" / f"{scene.stem}_{name}.tif") for name in ("methane", "methane_std", "quality")
    )
    truth = np.load(folder / f"{background}_medium_truth.npz")["truth"][:, ::-1]
    clear = quality == Quality.CLEAR
    clear[:, round((1.0 - max(SHARES)) * truth.shape[1]) :] = False
    methane = np.where(methane == -9999.0, np.nan, methane)
    return protocol.score(methane, std, truth, clear)


def _read(path: Path) -> np.ndarray:
    with rasterio.open(path) as source:
        return source.read(1)


if __name__ == "__main__":
    main()
