"""The recipe of `earth` on withheld spectra: libraries, cover fractions and unknown materials.

    python -m benchmarks earth_withheld --data DIR --wheel earthlib-1.1.0-py3-none-any.whl

Half of the spectra of every material and source are learned from, pixels are made of the other half: mixtures
of one to three materials at a sun zenith of 35 degrees, as the recipe makes them. Fractions stand beside
non-negative least squares with the mean spectrum of every material, scaled to a sum of one. Of a withheld
library, pixels are made of its spectra and those of others for what they hold besides; a material that no
other library has is left out. A material is unknown if the recipe never saw it; a pixel is flagged beyond the
distance that 5 % of the rightly classified pixels of known materials exceed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls

from benchmarks.earth_library.build import halves, withheld_pixels
from benchmarks.earth_library.fit import fit_earth
from benchmarks.earth_library.ground import Ground
from benchmarks.earth_library.legend import CLASSES, MATERIALS
from benchmarks.earth_library.sources import MaterialSpectra, model_bands, read_spectra
from benchmarks.protocols import add_data_option
from benchmarks.reporting import write
from p3vae.models.metrics import calibration_error, log_loss
from p3vae.physics.illumination import clear_sky_irradiance

SEED = 11
PIXELS = 100
"""Per material."""
LEFT_OUT = (("plastic and membranes",), ("paint", "metal"), ("char and ash",))
ZENITH_DEG = 35.0
WITHHELD = ("santa-barbara", "slum", "usgs")


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_data_option(options)
    options.add_argument("--wheel", type=Path, required=True)
    asked = options.parse_args()
    spectra = read_spectra(asked.data / "spectra", asked.wheel)
    learned, withheld = halves(spectra, SEED)
    result: dict[str, Any] = {"fractions": fractions(learned, withheld), "flagged": {}, "libraries": {}}
    for source in WITHHELD:
        result["libraries"][source] = without_library(spectra, source)
    for names in LEFT_OUT:
        result["flagged"][" and ".join(names)] = flagged(learned, withheld, spectra, names)
    write("earth_withheld", result, _table(result))


def fractions(learned: list[MaterialSpectra], withheld: list[MaterialSpectra]) -> dict[str, Any]:
    """Mean absolute error per class, and how often 90 % intervals hold the truth."""
    bands = model_bands()
    light = clear_sky_irradiance(bands, ZENITH_DEG)
    model = fit_earth(Ground(bands.wavelength_nm, learned), {}, ood_threshold=1.0, seed=SEED)
    pixels, _, truth = withheld_pixels(Ground(bands.wavelength_nm, withheld), light, PIXELS, SEED)
    with torch.inference_mode():
        found = model.cover(torch.as_tensor(pixels, dtype=torch.float32), light)
    error = np.abs(found.fraction.numpy() - truth)
    inside = error <= 1.645 * found.fraction_std.numpy() + 1e-3
    names = [name for name in MATERIALS if any(one.material == name for one in learned)]
    means = np.stack(
        [
            np.concatenate([one.reflectance for one in learned if one.material == name]).mean(0)
            for name in names
        ]
    )
    owner = np.eye(len(CLASSES))[[list(CLASSES).index(MATERIALS[name]) for name in names]]
    unmixed = np.array([nnls(means.T, pixel)[0] for pixel in pixels])
    unmixed = unmixed / unmixed.sum(1, keepdims=True) @ owner
    return {
        "mae": dict(zip(CLASSES, error.mean(0).tolist(), strict=True)),
        "coverage": dict(zip(CLASSES, inside.mean(0).tolist(), strict=True)),
        "mae_least_squares": dict(zip(CLASSES, np.abs(unmixed - truth).mean(0).tolist(), strict=True)),
    }


def without_library(spectra: list[MaterialSpectra], source: str) -> dict[str, float]:
    """Accuracy in all classes and ECE on pixels of one library, of a model of the others."""
    bands = model_bands()
    light = clear_sky_irradiance(bands, ZENITH_DEG)
    others = [one for one in spectra if one.source != source]
    model = fit_earth(Ground(bands.wavelength_nm, others), {}, ood_threshold=np.inf, seed=SEED)
    rng, names = np.random.default_rng(SEED), list(CLASSES)
    materials = sorted(
        {one.material for one in spectra if one.source == source} & {o.material for o in others}
    )
    drawn, truth = [], []
    for name in materials:
        own = [one for one in spectra if one.material != name or one.source == source]
        drawn.append(Ground(bands.wavelength_nm, own).pixels(name, PIXELS, rng)[0])
        truth += [names.index(MATERIALS[name])] * PIXELS
    seen = np.concatenate(drawn) * (np.cos(np.radians(ZENITH_DEG)) * light.direct_ratio + light.diffuse_ratio)
    with torch.inference_mode():
        found = model.predict_logits(torch.as_tensor(seen, dtype=torch.float32), light, "posterior")
    chance = found.logits.double().softmax(1).numpy()
    return {
        "accuracy": float((chance.argmax(1) == truth).mean()),
        "ece": calibration_error(np.array(truth), chance),
        "log_loss": log_loss(np.array(truth), chance),
    }


def flagged(
    learned: list[MaterialSpectra],
    withheld: list[MaterialSpectra],
    spectra: list[MaterialSpectra],
    names: tuple[str, ...],
) -> float:
    """Share of pure pixels of materials left out that are flagged."""
    bands = model_bands()
    light = clear_sky_irradiance(bands, ZENITH_DEG)
    known = [[one for one in part if one.material not in names] for part in (learned, withheld)]
    model = fit_earth(Ground(bands.wavelength_nm, known[0]), {}, ood_threshold=1.0, seed=SEED)
    pixels, truth, _ = withheld_pixels(Ground(bands.wavelength_nm, known[1]), light, PIXELS, SEED)
    unknown = np.concatenate([one.reflectance for one in spectra if one.material in names])
    with torch.inference_mode():
        known_found, new_found = (
            model.predict_logits(torch.as_tensor(values, dtype=torch.float32), light, "posterior")
            for values in (pixels, unknown)
        )
    assert known_found.misfit is not None and new_found.misfit is not None
    right = known_found.logits.argmax(1).numpy() == truth
    return float((new_found.misfit.numpy() > np.quantile(known_found.misfit.numpy()[right], 0.95)).mean())


def _table(result: dict[str, Any]) -> str:
    parts = result["fractions"]
    lines = [
        "| class | MAE of the fraction | 90 % intervals hold | non-negative least squares |",
        "|---|---:|---:|---:|",
    ]
    lines += [
        f"| {name} | {parts['mae'][name]:.3f} | {parts['coverage'][name]:.2f} "
        f"| {parts['mae_least_squares'][name]:.3f} |"
        for name in CLASSES
    ]
    means = [np.mean(list(parts[key].values())) for key in ("mae", "coverage", "mae_least_squares")]
    lines += [f"| mean | {means[0]:.3f} | {means[1]:.2f} | {means[2]:.3f} |", ""]
    for source, found in result["libraries"].items():
        lines += [f"Without {source}: accuracy {found['accuracy']:.3f}, ECE {found['ece']:.3f}.", ""]
    lines += ["Flagged as unknown, at 5 % of rightly classified known pixels:"]
    lines += [f"{name} {share:.2f}." for name, share in result["flagged"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
