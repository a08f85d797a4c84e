"""How often the 95 % intervals of `p3vae assess` hold the truth, over simulated stratified samples.

    python -m benchmarks assess_coverage

A map of known accuracy is sampled again and again as `p3vae sample` does, and every interval is compared with
the population's own value: the normal interval of Olofsson et al. (2014), and the one of
`models/accuracy_intervals.py`, which was chosen among others on random designs of the seeds 0 to 11. Writes
`results/assess_coverage.md` and `.json`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from benchmarks.reporting import write
from p3vae.cli.assess.sample import LEAST_PER_CLASS, allocate
from p3vae.models.accuracy import Z_95, area_adjusted
from p3vae.models.accuracy_intervals import area_adjusted_intervals

SAMPLES, SEED = 2000, 0
SIZES = (150, 300, 640, 1000)
DESIGN_SEEDS = range(100, 112)
"""None of those that chose the interval."""
ESTIMATES = ("overall", "share", "users", "producers")
Population = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
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


def random_design(seed: int) -> Population:
    """Map shares of three to eight classes, some rare, and the reference classes in each of them."""
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(3, 9))
    area = np.maximum(rng.dirichlet(np.full(classes, 0.7)), 0.005)
    area /= area.sum()
    accuracy = rng.uniform(0.7, 0.97, classes)
    within = np.zeros((classes, classes))
    for row in range(classes):
        others = np.arange(classes) != row
        confused = rng.dirichlet(np.full(classes - 1, 0.6)) * np.sqrt(area[others])
        within[row, others] = confused / confused.sum() * (1 - accuracy[row])
        within[row, row] = accuracy[row]
    return area, within


def coverage(population: Population, size: int) -> dict[str, dict[str, npt.NDArray[np.float64]]]:
    """Share of intervals that hold the truth, by kind of interval and estimate, (classes,) or ()."""
    area, within = population
    joint = area[:, None] * within
    truth = {
        "overall": np.trace(joint),
        "users": np.diag(within),
        "producers": np.diag(joint) / joint.sum(axis=0),
        "share": joint.sum(axis=0),
    }
    drawn = allocate((area * 1e7).astype(np.int64), size, LEAST_PER_CLASS)
    rng = np.random.default_rng(SEED)
    held: dict[str, dict[str, list[np.ndarray]]] = {
        kind: {name: [] for name in ESTIMATES} for kind in ("normal", "mover")
    }
    for _ in range(SAMPLES):
        counts = np.array([rng.multinomial(n, row) for n, row in zip(drawn, within, strict=True)])
        found, limits = area_adjusted(counts, area), area_adjusted_intervals(counts, area)
        for name, value in truth.items():
            error, interval = Z_95 * getattr(found, f"{name}_se"), getattr(limits, name)
            held["normal"][name].append(np.abs(getattr(found, name) - value) <= error)
            held["mover"][name].append((interval.low <= value) & (value <= interval.high))
    return {
        kind: {name: np.mean(values, axis=0) for name, values in by_name.items()}
        for kind, by_name in held.items()
    }


def rows() -> Iterator[dict[str, object]]:
    """One per population (all random designs together), size and kind of interval."""
    named = {name: [(np.array(area), np.array(within))] for name, (area, within) in POPULATIONS.items()}
    named["twelve random designs"] = [random_design(seed) for seed in DESIGN_SEEDS]
    for name, populations in named.items():
        for size in SIZES:
            found = [coverage(population, size) for population in populations]
            for kind in ("normal", "mover"):
                rates = {
                    key: np.concatenate([np.atleast_1d(each[kind][key]) for each in found])
                    for key in ESTIMATES
                }
                yield (
                    {"population": name, "samples": size, "interval": kind}
                    | {key: round(float(rate.mean()), 4) for key, rate in rates.items()}
                    | {f"worst_{key}": round(float(rate.min()), 4) for key, rate in rates.items()}
                )


def main() -> None:
    results = list(rows())
    lines = [
        f"Share of 95 % intervals that hold the truth, {SAMPLES} simulated samples each: mean over the "
        "classes, and the class with the fewest. *Normal*: ± 1.96 standard errors, as published. *MOVER*: "
        "the limits of `p3vae assess`.",
        "",
        "| population | samples | interval | overall | area | worst | user's | worst | producer's | worst |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        kind = "MOVER" if r["interval"] == "mover" else "normal"
        cells = [r["population"], r["samples"], kind, f"{r['overall']:.3f}"]
        for name in ESTIMATES[1:]:
            cells += [f"{r[name]:.3f}", f"{r[f'worst_{name}']:.3f}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += [
        "",
        "The normal interval fails where few samples of a rare confusion are expected: a sample without any "
        "has no variance. A single user's accuracy is a binomial of 50 samples, whose coverage steps around "
        "95 % by whole samples.",
    ]
    write("assess_coverage", {"rows": results}, "\n".join(lines))


if __name__ == "__main__":
    main()
