"""A model under another sun, through the command line: train at 30 degrees, classify another town at 55.

    python benchmarks/other_sun.py

Both towns are simulated with the same materials but different seeds. The ablation is the same network without
the physics layer. Shadow is where less than a tenth of the pixel is lit. Both models also map an unseen
town at 30 degrees, to separate the effect of the sun from that of the place.
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
import rasterio
from landcover_common import write
from sklearn.metrics import accuracy_score, f1_score

P3VAE = str(Path(sys.executable).with_name("p3vae"))
TRAINED_AT = 30
SUNS = (30, 55)
IN_SHADOW = 0.9
"""Shaded fraction of a pixel from which on it counts as shadow."""
VARIANTS: dict[str, list[str]] = {"with physics": [], "without physics": ["--no-physics"]}


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--size", default="160x160")
    options.add_argument("--noise", default="0.005", help="noise over mean signal")
    asked = options.parse_args()
    result: dict[str, Any] = {"size": asked.size, "noise": asked.noise, "rows": []}
    result["load_average"] = os.getloadavg()[1]
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        known = simulate(work / "known.tif", TRAINED_AT, 0, asked)
        towns = {zenith: simulate(work / f"town_{zenith}.tif", zenith, 1, asked) for zenith in SUNS}
        for variant, extra in VARIANTS.items():
            model = work / f"model{len(extra)}.p3vae"
            start = time.perf_counter()
            labels = known.with_name("known_labels.gpkg")
            run("train", known, "--labels", labels, "-o", model, *extra)
            seconds = time.perf_counter() - start
            for zenith, town in towns.items():
                for method in ("posterior", "classifier"):
                    out = work / f"{model.stem}_{zenith}_{method}"
                    run("classify", town, "-m", model, "-o", out, "--method", method, "-q")
                    row = {"variant": variant, "method": method, "sun_zenith_deg": zenith}
                    result["rows"].append(row | {"training_s": seconds} | scores(town, out))
    write("other_sun", result, _table(result))


def run(*arguments: str | Path) -> None:
    """One command, its results not shown."""
    subprocess.run([P3VAE, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def simulate(path: Path, zenith: float, seed: int, asked: argparse.Namespace) -> Path:
    """A town with its truth beside it."""
    size = ("--size", asked.size, "--noise", asked.noise)
    run("simulate", "-o", path, *size, "--seed", str(seed), "--sun-zenith", str(zenith))
    return path


def scores(town: Path, maps: Path) -> dict[str, Any]:
    """Land cover and irradiance against the truth, everywhere and in shadow."""
    truth = _read(town.with_name(f"{town.stem}_class.tif"))
    z_true = _read(town.with_name(f"{town.stem}_irradiance_truth.tif")).astype(float)
    shadow = _read(town.with_name(f"{town.stem}_shadow.tif")) > IN_SHADOW
    found = _read(maps / f"{town.stem}_landcover.tif")
    z = _read(maps / f"{town.stem}_irradiance.tif").astype(float)
    z_std = _read(maps / f"{town.stem}_irradiance_std.tif").astype(float)
    mapped = (truth > 0) & (found > 0)
    return {
        "all": _land_cover(truth[mapped], found[mapped]),
        "shadow": _land_cover(truth[mapped & shadow], found[mapped & shadow]),
        "shadow_share": float(shadow[mapped].mean()),
        "z_mae": float(np.abs(z - z_true)[mapped].mean()),
        "z_bias": float((z - z_true)[mapped].mean()),
        "z_correlation": float(np.corrcoef(z[mapped], z_true[mapped])[0, 1]),
        "z_within_1_std": float((np.abs(z - z_true) <= z_std)[mapped].mean()),
        "z_within_1.96_std": float((np.abs(z - z_true) <= 1.96 * z_std)[mapped].mean()),
    }


def _land_cover(truth: np.ndarray, found: np.ndarray) -> dict[str, float]:
    classes = np.unique(truth)
    f1 = f1_score(truth, found, labels=classes, average=None, zero_division=0)
    return {
        "accuracy": float(accuracy_score(truth, found)),
        "average_f1": float(f1.mean()),
        "lowest_f1": float(f1.min()),
    }


def _read(path: Path) -> np.ndarray:
    with rasterio.open(path) as raster:
        return np.asarray(raster.read(1))


def _table(result: dict[str, Any]) -> str:
    lines = [
        f"Towns of {result['size']} pixels, 96 bands, trained at {TRAINED_AT} degrees on seed 0, "
        f"applied to seed 1; load average {result['load_average']:.1f} on {os.cpu_count()} cores.",
        "Every pixel counts, mixed ones too. The no-physics ablation has no irradiance to be scored.",
        "",
        "| model | method | sun zenith | accuracy | F1 | accuracy in shadow | F1 in shadow "
        "| z MAE | z bias | z correlation | within 1 / 1.96 std |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in result["rows"]:
        cells = [f"{row[area][key]:.3f}" for area in ("all", "shadow") for key in ("accuracy", "average_f1")]
        light = [f"{row[key]:.3f}" for key in ("z_mae", "z_bias", "z_correlation")]
        light.append(f"{row['z_within_1_std']:.2f} / {row['z_within_1.96_std']:.2f}")
        if row["variant"] == "without physics":
            light = ["-"] * len(light)
        cells += light
        lines.append(
            f"| {row['variant']} | {row['method']} | {row['sun_zenith_deg']} | {' | '.join(cells)} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
