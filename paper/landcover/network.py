"""Common to the estimators that are networks: storage, and one recipe to train them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from p3vae.models.landcover.estimator import Discriminative, Frame, PixelPrediction, part
from p3vae.models.landcover.job import Job, TrainingRun, classifier_f1, reporter, summarise, with_restarts
from p3vae.models.landcover.types import Method, TrainingSet, TrainingSummary
from p3vae.models.nn.trainer import Optimisation, train
from p3vae.paper.nn.classifiers import SegmentClassifier
from p3vae.paper.nn.layers import contiguous_segments
from p3vae.physics.illumination import SpectralIrradiance

PUBLISHED_DESCENT = Optimisation(100, 1e-3, 1e-4, cycle_steps=660, clip_norm=0.0, keep_best=True)
"""Adam, learning rate cycling between 1e-4 and 1e-3, best validation loss held_out, as published."""
_LONGEST_EPOCH = 8000
"""Spectra of one pass at most, about as many as the largest published set has."""


class SpectraBatch(NamedTuple):
    """Spectra of one training step."""

    x: Tensor
    """Labelled spectra, (samples, bands)."""
    y: Tensor
    """Their classes, (samples,)."""
    unlabelled: Tensor
    """(as many or none, bands)."""
    step: int
    """From 0, over the whole training."""


class StoredNetwork(Discriminative, nn.Module):
    """A network that predicts classes, and its storage; subclasses may have latent variables."""

    supported_options: ClassVar[frozenset[str]] = frozenset()
    methods: tuple[Method, ...] = ("classifier",)
    gives_irradiance = False
    gives_misfit = False

    def __init__(self, frame: Frame) -> None:
        super().__init__()

    def tensors(self) -> dict[str, Tensor]:
        """All weights and constants."""
        return {f"network.{name}": value for name, value in self.state_dict().items()}

    @classmethod
    def restore(cls, frame: Frame, card: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The estimator that gave these tensors."""
        estimator = cls(frame)
        estimator.load_state_dict(part(tensors, "network."))
        return estimator.eval()


class NetworkEstimator(StoredNetwork):
    """An estimator with a classifier q(y|x) that is trained by gradients; alone, it is the spectral CNN."""

    descent: ClassVar[Optimisation] = PUBLISHED_DESCENT
    learns_unlabelled: ClassVar[bool] = True
    classifier: nn.Module

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.classes = len(frame.legend)
        self.classifier = SegmentClassifier(contiguous_segments(frame.bands.wavelength_nm), self.classes)

    def losses(self, batch: SpectraBatch) -> Mapping[str, Tensor]:
        """Named terms of the objective; `total` is minimised."""
        return {"total": F.cross_entropy(self.classifier(batch.x), batch.y)}

    def validation_loss(self, x: Tensor, y: Tensor) -> Tensor:
        """What chooses the best epoch, from labelled spectra kept aside."""
        return F.cross_entropy(self.classifier(x), y)

    def after_training(self, held_out: Tensor) -> None:
        """Calibrate on spectra kept aside."""

    @classmethod
    def fit(cls, job: Job) -> tuple[Self, TrainingSummary]:
        """Minimise `losses` by gradient descent; the epoch of least `validation_loss` is taken."""
        return _trained(cls, job)

    def predict_logits(
        self, spectra: Tensor, irradiance: SpectralIrradiance, method: Method
    ) -> PixelPrediction:
        """Classes by q(y|x)."""
        return PixelPrediction(self.classifier(spectra))


Net = TypeVar("Net", bound=NetworkEstimator)


def _trained(kind: type[Net], job: Job) -> tuple[Net, TrainingSummary]:
    settings, classes, descent = job.settings, len(job.legend), kind.descent
    epochs = settings.epochs or descent.epochs
    held_out, rest = job.part(job.held_out), job.part(~job.held_out)
    if not kind.learns_unlabelled:
        rest = replace(rest, unlabelled=rest.unlabelled[:0])
    held_out_x = torch.from_numpy(held_out.spectra).to(job.device)
    held_out_y = torch.from_numpy(held_out.class_index.astype(np.int64)).to(job.device)

    def build(seed: int) -> Net:
        torch.manual_seed(seed)
        return kind(job.frame).to(job.device)

    def attempt(net: Net, seed: int, run: TrainingRun) -> None:
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
    return net, summarise(
        job,
        epochs,
        held_out.class_index,
        logits,
        restarts=restarts,
    )


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
