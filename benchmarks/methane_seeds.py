"""Does learning ever collapse? Twenty seeds on the same pixels, with little data and few rounds.

python -m benchmarks methane_seeds --data DIR
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from benchmarks.methane_protocol import absorption_table, optics_of, sensor_noise
from benchmarks.protocols import add_data_option
from benchmarks.protocols import methane as protocol
from p3vae.models.methane.model import MethaneP3VAE
from p3vae.models.methane.types import MethaneSettings

SETTINGS = {"components": 4, "rounds": 3, "max_pixels": 1500}
COLLAPSED = 0.5
"""Share of the error of always answering the middle of the range."""


def main() -> None:
    """Fit, score, write JSON and Markdown."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_data_option(parser)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--output", type=Path, default=here / "results" / "methane_seeds.json")
    options = parser.parse_args()
    data = protocol.make_dataset(options.data, split="random", conc="high", seed=1)
    optics = optics_of(data, absorption_table("own", data["sensor"], 1.0, options.data), protocol.AIRMASS)
    free, test, truth = torch.as_tensor(data["noplume"]), torch.as_tensor(data["test"]), data["rho_test"]
    low, high = data["range"]
    errors = []
    for seed in range(options.seeds):
        settings = MethaneSettings(min_ppm_m=low, max_ppm_m=high, seed=seed, **SETTINGS)
        model = MethaneP3VAE.fit(
            free, optics, settings=settings, unlabelled=test, noise=sensor_noise(data["sensor"])
        )
        errors.append(float(np.abs(model.invert(test).ppm_m.double().numpy() - truth).mean()))
        print(seed, round(errors[-1]), flush=True)
    middle = float(np.abs((low + high) / 2 - truth).mean())
    collapsed = sum(error > COLLAPSED * middle for error in errors)
    options.output.write_text(json.dumps({"MAE": errors, "middle": middle, "collapsed": collapsed}) + "\n")
    text = (
        "# Twenty seeds of the methane p3VAE\n\n    python -m benchmarks methane_seeds\n\n"
        f"random-high, scale 1, data seed 1, {SETTINGS}: MAE {min(errors):,.0f} to {max(errors):,.0f}, mean "
        f"{np.mean(errors):,.0f} ppm m; always the middle {middle:,.0f}. "
        f"{collapsed} of {len(errors)} collapsed.\n"
    )
    options.output.with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
