"""Shared by the land-cover benchmarks: the protocols as training sets, and the variants that are compared."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from protocols import add_data_option

from p3vae.models.landcover.model import LandCoverModel
from p3vae.models.landcover.train import train_land_cover
from p3vae.models.landcover.types import ClassLegend, TrainingSet, TrainingSettings
from p3vae.models.metrics import class_scores, regression_score
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands

RESULTS = Path(__file__).parent / "results"

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "default, no stop-gradient": {"stop_gradient": False},
    "default, no adoption": {"adoption": False},
    "default, no physics": {"physics": False},
    "paper": {"preset": "paper"},
    "paper, no stop-gradient": {"preset": "paper", "stop_gradient": False},
    "guided-vae": {"model": "guided-vae"},
}


def parser(description: str) -> argparse.ArgumentParser:
    """Options every land-cover benchmark has."""
    options = argparse.ArgumentParser(description=description)
    add_data_option(options)
    options.add_argument("--variant", action="append", choices=list(VARIANTS), help="default: all")
    options.add_argument("--seeds", type=int, default=5, help="scenes or splits")
    options.add_argument("--paper-epochs", type=int, help="shorter runs of the published preset")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--name", help="name of the result files")
    return options


def settings(variant: str, seed: int, paper_epochs: int | None) -> TrainingSettings:
    """Training settings of a variant."""
    options = VARIANTS[variant]
    epochs = paper_epochs if options.get("preset") == "paper" else None
    return TrainingSettings(seed=seed, epochs=epochs, **options)


def legend(names: Sequence[str]) -> ClassLegend:
    """A legend with ids from 1."""
    return ClassLegend(
        tuple(range(1, len(names) + 1)),
        tuple(names),
        tuple((40 * i % 256, 90, 160) for i in range(len(names))),
    )


def train_timed(
    data: TrainingSet,
    bands: Bands,
    irradiance: SpectralIrradiance,
    names: Sequence[str],
    how: TrainingSettings,
) -> tuple[LandCoverModel, float]:
    """A model and the seconds it took."""
    start = time.perf_counter()
    model = train_land_cover(data, bands, irradiance, legend(names), how)
    return model, time.perf_counter() - start


def scores(
    model: LandCoverModel,
    spectra: np.ndarray,
    truth: np.ndarray,
    irradiance: SpectralIrradiance,
    z: np.ndarray | None = None,
) -> dict[str, Any]:
    """F1 by posterior and by classifier, per class and on average; with the true light also z_E."""
    found = model.predict(spectra, irradiance)
    judged = model.predict(spectra, irradiance, method="classifier").class_id.astype(int) - 1
    out: dict[str, Any] = {}
    for method, index in (("posterior", found.class_id.astype(int) - 1), ("classifier", judged)):
        f1 = class_scores(truth, index, len(model.legend))[2]
        out[method] = {
            "average": float(f1.mean()),
            "lowest": float(f1.min()),
            "per_class": f1.round(4).tolist(),
        }
    out["mean_confidence"] = float(found.confidence.mean())
    out["accuracy"] = float((found.class_id.astype(int) - 1 == truth).mean())
    if found.misfit is not None:
        unknown, right = found.misfit > 1, found.class_id.astype(int) - 1 == truth
        out["unknown"] = float(unknown.mean())
        out["unknown_of_right"] = float(unknown[right].mean())
        out["unknown_of_wrong"] = float(unknown[~right].mean()) if not right.all() else None
    if z is not None and found.irradiance is not None:
        out["z"] = asdict(regression_score(z, found.irradiance, found.irradiance_std))
    return out


def write(name: str, result: Mapping[str, Any], table: str) -> None:
    """JSON and Markdown beside each other, each naming the command."""
    command = "python " + " ".join([f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    RESULTS.mkdir(exist_ok=True)
    content = json.dumps({"command": command, **result}, indent=1)
    (RESULTS / f"{name}.json").write_text(content + "\n")
    (RESULTS / f"{name}.md").write_text(f"`{command}`\n\n{table}\n")
    print(table, flush=True)


def use_threads(count: int) -> None:
    """Torch threads of this process."""
    torch.set_num_threads(count)
