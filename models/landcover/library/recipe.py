"""Training of the default p3VAE: endmembers, calibration on held-out polygons, and its classifier."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from p3vae.models.landcover.job import (
    Job,
    TrainingRun,
    classified,
    classifier_f1,
    reporter,
    summarise,
    with_restarts,
)
from p3vae.models.landcover.library.calibration import Validation, validate
from p3vae.models.landcover.library.decoder import Library
from p3vae.models.landcover.library.estimator import LibraryEstimator
from p3vae.models.landcover.library.fit import fit_library, fit_scattered_library
from p3vae.models.landcover.library.illumination import scene_optics
from p3vae.models.landcover.library.pseudo_labels import adopted, unknown_share
from p3vae.models.landcover.library.teacher import Teacher
from p3vae.models.landcover.types import EpochReport, TrainingSet, TrainingSummary
from p3vae.models.metrics import average_f1
from p3vae.models.nn.classifiers import SpectralClassifier
from p3vae.models.nn.trainer import Losses, Optimisation, train

Examples = tuple[Tensor, Tensor]
"""Spectra and their target probabilities."""

_DEFAULT_EPOCHS = 20
_STEPS = 30
_MUCH = 0.2
"""Share of unlabelled ground that no class explains beyond which classes are missing."""


def train_library(job: Job) -> tuple[LibraryEstimator, TrainingSummary]:
    optics, settings, classes = scene_optics(job), job.settings, len(job.legend)
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
    summary = summarise(
        job,
        settings.epochs or _DEFAULT_EPOCHS,
        validation.truth,
        validation.predicted,
        classifier_f1=f1,
        restarts=restarts,
        warnings=_unfamiliar_warning(validation.unfamiliar),
    )
    strange = unknown_share(job.data.unlabelled, library, validation.noise, optics, validation.unknown_misfit)
    return estimator, replace(
        summary, adopted=grown, warnings=(*summary.warnings, *_strangeness_warning(strange))
    )


def _unfamiliar_warning(share: float) -> tuple[str, ...]:
    if share < 0.05:
        return ()
    return (
        f"{share:.0%} of the validation pixels show a material that no other polygon of their class shows; "
        "their scores tell of new materials, not of this scene",
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
