"""Training of a land-cover model: check the data, choose the folds, fit the estimator of that name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from p3vae.models.landcover.estimator import OPTIONS, Estimator
from p3vae.models.landcover.job import Job, TrainingRun, checked, data_digest, validation_polygons
from p3vae.models.landcover.model import LandCoverModel
from p3vae.models.landcover.registry import UnknownModelError, estimator_type
from p3vae.models.landcover.types import (
    ClassLegend,
    EpochReport,
    TrainingError,
    TrainingSet,
    TrainingSettings,
    TrainingState,
)
from p3vae.models.nn.threads import one_thread
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands

if TYPE_CHECKING:
    from p3vae.models.landcover.library.transfer import PriorModel


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
    prior: PriorModel | None = None,
) -> LandCoverModel:
    """Train on labelled and unlabelled spectra at `bands`; the same seed gives the same model.

    `irradiance` must be given at the same bands. `save_state` is called after every epoch; a run resumed
    from such a state ends like one that was never stopped. `prior` is the model named in `settings.prior`.
    """
    kind = _kind(settings)
    _require_supported(kind, settings)
    data = checked(training_set, bands, irradiance, legend)
    digest = data_digest(data)
    notes: dict[str, object] = {"settings": asdict(settings), "data_sha256": digest}
    run = TrainingRun(on_epoch, resume_from, save_state, notes)
    if not run.may_resume():
        raise TrainingError("the checkpoint belongs to a training with other data or settings")
    held_out, warnings = validation_polygons(data, legend, settings)
    job = Job(data, bands, irradiance, legend, settings, held_out, run, device, prior)
    with one_thread():
        estimator, summary = kind.fit(job)
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


def _kind(settings: TrainingSettings) -> type[Estimator]:
    try:
        return estimator_type(settings)
    except UnknownModelError as error:
        raise TrainingError(str(error)) from error


def _require_supported(kind: type[Estimator], settings: TrainingSettings) -> None:
    """Refuse an option that the estimator would ignore."""
    for option, problem in OPTIONS.items():
        changed = getattr(settings, option) != getattr(TrainingSettings, option)
        if changed and option not in kind.supported_options:
            name = settings.model if settings.preset == "default" else f"{settings.model} ({settings.preset})"
            raise TrainingError(f"{name} {problem}; leave that option out")
