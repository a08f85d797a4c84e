"""How often the 95 % intervals of `p3vae assess` hold the truth, over simulated stratified samples.

    python benchmarks/assess_coverage.py

A map of known accuracy is sampled again and again as `p3vae sample` does, and every interval is compared with
the population's own value. Writes `results/assess_coverage.md` and `.json`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from p3vae.cli.workflows.sample import LEAST_PER_CLASS, allocate
from p3vae.models.accuracy import Z_95, area_adjusted

SAMPLES, SEED = 2000, 0
SIZES = (150, 300, 640, 1000)
RESULTS = Path(__file__).parent / "results"
POPULATIONS = {
    "four balanced classes, accuracy .85": (
        [0.2, 0.25, 0.25, 0.3],
        [
            [0.85, 0.05, 0.05, 0.05],
            [0.05, 0.85, 0.05, 0.05],
            [0.05, 0.05, 0.85, 0.05],
            [0.05, 0.05, 0.05, 0.85],
        ],
    ),
    "six classes of 4 to 40 %, accuracy .90": (
        [0.04, 0.08, 0.1, 0.15, 0.23, 0.4],
        [[0.9 if i == j else 0.02 for j in range(6)] for i in range(6)],
    ),
    "rare change as in Olofsson et al. (2014)": (
        [0.02, 0.015, 0.32, 0.645],
        [
            [0.88, 0, 0.067, 0.053],
            [0, 0.733, 0.107, 0.16],
            [0.006, 0, 0.927, 0.067],
            [0.006, 0.003, 0.028, 0.963],
        ],
    ),
}


def coverage(weights: list[float], confusion: list[list[float]], size: int) -> dict[str, float]:
    """Share of intervals that hold the truth: of the whole map, and the mean over classes."""
    area, within = np.array(weights), np.array(confusion)
    joint = area[:, None] * within
    truth = {
        "overall": np.trace(joint),
        "users": np.diag(within),
        "producers": np.diag(joint) / joint.sum(axis=0),
        "share": joint.sum(axis=0),
    }
    drawn = allocate((area * 1e7).astype(np.int64), size, LEAST_PER_CLASS)
    rng = np.random.default_rng(SEED)
    held: dict[str, list[np.ndarray]] = {name: [] for name in truth}
    for _ in range(SAMPLES):
        counts = np.array([rng.multinomial(n, row) for n, row in zip(drawn, within, strict=True)])
        found = area_adjusted(counts, area)
        for name, value in truth.items():
            error = Z_95 * getattr(found, f"{name}_se")
            held[name].append(np.abs(getattr(found, name) - value) <= error)
    rates = {name: np.mean(values, axis=0) for name, values in held.items()}
    return {name: round(float(np.mean(rate)), 4) for name, rate in rates.items()} | {
        "worst_share": round(float(np.min(rates["share"])), 4)
    }


def main() -> None:
    rows = [
        {"population": name, "samples": size, **coverage(*population, size)}
        for name, population in POPULATIONS.items()
        for size in SIZES
    ]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "assess_coverage.json").write_text(json.dumps(rows, indent=1) + "\n")
    lines = [
        f"Share of 95 % intervals that hold the truth, {SAMPLES} simulated samples each "
        "(`python benchmarks/assess_coverage.py`).",
        "",
        "| population | samples | overall | area | area, worst class | user's | producer's |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {r['population']} | {r['samples']} | {r['overall']:.3f} | {r['share']:.3f} "
            f"| {r['worst_share']:.3f} | {r['users']:.3f} | {r['producers']:.3f} |"
            for r in rows
        ),
    ]
    lines += [
        "",
        "The normal intervals of Olofsson et al. hold what they promise where every confusion was sampled a "
        "few times. With few samples of rare confusions, as for rare change in a large map, they are too "
        "narrow: draw more samples (`p3vae sample --n`).",
    ]
    (RESULTS / "assess_coverage.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
