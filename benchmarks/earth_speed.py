"""Speed and memory of the shipped model `earth` on a 1000 x 1000 x 230 GeoTIFF, by the command line.

    python -m benchmarks earth_speed

The scene is that of `classify_speed.py`. Pixels per CPU second count start and imports; on a quiet machine
two cores give about twice as many per second. The full library: every component of every material.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.classify_speed import measure, repeat
from benchmarks.reporting import write

TOWN, COPIES, BANDS = 250, 4, 230
RUNS: dict[str, tuple[str, ...]] = {
    "classify": (),
    "with materials and fractions": ("--materials", "--fractions"),
}


def main() -> None:
    pixels, runs = (TOWN * COPIES) ** 2, {}
    with tempfile.TemporaryDirectory() as name:
        town, scene = Path(name) / "town.tif", Path(name) / "scene.tif"
        measure(
            "simulate", "-o", town, "--size", f"{TOWN}x{TOWN}", "--bands", str(BANDS), "--sun-zenith", "35"
        )
        repeat(town, scene, COPIES)
        for number, (run, more) in enumerate(RUNS.items()):
            found: dict[str, Any] = measure(
                "classify", scene, "-m", "earth", "-o", scene.parent / str(number), *more
            )
            runs[run] = found | {"pixels_per_cpu_s": pixels / found["cpu_s"]}
    write(
        "earth_speed",
        {"pixels": pixels, "bands": BANDS, "load": os.getloadavg()[0], "runs": runs},
        _table(runs),
    )


def _table(runs: dict[str, dict[str, float]]) -> str:
    load = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    lines = [
        f"{(TOWN * COPIES) ** 2:,} pixels, {BANDS} bands; {load}.",
        "",
        "| run | wall [s] | CPU [s] | pixels per CPU second | peak memory [MB] |",
        "|---|---:|---:|---:|---:|",
    ]
    return "\n".join(
        lines
        + [
            f"| {name} | {run['wall_s']:.1f} | {run['cpu_s']:.1f} | {run['pixels_per_cpu_s']:,.0f} "
            f"| {run['peak_mb']:.0f} |"
            for name, run in runs.items()
        ]
    )


if __name__ == "__main__":
    main()
