"""Speed of the exact posterior against the number of classes, four endmembers each, 230 bands.

    python -m benchmarks solver_speed

Spectra and library are random: the arithmetic is the same for any. CPU time of one thread.
"""

from __future__ import annotations

import time

import numpy as np
import torch

from benchmarks.reporting import write
from p3vae.models.landcover.library.decoder import LightPrior, SpectralLibrary
from p3vae.models.landcover.library.solver import PosteriorSolver

BANDS, FACTORS, DIRECTIONS, PIXELS = 230, 64, 7, 60_000
CLASSES = (6, 12, 40)


def main() -> None:
    torch.set_num_threads(1)
    rows = {classes: pixels_per_second(classes) for classes in CLASSES}
    lines = ["| classes | pixels per CPU second |", "|---:|---:|"]
    lines += [f"| {classes} | {speed:,.0f} |" for classes, speed in rows.items()]
    write("solver_speed", {"pixels_per_cpu_s": rows}, "\n".join(lines))


def pixels_per_second(classes: int) -> float:
    rng = np.random.default_rng(0)
    library = SpectralLibrary(
        rng.uniform(0.05, 0.5, (classes, BANDS)),
        0.01 * rng.standard_normal((classes, DIRECTIONS, BANDS)),
        0.01 * rng.standard_normal((FACTORS, BANDS)),
        np.full(BANDS, 1e-5),
    )
    light = np.stack([np.full(BANDS, 0.8), np.full(BANDS, 0.3)])
    solver = PosteriorSolver.build(library, LightPrior.broad(0.8), light)
    spectra = torch.from_numpy(rng.uniform(0.05, 0.5, (PIXELS, BANDS)).astype(np.float32))
    with torch.inference_mode():
        solver.solve(spectra[:5000])
        start = time.process_time()
        solver.solve(spectra)
        return PIXELS / (time.process_time() - start)


if __name__ == "__main__":
    main()
