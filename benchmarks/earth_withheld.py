"""The recipe of `earth` on withheld spectra: fractions, clouds, simulated scenes, libraries, unknown ground.

    python -m benchmarks earth_withheld --data DIR --wheel earthlib-1.1.0-py3-none-any.whl

Half of the spectra of every material and source are learned from, pixels are made of the other half: mixtures
of one to three materials at a sun zenith of 35 degrees, as the recipe makes them. Fractions stand beside
non-negative least squares with the mean spectrum of every material, scaled to a sum of one, and beside the
mean fraction of all pixels. Simulated scenes have patches of nine materials, mixed edges, on level ground or
in relief with shade, some with a gain and haze of their own; one mechanism at a time is left out. Of a
withheld library, pixels are made of its spectra and those of others for what they hold besides; a material
that no other library has is left out; the temperature is that of the model of half of the spectra. A material
is unknown if the recipe never saw it; a pixel is flagged beyond the distance that 5 % of the rightly
classified pixels of known materials exceed.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls

from benchmarks.earth_library.build import model_of, trial_model
from benchmarks.earth_library.calibrate import sensor_of
from benchmarks.earth_library.encode import grids, train_encoder
from benchmarks.earth_library.fit import fit_earth
from benchmarks.earth_library.ground import Ground
from benchmarks.earth_library.landscape import Landscape, landscape
from benchmarks.earth_library.legend import CLASSES, MATERIALS
from benchmarks.earth_library.sources import MaterialSpectra, model_bands, read_spectra
from benchmarks.earth_library.withheld import halves, withheld_pixels
from benchmarks.protocols import add_data_option
from benchmarks.reporting import write
from p3vae.models.landcover.library.materials import MaterialEstimator
from p3vae.models.landcover.model import LandCoverModel
from p3vae.models.landcover.sensors import fit_sensor
from p3vae.models.metrics import calibration_error, class_scores, log_loss
from p3vae.physics.illumination import clear_sky_irradiance
from p3vae.physics.spectral_response import resampling_matrix

SEED = 11
PIXELS = 100
"""Per material."""
LEFT_OUT = (("plastic and membranes",), ("paint", "metal"), ("char and ash",))
ZENITH_DEG = 35.0
WITHHELD = ("santa-barbara", "slum", "usgs")
SCENES = range(200, 212)
SHARE_OF_SCENE = 1024
"""Pixels from which the gain of a scene is estimated."""
KINDS: dict[str, dict[str, bool]] = {
    "level": {},
    "relief": {"relief": True},
    "level, own gain": {"changed": True},
    "relief, own gain": {"relief": True, "changed": True},
}
BRIGHT = ("snow", "melting snow and ice", "concrete and stone", "metal", "paint", "sand and gravel")
DEPTHS = ((0.5, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 10.0), (10.0, 60.0))


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_data_option(options)
    options.add_argument("--wheel", type=Path, required=True)
    asked = options.parse_args()
    torch.set_num_threads(1)
    spectra = read_spectra(asked.data / "spectra", asked.wheel)
    learned, withheld = halves(spectra, SEED)
    model, kept = trial_model(spectra, SEED)
    result: dict[str, Any] = {
        "recall": recalls(model, kept),
        "grids": of_grids(model, kept),
        "fractions": fractions(model, kept, learned),
        "clouds": clouds(model, kept),
        "scenes": scenes(model, kept, learned),
        "flagged": {},
        "libraries": {},
    }
    temperature = _posterior(model).encoder.networks[0].temperature
    for source in WITHHELD:
        result["libraries"][source] = without_library(spectra, source, temperature)
    for names in LEFT_OUT:
        result["flagged"][" and ".join(names)] = flagged(learned, withheld, spectra, names)
    write("earth_withheld", result, _table(result))


def _posterior(model: LandCoverModel) -> MaterialEstimator:
    assert isinstance(model.estimator, MaterialEstimator)
    return model.estimator


def recalls(model: LandCoverModel, kept: Ground) -> dict[str, Any]:
    """Accuracy, ECE and recall of every class, of pixels by themselves."""
    pixels, truth, _ = withheld_pixels(kept, model.irradiance, PIXELS, SEED)
    found = model.predict(pixels.astype(np.float32), model.irradiance, want_probabilities=True)
    assert found.probabilities is not None
    index = found.probabilities.argmax(1)
    recall = class_scores(truth, index, len(CLASSES))[1]
    return {
        "accuracy": float((index == truth).mean()),
        "ece": calibration_error(truth, found.probabilities.astype(float)),
        "recall": dict(zip(CLASSES, recall.tolist(), strict=True)),
    }


def of_grids(model: LandCoverModel, kept: Ground) -> list[dict[str, Any]]:
    """Accuracy and ECE at the bands of every grid, in the classes that these can tell."""
    pixels, truth, _ = withheld_pixels(kept, model.irradiance, PIXELS, SEED)
    rows = []
    for network in _posterior(model).encoder.networks:
        fitted = fit_sensor(model, sensor_of(network)).model
        merging = _posterior(fitted).merging
        owner = truth if merging is None else merging[truth]
        seen = (pixels @ resampling_matrix(model_bands(), fitted.bands)).astype(np.float32)
        chance = fitted.predict(seen, fitted.irradiance, want_probabilities=True).probabilities
        assert chance is not None
        nm = fitted.bands.wavelength_nm
        rows.append(
            {
                "bands": len(nm),
                "from_nm": float(nm[0]),
                "to_nm": float(nm[-1]),
                "classes": len(fitted.legend),
                "accuracy": float((chance.argmax(1) == owner).mean()),
                "confidence": float(chance.max(1).mean()),
                "ece": calibration_error(owner, chance.astype(float)),
            }
        )
    return rows


def fractions(model: LandCoverModel, kept: Ground, learned: list[MaterialSpectra]) -> dict[str, Any]:
    """Mean absolute error per class, and how often 90 % intervals hold the truth."""
    pixels, _, truth = withheld_pixels(kept, model.irradiance, PIXELS, SEED)
    with torch.inference_mode():
        found = _posterior(model).cover(torch.as_tensor(pixels, dtype=torch.float32), model.irradiance)
    error = np.abs(found.fraction.numpy() - truth)
    inside = error <= 1.645 * found.fraction_std.numpy() + 1e-3
    return {
        "mae": dict(zip(CLASSES, error.mean(0).tolist(), strict=True)),
        "coverage": dict(zip(CLASSES, inside.mean(0).tolist(), strict=True)),
        "mae_least_squares": dict(
            zip(CLASSES, np.abs(unmixed(pixels, learned) - truth).mean(0).tolist(), strict=True)
        ),
        "mae_constant": dict(zip(CLASSES, np.abs(truth.mean(0) - truth).mean(0).tolist(), strict=True)),
    }


def unmixed(pixels: np.ndarray, learned: list[MaterialSpectra]) -> np.ndarray:
    """Fractions of classes by non-negative least squares."""
    names = [name for name in MATERIALS if any(one.material == name for one in learned)]
    means = np.stack(
        [
            np.concatenate([one.reflectance for one in learned if one.material == name]).mean(0)
            for name in names
        ]
    )
    owner = np.eye(len(CLASSES))[[list(CLASSES).index(MATERIALS[name]) for name in names]]
    found = np.array([nnls(means.T, pixel)[0] for pixel in pixels])
    return found / np.maximum(found.sum(1, keepdims=True), 1e-9) @ owner


def clouds(model: LandCoverModel, kept: Ground) -> dict[str, float]:
    """Share called cloud, by optical depth over all kinds of ground, and of bright ground without any."""
    rng, nm = np.random.default_rng(SEED), model.irradiance
    lit = np.cos(np.radians(ZENITH_DEG)) * nm.direct_ratio + nm.diffuse_ratio
    cloud = model.legend.ids[model.legend.names.index("cloud")]

    def share(reflectance: np.ndarray) -> float:
        seen = reflectance * lit + rng.normal(0, 0.003, reflectance.shape)
        return float((model.predict(seen.astype(np.float32), model.irradiance).class_id == cloud).mean())

    found = {}
    for low, high in DEPTHS:
        made = [
            kept.clouded(kept.any_ground(500, rng), rng.uniform(low, high, 500), kind, rng)
            for kind in ("water cloud", "ice cloud")
        ]
        found[f"optical depth {low:g} to {high:g}"] = share(np.concatenate(made))
    return found | {name: share(kept.draw(name, 500, rng)) for name in BRIGHT if kept.has(name)}


def scenes(
    model: LandCoverModel, kept: Ground, learned: list[MaterialSpectra]
) -> dict[str, dict[str, dict[str, float]]]:
    """Scores of every variant, means over simulated scenes."""
    whole = _posterior(model)
    ground = Ground(model_bands().wavelength_nm, learned)
    plain = train_encoder(ground, list(whole.materials), SEED, plants=False, which=grids()[:1])
    temperature = whole.encoder.networks[0].temperature
    network = replace(plain.at_bands(model_bands()), temperature=temperature)
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for kind, more in KINDS.items():
        for seed in SCENES:
            one = landscape(kept, model.irradiance, seed, **more)
            spectra = one.cube.reshape(-1, one.cube.shape[-1]).astype(np.float32)
            some = spectra[np.random.default_rng(seed).permutation(len(spectra))[:SHARE_OF_SCENE]]
            there, _ = model.in_scene(some)
            at_home = _posterior(there)
            variants = {
                "all": there,
                "without gain": model,
                "without neighbours": there.without_neighbours(),
                "encoder alone": there,
                "decoder alone": replace(there, estimator=replace(at_home, network=None)),
                "without half-dry and dim plants": replace(
                    there, estimator=replace(at_home, network=network)
                ),
            }
            for name, variant in variants.items():
                row = judged(variant, one, "classifier" if name == "encoder alone" else "posterior")
                found.setdefault(kind, {}).setdefault(name, []).append(row)
    return {
        kind: {name: {k: float(np.mean([r[k] for r in rows])) for k in rows[0]} for name, rows in of.items()}
        for kind, of in found.items()
    }


def judged(model: LandCoverModel, scene: Landscape, method: Any = "posterior") -> dict[str, float]:
    """Scores of a simulated scene."""
    image = scene.cube.astype(np.float32)
    found = model.predict_image(image, model.irradiance, method=method, want_probabilities=True)
    assert found.probabilities is not None and found.irradiance is not None
    truth, spectra = scene.truth.ravel(), torch.from_numpy(image.reshape(-1, image.shape[-1]))
    with torch.inference_mode():
        cover = _posterior(model).cover(spectra, model.irradiance).fraction.numpy()
    fraction = scene.fraction.reshape(len(truth), -1)
    index = found.probabilities.argmax(1)
    return {
        "accuracy": float((index == truth).mean()),
        "ece": calibration_error(truth, found.probabilities.astype(float)),
        "mae_fraction": float(np.abs(cover - fraction).mean()),
        "mae_constant": float(np.abs(fraction.mean(0) - fraction).mean()),
        "mae_light": float(np.abs(found.irradiance - scene.sun.ravel()).mean()),
    }


def without_library(spectra: list[MaterialSpectra], source: str, temperature: float) -> dict[str, float]:
    """Accuracy in all classes and ECE on pixels of one library, of a model of the others.

    The temperature of its confidence is given.
    """
    bands = model_bands()
    ground = Ground(bands.wavelength_nm, [one for one in spectra if one.source != source])
    model = _posterior(model_of(ground, SEED, which=grids()[:1]))
    seen, truth = library_pixels(spectra, source, SEED)
    light = clear_sky_irradiance(bands, ZENITH_DEG)
    with torch.inference_mode():
        found = model.predict_logits(torch.as_tensor(seen, dtype=torch.float32), light, "posterior")
    chance = (found.logits.double() / temperature).softmax(1).numpy()
    return {
        "accuracy": float((chance.argmax(1) == truth).mean()),
        "ece": calibration_error(truth, chance),
        "log_loss": log_loss(truth, chance),
    }


def library_pixels(spectra: list[MaterialSpectra], source: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Spectra and classes of pixels of a library, of materials that others have as well."""
    bands = model_bands()
    light = clear_sky_irradiance(bands, ZENITH_DEG)
    others = {one.material for one in spectra if one.source != source}
    materials = sorted({one.material for one in spectra if one.source == source} & others)
    rng, names = np.random.default_rng(seed), list(CLASSES)
    drawn, truth = [], []
    for name in materials:
        own = [one for one in spectra if one.material != name or one.source == source]
        drawn.append(Ground(bands.wavelength_nm, own).pixels(name, PIXELS, rng)[0])
        truth += [names.index(MATERIALS[name])] * PIXELS
    lit = np.cos(np.radians(ZENITH_DEG)) * light.direct_ratio + light.diffuse_ratio
    return np.concatenate(drawn) * lit, np.array(truth)


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
    parts, recall = result["fractions"], result["recall"]
    lines = [
        f"Accuracy {recall['accuracy']:.3f}, ECE {recall['ece']:.3f}, every pixel by itself.",
        "",
        "| class | recall | MAE of the fraction | 90 % intervals hold | least squares | constant |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    keys = ("mae", "coverage", "mae_least_squares", "mae_constant")
    for name in CLASSES:
        mae, cover, squares, constant = (parts[key][name] for key in keys)
        lines.append(
            f"| {name} | {recall['recall'][name]:.2f} | {mae:.3f} | {cover:.2f} | {squares:.3f} "
            f"| {constant:.3f} |"
        )
    mae, cover, squares, constant = (np.mean(list(parts[key].values())) for key in keys)
    lines += [f"| mean | | {mae:.3f} | {cover:.2f} | {squares:.3f} | {constant:.3f} |", ""]
    lines += ["| bands | classes | accuracy | mean confidence | ECE |", "|---|---:|---:|---:|---:|"]
    lines += [
        f"| {row['bands']}, {row['from_nm']:.0f} to {row['to_nm']:.0f} nm | {row['classes']} "
        f"| {row['accuracy']:.3f} | {row['confidence']:.3f} | {row['ece']:.3f} |"
        for row in result["grids"]
    ]
    lines += ["", "Simulated scenes: accuracy / ECE / MAE of fractions / MAE of z_E, means.", ""]
    variants = list(result["scenes"]["level"])
    lines += [f"| scenes | {' | '.join(variants)} |", "|---|" + "---|" * len(variants)]
    for kind, found in result["scenes"].items():
        cells = [
            f"{r['accuracy']:.3f} / {r['ece']:.3f} / {r['mae_fraction']:.3f} / {r['mae_light']:.3f}"
            for r in (found[name] for name in variants)
        ]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    constant = np.mean([found["all"]["mae_constant"] for found in result["scenes"].values()])
    lines += ["", f"Mean fraction of the scene everywhere: MAE {constant:.3f}.", ""]
    lines += ["| ground | share called cloud |", "|---|---:|"]
    lines += [f"| {name} | {share:.3f} |" for name, share in result["clouds"].items()]
    lines += [""]
    for source, found in result["libraries"].items():
        lines += [f"Without {source}: accuracy {found['accuracy']:.3f}, ECE {found['ece']:.3f}.", ""]
    lines += ["Flagged as unknown, at 5 % of rightly classified known pixels:"]
    lines += [f"{name} {share:.2f}." for name, share in result["flagged"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
