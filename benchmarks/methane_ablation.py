"""What each mechanism of the methane background is worth: one is left out at a time.

    python -m benchmarks methane_ablation --data DIR

Protocol of `methane_protocol.py`, scale 1, absorption of the truth, seeds that were not used in choosing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from benchmarks import reporting
from benchmarks.methane_protocol import absorption_table, optics_of, sensor_noise
from benchmarks.protocols import add_data_option
from benchmarks.protocols import methane as protocol
from p3vae.models.methane import model
from p3vae.models.methane.background import feature_sets
from p3vae.models.methane.model import MethaneP3VAE
from p3vae.models.methane.types import MethaneSettings

SETTINGS = (("fib", "high"), ("random", "high"), ("fib", "low"), ("random", "low"))
VARIANTS = (
    "all of them",
    "8 rounds",
    "one cluster",
    "without pixels under plumes",
    "short-wave infrared only",
    "all bands only",
    "temperature 1",
)


@contextmanager
def without(variant: str) -> Iterator[None]:
    """The code with one mechanism left out."""
    one_set = {"short-wave infrared only": slice(0, 1), "all bands only": slice(1, 2)}
    if variant in one_set:
        with patch.object(feature_sets, "RECIPES", feature_sets.RECIPES[one_set[variant]]):
            yield
    elif variant == "temperature 1":
        with patch.object(model, "TEMPERATURE", 1.0):
            yield
    else:
        yield


def settings_of(variant: str, data: dict[str, Any], seed: int) -> MethaneSettings:
    """Settings with one mechanism left out."""
    low, high = data["range"]
    usual = MethaneSettings(min_ppm_m=low, max_ppm_m=high, seed=seed)
    changed = {
        "8 rounds": {"rounds": 8},
        "one cluster": {"components": 1},
    }
    return replace(usual, **changed.get(variant, {}))


def score(variant: str, data: dict[str, Any], seed: int, folder: Any) -> tuple[float, float]:
    """MAE [ppm m] and coverage of the 95 % intervals."""
    optics = optics_of(data, absorption_table("own", data["sensor"], 1.0, folder), protocol.AIRMASS)
    free, test, truth = torch.as_tensor(data["noplume"]), torch.as_tensor(data["test"]), data["rho_test"]
    under = None
    if variant != "without pixels under plumes":
        under = torch.as_tensor(np.concatenate([data["train"], data["test"]]))
    with without(variant):
        fitted = MethaneP3VAE.fit(
            free,
            optics,
            settings=settings_of(variant, data, seed),
            unlabelled=under,
            noise=sensor_noise(data["sensor"]),
        )
        found = fitted.invert(test)
    error = np.abs(found.ppm_m.double().numpy() - truth)
    return float(error.mean()), float((error < 1.96 * found.std.double().numpy()).mean())


def main() -> None:
    """Leave out, fit, score; write JSON and Markdown after every variant."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_data_option(parser)
    parser.add_argument("--seeds", type=int, nargs="+", default=[4, 5])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    options = parser.parse_args()
    made = {
        (split, conc, seed): protocol.make_dataset(options.data, split=split, conc=conc, seed=seed)
        for split, conc in SETTINGS
        for seed in options.seeds
    }
    names = [f"{split}-{conc}" for split, conc in SETTINGS]
    lines = [
        "MAE in ppm m / coverage of 95 % intervals, means over seeds.",
        "",
        "| | " + " | ".join(names) + " |",
        "|---" * 5 + "|",
    ]
    result: dict[str, dict[str, tuple[float, float]]] = {}
    for variant in options.variants:
        result[variant] = {}
        for (split, conc), name in zip(SETTINGS, names, strict=True):
            scores = [score(variant, made[split, conc, seed], seed, options.data) for seed in options.seeds]
            mean = np.mean(scores, axis=0)
            result[variant][name] = (float(mean[0]), float(mean[1]))
        cells = [f"{mae:,.0f} / {coverage:.3f}" for mae, coverage in result[variant].values()]
        lines.append("| " + " | ".join([variant, *cells]) + " |")
        reporting.write("methane_ablation", {"scores": result}, "\n".join(lines))


if __name__ == "__main__":
    main()
