"""Plumes over a real sensor's column statistics: does it matter to know the smile?

    python -m benchmarks methane_columns --data DIR

Each pixel is a real per-column mean spectrum (PRISMA SWIR) with brightness and slope varied, a plume seen
with the column's own band centres, and noise at the column's own SNR. The statistics do not say how far the
centres bend, so the smile is a parabola of `--smile` nanometres at the edges.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.protocols import add_data_option
from p3vae.models.methane.background.noise import SensorNoise
from p3vae.models.methane.model import MethaneP3VAE
from p3vae.models.methane.types import MethaneSettings, PlumeOptics
from p3vae.physics.methane import MethaneAbsorption, air_mass_factor
from p3vae.physics.spectral_response import Bands

FWHM_NM = 11.0
SUN_ZENITH_DEG = 30.0
PLUMES_PPM_M = (0.0, 2e3, 1e4, 2e4)


def main() -> None:
    """Simulate, invert with and without the smile, report."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_data_option(parser)
    parser.add_argument("--smile", type=float, default=2.0, help="shift of the centres at the edges [nm]")
    parser.add_argument("--pixels", type=int, default=4000)
    parser.add_argument("--output", type=Path, default=here / "results" / "methane_columns.json")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    table = np.load(options.data / "methane" / "column_statistics.npz", allow_pickle=False)
    order = np.argsort(table["prisma_band_nm"])
    centres = table["prisma_band_nm"][order].astype(np.float64)
    mean, snr = (table[name][order].T.astype(np.float64) for name in ("prisma_mean_radiance", "prisma_snr"))
    usable = (mean.min(0) > 0.05) & (snr.min(0) > 5) & np.append(np.diff(centres) > 0.5, True)
    bands = Bands.from_centres(centres[usable], np.full(int(usable.sum()), FWHM_NM))
    mean, snr = mean[:, usable], snr[:, usable]
    across = np.linspace(-1.0, 1.0, len(mean))
    bent = bands.wavelength_nm + options.smile * (across[:, None] ** 2)
    absorption, amf = MethaneAbsorption.load(), air_mass_factor(SUN_ZENITH_DEG)
    wavelength = torch.as_tensor(bands.wavelength_nm)
    views = {
        "smile known": PlumeOptics(
            absorption.band_transmittance(bands, centres_nm=bent), amf, wavelength, 3e4
        ),
        "smile ignored": PlumeOptics(absorption.band_transmittance(bands), amf, wavelength, 3e4),
    }

    def observe(column: np.ndarray, ppm_m: np.ndarray) -> torch.Tensor:
        bright = np.exp(0.3 * rng.standard_normal((len(column), 1)))
        tilt = 1.0 + 0.1 * rng.standard_normal((len(column), 1)) * (bands.wavelength_nm - 2000.0) / 500.0
        light = views["smile known"].transmittance(torch.as_tensor(ppm_m), torch.as_tensor(column)).numpy()
        clean = mean[column] * bright * tilt * light
        noise = mean[column] / snr[column] * np.sqrt(np.clip(clean / mean[column], 0.05, None))
        return torch.as_tensor(clean + noise * rng.standard_normal(clean.shape))

    free = observe(rng.integers(len(mean), size=options.pixels), np.zeros(options.pixels))
    noise = SensorNoise.from_snr(torch.as_tensor(mean.mean(0)), torch.as_tensor(snr.mean(0)), shot_share=0.95)
    settings = MethaneSettings(components=4, rounds=2, min_ppm_m=-1e4, max_ppm_m=3e4)
    fitted = {
        name: MethaneP3VAE.fit(free, view, settings=settings, noise=noise) for name, view in views.items()
    }
    records = []
    for ppm_m in PLUMES_PPM_M:
        column = rng.integers(len(mean), size=options.pixels)
        seen = observe(column, np.full(options.pixels, ppm_m))
        for name, model in fitted.items():
            start = time.perf_counter()
            found = model.invert(seen, torch.as_tensor(column))
            rate = options.pixels / (time.perf_counter() - start)
            error = found.ppm_m.double().numpy() - ppm_m
            edge = np.abs(across[column]) > 0.8
            record = {
                "truth_ppm_m": ppm_m,
                "response": name,
                "bias": error.mean(),
                "bias_at_edges": error[edge].mean(),
                "MAE": np.abs(error).mean(),
                "coverage": float((np.abs(error) <= 1.96 * found.std.numpy()).mean()),
                "pixels_per_second": rate,
            }
            records.append(record)
            print(record, flush=True)
    options.output.parent.mkdir(exist_ok=True)
    options.output.write_text(json.dumps(records, indent=1, default=float) + "\n")
    options.output.with_suffix(".md").write_text(_table(records, options.smile))


def _table(records: list[dict[str, Any]], smile_nm: float) -> str:
    lines = [
        *(
            "# Plumes over a real sensor's column statistics",
            "",
            "    python -m benchmarks methane_columns",
            "",
        ),
        f"Band centres bend by {smile_nm:g} nm at the edges; errors in ppm m.",
        *("", "| truth | response | bias | bias at edges | MAE | coverage |", "|---|---|---|---|---|---|"),
    ]
    lines += [
        f"| {r['truth_ppm_m']:,.0f} | {r['response']} | {r['bias']:,.0f} | {r['bias_at_edges']:,.0f} "
        f"| {r['MAE']:,.0f} | {r['coverage']:.3f} |"
        for r in records
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
