"""Accuracy against the number of labelled polygons per class, with and without the prior `earth`.

    python -m benchmarks few_labels --data DIR --seeds 70-79

Polygons of a class are drawn with a probability in proportion to their pixels, from those that the protocol
of a scene gives for training; `all` is that protocol. Beside ours: linear discriminant analysis with equal
priors of the classes. Test pixels are at most 1500 of those of the protocol. Potsdam, Jasper Ridge and
the tree crowns have aliases as an analyst would give them; the other scenes have no name that `earth` knows.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.landcover_tasks import Task, tasks
from benchmarks.protocols import add_data_option, real
from benchmarks.reporting import write
from p3vae.cli.run.model_files import default_land_cover
from p3vae.models.landcover.library.transfer import PriorModel, matched_names
from p3vae.models.landcover.model import LandCoverModel, load_model
from p3vae.models.landcover.train import train_land_cover
from p3vae.models.landcover.types import TrainingSettings
from p3vae.models.metrics import average_f1, calibration_error

COUNTS = (1, 2, 3, 5, None)
MOST_TESTED = 1500
ALIAS = {
    "potsdam": {"roof": "built-up", "pavement": "built-up", "low vegetation": "grass and low vegetation"},
    "crowns": {"PIPA2": "needleleaf trees", "QUGE2": "broadleaf trees", "QULA2": "broadleaf trees"},
    "jasper": {"dirt": "bare ground", "road": "asphalt"},
}
METHODS = ("lda", "p3vae", "p3vae --from earth")


def with_few(task: Task, count: int | None, seed: int) -> Task:
    """The task with so many polygons per class, at most; None keeps all."""
    if count is None:
        return task
    data, rng = task.data, np.random.default_rng(seed)
    kept = np.zeros(len(data.spectra), bool)
    for index in range(len(task.legend)):
        groups, pixels = np.unique(data.group[data.class_index == index], return_counts=True)
        size = min(count, len(groups))
        chosen = rng.choice(groups, size, replace=False, p=pixels / pixels.sum())
        kept |= (data.class_index == index) & np.isin(data.group, chosen)
    return replace(task, data=data.subset(kept))


def scores(
    task: Task, earth: LandCoverModel, alias: dict[str, str], seed: int
) -> dict[str, dict[str, float]]:
    """Of every method; ours with the prior, and the same model when the prior is taken from it."""
    test = task.tests["test"]
    rows = np.random.default_rng(seed).permutation(len(test.truth))[:MOST_TESTED]
    spectra, truth = test.spectra[rows].astype(np.float32), test.truth[rows]
    prior = PriorModel(earth, matched_names(earth, task.legend.names, alias))
    settings = TrainingSettings(seed=seed, prior="earth")
    model = train_land_cover(task.data, task.bands, task.irradiance, task.legend, settings, prior=prior)
    plain: Any = replace(model.estimator, transfer=None)  # type: ignore[type-var]
    found = {}
    for name, one in (("p3vae", replace(model, estimator=plain)), ("p3vae --from earth", model)):
        chance = one.predict(spectra, test.irradiance, want_probabilities=True).probabilities
        assert chance is not None
        index = chance.argmax(1)
        found[name] = {
            "f1": average_f1(truth, index, len(task.legend)),
            "oa": float((index == truth).mean()),
            "ece": calibration_error(truth, chance),
        }
    data = task.data
    lda, confidence = real.baselines(data.spectra, data.class_index, spectra, seed, only="lda_uniform")[
        "lda_uniform"
    ]
    found["lda"] = real.score(truth, lda, confidence) | {"f1": average_f1(truth, lda, len(task.legend))}
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_data_option(options)
    options.add_argument("--seeds", default="70-79", help="first-last; 60-64 chose the settings")
    options.add_argument("--task", action="append", help="default: the real scenes and Potsdam")
    options.add_argument("--name", default="few_labels", help="name of the result files")
    asked = options.parse_args()
    torch.set_num_threads(1)
    first, last = map(int, asked.seeds.split("-"))
    earth = load_model(default_land_cover())
    rows: dict[str, dict[str, list[dict[str, float]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        made = tasks(asked.data, Path(folder))
        for name in asked.task or (*real.SCENES, "potsdam"):
            for seed in range(first, last + 1):
                task, before, found = made[name](seed), -1, {}
                for count in COUNTS:
                    few = with_few(task, count, seed)
                    if len(few.data.spectra) != before:  # else the classes have no more polygons
                        found = scores(few, earth, ALIAS.get(name, {}), seed)
                    before = len(few.data.spectra)
                    for method in METHODS:
                        here = rows.setdefault(f"{name} {count or 'all'}", {})
                        here.setdefault(method, []).append(found[method])
            means = {row: {m: _mean(runs) for m, runs in found.items()} for row, found in rows.items()}
            write(asked.name, {"seeds": asked.seeds, "means": means}, _table(means))


def _mean(runs: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(float(np.mean([run[key] for run in runs])), 4) for key in ("f1", "oa", "ece")}


def _table(means: dict[str, dict[str, dict[str, float]]]) -> str:
    lines = [
        "F1 / accuracy / ECE, means over seeds.",
        "",
        f"| scene, polygons per class | {' | '.join(METHODS)} |",
        "|---|---|---|---|",
    ]
    for row, found in means.items():
        cells = [f"{s['f1']:.3f} / {s['oa']:.3f} / {s['ece']:.3f}" for s in (found[m] for m in METHODS)]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
