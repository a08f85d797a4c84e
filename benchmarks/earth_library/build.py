"""The shipped model `earth`, from spectra to a model with its card."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from p3vae.models.landcover.library.materials import MaterialEstimator
from p3vae.models.landcover.model import LandCoverModel
from p3vae.models.landcover.types import ClassScore, TrainingSettings, TrainingSummary
from p3vae.models.metrics import average_f1, calibration_error, class_scores, log_loss, overall_accuracy
from p3vae.physics.illumination import clear_sky_irradiance

from .calibrate import calibrated, with_calibration
from .encode import train_encoder
from .fit import fit_earth
from .ground import Ground
from .legend import CLASSES, legend
from .sources import SOURCES, MaterialSpectra, model_bands
from .withheld import halves, withheld_pixels

_SUN_ZENITH_DEG = 35.0
_WITHHELD_PIXELS = 200
"""Per material, of spectra that a trial fit never saw."""

LIMITS = (
    "The map shows the dominant material of a pixel, not land use: a dry meadow is dry vegetation, a gravel "
    "roof is bare ground.",
    "Trees and low vegetation are often taken for each other (see recall). Trust their sum.",
    "Soil and clay tiles, gravel and concrete, dark roofs and asphalt have like spectra and are confused.",
    "Sparse dry grassland is split between dry vegetation, bare ground and burnt.",
    "Without bands beyond 2000 nm bare ground and dry vegetation are one class.",
    "Clouds are simulated, of water and of ice, from an optical depth of 1.5 on: no real one was at hand. "
    "Without bands at 1500-1800 nm snow and cloud are one class, and bright roofs may be called so too.",
    "Reflectance on level ground is expected; a bias of 0.02 or a scale of 1.2 costs accuracy.",
)


def build_earth(
    spectra: Sequence[MaterialSpectra], validation: Mapping[str, Any] | None = None, seed: int = 0
) -> LandCoverModel:
    """The model of all spectra, calibrated and judged by one that saw half of them, on the other half.

    `validation` are figures on real scenes, for the card.
    """
    trial, kept = trial_model(spectra, seed)
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
    found = with_calibration(model_of(Ground(model_bands().wavelength_nm, spectra), seed), trial)
    estimator: Any = found.estimator
    return replace(
        found,
        estimator=replace(estimator, description=description),
        summary=_scores(trial, kept, seed + 1),
        data_sha256=_digest(spectra),
    )


def trial_model(spectra: Sequence[MaterialSpectra], seed: int) -> tuple[LandCoverModel, Ground]:
    """A model of one half of the spectra, calibrated on the other, and ground of that other half."""
    nm = model_bands().wavelength_nm
    learned, withheld = (Ground(nm, half) for half in halves(spectra, seed))
    return calibrated(model_of(learned, seed), withheld, seed), withheld


def model_of(ground: Ground, seed: int, **training: Any) -> LandCoverModel:
    """Posterior and encoder of ground, neither calibrated nor judged; `training` is for the encoder."""
    bands = model_bands()
    found = fit_earth(ground, {}, ood_threshold=np.inf, seed=seed)
    encoder = train_encoder(ground, list(found.materials), seed, **training)
    estimator: MaterialEstimator = replace(
        found,
        encoder=encoder,
        network=encoder.at_bands(bands),
        wavelength_nm=bands.wavelength_nm,
        averages_neighbours=True,
    )
    return LandCoverModel(
        legend(),
        bands,
        clear_sky_irradiance(bands, _SUN_ZENITH_DEG),
        TrainingSettings(model="earth"),
        TrainingSummary(0, (), 0.0, 0.0, 0.0, 0.0, ()),
        estimator,
    )


def _scores(model: LandCoverModel, withheld: Ground, seed: int) -> TrainingSummary:
    """Scores on withheld spectra, each pixel alone."""
    spectra, truth, _ = withheld_pixels(withheld, model.irradiance, _WITHHELD_PIXELS, seed)
    found = model.predict(spectra.astype(np.float32), model.irradiance, want_probabilities=True)
    assert found.probabilities is not None
    probability = found.probabilities.astype(np.float64)
    predicted, count = probability.argmax(1), len(CLASSES)
    precision, recall, f1 = class_scores(truth, predicted, count)
    confusion = np.zeros((count, count), np.int64)
    np.add.at(confusion, (truth, predicted), 1)
    rows = zip(CLASSES, np.bincount(truth, minlength=count), precision, recall, f1, strict=True)
    return TrainingSummary(
        epochs=1,
        scores=tuple(ClassScore(name, int(n), float(p), float(r), float(f)) for name, n, p, r, f in rows),
        average_f1=average_f1(truth, predicted, count),
        accuracy=overall_accuracy(truth, predicted),
        log_loss=log_loss(truth, probability),
        calibration_error=calibration_error(truth, probability),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
    )


def _digest(spectra: Sequence[MaterialSpectra]) -> str:
    """SHA-256 of all spectra."""
    digest = hashlib.sha256()
    for one in spectra:
        digest.update(f"{one.material}:{one.source}".encode() + one.reflectance.tobytes())
    return digest.hexdigest()
