"""Training of the land-cover models, default and as published."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from p3vae.models.landcover_fit import Optics, Validation, fit_library, own_light, random_light, validate
from p3vae.models.landcover_model import LandCoverModel, published_network
from p3vae.models.landcover_types import (
    ClassLegend,
    ClassScore,
    EpochReport,
    TrainingError,
    TrainingSet,
    TrainingSettings,
    TrainingState,
    TrainingSummary,
)
from p3vae.models.metrics import average_f1, class_scores
from p3vae.models.networks import SpectralClassifier
from p3vae.models.posterior import Library, NoiseModel, smooth_basis
from p3vae.models.training import BrokenRunError, EpochOutcome, Losses, Optimisation, train
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands

FloatArray = npt.NDArray[np.float64]
Batch = tuple[Tensor, Tensor]
Net = TypeVar("Net", bound=nn.Module)

_FOLDS = 2
_RESTARTS = 3
_DEFAULT_EPOCHS, _PAPER_EPOCHS = 30, 100
_STEPS = 40
_PAPER_DECAY = {"classifier": 1e-2, "light_encoder": 1e-2, "mixing_encoder": 1e-2}
_MOST_TAUGHT = 8000
_TEACHER_SMOOTH, _TEACHER_NEIGHBOURS = 0.04, 0.1


@dataclass(frozen=True)
class _Run:
    """The caller's side of a training run."""

    on_epoch: Callable[[EpochReport], None] | None
    resume_from: TrainingState | None
    save_state: Callable[[TrainingState], None] | None
    notes: dict[str, object]

    def keep(self, state: TrainingState) -> None:
        if self.save_state is not None:
            self.save_state(replace(state, notes=self.notes))


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
    data = _checked(training_set, bands, irradiance, legend)
    digest = _digest(data)
    notes: dict[str, object] = {"settings": asdict(settings), "data_sha256": digest}
    if resume_from is not None and dict(resume_from.notes) != notes:
        raise TrainingError("the checkpoint belongs to a training with other data or settings")
    run = _Run(on_epoch, resume_from, save_state, notes)
    folds, warnings = validation_folds(data, legend, settings)
    job = _Job(data, bands, irradiance, legend, settings, folds, run)
    model = _train_published(job) if settings.preset == "paper" else _train_default(job)
    summary = replace(model.summary, warnings=tuple(warnings))
    return replace(model, summary=summary, data_sha256=digest, device=device, **_moved(model, device))


@dataclass(frozen=True, eq=False)
class _Job:
    data: TrainingSet
    bands: Bands
    irradiance: SpectralIrradiance
    legend: ClassLegend
    settings: TrainingSettings
    folds: list[npt.NDArray[np.bool_]]
    """Per fold, True for samples kept aside."""
    run: _Run

    @property
    def optics(self) -> Optics:
        light = np.stack([self.irradiance.direct_ratio, self.irradiance.diffuse_ratio])
        return Optics(
            light if self.settings.physics else np.ones_like(light),
            self.bands.wavelength_nm,
            float(np.cos(np.radians(self.irradiance.sun_zenith_deg))),
            self.settings.physics,
        )

    def part(self, rows: npt.NDArray[np.bool_]) -> TrainingSet:
        data = self.data
        return replace(
            data, spectra=data.spectra[rows], class_index=data.class_index[rows], group=data.group[rows]
        )


def validation_folds(
    data: TrainingSet, legend: ClassLegend, settings: TrainingSettings
) -> tuple[list[npt.NDArray[np.bool_]], list[str]]:
    """Samples kept aside in each fold, whole polygons where a class has several, and warnings."""
    rng = np.random.default_rng(settings.seed)
    folds = [np.zeros(len(data.spectra), dtype=np.bool_) for _ in range(_FOLDS)]
    warnings = []
    for index, name in enumerate(legend.names):
        mine = np.flatnonzero(data.class_index == index)
        groups = rng.permutation(np.unique(data.group[mine]))
        if len(groups) < 2:
            warnings.append(f"{name}: only one polygon, so its validation pixels come from that polygon")
            blocks = np.array_split(mine, 8)
            for number, fold in enumerate(folds):
                fold[np.concatenate(blocks[2 * number : 2 * number + 2])] = True
            continue
        share = min(max(1, round(settings.validation_fraction * len(groups))), len(groups) // 2)
        for number, fold in enumerate(folds):
            chosen = groups[number * share : (number + 1) * share]
            fold[mine[np.isin(data.group[mine], chosen)]] = True
    return folds, warnings


def _train_default(job: _Job) -> LandCoverModel:
    optics, settings, classes = job.optics, job.settings, len(job.legend)
    pairs = [(job.part(~fold), job.part(fold)) for fold in job.folds]
    validation = validate(pairs, classes, optics, settings)
    library = fit_library(job.data, classes, optics, settings)
    teacher = _Teacher.prepare(job, library, validation.noise)
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
            on_epoch=_reporter(job, epochs, lambda: _classifier_f1(student, kept, classes)),
            resume_from=job.run.resume_from,
            save_state=job.run.keep,
        )

    student, restarts = _with_restarts(build, attempt, settings.seed)
    summary = _summary(job, epochs, restarts, validation, _classifier_f1(student, kept, classes))
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


