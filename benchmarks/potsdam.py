"""A real EnMAP scene through the command line: train on split 1, score on split 3, beside a random forest.

    python benchmarks/potsdam.py --data DIR

The file does not carry the sun: its zenith is computed for the time in the file's `start_time` tag at the
centre of the scene. The random forest gets the same training pixels at the same bands. Both know six classes;
those without a test pixel have no F1, but a pixel wrongly given to them counts against its true class.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import rasterio
from landcover_common import write
from protocols import add_data_option
from pvlib.solarposition import get_solarposition
from rasterio.warp import transform
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import accuracy_score, f1_score

from p3vae.models.landcover.model import load_model
from p3vae.physics.spectral_response import Bands

P3VAE = str(Path(sys.executable).with_name("p3vae"))
NAMES = ("roof", "pavement", "low vegetation", "tree", "soil", "water")
IDS = tuple(range(1, len(NAMES) + 1))
SCALE = "1e-4"
TRAIN, TEST = 1, 3
TREES = 300


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_data_option(options)
    options.add_argument("--seeds", type=int, default=3, help="initialisations; the median is reported")
    asked = options.parse_args()
    folder = asked.data / "enmap_potsdam"
    scene = folder / "enmap_potsdam_mosaic.tif"
    labels = _read(folder / "enmap_potsdam_labels.tif")
    split = _read(folder / "enmap_potsdam_split.tif")
    zenith = sun_zenith(scene)
    test = (split == TEST) & (labels > 0)
    result: dict[str, Any] = {
        "sun_zenith_deg": zenith,
        "load_average": os.getloadavg()[1],
        "training_pixels": _counts(labels[split == TRAIN]),
        "test_pixels": _counts(labels[test]),
        "rows": [],
    }
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        training = training_raster(
            folder / "enmap_potsdam_labels.tif", np.where(split == TRAIN, labels, 0), work
        )
        for seed in range(asked.seeds):
            for variant, extra in (("p3vae", []), ("p3vae --no-physics", ["--no-physics"])):
                model = work / f"model_{seed}{'_bare' if extra else ''}.p3vae"
                seconds = train(scene, training, model, zenith, seed, extra)
                for method in ("posterior", "classifier"):
                    found = classify(scene, model, work / f"{model.stem}_{method}", zenith, method)
                    row = {"variant": f"{variant}, {method}", "seed": seed, "training_s": seconds}
                    result["rows"].append(row | scores(labels[test], found[test]))
            result["rows"].append(forest(scene, load_model(model).bands, labels, split, seed))
            write("potsdam", result, _table(result))


def sun_zenith(scene: Path) -> float:
    """Sun zenith [degree] for the file's time tag at the centre of the scene."""
    with rasterio.open(scene) as raster:
        moment = pd.DatetimeIndex([raster.tags()["start_time"]], tz="UTC")
        x, y = raster.xy(raster.height // 2, raster.width // 2)
        longitude, latitude = transform(raster.crs, "EPSG:4326", [x], [y])
    return round(float(get_solarposition(moment, latitude[0], longitude[0])["zenith"].iloc[0]), 2)


def training_raster(like: Path, labels: np.ndarray, folder: Path) -> Path:
    """The labels that may be learned from, on the grid of `like`."""
    path = folder / "training.tif"
    with rasterio.open(like) as raster:
        profile = raster.profile
    with rasterio.open(path, "w", **profile) as raster:
        raster.write(labels.astype(np.uint8), 1)
    return path


def train(scene: Path, labels: Path, model: Path, zenith: float, seed: int, extra: list[str]) -> float:
    """Train by the command line; wall seconds."""
    command = [P3VAE, "train", str(scene), "--labels", str(labels), "--class-names", ",".join(NAMES)]
    command += ["-o", str(model), "--scale", SCALE, "--sun-zenith", str(zenith), "--seed", str(seed), *extra]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def classify(scene: Path, model: Path, folder: Path, zenith: float, method: str) -> np.ndarray:
    """The land-cover map by the command line."""
    command = [P3VAE, "classify", str(scene), "-m", str(model), "-o", str(folder), "--method", method, "-q"]
    subprocess.run([*command, "--scale", SCALE, "--sun-zenith", str(zenith)], check=True)
    return _read(folder / f"{scene.stem}_landcover.tif")


def forest(scene: Path, bands: Bands, labels: np.ndarray, split: np.ndarray, seed: int) -> dict[str, Any]:
    """Scikit-learn's random forest on the training pixels, at the bands that the model uses."""
    with rasterio.open(scene) as raster:
        centres = np.array([float(raster.tags(band)["wavelength"]) for band in raster.indexes])
        chosen = [int(np.argmin(np.abs(centres - centre))) + 1 for centre in bands.wavelength_nm]
        cube = np.moveaxis(raster.read(chosen), 0, -1) * float(SCALE)
    known, test = (split == TRAIN) & (labels > 0), (split == TEST) & (labels > 0)
    start = time.perf_counter()
    trees = RandomForestClassifier(TREES, random_state=seed, n_jobs=2).fit(cube[known], labels[known])
    seconds = time.perf_counter() - start
    row = {"variant": f"random forest, {TREES} trees", "seed": seed, "training_s": seconds}
    return row | scores(labels[test], trees.predict(cube[test]))


def scores(truth: np.ndarray, found: np.ndarray) -> dict[str, Any]:
    """Accuracy and F1 of the classes that have test pixels."""
    present = [id_ for id_ in IDS if (truth == id_).any()]
    f1 = f1_score(truth, found, labels=present, average=None, zero_division=0)
    return {
        "accuracy": float(accuracy_score(truth, found)),
        "average_f1": float(f1.mean()),
        "f1": {NAMES[id_ - 1]: float(value) for id_, value in zip(present, f1, strict=True)},
    }


def _read(path: Path) -> np.ndarray:
    with rasterio.open(path) as raster:
        return np.asarray(raster.read(1))


def _counts(labels: np.ndarray) -> dict[str, int]:
    return {name: int((labels == id_).sum()) for id_, name in zip(IDS, NAMES, strict=True)}


def _table(result: dict[str, Any]) -> str:
    rows = result["rows"]
    classes = list(rows[0]["f1"])
    seeds = len({row["seed"] for row in rows})
    lines = [
        f"EnMAP Potsdam, sun zenith {result['sun_zenith_deg']} degrees (from the time in the file), "
        f"median of {seeds} seeds, load average {result['load_average']:.1f} on {os.cpu_count()} cores.",
        "Training pixels: " + ", ".join(f"{name} {n}" for name, n in result["training_pixels"].items()) + ".",
        "Test pixels: " + ", ".join(f"{name} {n}" for name, n in result["test_pixels"].items()) + ".",
        "",
        f"| | accuracy | average F1 (range) | {' | '.join(classes)} | training [s] |",
        "|---|" + "---:|" * (len(classes) + 3),
    ]
    for variant in dict.fromkeys(row["variant"] for row in rows):
        same = [row for row in rows if row["variant"] == variant]
        f1 = [row["average_f1"] for row in same]
        per_class = [f"{np.median([row['f1'][name] for row in same]):.3f}" for name in classes]
        lines.append(
            f"| {variant} | {np.median([row['accuracy'] for row in same]):.3f} "
            f"| {np.median(f1):.3f} ({min(f1):.3f}-{max(f1):.3f}) | {' | '.join(per_class)} "
            f"| {np.median([row['training_s'] for row in same]):.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
