"""Training of FG-UNet on image patches, and patches from images in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from p3vae.models.landcover.job import Job, TrainingRun, reporter, summarise, with_restarts
from p3vae.models.landcover.patches import (
    PATCH_SIZE,
    PatchSet,
    connected_groups,
    full_patch,
    joined,
    patches_affordable,
    plan_patches,
)
from p3vae.models.landcover.types import TrainingError, TrainingSet, TrainingSummary
from p3vae.models.metrics import average_f1
from p3vae.models.nn.trainer import Losses, Optimisation, moved, train
from p3vae.paper.landcover.fg_unet.estimator import FGUNet
from p3vae.paper.landcover.fg_unet.network import FineGrainedUNet, PatchBatch

Kind = TypeVar("Kind", bound=FGUNet)
Choice = tuple[Tensor, int]
"""Which patches, and which way round."""

DESCENT = Optimisation(60, learning_rate=2e-3, warmup_steps=10, keep_best=True)
_BATCH = 4
"""Patches of one step."""
_UNUSUAL = 0.99
"""Pixels rebuilt worse than this share of the validation pixels count as unknown."""


@dataclass(frozen=True, eq=False)
class LabelledImage:
    """An image in memory with what is known of it."""

    spectra: npt.NDArray[np.floating[Any]]
    """(rows, cols, bands): apparent reflectance [1], NaN for nodata."""
    class_index: npt.NDArray[np.integer[Any]]
    """(rows, cols): position of the class in the legend, -1 where unknown."""
    group: npt.NDArray[np.integer[Any]] | None = None
    """(rows, cols): polygon of each labelled pixel; None takes connected pixels of one class as one."""


def image_training_set(
    images: Sequence[LabelledImage], *, unlabelled_patches: int = 20, seed: int = 0
) -> TrainingSet:
    """Labelled samples and patches of images, as `train_land_cover` takes them for the model `fg-unet`.

    `unlabelled_patches` are drawn from each image beside those that hold labelled pixels.
    """
    parts = [_one_image(image, unlabelled_patches, len(images), seed) for image in images]
    samples, patches = zip(*parts, strict=True)
    return TrainingSet(
        spectra=np.concatenate([part.spectra for part in samples]),
        class_index=np.concatenate([part.class_index for part in samples]),
        group=np.concatenate([part.group + number * 10**9 for number, part in enumerate(samples)]),
        unlabelled=np.concatenate([part.unlabelled for part in samples]),
        patches=joined(patches),
    )


def _one_image(image: LabelledImage, unlabelled: int, images: int, seed: int) -> tuple[TrainingSet, PatchSet]:
    cube = np.asarray(image.spectra, np.float32)
    known = (image.class_index >= 0) & np.isfinite(cube).all(-1)
    groups = connected_groups(image.class_index) if image.group is None else image.group
    row, col = np.nonzero(known)
    classes = image.class_index[known]
    plan = plan_patches(
        known.shape,
        row,
        col,
        classes,
        unlabelled=unlabelled,
        most=max(1, patches_affordable(cube.shape[2]) // images),
        rng=np.random.default_rng(seed),
    )
    patches = [full_patch(cube[r : r + PATCH_SIZE, c : c + PATCH_SIZE]) for r, c in plan.corners]
    samples = TrainingSet(
        cube[known][plan.kept], classes[plan.kept], groups[known][plan.kept], unlabelled=cube[:0, 0]
    )
    return samples, PatchSet(np.stack(patches), plan.place).without_nodata()


def train_fg_unet(kind: type[Kind], job: Job) -> tuple[Kind, TrainingSummary]:
    """Train on all patches, without the labels of the validation polygons."""
    patches, held_out = job.data.patches, job.held_out
    if patches is None:
        raise TrainingError("fg-unet learns from image patches, and the training set has none")
    shown, hidden = _batches(patches, job.data.class_index, held_out)
    truth = hidden.class_index[hidden.class_index >= 0]
    found = torch.full_like(truth, -1)
    epochs = job.settings.epochs or DESCENT.epochs

    def f1() -> float:
        return average_f1(truth.numpy(), found.numpy(), len(job.legend))

    def build(seed: int) -> Kind:
        torch.manual_seed(seed)
        estimator = kind(job.frame)
        estimator.network.standardise(shown.spectra[shown.valid])
        return estimator.to(job.device)

    def attempt(estimator: Kind, seed: int, run: TrainingRun) -> None:
        def batches(_: int, generator: torch.Generator) -> Iterator[Choice]:
            order = torch.randperm(len(shown.spectra), generator=generator)
            for rows in torch.split(order, _BATCH):
                yield rows, int(torch.randint(8, (1,), generator=generator))

        def loss(choice: Choice) -> Losses:
            return estimator.network.losses(_turned(_rows(shown, choice[0].cpu(), job.device), choice[1]))

        def validation_loss() -> float:
            logits = _at_labels(estimator.network, hidden)[0]
            found[:] = logits.argmax(1)
            return float(F.cross_entropy(logits, truth))

        train(
            estimator,
            batches,
            loss,
            replace(DESCENT, epochs=epochs),
            seed=seed,
            validation_loss=validation_loss,
            on_epoch=reporter(job, epochs, f1),
            resume_from=run.resume_from,
            save_state=run.keep,
        )

    estimator, restarts = with_restarts(build, attempt, job)
    logits, misfit = _at_labels(estimator.network, hidden)
    estimator.usual_misfit.copy_(misfit.quantile(_UNUSUAL).clamp(min=1e-6))
    return estimator, summarise(job, epochs, truth.numpy(), logits, restarts=restarts)


def _batches(
    patches: PatchSet, class_index: npt.NDArray[np.integer[Any]], held_out: npt.NDArray[np.bool_]
) -> tuple[PatchBatch, PatchBatch]:
    """All patches with the labels to learn from, and the same with those kept aside."""
    spectra = torch.from_numpy(np.nan_to_num(patches.images))
    valid = torch.from_numpy(np.isfinite(patches.images).all(-1))
    shown, hidden = (
        torch.from_numpy(patches.label_images(class_index, rows)) for rows in (~held_out, held_out)
    )
    return PatchBatch(spectra, valid, shown), PatchBatch(spectra, valid, hidden)


def _rows(batch: PatchBatch, rows: Tensor, device: torch.device | str) -> PatchBatch:
    """Some patches, on a device: all of them need not fit there."""
    return moved(PatchBatch(batch.spectra[rows], batch.valid[rows], batch.class_index[rows]), device)


def _turned(batch: PatchBatch, way: int) -> PatchBatch:
    """The patches seen in one of eight ways: turned by quarters, and mirrored from the fourth on."""
    parts = (batch.spectra, batch.valid, batch.class_index)
    turned = [torch.rot90(part, way % 4, (1, 2)) for part in parts]
    return PatchBatch(*(part.flip(1) if way >= 4 else part for part in turned))


@torch.no_grad()
def _at_labels(network: FineGrainedUNet, batch: PatchBatch) -> tuple[Tensor, Tensor]:
    """Logits (labelled pixels, classes) and misfit (labelled pixels,), on the CPU."""
    logits, misfits = [], []
    labelled = (batch.class_index >= 0).flatten(1).any(1).nonzero().squeeze(1)
    for rows in torch.split(labelled, _BATCH):
        part = _rows(batch, rows, next(network.parameters()).device)
        found, neighbourhood = network(network.spectral(part.spectra) * part.valid[..., None])
        known = part.class_index >= 0
        logits.append(found[known])
        misfits.append(network.misfit(part.spectra[known], neighbourhood[known]))
    return torch.cat(logits).cpu(), torch.cat(misfits).cpu()
