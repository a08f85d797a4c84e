"""Land cover with one mechanism left out at a time, beside the baselines that an analyst has anyway.

    python -m benchmarks ablate --data DIR --seeds 70-79

A row is a variant, a column a test: overall accuracy / average F1 / expected calibration error, means over
seeds. Where the true light is known: mean absolute error and bias of z_E, and the share of truths within 1.96
standard deviations.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from benchmarks.landcover_tasks import Task, tasks
from benchmarks.protocols import add_data_option, real
from benchmarks.reporting import write
from p3vae.models.landcover.train import train_land_cover
from p3vae.models.landcover.types import TrainingSettings
from p3vae.models.metrics import average_f1, calibration_error, regression_score

Scores = dict[str, dict[str, float]]


def p3vae(task: Task, seed: int, *, alone: bool = False, **settings: Any) -> Scores:
    """Our model's scores on every test of a task; `alone`, of maps without neighbours."""
    how = TrainingSettings(seed=seed, **settings)
    start = time.process_time()
    model = train_land_cover(task.data, task.bands, task.irradiance, task.legend, how)
    seconds = time.process_time() - start
    found: Scores = {}
    for name, test in task.tests.items():
        maps = test.predicted(model.without_neighbours() if alone else model)
        assert maps.probabilities is not None
        found[name] = _class_scores(test.truth, maps.probabilities) | {"cpu_s": seconds}
        found[name]["neighbours"] = float(model.averages_neighbours)
        if test.z is not None and maps.irradiance is not None and maps.irradiance_std is not None:
            light = regression_score(test.z, maps.irradiance, maps.irradiance_std)
            found[name] |= {"z_mae": light.mae, "z_bias": light.bias, "z_cover": light.within_95}
    return found


def _class_scores(truth: np.ndarray, probability: np.ndarray) -> dict[str, float]:
    index = probability.argmax(1)
    return {
        "oa": float((index == truth).mean()),
        "f1": average_f1(truth, index, probability.shape[1]),
        "ece": calibration_error(truth, probability),
    }


def patched(name: str, value: Any) -> Callable[[Task, int], Scores]:
    """Our model with another value of a name in its package."""

    def run(task: Task, seed: int) -> Scores:
        with patch(f"p3vae.models.landcover.library.{name}", value):
            return p3vae(task, seed)

    return run


def always(task: Task, seed: int) -> Scores:
    """Our model with neighbours, whatever held-out polygons say of them."""
    with patch("p3vae.models.landcover.library.calibration._neighbours_help", lambda *_: True):
        return p3vae(task, seed)


def gate(value: float) -> Callable[[Task, int], Scores]:
    """Our model with one probability of known light for all pixels."""

    def run(task: Task, seed: int) -> Scores:
        def constant(table: torch.Tensor, sun: torch.Tensor, sky: torch.Tensor) -> torch.Tensor:
            return torch.full_like(sun, value)

        with patch("p3vae.models.landcover.library.mixture.interpolated", constant):
            return p3vae(task, seed)

    return run


def baseline(name: str) -> Callable[[Task, int], Scores]:
    """One of the baselines of `protocols/real.py`."""

    def run(task: Task, seed: int) -> Scores:
        data, found = task.data, {}
        for test_name, test in task.tests.items():
            start = time.process_time()
            predicted, confidence = real.baselines(
                data.spectra, data.class_index, test.spectra, seed, only=name
            )[name]
            seconds = time.process_time() - start
            f1 = average_f1(test.truth, predicted, len(task.legend))
            found[test_name] = real.score(test.truth, predicted, confidence) | {"f1": f1, "cpu_s": seconds}
        return found

    return run


VARIANTS: dict[str, Callable[..., Scores]] = {
    "p3vae": p3vae,
    "without physics": lambda task, seed: p3vae(task, seed, physics=False),
    "without neighbours": lambda task, seed: p3vae(task, seed, alone=True),
    "always neighbours": always,
    "classifier alone": gate(1.0),
    "decoder alone": gate(0.0),
    "half and half": gate(0.5),
    "class prior of the scene": lambda task, seed: p3vae(task, seed, class_prior="scene"),
    "one endmember per class": patched("endmembers._ENDMEMBERS", 1),
    "without smooth deviations": patched("endmembers._SMOOTH_STD", 0.0),
    "without light of neighbours": patched("decoder._ADJACENCY_STD", 0.0),
    "without temperature": patched("calibration._TEMPERATURES", (1.0,)),
    "temperature of held-out polygons": patched("calibration._ON_NEW_GROUND", 1.0),
    "without distance in confidence": patched("calibration._IN_DISTRIBUTION", 1.0),
    "one factor of covariance": patched("endmembers._MOST_FACTORS", 1),
    "lda": baseline("lda"),
    "lda_uniform": baseline("lda_uniform"),
    "logistic": baseline("logistic"),
    "svm": baseline("svm"),
    "forest": baseline("forest"),
}


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_data_option(options)
    options.add_argument("--task", action="append", help="default: all")
    options.add_argument("--variant", action="append", choices=list(VARIANTS), help="default: all")
    options.add_argument("--seeds", default="70-79", help="first-last; 60-64 chose the settings")
    options.add_argument("--name", default="ablation", help="name of the result files")
    asked = options.parse_args()
    torch.set_num_threads(1)
    first, last = map(int, asked.seeds.split("-"))
    rows: dict[str, dict[str, list[dict[str, float]]]] = {}
    with tempfile.TemporaryDirectory() as name:
        made = tasks(asked.data, Path(name))
        for task_name in asked.task or made:
            for seed in range(first, last + 1):
                task = made[task_name](seed)
                for variant in asked.variant or VARIANTS:
                    for test, scores in VARIANTS[variant](task, seed).items():
                        rows.setdefault(f"{task_name} {test}", {}).setdefault(variant, []).append(scores)
            means = {test: {v: _mean(runs) for v, runs in found.items()} for test, found in rows.items()}
            write(asked.name, {"seeds": asked.seeds, "means": means}, _table(means))


def _mean(runs: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(float(np.mean([run[key] for run in runs])), 4) for key in runs[0]}


def _table(means: dict[str, dict[str, dict[str, float]]]) -> str:
    lines = [
        "| test | variant | accuracy | F1 | ECE | z MAE | z bias | within 1.96 std | training CPU s |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for test, found in means.items():
        for variant, scores in found.items():
            cells = [f"{scores[key]:.3f}" if key in scores else "–" for key in ("oa", "f1", "ece")]
            cells += [
                f"{scores[key]:.3f}" if key in scores else "–" for key in ("z_mae", "z_bias", "z_cover")
            ]
            cells.append(f"{scores['cpu_s']:.1f}")
            lines.append(f"| {test} | {variant} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
