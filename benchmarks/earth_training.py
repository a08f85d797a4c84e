"""How long the encoder of `earth` learns, and from which draws, on libraries and scenes it never saw.

    python -m benchmarks earth_training --data DIR --wheel earthlib-1.1.0-py3-none-any.whl

One network, of the full range. A withheld library is judged as in `earth_withheld`, its confidence with the
temperature that withheld spectra gave; simulated scenes are of spectra that the model never saw. Seeds are
others than those of `earth_withheld`. No real scene has a part in it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.earth_library.build import model_of
from benchmarks.earth_library.calibrate import calibrated
from benchmarks.earth_library.encode import grids, train_encoder
from benchmarks.earth_library.ground import Ground
from benchmarks.earth_library.landscape import landscape
from benchmarks.earth_library.sources import MaterialSpectra, model_bands, read_spectra
from benchmarks.earth_library.withheld import halves
from benchmarks.earth_withheld import KINDS, SHARE_OF_SCENE, WITHHELD, judged, library_pixels
from benchmarks.protocols import add_data_option
from benchmarks.reporting import write
from p3vae.models.landcover.library.materials import MaterialEstimator
from p3vae.models.landcover.model import LandCoverModel
from p3vae.models.metrics import calibration_error

SEED = 12
SCENES = range(300, 306)
TRAININGS: dict[str, dict[str, Any]] = {
    "14 epochs": {"epochs": 14},
    "40 epochs": {"epochs": 40},
    "100 epochs": {"epochs": 100},
    "14 epochs, no half-dry and dim plants": {"epochs": 14, "plants": False},
}


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_data_option(options)
    options.add_argument("--wheel", type=Path, required=True)
    options.add_argument("--processes", type=int, default=2)
    asked = options.parse_args()
    spectra = read_spectra(asked.data / "spectra", asked.wheel)
    with ProcessPoolExecutor(asked.processes) as pool:
        scenes = pool.submit(on_scenes, spectra)
        logits = {source: pool.submit(on_library, spectra, source) for source in WITHHELD}
        rows = scenes.result()
        for source, found in logits.items():
            truth = library_pixels(spectra, source, SEED)[1]
            for name, values in found.result().items():
                chance = (torch.from_numpy(values) / rows[name]["temperature"]).softmax(1).numpy()
                rows[name][f"without {source}"] = {
                    "accuracy": float((chance.argmax(1) == truth).mean()),
                    "ece": calibration_error(truth, chance),
                }
    write("earth_training", {"rows": rows}, _table(rows))


def models(ground: Ground) -> Iterator[tuple[str, LandCoverModel]]:
    """One model for every training; the decoder is the same."""
    first: LandCoverModel | None = None
    for name, training in TRAININGS.items():
        if first is None:
            first = model_of(ground, SEED, which=grids()[:1], **training)
            yield name, first
            continue
        own = first.estimator
        assert isinstance(own, MaterialEstimator)
        encoder = train_encoder(ground, list(own.materials), SEED, which=grids()[:1], **training)
        network = encoder.at_bands(model_bands())
        yield name, replace(first, estimator=replace(own, encoder=encoder, network=network))


def on_scenes(spectra: list[MaterialSpectra]) -> dict[str, dict[str, Any]]:
    """Temperature, and means over simulated scenes, of models of half of the spectra."""
    torch.set_num_threads(1)
    nm = model_bands().wavelength_nm
    learned, withheld = (Ground(nm, half) for half in halves(spectra, SEED))
    rows: dict[str, dict[str, Any]] = {}
    for name, trained in models(learned):
        model = calibrated(trained, withheld, SEED)
        assert isinstance(model.estimator, MaterialEstimator) and model.estimator.network is not None
        rows[name] = {"temperature": model.estimator.network.temperature}
        for kind, more in KINDS.items():
            scores = [_on_scene(model, withheld, seed, **more) for seed in SCENES]
            rows[name][kind] = {key: float(np.mean([one[key] for one in scores])) for key in scores[0]}
    return rows


def _on_scene(model: LandCoverModel, ground: Ground, seed: int, **more: bool) -> dict[str, float]:
    one = landscape(ground, model.irradiance, seed, **more)
    spectra = one.cube.reshape(-1, one.cube.shape[-1]).astype(np.float32)
    some = spectra[np.random.default_rng(seed).permutation(len(spectra))[:SHARE_OF_SCENE]]
    return judged(model.in_scene(some)[0], one)


def on_library(spectra: list[MaterialSpectra], source: str) -> dict[str, np.ndarray]:
    """Log-odds of pixels of a library, of models of the others."""
    torch.set_num_threads(1)
    ground = Ground(model_bands().wavelength_nm, [one for one in spectra if one.source != source])
    seen = torch.as_tensor(library_pixels(spectra, source, SEED)[0], dtype=torch.float32)
    found = {}
    for name, model in models(ground):
        assert isinstance(model.estimator, MaterialEstimator)
        with torch.inference_mode():
            logits = model.estimator.predict_logits(seen, model.irradiance, "posterior").logits
        found[name] = logits.double().numpy()
    return found


def _table(rows: dict[str, dict[str, Any]]) -> str:
    kinds = [f"without {source}" for source in WITHHELD] + list(KINDS)
    lines = [
        "Accuracy / ECE of withheld libraries and of simulated scenes.",
        "",
        f"| training | {' | '.join(kinds)} | mean of libraries | mean of scenes |",
        "|---|" + "---|" * (len(kinds) + 2),
    ]
    for name, row in rows.items():
        groups = ([row[kind]] for kind in kinds)
        means = ([row[kind] for kind in part] for part in (kinds[: len(WITHHELD)], kinds[len(WITHHELD) :]))
        cells = [
            " / ".join(f"{np.mean([one[key] for one in group]):.3f}" for key in ("accuracy", "ece"))
            for group in (*groups, *means)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
