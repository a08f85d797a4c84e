"""Training of the land-cover models, default and as published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from p3vae.models.landcover_fit import Validation, fit_library, validate
from p3vae.models.landcover_job import (
    Job,
    Run,
    checked,
    classifier_f1,
    data_digest,
    reporter,
    summarise,
    validation_folds,
    with_restarts,
)
from p3vae.models.landcover_model import LandCoverModel, published_network
from p3vae.models.landcover_published import PublishedP3VAE
from p3vae.models.landcover_teacher import Teacher
from p3vae.models.landcover_types import (
    ClassLegend,
    EpochReport,
    TrainingError,
    TrainingSet,
    TrainingSettings,
    TrainingState,
)
from p3vae.models.networks import SpectralClassifier
from p3vae.models.posterior import Library, NoiseModel
from p3vae.models.training import Losses, Optimisation, train
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands

Batch = tuple[Tensor, Tensor]

_DEFAULT_EPOCHS, _PAPER_EPOCHS = 20, 100
_STEPS = 30
_PAPER_DECAY = {"classifier": 1e-2, "light_encoder": 1e-2, "mixing_encoder": 1e-2}


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
    data = checked(training_set, bands, irradiance, legend)
    digest = data_digest(data)
    notes: dict[str, object] = {"settings": asdict(settings), "data_sha256": digest}
    if resume_from is not None and dict(resume_from.notes) != notes:
        raise TrainingError("the checkpoint belongs to a training with other data or settings")
    run = Run(on_epoch, resume_from, save_state, notes)
    folds, warnings = validation_folds(data, legend, settings)
    job = Job(data, bands, irradiance, legend, settings, folds, run)
    model = _train_published(job) if settings.preset == "paper" else _train_default(job)
    summary = replace(model.summary, warnings=(*warnings, *model.summary.warnings))
    return replace(
        model,
        summary=summary,
        data_sha256=digest,
        device=device,
        classifier=model.classifier.to(device),
        published=None if model.published is None else model.published.to(device),
    )


def _train_default(job: Job) -> LandCoverModel:
    optics, settings, classes = job.optics, job.settings, len(job.legend)
    pairs = [(job.part(~fold), job.part(fold)) for fold in job.folds]
    validation = validate(pairs, classes, optics, settings)
    library = fit_library(job.data, classes, optics, settings)
    teacher = Teacher.prepare(job, library, validation.noise)
    epochs = settings.epochs or _DEFAULT_EPOCHS
    kept = job.part(job.folds[0])

    def build(seed: int) -> SpectralClassifier:
        torch.manual_seed(seed)
        student = SpectralClassifier(len(job.bands), classes)
        student.standardise(torch.from_numpy(teacher.examples(2000, np.random.default_rng(seed))[0]))
        return student

    def attempt(student: SpectralClassifier, seed: int) -> None:
        def batches(_: int, generator: torch.Generator) -> Iterator[Batch]:
            rng = np.random.default_rng(int(torch.randint(2**31, (1,), generator=generator)))
            for _step in range(_STEPS):
                spectra, target = teacher.batch(settings.batch_size, rng)
                yield torch.from_numpy(spectra), torch.from_numpy(target)

        def loss(batch: Batch) -> Losses:
            return {"total": F.cross_entropy(student(batch[0]), batch[1])}

        train(
            student,
            batches,
            loss,
            Optimisation(epochs, learning_rate=2e-3),
            seed=seed,
            on_epoch=reporter(job, epochs, lambda: classifier_f1(student, kept, classes)),
            resume_from=job.run.resume_from if seed == settings.seed else None,
            save_state=job.run.keep,
        )

    student, restarts = with_restarts(build, attempt, settings.seed)
    summary = summarise(job, epochs, restarts, validation, classifier_f1(student, kept, classes))
    return LandCoverModel(
        legend=job.legend,
        bands=job.bands,
        irradiance=job.irradiance,
        settings=settings,
        summary=summary,
        library=library,
        noise=validation.noise,
        unknown_misfit=validation.unknown_misfit,
        classifier=student.eval(),
    )


def _train_published(job: Job) -> LandCoverModel:
    settings, classes = job.settings, len(job.legend)
    kept, rest = job.part(job.folds[0]), job.part(~job.folds[0])
    epochs = settings.epochs or _PAPER_EPOCHS
    x, y = torch.from_numpy(rest.spectra), torch.from_numpy(rest.class_index.astype(np.int64))
    pool = torch.from_numpy(job.data.unlabelled)
    kept_x, kept_y = torch.from_numpy(kept.spectra), torch.from_numpy(kept.class_index.astype(np.int64))

    def build(seed: int) -> PublishedP3VAE:
        torch.manual_seed(seed)
        return published_network(job.bands, job.irradiance, classes, settings)

    def attempt(net: PublishedP3VAE, seed: int) -> None:
        def batches(_: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
            for rows in torch.split(torch.randperm(len(x), generator=generator), settings.batch_size):
                others = (
                    torch.randint(len(pool), (len(rows),), generator=generator) if len(pool) else rows[:0]
                )
                yield x[rows], y[rows], pool[others]

        @torch.no_grad()
        def validation_loss() -> float:
            bound, supervised = net.labelled_loss(kept_x, kept_y)
            return float(bound + supervised)

        train(
            net,
            batches,
            net.losses,
            Optimisation(epochs, 1e-3, 1e-4, cycle_steps=660, clip_norm=0.0, keep_best=True),
            seed=seed,
            weight_decay=_PAPER_DECAY,
            validation_loss=validation_loss,
            on_epoch=reporter(job, epochs, lambda: classifier_f1(net.classifier, kept, classes)),
            resume_from=job.run.resume_from if seed == settings.seed else None,
            save_state=job.run.keep,
        )

    net, restarts = with_restarts(build, attempt, settings.seed)
    with torch.inference_mode():
        evidence = net.eval().importance_posterior(kept_x)[0].numpy()
    misfit = max(float(np.quantile(-evidence.max(1), 0.99)), 1e-6)
    outcome = Validation(kept.class_index, evidence.argmax(1), NoiseModel(), misfit, unfamiliar=0.0)
    summary = summarise(job, epochs, restarts, outcome, classifier_f1(net.classifier, kept, classes))
    return LandCoverModel(
        legend=job.legend,
        bands=job.bands,
        irradiance=job.irradiance,
        settings=settings,
        summary=summary,
        library=_published_library(net, job),
        noise=NoiseModel(),
        unknown_misfit=misfit,
        classifier=SpectralClassifier(len(job.bands), classes).eval(),
        published=net,
    )


def _published_library(net: PublishedP3VAE, job: Job) -> Library:
    inputs = torch.eye(len(job.legend))
    if not job.settings.physics:
        inputs = torch.cat([inputs, torch.full((len(inputs), 1), job.optics.cos_zenith)], 1)
    with torch.no_grad():
        spectra = net.decoder(inputs).double().numpy()
    return Library(tuple(spectra), job.data.spectra.mean(0).astype(np.float64))
