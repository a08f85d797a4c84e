"""A land-cover training run: its data, its validation polygons, its restarts and its summary."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from p3vae.models.landcover.estimator import Frame
from p3vae.models.landcover.types import (
    ClassLegend,
    ClassScore,
    EpochReport,
    FloatArray,
    TrainingError,
    TrainingSet,
    TrainingSettings,
    TrainingState,
    TrainingSummary,
)
from p3vae.models.metrics import average_f1, class_scores
from p3vae.models.nn.trainer import BrokenRunError, EpochOutcome
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands

IntArray = npt.NDArray[np.integer[Any]]
Net = TypeVar("Net", bound=nn.Module)

_FOLDS = 2
_RESTARTS = 3
_ATTEMPT = "restarts"
_FEWEST_TO_SHARE = 8
_DARKEST_LABELLED, _DARKEST_UNLABELLED = 1e-8, 1e-6
"""Mean squares of reflectance [1] below which a spectrum is not used; labelled ones may be darker."""


@dataclass(frozen=True)
class TrainingRun:
    """The caller's side of a training run."""

    on_epoch: Callable[[EpochReport], None] | None = None
    resume_from: TrainingState | None = None
    save_state: Callable[[TrainingState], None] | None = None
    notes: dict[str, object] = field(default_factory=dict)

    def keep(self, state: TrainingState) -> None:
        """Hand a state to the caller, with what a resumed run must agree with."""
        if self.save_state is not None:
            self.save_state(replace(state, notes=self.notes))

    @property
    def first_attempt(self) -> int:
        """Restarts that the resumed run had behind it."""
        return 0 if self.resume_from is None else int(self.resume_from.notes.get(_ATTEMPT, 0))

    def attempt(self, number: int) -> TrainingRun:
        """The run as one attempt sees it: a state belongs to the attempt that left it."""
        mine = self.resume_from if number == self.first_attempt else None
        return replace(self, resume_from=mine, notes={**self.notes, _ATTEMPT: number})

    def may_resume(self) -> bool:
        """Whether the state to go on from is of the same data and settings."""
        if self.resume_from is None:
            return True
        return {k: v for k, v in self.resume_from.notes.items() if k != _ATTEMPT} == self.notes


@dataclass(frozen=True, eq=False)
class Job:
    """Everything a training needs, whichever preset."""

    data: TrainingSet
    bands: Bands
    irradiance: SpectralIrradiance
    legend: ClassLegend
    settings: TrainingSettings
    folds: list[npt.NDArray[np.bool_]]
    """Per fold, True for samples kept aside."""
    run: TrainingRun
    device: str
    """Where networks learn."""

    @property
    def frame(self) -> Frame:
        """What an estimator is built from."""
        return Frame(self.legend, self.bands, self.irradiance, self.settings)

    def part(self, rows: npt.NDArray[np.bool_]) -> TrainingSet:
        """Some of the labelled samples, with all unlabelled ones."""
        data = self.data
        return replace(
            data, spectra=data.spectra[rows], class_index=data.class_index[rows], group=data.group[rows]
        )


