"""One land-cover model, trained and scored on the simulated townscape or on the real spectra."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from p3vae.models.landcover.train import train_land_cover
from p3vae.models.landcover.types import ClassLegend, TrainingSet, TrainingSettings
from p3vae.paper.landcover.fg_unet.train import LabelledImage, image_training_set
from p3vae.paper.metrics import latent_spectra_score
from p3vae.paper.reproduce import toulouse, townscape
from p3vae.paper.reproduce.landcover_arrays import figure_arrays
from p3vae.paper.reproduce.landcover_scores import Examiner, judged, light_scores
from p3vae.paper.reproduce.runs import FILES, RunResult, RunSpec

ALL_LABELS, FG_UNET = "cnn-all-labels", "fg-unet"
MODELS: Mapping[str, Mapping[str, Any]] = {
    "cnn": {"model": "cnn"},
    ALL_LABELS: {"model": "cnn"},
    FG_UNET: {"model": "fg-unet"},
    "random-forest": {"model": "random-forest"},
    "ss-infogan": {"model": "ss-infogan"},
    "gaussian-vae": {"model": "gaussian-vae"},
    "guided-vae": {"model": "guided-vae"},
    "p3vae-paper": {"preset": "paper"},
    "p3vae-paper-no-sg": {"preset": "paper", "stop_gradient": False},
    "p3vae": {},
    "p3vae-no-physics": {"physics": False},
}
"""Training settings of every model of the tables."""
_REAL_EPOCHS = {"ss-infogan": 150, **dict.fromkeys(("cnn", "gaussian-vae", "guided-vae", "p3vae-paper"), 50)}
"""As published for the real scene; other models know their own number."""
_REAL_SKY_OFFSET = 0.6
"""g_b as published for the real scene [1]."""
_QUICK_EPOCHS = {"cnn": 60, ALL_LABELS: 15, FG_UNET: 25, "ss-infogan": 6}
_FEW_EPOCHS = 5
"""Of every other model, if quick."""


def simulated_run(spec: RunSpec) -> RunResult:
    """Scores on the regular grid (the published test), on random light, and on the image itself."""
    town = townscape.built_in() if spec.data is None else townscape.from_file(_file(spec))
    image = townscape.acquire(town, spec.seed)
    data, legend = _townscape_labels(town, image, spec), _legend(townscape.CLASSES)
    model = train_land_cover(data, town.bands, town.irradiance, legend, training_settings(spec))
    exam, classes = Examiner(model, town.irradiance), len(legend)
    hidden = ~town.labelled
    scores = judged("image", exam.image(image.cube, hidden), town.class_index[hidden], classes)
    if spec.model == FG_UNET:
        return RunResult(scores)
    size = 500 if spec.quick else 10_000
    grid, drawn = townscape.grid_spectra(town, size), townscape.random_spectra(town, size // 5, 1)
    of_grid, of_drawn = exam.spectra(grid.x), exam.spectra(drawn.x)
    for name, test, found in (("grid", grid, of_grid), ("random", drawn, of_drawn)):
        scores |= judged(name, found, test.y, classes)
        scores |= light_scores(name, found[model.methods[0]], test.z)
    factors = {"y": grid.y, "delta": grid.z, "omega": grid.w, "alpha": grid.alpha, "eta": grid.eta}
    scores |= exam.gaps(grid.x, of_grid[model.methods[0]], factors)
    latent = model.latent_spectra()
    if latent is not None:
        scores |= {f"latent.{k}": v for k, v in asdict(latent_spectra_score(latent, town.spectra)).items()}
    return RunResult(scores, figure_arrays(model, town, drawn, of_drawn) if spec.seed == 0 else {})


def real_run(spec: RunSpec) -> RunResult:
    """Scores on polygons kept for the test, as they are and relit."""
    split = toulouse.read_split(_file(spec), spec.seed)
    data, legend = _toulouse_labels(split, spec), _legend(toulouse.CLASSES)
    model = train_land_cover(data, split.bands, split.irradiance, legend, training_settings(spec))
    exam = Examiner(model, split.irradiance)
    relit = toulouse.relight(split, 1 if spec.quick else 3, seed=0)
    scores: dict[str, float] = {}
    for name, x, y in (("test", split.test, split.test_class), ("relit", relit.x, relit.y)):
        found = exam.chips(x, split) if spec.model == FG_UNET else exam.spectra(x)
        scores |= judged(name, found, y, len(legend))
    return RunResult(scores | light_scores("relit", found[model.methods[0]], relit.z))


def _file(spec: RunSpec) -> Path:
    assert spec.data is not None
    return spec.data / FILES[spec.experiment][0]


def training_settings(spec: RunSpec) -> TrainingSettings:
    """How a model of the tables is trained, as published where that is known."""
    chosen, real = dict(MODELS[spec.model]), spec.experiment == "real"
    epochs = _REAL_EPOCHS.get(spec.model.removesuffix("-no-sg")) if real else None
    if spec.quick:
        epochs = _QUICK_EPOCHS.get(spec.model, _FEW_EPOCHS)
    if real and chosen.get("preset") == "paper":
        chosen["sky_offset"] = _REAL_SKY_OFFSET
    return TrainingSettings(seed=spec.seed, epochs=epochs, **chosen)


def _legend(names: tuple[str, ...]) -> ClassLegend:
    shades = np.linspace(0, 255, len(names)).astype(int)
    colours = tuple((int(shade), 90, 160) for shade in shades)
    return ClassLegend(tuple(range(1, len(names) + 1)), names, colours)


def _townscape_labels(town: townscape.Townscape, image: townscape.Image, spec: RunSpec) -> TrainingSet:
    everything = spec.model == ALL_LABELS
    known = np.ones_like(town.labelled) if everything else town.labelled
    group = townscape.polygons(town, labelled_only=not everything)
    if spec.model == FG_UNET:
        labels = np.where(known, town.class_index, -1)
        return image_training_set([LabelledImage(image.cube, labels, group)], seed=spec.seed)
    return TrainingSet(image.cube[known], town.class_index[known], group[known], image.cube[~known])


def _toulouse_labels(split: toulouse.Split, spec: RunSpec) -> TrainingSet:
    if spec.model != FG_UNET:
        return TrainingSet(split.labelled, split.labelled_class, split.polygon, split.unlabelled)
    images = [LabelledImage(tile, np.full(tile.shape[:2], -1)) for tile in split.tiles]
    for chip in toulouse.chips(split.labelled, split.polygon, split.place):
        inside = chip.samples >= 0
        labels = np.where(inside, split.labelled_class[chip.samples], -1)
        images.append(LabelledImage(chip.cube, labels, np.where(inside, split.polygon[chip.samples], 0)))
    return image_training_set(images, seed=spec.seed)
