"""One land-cover model, trained and scored on the simulated townscape or on the real spectra."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.reproduce import toulouse, townscape
from p3vae.cli.reproduce.work import FILES, Outcome, Work
from p3vae.models.disentanglement import information_gap
from p3vae.models.landcover import (
    ClassLegend,
    LandCoverModel,
    TrainingSet,
    TrainingSettings,
    train_land_cover,
)
from p3vae.models.metrics import (
    average_f1,
    class_scores,
    latent_spectra_score,
    overall_accuracy,
    regression_score,
    reliability,
)
from p3vae.physics.illumination import SpectralIrradiance

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]

ALL_LABELS = "cnn-all-labels"
MODELS: Mapping[str, Mapping[str, Any]] = {
    "cnn": {"model": "cnn"},
    ALL_LABELS: {"model": "cnn"},
    "random-forest": {"model": "random-forest"},
    "ss-infogan": {"model": "ss-infogan"},
    "gaussian-vae": {"model": "gaussian-vae"},
    "guided-vae": {"model": "guided-vae"},
    "p3vae-paper": {"preset": "paper"},
    "p3vae-paper-no-sg": {"preset": "paper", "stop_gradient": False},
    "p3vae": {},
    "p3vae-no-sg": {"stop_gradient": False},
    "p3vae-no-physics": {"physics": False},
}
"""Training settings of every model of the tables."""
LETTERS = {"classifier": "q", "posterior": "p"}
FACTORS = ("y", "delta", "omega", "alpha", "eta")
_BINS = 20
_REAL_EPOCHS = 50
_QUICK_EPOCHS = 4
_SHOWN = 150
"""Test spectra of each class in a figure."""


def simulated_run(work: Work) -> Outcome:
    """Scores on the regular grid (the published test), on random light, and on the image itself."""
    town = townscape.built_in() if work.data is None else townscape.from_file(_file(work))
    image = townscape.acquire(town, work.seed)
    model = train_land_cover(
        _townscape_labels(town, image, everything=work.model == ALL_LABELS),
        town.bands,
        town.irradiance,
        _legend(townscape.CLASSES),
        _settings(work, None),
    )
    size = 500 if work.quick else 10_000
    grid, drawn = townscape.grid_spectra(town, size), townscape.random_spectra(town, size // 5, 1)
    scores = _class_scores(model, "grid", grid.x, grid.y, town.irradiance)
    scores |= _class_scores(model, "random", drawn.x, drawn.y, town.irradiance)
    rest = ~town.labelled
    scores |= _class_scores(model, "image", image.cube[rest], town.class_index[rest], town.irradiance)
    for name, test in (("grid", grid), ("random", drawn)):
        scores |= _light_scores(model, name, test.x, test.z, town.irradiance)
    scores |= _gaps(model, grid, town.irradiance)
    latent = model.latent_spectra()
    if latent is not None:
        scores |= {f"latent.{k}": v for k, v in asdict(latent_spectra_score(latent, town.spectra)).items()}
    return Outcome(scores, _figure_arrays(model, town, drawn) if work.seed == 0 else {})


def real_run(work: Work) -> Outcome:
    """Scores on polygons kept for the test, as they are and relit."""
    split = toulouse.read_split(_file(work), work.seed)
    data = TrainingSet(split.labelled, split.labelled_class, split.polygon, split.unlabelled)
    legend = _legend(toulouse.CLASSES)
    model = train_land_cover(data, split.bands, split.irradiance, legend, _settings(work, _REAL_EPOCHS))
    relit = toulouse.relight(split, 1 if work.quick else 3, seed=0)
    scores = _class_scores(model, "test", split.test, split.test_class, split.irradiance)
    scores |= _class_scores(model, "relit", relit.x, relit.y, split.irradiance)
    return Outcome(scores | _light_scores(model, "relit", relit.x, relit.z, split.irradiance))


def _file(work: Work) -> Path:
    assert work.data is not None
    return work.data / FILES[work.experiment][0]


def _settings(work: Work, published_epochs: int | None) -> TrainingSettings:
    """The networks train as long as published; our own model decides for itself."""
    chosen = MODELS[work.model]
    ours = work.model.startswith("p3vae") and chosen.get("preset") != "paper"
    epochs = None if ours else published_epochs
    return TrainingSettings(seed=work.seed, epochs=_QUICK_EPOCHS if work.quick else epochs, **chosen)


def _legend(names: tuple[str, ...]) -> ClassLegend:
    shades = np.linspace(0, 255, len(names)).astype(int)
    return ClassLegend(
        tuple(range(1, len(names) + 1)), names, tuple((int(shade), 90, 160) for shade in shades)
    )


def _townscape_labels(town: townscape.Townscape, image: townscape.Image, *, everything: bool) -> TrainingSet:
    known = np.ones_like(town.labelled) if everything else town.labelled
    group = townscape.polygons(town, labelled_only=not everything)
    return TrainingSet(image.cube[known], town.class_index[known], group[known], image.cube[~known])


def _class_scores(
    model: LandCoverModel, name: str, x: npt.NDArray[np.float32], y: IntArray, light: SpectralIrradiance
) -> dict[str, float]:
    """F1, accuracy and calibration by each way the model can tell classes."""
    scores: dict[str, float] = {}
    for method in model.methods:
        found = model.predict(x, light, method=method)
        index = found.class_id.astype(int) - 1
        prefix, classes = f"{name}.{LETTERS[method]}", len(model.legend)
        scores[f"{prefix}.f1"] = average_f1(y, index, classes)
        scores[f"{prefix}.accuracy"] = overall_accuracy(y, index)
        scores[f"{prefix}.ece"] = reliability(found.confidence, index == y).expected_calibration_error
        f1 = class_scores(y, index, classes)[2]
        scores |= {f"{prefix}.f1.{k}": float(value) for k, value in enumerate(f1)}
    return scores


def _light_scores(
    model: LandCoverModel, name: str, x: npt.NDArray[np.float32], z: FloatArray, light: SpectralIrradiance
) -> dict[str, float]:
    """z_E against the true δ·cosΘ, for models that tell light."""
    found = model.predict(x, light)
    if found.irradiance is None or found.irradiance_std is None:
        return {}
    score = regression_score(z, found.irradiance, found.irradiance_std)
    return {f"{name}.z.{key}": value for key, value in asdict(score).items()}


def _gaps(model: LandCoverModel, test: townscape.Spectra, light: SpectralIrradiance) -> dict[str, float]:
    """Mutual information gaps of the factors; the codes are the class and the latent variables."""
    latents = model.codes(test.x, light)
    if latents is None:
        return {}
    class_code = model.predict(test.x, light).class_id
    codes = np.column_stack((class_code, latents)).astype(np.float64)
    scores: dict[str, float] = {}
    for name, factor in zip(FACTORS, (test.y, test.z, test.w, test.alpha, test.eta), strict=True):
        gap = information_gap(codes, factor, bins=_BINS)
        scores |= {f"gap.{name}": gap.bits, f"mig.{name}": gap.normalised}
    return scores


def _figure_arrays(
    model: LandCoverModel, town: townscape.Townscape, test: townscape.Spectra
) -> dict[str, npt.NDArray[Any]]:
    """Latent and true spectra of each class, and the light of some test spectra."""
    light = town.irradiance
    arrays: dict[str, npt.NDArray[Any]] = {
        "wavelength_nm": town.bands.wavelength_nm,
        "direct_ratio": light.direct_ratio,
        "diffuse_ratio": light.diffuse_ratio,
    }
    for index, spectra in enumerate(town.spectra):
        arrays[f"truth.{index}"] = spectra
    for index, spectra in enumerate(model.latent_spectra() or []):
        arrays[f"latent.{index}"] = np.asarray(spectra)
    shown = np.concatenate([np.flatnonzero(test.y == k)[:_SHOWN] for k in range(len(town.spectra))])
    found = model.predict(test.x[shown], light)
    if found.irradiance is not None and found.irradiance_std is not None:
        arrays |= {"z.truth": test.z[shown], "z.mean": found.irradiance, "z.std": found.irradiance_std}
        arrays |= {"z.class": test.y[shown], "z.right": found.class_id - 1 == test.y[shown]}
    return arrays
