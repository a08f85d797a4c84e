"""Out-of-distribution pixels: one class is withheld from training at a time.

    python -m benchmarks unknown --data DIR

At a threshold that flags 5 % of the rightly classified pixels of the other classes, the share of the withheld
class that is flagged.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.landcover_tasks import Task, legend, tasks
from benchmarks.protocols import add_data_option
from benchmarks.reporting import write
from p3vae.models.landcover.train import train_land_cover
from p3vae.models.landcover.types import TrainingSettings

TASKS = {"jasper": "test", "toulouse": "test", "town": "30°"}
FALSE_ALARMS = 0.05


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_data_option(options)
    options.add_argument("--seed", type=int, default=5)
    asked = options.parse_args()
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        made = tasks(asked.data, Path(folder))
        for name, test in TASKS.items():
            task = made[name](asked.seed)
            for index, withheld in enumerate(task.legend.names):
                flagged, confidence = withhold(task, test, index, asked.seed)
                rows.append(
                    {"task": name, "withheld": withheld, "flagged": flagged, "confidence": confidence}
                )
                write("unknown", {"seed": asked.seed, "rows": rows}, _table(rows))


def withhold(task: Task, test_name: str, index: int, seed: int) -> tuple[float, float]:
    """Share flagged of the withheld class, and its mean confidence in some other class."""
    data, test = task.data, task.tests[test_name]
    known = data.class_index != index
    kept = [k for k in range(len(task.legend)) if k != index]
    short = data.subset(known)
    short = replace(short, class_index=np.searchsorted(kept, short.class_index))
    names = legend(tuple(task.legend.names[k] for k in kept))
    model = train_land_cover(short, task.bands, task.irradiance, names, TrainingSettings(seed=seed))
    found = model.predict(test.spectra, test.irradiance)
    assert found.misfit is not None
    right = (test.truth != index) & (found.class_id == 1 + np.searchsorted(kept, test.truth))
    own = test.truth == index
    threshold = np.quantile(found.misfit[right], 1 - FALSE_ALARMS)
    return float((found.misfit[own] > threshold).mean()), float(found.confidence[own].mean())


def _table(rows: list[dict[str, str | float]]) -> str:
    lines = ["| task | withheld class | flagged | its mean confidence |", "|---|---|---:|---:|"]
    lines += [
        f"| {row['task']} | {row['withheld']} | {row['flagged']:.2f} | {row['confidence']:.2f} |"
        for row in rows
    ]
    mean = np.mean([float(row["flagged"]) for row in rows])
    return "\n".join([*lines, f"| mean | | {mean:.2f} | |"])


if __name__ == "__main__":
    main()
