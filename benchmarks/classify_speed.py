"""Speed and memory of `p3vae classify` on a 1000 x 1000 x 230 GeoTIFF, against a bare read of the file.

    python -m benchmarks classify_speed

The cube is a simulated town of 250 x 250 pixels repeated 4 x 4, uint16, tiled by 256, band by band. The
model is trained on the same small town. Each command runs in a process of its own, start and imports
included, with a warm file cache; the best of the repeats counts. The bare read takes the file's blocks one
row of blocks after the other and keeps nothing.
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
from rasterio.windows import Window

from benchmarks.reporting import write

P3VAE = str(Path(sys.executable).with_name("p3vae"))
BLOCK = 256
POLL_S = 0.02


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--town", type=int, default=250, help="side of the simulated town")
    options.add_argument("--copies", type=int, default=4, help="how often it is repeated each way")
    options.add_argument("--bands", type=int, default=230)
    options.add_argument("--repeats", type=int, default=2)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        town, model, scene = work / "town.tif", work / "town.p3vae", work / "scene.tif"
        size = f"{asked.town}x{asked.town}"
        measure("simulate", "-o", town, "--size", size, "--bands", str(asked.bands), "--sun-zenith", "35")
        training = measure("train", town, "--labels", work / "town_labels.gpkg", "-o", model)
        repeat(town, scene, asked.copies)
        bare_read(scene)
        reads = [bare_read(scene) for _ in range(asked.repeats)]
        result: dict[str, Any] = {
            "pixels": (asked.town * asked.copies) ** 2,
            "bands": asked.bands,
            "classes": len(np.unique(_read(work / "town_class.tif"))),
            "training_s": training["wall_s"],
            "bare_read_s": min(reads),
            "methods": {},
        }
        for method in ("posterior",):
            runs = []
            for count in range(asked.repeats):
                out = work / f"{method}{count}"
                run = measure("classify", scene, "-m", model, "-o", out, "--method", method, "-q")
                accuracy = agreement(work / "town_class.tif", out / "scene_landcover.tif", asked.copies)
                runs.append(run | {"accuracy": accuracy})
            result["methods"][method] = _best(runs, result)
    result["load_average"], result["nice"] = os.getloadavg()[0], os.nice(0)
    write("classify_speed", result, _table(result))


def measure(*arguments: str | Path) -> dict[str, float]:
    """Wall time, CPU time and peak resident memory of one command.

    The peak is polled from the process itself: getrusage would hand down that of this process.
    """
    before = os.times()
    start = time.perf_counter()
    child = subprocess.Popen([P3VAE, *map(str, arguments)], stdout=subprocess.DEVNULL)
    peak_kb = 0
    while child.poll() is None:
        peak_kb = max(peak_kb, _peak_kb(child.pid))
        time.sleep(POLL_S)
    wall = time.perf_counter() - start
    if child.returncode:
        raise SystemExit(f"{' '.join(map(str, child.args))} failed")  # type: ignore[arg-type]
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {"wall_s": wall, "cpu_s": cpu, "peak_mb": peak_kb / 1024}


def _peak_kb(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def repeat(town: Path, scene: Path, copies: int) -> None:
    """The town side by side, as uint16 reflectance times 10,000 with the town's tags."""
    with rasterio.open(town) as source:
        height, width = source.height * copies, source.width * copies
        profile = {"driver": "GTiff", "dtype": "uint16", "count": source.count, "height": height}
        profile |= {"width": width, "crs": source.crs, "transform": source.transform, "interleave": "band"}
        profile |= {"tiled": True, "blockxsize": BLOCK, "blockysize": BLOCK}
        with rasterio.open(scene, "w", **profile) as target:
            target.update_tags(**source.tags())
            target.scales, target.offsets = source.scales, source.offsets
            for band in source.indexes:
                values = np.clip(source.read(band), 0, None).astype(np.uint16)
                target.write(np.tile(values, (copies, copies)), band)
                target.update_tags(band, **source.tags(band))


def bare_read(scene: Path) -> float:
    """Seconds to read every value once, in whole blocks."""
    start = time.perf_counter()
    with rasterio.open(scene) as raster:
        for row in range(0, raster.height, BLOCK):
            for col in range(0, raster.width, BLOCK):
                rows, cols = min(BLOCK, raster.height - row), min(BLOCK, raster.width - col)
                raster.read(window=Window(col, row, cols, rows))
    return time.perf_counter() - start


def agreement(truth: Path, mapped: Path, copies: int) -> float:
    """Share of the pixels given their true class."""
    return float((np.tile(_read(truth), (copies, copies)) == _read(mapped)).mean())


def _read(path: Path) -> np.ndarray:
    with rasterio.open(path) as raster:
        return np.asarray(raster.read(1))


def _best(runs: list[dict[str, float]], result: dict[str, Any]) -> dict[str, Any]:
    best = dict(min(runs, key=lambda run: run["wall_s"]))
    best["pixels_per_s"] = result["pixels"] / best["wall_s"]
    best["over_bare_read"] = best["wall_s"] / result["bare_read_s"]
    best["peak_mb"] = max(run["peak_mb"] for run in runs)
    return {**best, "runs": runs}


def _table(result: dict[str, Any]) -> str:
    lines = [
        f"{result['pixels']:,} pixels, {result['bands']} bands, {result['classes']} classes; bare read "
        f"{result['bare_read_s']:.2f} s; load average {result['load_average']:.1f} on {os.cpu_count()} "
        f"cores, nice {result['nice']} (above the number of cores, times are longer than on a quiet one).",
        "",
        "| method | wall [s] | CPU [s] | pixels/s (wall) | over bare read | peak memory [MB] | accuracy |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for method, run in result["methods"].items():
        lines.append(
            f"| {method} | {run['wall_s']:.1f} | {run['cpu_s']:.1f} | {run['pixels_per_s']:,.0f} "
            f"| {run['over_bare_read']:.1f} | {run['peak_mb']:.0f} | {run['accuracy']:.3f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
