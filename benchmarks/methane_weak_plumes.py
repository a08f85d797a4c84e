"""How faint a plume is still found, and what is found where there is none.

    python benchmarks/methane_weak_plumes.py

`p3vae simulate` writes PRISMA L1 scenes without plume and `p3vae invert-methane` maps them. Plumes of known
strength are then added to the finished maps, times the map's sensitivity, at random places, and the plume
rule is asked again. So the clutter is that of a retrieval; what a plume does to the learned background, and
the filling of uncertain pixels from their neighbours, are left out.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from methane_plumes import _read, _run

from p3vae.cli.products.plumes import RULE, UNUSABLE
from p3vae.models.methane.plumes import count_false_alarms, label_plumes
from p3vae.physics.simulation.plumes import SimulatedPlume

PEAKS_PPM_M = (500.0, 1000.0, 1500.0, 2000.0)
WIDTH, LENGTH, PIXEL_M = 3.0, 50.0, 30.0
STRONG_SHARE = 0.25
"""A plume is found when the mask holds enough pixels of this share of its peak or more."""


def main() -> None:
    """Simulate, map, inject; write JSON and Markdown."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[41, 42])
    parser.add_argument("--places", type=int, default=10)
    parser.add_argument("--peak-sigmas", type=float, nargs="+", default=[RULE.min_peak_sigma, 8.0, 5.0])
    parser.add_argument("--output", type=Path, default=here / "results" / "methane_weak_plumes.json")
    options = parser.parse_args()
    records: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in options.seeds:
            scene = Path(folder) / f"{seed}.he5"
            _run("simulate", "-o", scene, "--layout", "prisma-l1", "--size", "300x300", "--seed", seed)
            _run("invert-methane", scene, "-o", folder)
            for sigma in options.peak_sigmas:
                records.append(_detections(Path(folder), seed, sigma, options.places))
                _write(options.output, records)


def _detections(folder: Path, seed: int, peak_sigma: float, places: int) -> dict[str, Any]:
    ppm_m, std, sensitivity, quality = (
        _read(folder / f"{seed}_{name}.tif")
        for name in ("methane", "methane_std", "methane_sensitivity", "quality")
    )
    valid = (std > 0) & ~np.isin(quality, UNUSABLE)
    rule, rng = replace(RULE, min_peak_sigma=peak_sigma), np.random.default_rng(seed)
    record: dict[str, Any] = {
        "seed": seed,
        "peak_sigma": peak_sigma,
        "median_std": round(float(np.median(std[valid]))),
        "false_alarms": int(label_plumes(ppm_m, std, valid, rule).max()),
        "control": count_false_alarms(ppm_m, std, valid, rule),
    }
    sources = [(*rng.uniform(60, 240, 2), rng.uniform(0, 360)) for _ in range(places)]
    for peak in PEAKS_PPM_M:
        found = 0
        for row, col, wind in sources:
            truth = SimulatedPlume(row, col, wind, peak, WIDTH, LENGTH).enhancement(*ppm_m.shape)
            labels = label_plumes(ppm_m + truth * sensitivity, std, valid, rule)
            found += int(((labels > 0) & (truth > STRONG_SHARE * peak)).sum() >= rule.min_pixels)
        record[f"found_{peak:g}"] = found / places
    return record


def _write(path: Path, records: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps(records, indent=1) + "\n")
    mass = ", ".join(
        f"{SimulatedPlume(0, 0, 0, p, WIDTH, LENGTH).mass_kg(PIXEL_M):,.0f}" for p in PEAKS_PPM_M
    )
    lines = [
        *("# Faint plumes", "", "    python benchmarks/methane_weak_plumes.py", ""),
        f"Plumes of peak {', '.join(f'{p:g}' for p in PEAKS_PPM_M)} ppm m ({mass} kg), added to maps of "
        "simulated plume-free PRISMA L1 scenes; found: share of the places. The program's rule asks for a "
        f"peak of {RULE.min_peak_sigma:g} sigma; the other rows say what a lower one would do.",
        "",
        "| " + " | ".join(name.replace("_", " ") for name in records[0]) + " |",
        "|" + "---|" * len(records[0]),
    ]
    lines += ["| " + " | ".join(f"{value:g}" for value in record.values()) + " |" for record in records]
    path.with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
