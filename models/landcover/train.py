"""Training of the land-cover models: ours by its own recipe, all networks by one common one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from p3vae.models.landcover.baselines.fg_unet.estimator import FGUNet
from p3vae.models.landcover.baselines.fg_unet.train import train_fg_unet
from p3vae.models.landcover.baselines.random_forest import RandomForest
from p3vae.models.landcover.estimator import Estimator, estimator_type
from p3vae.models.landcover.job import (
    Job,
    TrainingRun,
    checked,
    classified,
    classifier_f1,
    data_digest,
    reporter,
    summarise,
    validation_folds,
    with_restarts,
)
from p3vae.models.landcover.library.calibration import Validation, validate
from p3vae.models.landcover.library.decoder import Library, NoiseModel
from p3vae.models.landcover.library.estimator import LibraryEstimator
from p3vae.models.landcover.library.fit import fit_library, fit_scattered_library
from p3vae.models.landcover.library.pseudo_labels import adopted, unknown_share
from p3vae.models.landcover.library.teacher import Teacher
from p3vae.models.landcover.model import LandCoverModel
from p3vae.models.landcover.network import NetworkEstimator, SpectraBatch, StoredNetwork
from p3vae.models.landcover.types import (
    ClassLegend,
    EpochReport,
    TrainingError,
    TrainingSet,
    TrainingSettings,
    TrainingState,
    TrainingSummary,
)
from p3vae.models.landcover.vae.published import PublishedP3VAE
from p3vae.models.landcover.vae.semi_supervised import SemiSupervisedVAE
from p3vae.models.metrics import average_f1
from p3vae.models.nn.classifiers import SpectralClassifier
from p3vae.models.nn.trainer import Losses, Optimisation, train
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.irradiance import SKY_OFFSET
from p3vae.physics.spectral_response import Bands

Examples = tuple[Tensor, Tensor]
"""Spectra and their target probabilities."""

_DEFAULT_EPOCHS = 20
_STEPS = 30
_LONGEST_EPOCH = 8000
"""Spectra of one pass at most, about as many as the largest published set has."""
_MUCH = 0.2
"""Share of unlabelled ground that no class explains beyond which classes are missing."""
_ENOUGH_POLYGONS = 4
"""A network never sees what is kept aside; with fewer polygons that might be all there is of a material."""


def train_land_cover(
    training_set: TrainingSet,
    bands: Bands,
    irradiance: SpectralIrradiance,
    legend: ClassLegend,
    settings: TrainingSettings,
    *,
    on_epoch: Callable[[EpochReport], None] | None = None,
    resume_from: TrainingState | None = None,
    save_state: Callable[[TrainingState], None] | None = None,
    device: str = "cpu",
) -> LandCoverModel:
    """Train on labelled and unlabelled spectra at `bands`; the same seed gives the same model.

    `irradiance` must be given at the same bands. `save_state` is called after every epoch; a run resumed
    from such a state ends like one that was never stopped.
    """
    _require_sense(settings)
    data = checked(training_set, bands, irradiance, legend)
    digest = data_digest(data)
    notes: dict[str, object] = {"settings": asdict(settings), "data_sha256": digest}
    run = TrainingRun(on_epoch, resume_from, save_state, notes)
    if not run.may_resume():
        raise TrainingError("the checkpoint belongs to a training with other data or settings")
    enough = _ENOUGH_POLYGONS if issubclass(estimator_type(settings), StoredNetwork) else 2
    folds, warnings = validation_folds(data, legend, settings, enough)
    job = Job(data, bands, irradiance, legend, settings, folds, run, device)
    estimator, summary = _recipe(job)(job)
    return LandCoverModel(
        legend,
        bands,
        irradiance,
        settings,
        replace(summary, warnings=(*warnings, *summary.warnings)),
        estimator.to(device),
        digest,
        device,
    )


def _require_sense(settings: TrainingSettings) -> None:
    if not settings.physics and (settings.model != "p3vae" or settings.preset == "paper"):
        raise TrainingError(
            "only the default p3vae can be trained without physics; "
            "the published one without physics is the model guided-vae"
        )
    kind = estimator_type(settings)
    if settings.sky_offset != SKY_OFFSET and kind is not PublishedP3VAE:
        raise TrainingError("only the published p3vae (preset paper) has a sky offset")
    if not settings.adoption and kind is not LibraryEstimator:
        raise TrainingError(
            "only the default p3vae adopts spectra of unlabelled pixels; leave that option out"
        )
    if not settings.stop_gradient and not issubclass(kind, LibraryEstimator | SemiSupervisedVAE):
        raise TrainingError(f"{settings.model} has no stop-gradient; leave that option out")


def _recipe(job: Job) -> Callable[[Job], tuple[Estimator, TrainingSummary]]:
    kind = estimator_type(job.settings)
    if kind is LibraryEstimator:
        return _train_exact
    if issubclass(kind, NetworkEstimator):
        return partial(_train_network, kind)
    if kind is RandomForest:
        return _grow_forest
    if kind is FGUNet:
        return train_fg_unet
    raise TrainingError(f"{job.settings.model} cannot be trained")


def _train_exact(job: Job) -> tuple[LibraryEstimator, TrainingSummary]:
    optics, settings, classes = job.optics, job.settings, len(job.legend)
    pairs = [(job.part(~fold), job.part(fold)) for fold in job.folds]
    validation = validate(pairs, classes, optics, settings)
    labelled = (
        fit_scattered_library(job.data, classes, optics)
        if validation.scattered
        else fit_library(job.data, classes, optics, settings)
    )
    library = (
        adopted(labelled, job.data, validation.noise, validation.unknown_misfit, optics, settings)
        if validation.adopting
        else labelled
    )
    grown = tuple(
        name
        for name, before, after in zip(job.legend.names, labelled.spectra, library.spectra, strict=True)
        if len(after) > len(before)
    )
    stages = len(job.folds) + 1
    f1 = _taught_f1(job, validation)
    student, restarts = _taught(_stage(job, stages - 1, stages), library, validation)
    estimator = LibraryEstimator(
        library,
        validation.noise,
        validation.unknown_misfit,
        student.eval(),
        job.bands.wavelength_nm,
        None
        if validation.spare_noise is None
        else (fit_scattered_library(job.data, classes, optics).as_spare(), validation.spare_noise),
        settings.physics,
    )
    summary = summarise(job, settings.epochs or _DEFAULT_EPOCHS, restarts, validation, f1)
    strange = unknown_share(job.data.unlabelled, library, validation.noise, optics, validation.unknown_misfit)
    return estimator, replace(
        summary, adopted=grown, warnings=(*summary.warnings, *_strangeness_warning(strange))
    )


def _strangeness_warning(share: float) -> tuple[str, ...]:
    if not share > _MUCH:
        return ()
    return (
        f"{share:.0%} of the unlabelled pixels look like none of the labelled ground; label some of them, "
        "or map with --unknown",
    )


def _stage(job: Job, index: int, stages: int) -> Job:
    """The job, told as one stage of several of equal length."""
    show = job.run.on_epoch
    if show is None:
        return job

    def shifted(report: EpochReport) -> None:
        show(replace(report, epoch=report.epoch + index * report.epochs, epochs=stages * report.epochs))

    return replace(job, run=replace(job.run, on_epoch=shifted))


def _taught(
    job: Job, library: Library, validation: Validation, held_out: TrainingSet | None = None
) -> tuple[SpectralClassifier, int]:
    """A classifier that learned from the posterior of a library, and how often it had to begin anew.

    Its F1 on samples kept aside is told with every epoch.
    """
    settings, epochs = job.settings, job.settings.epochs or _DEFAULT_EPOCHS
    teacher = Teacher.prepare(job, library, validation)

    def build(seed: int) -> SpectralClassifier:
        torch.manual_seed(seed)
        student = SpectralClassifier(len(job.bands), len(job.legend))
        student.standardise(torch.from_numpy(teacher.examples(2000, np.random.default_rng(seed))[0]))
        return student.to(job.device)

    def attempt(student: SpectralClassifier, seed: int, run: TrainingRun) -> None:
        def batches(_: int, generator: torch.Generator) -> Iterator[Examples]:
            rng = np.random.default_rng(int(torch.randint(2**31, (1,), generator=generator)))
            for _step in range(_STEPS):
                spectra, target = teacher.batch(settings.batch_size, rng)
                yield torch.from_numpy(spectra), torch.from_numpy(target)

        def loss(batch: Examples) -> Losses:
            return {"total": F.cross_entropy(student(batch[0]), batch[1])}

        train(
            student,
            batches,
            loss,
            Optimisation(epochs, learning_rate=2e-3),
            seed=seed,
            on_epoch=reporter(
                job,
                epochs,
                lambda: math.nan if held_out is None else classifier_f1(student, held_out, len(job.legend)),
            ),
            resume_from=run.resume_from,
            save_state=run.keep,
        )

    return with_restarts(build, attempt, job)


def _taught_f1(job: Job, validation: Validation) -> float:
    """Average F1 of classifiers on polygons that they never saw; the one that is kept saw all."""
    predicted = []
    for index, (fold, library) in enumerate(zip(job.folds, validation.libraries, strict=True)):
        show = _stage(job, index, len(job.folds) + 1).run.on_epoch
        trial, held_out = replace(job, data=job.part(~fold), run=TrainingRun(show)), job.part(fold)
        predicted.append(classified(_taught(trial, library, validation, held_out)[0], held_out))
    truth = np.concatenate([job.part(fold).class_index for fold in job.folds])
    return average_f1(truth, np.concatenate(predicted), len(job.legend))


def _train_network(kind: type[NetworkEstimator], job: Job) -> tuple[NetworkEstimator, TrainingSummary]:
    settings, classes, descent = job.settings, len(job.legend), kind.descent
    epochs = settings.epochs or descent.epochs
    held_out, rest = job.part(job.folds[0]), job.part(~job.folds[0])
    if not kind.learns_unlabelled:
        rest = replace(rest, unlabelled=rest.unlabelled[:0])
    held_out_x = torch.from_numpy(held_out.spectra).to(job.device)
    held_out_y = torch.from_numpy(held_out.class_index.astype(np.int64)).to(job.device)

    def build(seed: int) -> NetworkEstimator:
        torch.manual_seed(seed)
        return kind(job.frame).to(job.device)

    def attempt(net: NetworkEstimator, seed: int, run: TrainingRun) -> None:
        train(
            net,
            partial(_batches, rest, settings.batch_size),
            net.losses,
            replace(descent, epochs=epochs),
            seed=seed,
            validation_loss=torch.no_grad()(lambda: float(net.validation_loss(held_out_x, held_out_y))),
            on_epoch=reporter(job, epochs, lambda: classifier_f1(net.classifier, held_out, classes)),
            resume_from=run.resume_from,
            save_state=run.keep,
        )

    net, restarts = with_restarts(build, attempt, job)
    net.eval()
    with torch.inference_mode():
        net.after_training(held_out_x)
        logits = net.predict_logits(held_out_x, job.irradiance, net.methods[0]).logits
    outcome = Validation(
        held_out.class_index, logits.argmax(1).cpu().numpy(), NoiseModel(), 1.0, unfamiliar=0.0
    )
    return net, summarise(job, epochs, restarts, outcome, classifier_f1(net.classifier, held_out, classes))


def _grow_forest(job: Job) -> tuple[RandomForest, TrainingSummary]:
    """Scores from a forest that never saw the polygons kept aside; the one that is kept saw all."""
    classes, held_out = len(job.legend), job.part(job.folds[0])
    trial = RandomForest.grown(job.part(~job.folds[0]), classes, job.settings.seed)
    predicted = trial.probabilities(torch.from_numpy(held_out.spectra)).argmax(1).numpy()
    f1 = average_f1(held_out.class_index, predicted, classes)
    if job.run.on_epoch is not None:
        job.run.on_epoch(EpochReport(1, 1, {}, f1))
    outcome = Validation(held_out.class_index, predicted, NoiseModel(), 1.0, unfamiliar=0.0)
    return RandomForest.grown(job.data, classes, job.settings.seed), summarise(job, 1, 0, outcome, f1)


def _batches(data: TrainingSet, size: int, epoch: int, generator: torch.Generator) -> Iterator[SpectraBatch]:
    """One pass over the larger of both sets, each batch with as many labelled as unlabelled spectra."""
    x, y = torch.from_numpy(data.spectra), torch.from_numpy(data.class_index.astype(np.int64))
    pool = torch.from_numpy(data.unlabelled)
    count = max(len(x), min(len(pool), _LONGEST_EPOCH))
    labelled = torch.split(_shuffled(len(x), count, generator), size)
    unlabelled = torch.split(_shuffled(len(pool), count, generator), size) if len(pool) else None
    for number, rows in enumerate(labelled):
        others = rows[:0] if unlabelled is None else unlabelled[number]
        yield SpectraBatch(x[rows], y[rows], pool[others], epoch * len(labelled) + number)


def _shuffled(size: int, count: int, generator: torch.Generator) -> Tensor:
    """`count` of `size` indices in random order, every one as often as any other, but for one time."""
    rounds = [torch.randperm(size, generator=generator) for _ in range(-(-count // size))]
    return torch.cat(rounds)[:count]
