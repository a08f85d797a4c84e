"""The damped pendulum: published figures beside ours.

    python benchmarks/pendulum.py [--seeds N] [--quick]

The swings are those of `protocols/pendulum.py`. Trained models are kept in the
work folder, so an interrupted run goes on where it stopped. Results: benchmarks/results/pendulum.{json,md}.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from protocols import pendulum as protocol

from p3vae.paper.pendulum.model import (
    NAMES,
    PendulumModel,
    PendulumPrediction,
    PendulumSettings,
    train_pendulum,
)
from p3vae.paper.pendulum.scores import PendulumScores, score_pendulum, score_prediction

HERE = Path(__file__).resolve().parent
COLUMNS = ("in_mae", "out_mae", "gap_omega", "gap_xi", "mig_omega", "mig_xi")
TITLES = ("in-MAE", "out-MAE", "gap ω [bit]", "gap ξ [bit]", "MIG ω", "MIG ξ")
PUBLISHED = {
    "vae-ode": (5.24, 140.0, 0.017, 0.017),
    "phi-vae": (8.37, 92.3, 0.378, 0.147),
    "p3vae-published": (5.26, 39.0, 1.057, 0.097),
}
QUICK_EPOCHS = {"vae-ode": 10, "phi-vae": 10, "p3vae-published": 10, "p3vae": 15}
Data = dict[str, Any]


def main() -> None:
    """Train what is missing, score, write the table."""
    options = parse(sys.argv[1:])
    torch.set_num_threads(options.threads)
    data = {split: protocol.make(split) for split in ("train", "valid", "test")}
    stem = HERE / "results" / ("pendulum-quick" if options.quick else "pendulum")
    result: dict[str, Any] = {"command": shlex.join(["python", *sys.argv])}
    result |= {"predict zero": zero(data["test"]), "runs": []}
    for name, seed in itertools.product(options.models, range(options.seeds)):
        result["runs"].append(run(name, seed, data, options))
        stem.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
        stem.with_suffix(".md").write_text(report(result))
    print(report(result))


def parse(arguments: list[str]) -> argparse.Namespace:
    """Options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--models", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--epochs", type=int, help="of the published models (theirs: 1000)")
    parser.add_argument("--quick", action="store_true", help="few epochs: shows that everything runs")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "p3vae-benchmarks")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args(arguments)


def run(name: str, seed: int, data: dict[str, Data], options: argparse.Namespace) -> dict[str, Any]:
    """One row: a model, trained or found in the work folder, on the test swings."""
    epochs = QUICK_EPOCHS[name] if options.quick else options.epochs if name in PUBLISHED else None
    settings = PendulumSettings(name, epochs, seed)
    path = options.work / f"pendulum-{name}-{epochs or 'all'}-{seed}.p3vae"
    if not path.exists():
        started = time.perf_counter()
        train, valid = data["train"], data["valid"]
        model = train_pendulum(train["x"], train["omega"], valid["x"], valid["omega"], settings)
        path.parent.mkdir(parents=True, exist_ok=True)
        model.save(path)
        print(f"{name}, seed {seed}: trained in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    test = data["test"]
    scores = score_pendulum(PendulumModel.load(path), test["x"], test["omega"], test["xi"])
    return {"model": name, "seed": seed, "epochs": epochs, **flat(scores)}


def flat(scores: PendulumScores) -> dict[str, float]:
    """The columns of the table."""
    gaps = (scores.omega.bits, scores.xi.bits, scores.omega.normalised, scores.xi.normalised)
    return dict(zip(COLUMNS, (scores.in_mae, scores.out_mae, *gaps), strict=True))


def zero(test: Data) -> dict[str, float]:
    """What resting pendulums score."""
    still = PendulumPrediction(np.zeros_like(test["x"]), np.zeros((len(test["x"]), 2)), ("none", "none"))
    return flat(score_prediction(still, test["x"], test["omega"], test["xi"]))


def report(result: dict[str, Any]) -> str:
    """The Markdown page."""
    lines = ["# Damped pendulum", "", f"`{result['command']}`", ""]
    lines += ["| model | epochs | seeds | " + " | ".join(TITLES) + " |", "|---" * (3 + len(TITLES)) + "|"]
    for name in dict.fromkeys(row["model"] for row in result["runs"]):
        rows = [row for row in result["runs"] if row["model"] == name]
        if name in PUBLISHED:
            lines.append(line(f"{name}, published figures", "1000", "5", PUBLISHED[name]))
        means = [fmean(row[column] for row in rows) for column in COLUMNS]
        title = f"{name}, here" if name in PUBLISHED else f"**{name}, ours**"
        lines.append(line(title, str(rows[0]["epochs"] or "all"), str(len(rows)), means))
    lines.append(line("predict zero", "", "", [result["predict zero"][c] for c in COLUMNS[:2]]))
    return "\n".join([*lines, "", *NOTES, ""])


NOTES = (
    "Errors are sums of absolute errors [rad] over steps 0-49 (in) and 50-399 (out), means over 1000 test",
    "swings with damping up to 2 s-1; training has damping up to 0.5 s-1 and ω known for one swing in five.",
    "Codes are posterior means in 10 equal bins. gap: mutual information of the best code less that of the",
    "second; MIG: the gap over the factor's entropy. The noise alone costs 1.99 and 13.95.",
)


def line(title: str, epochs: str, seeds: str, values: Any) -> str:
    """One row of the table; missing values stay empty."""
    cells = [f"{value:.3g}" for value in values]
    return f"| {title} | {epochs} | {seeds} | " + " | ".join(cells + [""] * (len(TITLES) - len(cells))) + " |"


if __name__ == "__main__":
    main()
