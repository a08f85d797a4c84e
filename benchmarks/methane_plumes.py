"""Plumes of known mass in simulated PRISMA L1 files, found, weighed and separated from noise.

    python -m benchmarks methane_plumes

`p3vae simulate` writes scenes with two plumes and scenes without; `p3vae invert-methane` maps them. The
plume rule was chosen on seeds 0, 7, 21, 22, 31 and 32, which are not among those reported here. The true
plume is where the truth exceeds 500 ppm m, about one standard deviation of a pixel.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import rasterio

P3VAE = Path(sys.executable).with_name("p3vae")
TRUE_PLUME_PPM_M = 500.0
WIND_M_S = 4.0
BASELINES = ("oe", "mf", "mf-log", "mag1c")
COLUMNS = (
    *("scene", "method", "seed", "plumes_found", "control_plumes", "ime_over_truth_in_mask"),
    *("ime_over_total_mass", "mask_f1", "pixels_per_second", "seconds", "peak_rss_mb"),
)


def main() -> None:
    """Simulate, invert, compare; write JSON and Markdown."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=300, help="rows and columns of a scene")
    parser.add_argument("--seeds", type=int, nargs="+", default=[41, 42])
    parser.add_argument("--output", type=Path, default=here / "results" / "methane_plumes.json")
    options = parser.parse_args()
    records: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / f"two_plumes_{options.seeds[0]}.he5"
        for seed in options.seeds:
            for kind, plume in (("two plumes", ("--plume", "20000", "--plumes", "2")), ("no plume", ())):
                scene = Path(folder) / f"{kind.replace(' ', '_')}_{seed}.he5"
                size = f"{options.size}x{options.size}"
                _run("simulate", "-o", scene, "--layout", "prisma-l1", "--size", size, "--seed", seed, *plume)
                records.append({"scene": kind, "seed": seed, **_measure(scene, "p3vae")})
                _write(options.output, options, records)
        for method in BASELINES:
            records.append({"scene": "two plumes", "seed": options.seeds[0], **_measure(first, method)})
            _write(options.output, options, records)


def _run(*arguments: object) -> tuple[str, float, float]:
    """Standard output of a p3vae command, its wall time [s] and its peak resident memory [MB]."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [str(P3VAE), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"p3vae {arguments[0]} failed: {text}")
    return text, time.perf_counter() - started, usage.ru_maxrss / 1024


def _speed(text: str) -> int:
    """Pixels per second as the command reports them."""
    speed = re.search(r"\(([\d,]+) pixels/s\)", text)
    assert speed
    return int(speed[1].replace(",", ""))


def _measure(scene: Path, method: str) -> dict[str, Any]:
    out = scene.parent / method
    text, seconds, memory = _run(
        *("invert-methane", scene, "-o", out, "--method", method, "--wind", WIND_M_S, "--control")
    )
    control = re.search(r"control .*: (?:(\d+) plumes|says nothing)", text)
    assert control
    plumes = geopandas.read_file(out / f"{scene.stem}_plumes.gpkg")
    record: dict[str, Any] = {
        "method": method,
        "plumes_found": len(plumes),
        "control_plumes": None if control[1] is None else int(control[1]),
        "pixels_per_second": _speed(text),
        "seconds": round(seconds, 1),
        "peak_rss_mb": round(memory),
    }
    truth_file = scene.with_name(f"{scene.stem}_methane_truth.tif")
    if truth_file.exists():
        record |= _against_truth(_read(truth_file), _read(out / f"{scene.stem}_plume_mask.tif") == 2, plumes)
    return record


def _against_truth(
    truth: np.ndarray, mask: np.ndarray, plumes: geopandas.GeoDataFrame
) -> dict[str, float | None]:
    true_plume = truth > TRUE_PLUME_PPM_M
    pixel_m2 = float(plumes.area_m2.sum() / max(plumes.pixels.sum(), 1))
    kilograms = 7.16e-7 * pixel_m2
    ime, inside = float(plumes.ime_kg.sum()), float(truth[mask].sum() * kilograms)
    return {
        "ime_over_truth_in_mask": round(ime / inside, 3) if inside else None,
        "ime_over_total_mass": round(ime / float(truth.sum() * kilograms), 3) if inside else None,
        "mask_f1": round(2 * float((mask & true_plume).sum()) / float(mask.sum() + true_plume.sum()), 3),
    }


def _read(path: Path) -> np.ndarray:
    with rasterio.open(path) as source:
        return source.read(1)


def _write(path: Path, options: argparse.Namespace, records: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps({"size": options.size, "records": records}, indent=1) + "\n")
    lines = [
        "# Plumes of known mass in simulated PRISMA L1 scenes",
        "",
        "    python -m benchmarks methane_plumes",
        "",
    ]
    lines += [
        f"{options.size} x {options.size} pixels of 30 m; mask F1: truth > {TRUE_PLUME_PPM_M:g} ppm m. "
        "Pixels per second are inference with reading and writing; seconds are the whole command, learning "
        "included.",
        "",
        "| " + " | ".join(name.replace("_", " ") for name in COLUMNS) + " |",
        "|" + "---|" * len(COLUMNS),
    ]
    for record in records:
        cells = ("–" if record.get(name) is None else str(record[name]) for name in COLUMNS)
        lines.append("| " + " | ".join(cells) + " |")
    path.with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
