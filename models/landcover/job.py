"""A land-cover training run: its data, its validation polygons, its restarts and its summary."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from p3vae.models.landcover.estimator import AveragingEstimator, Estimator, Frame
from p3vae.models.landcover.neighbours import mean_of_neighbours
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
from p3vae.models.metrics import average_f1, calibration_error, class_scores, log_loss, overall_accuracy
from p3vae.models.nn.trainer import BrokenRunError, EpochOutcome
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands

if TYPE_CHECKING:
    from p3vae.models.landcover.library.transfer import PriorModel

IntArray = npt.NDArray[np.integer[Any]]
BoolArray = npt.NDArray[np.bool_]
Net = TypeVar("Net", bound=nn.Module)
Fitted = TypeVar("Fitted", bound=Estimator)

_RESTARTS = 3
_ATTEMPT = "restarts"
_FEWEST_POLYGONS = 2
"""Polygons of a class from which on whole ones are held out for validation."""
_FEWEST_TO_SHARE = 8
_PARTS = 4
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
    held_out: BoolArray
    """True for the samples of the validation polygons."""
    run: TrainingRun
    device: str
    """Where networks learn."""
    prior: PriorModel | None = None
    """Of the classes."""

    @property
    def frame(self) -> Frame:
        """What an estimator is built from."""
        return Frame(self.legend, self.bands, self.irradiance, self.settings)

    def on_step(self, name: str) -> None:
        """Tell the caller what is going on."""
        if self.run.on_epoch is not None:
            self.run.on_epoch(EpochReport(0, 0, {}, float("nan"), name))

    def part(self, rows: BoolArray) -> TrainingSet:
        """Some of the labelled samples, with all unlabelled ones."""
        return self.data.subset(rows)


def validation_polygons(
    data: TrainingSet, legend: ClassLegend, settings: TrainingSettings
) -> tuple[BoolArray, list[str]]:
    """Samples to hold out, the same for every model, and warnings."""
    warnings = []
    for index, name in enumerate(legend.names):
        polygons = np.unique(data.group[data.class_index == index])
        if len(polygons) >= _FEWEST_POLYGONS:
            continue
        few = "one polygon" if len(polygons) == 1 else f"{len(polygons)} polygons"
        warnings.append(f"{name}: only {few}, so its validation pixels come from polygons it learned from")
    held_out = _held_out_polygons(data, len(legend), settings.validation_fraction, settings.seed)
    if not held_out.any():
        raise TrainingError("every class has too few labelled pixels to validate on; label larger polygons")
    for index, name in enumerate(legend.names):
        if not held_out[data.class_index == index].any():
            warnings = [text for text in warnings if not text.startswith(f"{name}: ")]
            warnings.append(f"{name}: too few pixels to hold any out, so it is not validated")
    return held_out, warnings


def _held_out_polygons(data: TrainingSet, classes: int, fraction: float, seed: int) -> BoolArray:
    """True for samples held out at random, (samples,).

    Of a class with at least two polygons, a fraction of them is held out, at least one; of one with a single
    polygon, a contiguous part. A class is never held out as a whole.
    """
    rng = np.random.default_rng(seed)
    held_out = np.zeros(len(data.spectra), dtype=np.bool_)
    for index in range(classes):
        mine = np.flatnonzero(data.class_index == index)
        groups = rng.permutation(np.unique(data.group[mine]))
        if len(groups) >= _FEWEST_POLYGONS:
            chosen = groups[: max(1, round(fraction * len(groups)))]
            held_out[mine[np.isin(data.group[mine], chosen)]] = True
        elif len(mine) >= _FEWEST_TO_SHARE:
            held_out[np.array_split(mine, _PARTS)[rng.integers(_PARTS)]] = True
    return held_out


def polygon_folds(data: TrainingSet, classes: int, count: int, seed: int) -> IntArray:
    """The fold that holds each sample out, (samples,): from 0, or -1 where none does.

    The polygons of a class are dealt to the folds in random order, each to one; a single polygon is cut into
    contiguous parts. A class is never held out as a whole.
    """
    rng = np.random.default_rng(seed)
    fold = np.full(len(data.spectra), -1)
    for index in range(classes):
        mine = np.flatnonzero(data.class_index == index)
        groups = rng.permutation(np.unique(data.group[mine]))
        if len(groups) >= _FEWEST_POLYGONS:
            start = rng.integers(count)
            for number, group in enumerate(groups):
                fold[mine[data.group[mine] == group]] = (start + number) % count
        elif len(mine) >= _FEWEST_TO_SHARE:
            for number, rows in enumerate(np.array_split(mine, _PARTS)):
                fold[rows] = number % count
    return fold


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


def refitted(job: Job, fit: Callable[[TrainingSet], Fitted]) -> tuple[Fitted, TrainingSummary]:
    """An estimator fitted to all labels, with the scores of one that never saw the held-out polygons."""
    held_out = job.part(job.held_out)
    trial = fit(job.part(~job.held_out))
    job.on_step("scoring the validation polygons")
    with torch.inference_mode():
        logits = _logits(trial, held_out, job.irradiance)
    summary = summarise(job, 1, held_out.class_index, logits)
    job.on_step("fitting all labels")
    return fit(job.data), summary


def _logits(estimator: Estimator, data: TrainingSet, irradiance: SpectralIrradiance) -> torch.Tensor:
    """Logits of labelled samples as in a map, (samples, classes): with their neighbours where these count."""

    def predicted(spectra: FloatArray) -> torch.Tensor:
        return estimator.predict_logits(torch.from_numpy(spectra), irradiance, estimator.methods[0]).logits

    around = data.around
    if around is None or not (isinstance(estimator, AveragingEstimator) and estimator.averages_neighbours):
        return predicted(data.spectra)
    index, known = np.unique(np.maximum(around.index, 0), return_inverse=True)
    log = predicted(around.spectra[index]).log_softmax(1).numpy()[known.reshape(around.index.shape)]
    mean, any_known = mean_of_neighbours(log, around.index >= 0)
    alone = predicted(data.spectra).log_softmax(1).numpy()
    return torch.from_numpy(np.where(any_known[:, None], mean, alone))


def summarise(
    job: Job, epochs: int, truth: IntArray, logits: torch.Tensor, *, restarts: int = 0
) -> TrainingSummary:
    """Scores from true class indices (held-out samples,) and logits (held-out samples, classes)."""
    classes = len(job.legend)
    probability = logits.double().softmax(1).cpu().numpy()
    predicted = probability.argmax(1)
    precision, recall, f1 = class_scores(truth, predicted, classes)
    counts = np.bincount(truth, minlength=classes)
    rows = zip(job.legend.names, counts, precision, recall, f1, strict=True)
    confusion = np.zeros((classes, classes), np.int64)
    np.add.at(confusion, (truth, predicted), 1)
    return TrainingSummary(
        epochs=epochs,
        scores=tuple(ClassScore(name, int(n), float(p), float(r), float(f)) for name, n, p, r, f in rows),
        average_f1=average_f1(truth, predicted, classes),
        accuracy=overall_accuracy(truth, predicted),
        log_loss=log_loss(truth, probability),
        calibration_error=calibration_error(truth, probability),
        confusion=tuple(tuple(row) for row in confusion.tolist()),
        restarts=restarts,
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
    kept = data.subset(good)
    unlabelled = data.unlabelled[_usable(data.unlabelled, _DARKEST_UNLABELLED)]
    return replace(
        kept,
        spectra=np.ascontiguousarray(kept.spectra, dtype=np.float32),
        unlabelled=np.ascontiguousarray(unlabelled, dtype=np.float32),
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
    for scene in data.scenes:
        digest.update(np.ascontiguousarray(scene).tobytes())
    if data.around is not None:
        digest.update(data.around.spectra.tobytes())
        digest.update(data.around.index.tobytes())
    if data.flat is not None:
        digest.update(data.flat.tobytes())
    return digest.hexdigest()