def validation_folds(
    data: TrainingSet, legend: ClassLegend, settings: TrainingSettings, enough_polygons: int = 2
) -> tuple[list[npt.NDArray[np.bool_]], list[str]]:
    """Samples kept aside in each fold, whole polygons where a class has enough of them, and warnings."""
    rng = np.random.default_rng(settings.seed)
    folds = [np.zeros(len(data.spectra), dtype=np.bool_) for _ in range(_FOLDS)]
    warnings = []
    for index, name in enumerate(legend.names):
        mine = np.flatnonzero(data.class_index == index)
        groups = rng.permutation(np.unique(data.group[mine]))
        if len(groups) < enough_polygons:
            polygons = [mine[data.group[mine] == group] for group in groups]
            polygons = [rows for rows in polygons if len(rows) >= _FEWEST_TO_SHARE]
            if not polygons:
                warnings.append(f"{name}: too few pixels to keep any aside, so it is not validated")
                continue
            few = "one polygon" if len(groups) == 1 else f"{len(groups)} polygons"
            warnings.append(
                f"{name}: only {few}, so its validation pixels come from polygons it learned from"
            )
            for rows in polygons:
                blocks = np.array_split(rows, 8)
                for number, fold in enumerate(folds):
                    fold[np.concatenate(blocks[2 * number : 2 * number + 2])] = True
            continue
        share = min(max(1, round(settings.validation_fraction * len(groups))), len(groups) // 2)
        for number, fold in enumerate(folds):
            chosen = groups[number * share : (number + 1) * share]
            fold[mine[np.isin(data.group[mine], chosen)]] = True
    if not all(fold.any() for fold in folds):
        raise TrainingError("every class has too few labelled pixels to validate on; label larger polygons")
    return folds, warnings


def with_restarts(
    build: Callable[[int], Net], attempt: Callable[[Net, int, TrainingRun], None], job: Job
) -> tuple[Net, int]:
    """A trained network and how often training had to begin anew from another seed."""
    for restarts in range(job.run.first_attempt, _RESTARTS + 1):
        seed = job.settings.seed + 1000 * restarts
        with torch.random.fork_rng(devices=[]):
            net = build(seed)
            try:
                attempt(net, seed, job.run.attempt(restarts))
            except BrokenRunError as error:
                last = error
                continue
        return net, restarts
    raise TrainingError(f"training broke down {_RESTARTS + 1} times: {last}")


def reporter(job: Job, epochs: int, f1: Callable[[], float]) -> Callable[[EpochOutcome], None] | None:
    """Reports an epoch to the caller; `f1` scores samples kept aside, nan without any."""
    if job.run.on_epoch is None:
        return None
    show = job.run.on_epoch
    return lambda outcome: show(EpochReport(outcome.epoch, epochs, outcome.losses, f1()))


@torch.inference_mode()
def classified(classifier: nn.Module, samples: TrainingSet) -> npt.NDArray[np.int64]:
    """Class indices of the labelled samples by q(y|x)."""
    device = next(classifier.parameters()).device
    index: npt.NDArray[np.int64] = (
        classifier(torch.from_numpy(samples.spectra).to(device)).argmax(1).cpu().numpy()
    )
    return index


def classifier_f1(classifier: nn.Module, held_out: TrainingSet, classes: int) -> float:
    """Average F1 of q(y|x) on samples kept aside."""
    return average_f1(held_out.class_index, classified(classifier, held_out), classes)


def summarise(
    job: Job,
    epochs: int,
    truth: IntArray,
    predicted: IntArray,
    *,
    classifier_f1: float,
    restarts: int = 0,
    warnings: tuple[str, ...] = (),
) -> TrainingSummary:
    """Scores per class from true and predicted class indices (held-out samples,)."""
    classes = len(job.legend)
    precision, recall, f1 = class_scores(truth, predicted, classes)
    counts = np.bincount(truth, minlength=classes)
    rows = zip(job.legend.names, counts, precision, recall, f1, strict=True)
    return TrainingSummary(
        epochs=epochs,
        scores=tuple(ClassScore(name, int(n), float(p), float(r), float(f)) for name, n, p, r, f in rows),
        average_f1=average_f1(truth, predicted, classes),
        classifier_f1=classifier_f1,
        restarts=restarts,
        warnings=warnings,
    )


def checked(
    data: TrainingSet, bands: Bands, irradiance: SpectralIrradiance, legend: ClassLegend
) -> TrainingSet:
    """The usable samples, or an error that says what is missing."""
    count = len(bands)
    if data.spectra.ndim != 2 or data.spectra.shape[1] != count or data.unlabelled.shape[1:] != (count,):
        raise TrainingError(f"spectra must have the {count} bands of the model")
    if len(irradiance.direct) != count:
        raise TrainingError(f"irradiance must be given at the {count} bands of the model")
    good = _usable(data.spectra, _DARKEST_LABELLED)
    missing = set(range(len(legend))) - set(np.unique(data.class_index[good]).tolist())
    if missing:
        names = ", ".join(legend.names[index] for index in sorted(missing))
        raise TrainingError(f"no usable labelled spectrum of {names}")
    return TrainingSet(
        np.ascontiguousarray(data.spectra[good], dtype=np.float32),
        data.class_index[good],
        data.group[good],
        np.ascontiguousarray(
            data.unlabelled[_usable(data.unlabelled, _DARKEST_UNLABELLED)], dtype=np.float32
        ),
        None if data.patches is None else replace(data.patches, place=data.patches.place[good]),
    )


def _usable(spectra: FloatArray, darkest: float) -> npt.NDArray[np.bool_]:
    """Which spectra (samples, bands) are finite and brighter than a mean square of reflectance."""
    usable: npt.NDArray[np.bool_] = np.isfinite(spectra).all(1) & (np.square(spectra).mean(1) > darkest)
    return usable


def data_digest(data: TrainingSet) -> str:
    """SHA-256 of all training data, in hexadecimal."""
    digest = hashlib.sha256()
    for part in (
        data.spectra,
        data.class_index.astype(np.int64),
        data.group.astype(np.int64),
        data.unlabelled,
    ):
        digest.update(np.ascontiguousarray(part).tobytes())
    if data.patches is not None:
        digest.update(data.patches.images.tobytes())
    return digest.hexdigest()
