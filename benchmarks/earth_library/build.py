"""The shipped model `earth`, from spectra to a model with its card."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from p3vae.models.landcover.library.materials import MaterialEstimator
from p3vae.models.landcover.model import LandCoverModel
from p3vae.models.landcover.types import ClassScore, TrainingSettings, TrainingSummary
from p3vae.models.metrics import average_f1, calibration_error, class_scores, log_loss, overall_accuracy
from p3vae.physics.illumination import SpectralIrradiance, clear_sky_irradiance

from .fit import fit_earth
from .ground import FloatArray, Ground, IntArray
from .legend import CLASSES, MATERIALS, legend
from .sources import SOURCES, MaterialSpectra, model_bands

_SUN_ZENITH_DEG = 35.0
_WITHHELD_PIXELS = 200
"""Per material, of spectra that a trial fit never saw."""
_KNOWN = 0.97
"""Share of pixels of withheld spectra that are not out-of-distribution."""
_NOISE = 0.003
"""Of the simulated sensor [reflectance]."""

LIMITS = (
    "The map shows the dominant material of a pixel, not land use: a dry meadow is dry vegetation, a gravel "
    "roof is bare ground.",
    "Trees and low vegetation are often taken for each other: in Potsdam most forest is called grass. Trust "
    "their sum, green vegetation.",
    "Soil and clay tiles, gravel and concrete, dark roofs and asphalt have like spectra and are confused.",
    "Sparse dry grassland is split between dry vegetation, bare ground and burnt.",
    "Without bands beyond 2000 nm bare ground and dry vegetation are one class.",
    "Clouds are no class: they are called snow and ice or come out as unknown.",
    "Reflectance on level ground is expected; a bias of 0.02 or a scale of 1.2 costs accuracy.",
)


def build_earth(
    spectra: Sequence[MaterialSpectra], validation: Mapping[str, Any] | None = None, seed: int = 0
) -> LandCoverModel:
    """The model of all spectra, with the scores of one that saw half of them on the other half.

    `validation` are figures on real scenes, for the card.
    """
    bands = model_bands()
    irradiance = clear_sky_irradiance(bands, _SUN_ZENITH_DEG)
    learned, withheld = halves(spectra, seed)
    trial = fit_earth(Ground(bands.wavelength_nm, learned), {}, ood_threshold=1.0, seed=seed)
    summary, threshold = _scores(trial, Ground(bands.wavelength_nm, withheld), irradiance, seed)
    used = {one.source for one in spectra}
    description = {
        "made_from": [
            source._asdict() | {"spectra": sum(len(s.reflectance) for s in spectra if s.source == key)}
            for key, source in SOURCES.items()
            if key in used
        ],
        "validated_on": dict(validation or {}),
        "limits": list(LIMITS),
    }
    ground = Ground(bands.wavelength_nm, spectra)
    estimator = fit_earth(ground, description, ood_threshold=threshold, seed=seed)
    return LandCoverModel(
        legend(), bands, irradiance, TrainingSettings(model="earth"), summary, estimator, _digest(spectra)
    )


def withheld_pixels(
    ground: Ground, irradiance: SpectralIrradiance, count: int, seed: int
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Pixels of every material in light of level and sloping ground.

    Spectra (pixels, bands), class indices (pixels,) and fractions (pixels, classes).
    """
    rng = np.random.default_rng(seed)
    names = list(CLASSES)
    materials = [name for name in MATERIALS if ground.has(name)]
    drawn = [ground.pixels(name, count, rng) for name in materials]
    truth = np.repeat([names.index(MATERIALS[name]) for name in materials], count)
    spectra = np.concatenate([one[0] for one in drawn])
    cos_zenith = np.cos(np.radians(irradiance.sun_zenith_deg))
    sun = np.clip(cos_zenith + rng.normal(0, 0.06, (len(spectra), 1)), 0, 1)
    sky = rng.uniform(0.9, 1.05, (len(spectra), 1))
    seen = spectra * (sun * irradiance.direct_ratio + sky * irradiance.diffuse_ratio)
    return seen + rng.normal(0, _NOISE, seen.shape), truth, np.concatenate([one[1] for one in drawn])


def halves(
    spectra: Sequence[MaterialSpectra], seed: int
) -> tuple[list[MaterialSpectra], list[MaterialSpectra]]:
    """Each source of each material cut in two at random; a single spectrum is in the first."""
    rng = np.random.default_rng(seed)
    first, second = [], []
    for one in spectra:
        order = rng.permutation(len(one.reflectance))
        middle = (len(order) + 1) // 2
        first.append(replace(one, reflectance=one.reflectance[order[:middle]]))
        if middle < len(order):
            second.append(replace(one, reflectance=one.reflectance[order[middle:]]))
    return first, second


def _scores(
    trial: MaterialEstimator, ground: Ground, irradiance: SpectralIrradiance, seed: int
) -> tuple[TrainingSummary, float]:
    """Scores on withheld spectra, and the distance per band that few of them exceed."""
    spectra, truth, _ = withheld_pixels(ground, irradiance, _WITHHELD_PIXELS, seed)
    with torch.inference_mode():
        found = trial.predict_logits(torch.as_tensor(spectra, dtype=torch.float32), irradiance, "posterior")
    assert found.misfit is not None
    probability = found.logits.double().softmax(1).numpy()
    predicted, count = probability.argmax(1), len(CLASSES)
    precision, recall, f1 = class_scores(truth, predicted, count)
    confusion = np.zeros((count, count), np.int64)
    np.add.at(confusion, (truth, predicted), 1)
    rows = zip(CLASSES, np.bincount(truth, minlength=count), precision, recall, f1, strict=True)
    summary = TrainingSummary(
        epochs=1,
        scores=tuple(ClassScore(name, int(n), float(p), float(r), float(f)) for name, n, p, r, f in rows),
        average_f1=average_f1(truth, predicted, count),
        accuracy=overall_accuracy(truth, predicted),
        log_loss=log_loss(truth, probability),
        calibration_error=calibration_error(truth, probability),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
    )
    return summary, float(np.quantile(found.misfit.numpy(), _KNOWN))


def _digest(spectra: Sequence[MaterialSpectra]) -> str:
    """SHA-256 of all spectra."""
    digest = hashlib.sha256()
    for one in spectra:
        digest.update(f"{one.material}:{one.source}".encode() + one.reflectance.tobytes())
    return digest.hexdigest()