@dataclass(frozen=True, eq=False)
class _Teacher:
    """Spectra that teach the classifier: labelled ones in other light, and unlabelled ones as judged by p(y|x)."""

    spectra: FloatArray
    light: FloatArray
    truth: npt.NDArray[np.integer[object]]
    by_class: list[npt.NDArray[np.intp]]
    unlabelled: npt.NDArray[np.float32]
    judged: npt.NDArray[np.float32]
    optics: Optics
    surroundings: FloatArray
    noise: NoiseModel

    @classmethod
    def prepare(cls, job: _Job, library: Library, noise: NoiseModel) -> _Teacher:
        data, optics = job.data, job.optics
        spectra = data.spectra.astype(np.float64)
        rng = np.random.default_rng(job.settings.seed)
        unlabelled = data.unlabelled[rng.permutation(len(data.unlabelled))[:_MOST_TAUGHT]]
        unlabelled = unlabelled[np.isfinite(unlabelled).all(1) & (np.square(unlabelled).mean(1) > 1e-6)]
        judged = np.zeros((0, len(job.legend)), np.float32)
        if len(unlabelled):
            found = optics.solver(library, noise).solve(torch.from_numpy(unlabelled))
            judged = found.log_evidence.softmax(1).numpy()
        return cls(
            spectra,
            own_light(spectra, data.class_index, library, optics),
            data.class_index,
            [np.flatnonzero(data.class_index == k) for k in range(len(job.legend))],
            unlabelled,
            judged,
            optics,
            library.surroundings,
            noise,
        )

    def examples(
        self, count: int, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Labelled spectra, classes in equal shares, in random light with every deviation a scene brings."""
        classes = rng.integers(0, len(self.by_class), count)
        rows = np.array([rng.choice(self.by_class[k]) for k in classes])
        new = random_light(count, rng) @ self.optics.light
        if self.optics.physics:
            new += rng.uniform(0, _TEACHER_NEIGHBOURS, (count, 1)) * self.surroundings
        relit = self.spectra[rows] * new / np.maximum(self.light[rows] @ self.optics.light, 0.02)
        as_is = rng.random(count) < 0.25
        relit[as_is] = self.spectra[rows[as_is]]
        terms = smooth_basis(self.optics.wavelength)
        relit *= np.exp(rng.standard_normal((count, terms.shape[1])) * (_TEACHER_SMOOTH / 2) @ terms.T)
        relit += self.noise.floor * rng.standard_normal(relit.shape)
        return np.maximum(relit, 1e-4).astype(np.float32), np.eye(len(self.by_class), dtype=np.float32)[
            classes
        ]

    def batch(
        self, size: int, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """`size` unlabelled and three times as many labelled examples, with their target probabilities."""
        spectra, target = self.examples(3 * size, rng)
        if not len(self.unlabelled):
            return spectra, target
        rows = rng.integers(0, len(self.unlabelled), size)
        return np.concatenate([spectra, self.unlabelled[rows]]), np.concatenate([target, self.judged[rows]])


def _train_published(job: _Job) -> LandCoverModel:
    settings, classes = job.settings, len(job.legend)
    kept, rest = job.part(job.folds[0]), job.part(~job.folds[0])
    epochs = settings.epochs or _PAPER_EPOCHS
    x, y = torch.from_numpy(rest.spectra), torch.from_numpy(rest.class_index.astype(np.int64))
    pool = torch.from_numpy(job.data.unlabelled)
    kept_x, kept_y = torch.from_numpy(kept.spectra), torch.from_numpy(kept.class_index.astype(np.int64))

    def build(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return published_network(job.bands, job.irradiance, classes, settings)

    def attempt(net: nn.Module, seed: int) -> None:
        def batches(_: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
            for rows in torch.randperm(len(x), generator=generator).split(settings.batch_size):
                others = (
                    torch.randint(len(pool), (len(rows),), generator=generator) if len(pool) else rows[:0]
                )
                yield x[rows], y[rows], pool[others]

        @torch.no_grad()
        def validation_loss() -> float:
            bound, supervised = net.labelled_loss(kept_x, kept_y)  # type: ignore[operator]
            return float(bound + supervised)

        train(
            net,
            batches,
            net.losses,  # type: ignore[arg-type]
            Optimisation(epochs, 1e-3, 1e-4, cycle_steps=660, clip_norm=0.0, keep_best=True),
            seed=seed,
            weight_decay=_PAPER_DECAY,
            validation_loss=validation_loss,
            on_epoch=_reporter(job, epochs, lambda: _classifier_f1(net.classifier, kept, classes)),
            resume_from=job.run.resume_from,
            save_state=job.run.keep,
        )

    net, restarts = _with_restarts(build, attempt, settings.seed)
    with torch.inference_mode():
        evidence = net.eval().importance_posterior(kept_x)[0].numpy()  # type: ignore[operator]
    misfit = max(float(np.quantile(-evidence.max(1), 0.99)), 1e-6)
    outcome = Validation(kept.class_index, evidence.argmax(1), NoiseModel(), misfit)
    summary = _summary(job, epochs, restarts, outcome, _classifier_f1(net.classifier, kept, classes))
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
        published=net,  # type: ignore[arg-type]
    )


def _published_library(net: nn.Module, job: _Job) -> Library:
    inputs = torch.eye(len(job.legend))
    if not job.settings.physics:
        inputs = torch.cat([inputs, torch.full((len(inputs), 1), job.optics.cos_zenith)], 1)
    with torch.no_grad():
        spectra = net.decoder(inputs).double().numpy()  # type: ignore[operator]
    return Library(tuple(spectra), job.data.spectra.mean(0).astype(np.float64))


def _with_restarts(
    build: Callable[[int], Net], attempt: Callable[[Net, int], None], seed: int
) -> tuple[Net, int]:
    for restarts in range(_RESTARTS + 1):
        with torch.random.fork_rng(devices=[]):
            net = build(seed + 1000 * restarts)
            try:
                attempt(net, seed + 1000 * restarts)
            except BrokenRunError as error:
                last = error
                continue
        return net, restarts
    raise TrainingError(f"training broke down {_RESTARTS + 1} times: {last}")


def _reporter(job: _Job, epochs: int, f1: Callable[[], float]) -> Callable[[EpochOutcome], None] | None:
    if job.run.on_epoch is None:
        return None
    show = job.run.on_epoch
    return lambda outcome: show(EpochReport(outcome.epoch, epochs, outcome.losses, f1()))


@torch.inference_mode()
def _classifier_f1(classifier: nn.Module, kept: TrainingSet, classes: int) -> float:
    predicted = classifier(torch.from_numpy(kept.spectra)).argmax(1).numpy()
    return average_f1(kept.class_index, predicted, classes)


def _summary(
    job: _Job, epochs: int, restarts: int, validation: Validation, classifier_f1: float
) -> TrainingSummary:
    classes = len(job.legend)
    precision, recall, f1 = class_scores(validation.truth, validation.predicted, classes)
    counts = np.bincount(validation.truth, minlength=classes)
    rows = zip(job.legend.names, counts, precision, recall, f1, strict=True)
    return TrainingSummary(
        epochs=epochs,
        scores=tuple(ClassScore(name, int(n), float(p), float(r), float(f)) for name, n, p, r, f in rows),
        average_f1=average_f1(validation.truth, validation.predicted, classes),
        classifier_f1=classifier_f1,
        restarts=restarts,
    )


def _checked(
    data: TrainingSet, bands: Bands, irradiance: SpectralIrradiance, legend: ClassLegend
) -> TrainingSet:
    count = len(bands)
    if data.spectra.ndim != 2 or data.spectra.shape[1] != count or data.unlabelled.shape[1:] != (count,):
        raise TrainingError(f"spectra must have the {count} bands of the model")
    if len(irradiance.direct) != count:
        raise TrainingError(f"irradiance must be given at the {count} bands of the model")
    good = np.isfinite(data.spectra).all(1) & (np.square(data.spectra).mean(1) > 1e-8)
    missing = set(range(len(legend))) - set(np.unique(data.class_index[good]).tolist())
    if missing:
        names = ", ".join(legend.names[index] for index in sorted(missing))
        raise TrainingError(f"no usable labelled spectrum of {names}")
    return TrainingSet(
        np.ascontiguousarray(data.spectra[good], dtype=np.float32),
        data.class_index[good],
        data.group[good],
        np.ascontiguousarray(data.unlabelled, dtype=np.float32),
    )


def _digest(data: TrainingSet) -> str:
    digest = hashlib.sha256()
    for part in (
        data.spectra,
        data.class_index.astype(np.int64),
        data.group.astype(np.int64),
        data.unlabelled,
    ):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _moved(model: LandCoverModel, device: str) -> dict[str, nn.Module | None]:
    published = model.published.to(device) if model.published is not None else None
    return {"classifier": model.classifier.to(device), "published": published}
