"""`p3vae train` from end to end: scenes and labels in, a model file out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from p3vae.cli.class_colours import class_colours
from p3vae.cli.colours import rgb_colour
from p3vae.cli.console import note
from p3vae.cli.errors import LabelError, P3vaeError, ProductError, SceneError, UsageError
from p3vae.cli.labels import (
    LabelClass,
    LabelledPixels,
    NoLabelOnSceneError,
    Samples,
    draw_samples,
    label_files,
    read_labels,
)
from p3vae.cli.labels.colour_files import read_colours
from p3vae.cli.labels.patches import with_patches
from p3vae.cli.labels.quality import usable_bands
from p3vae.cli.labels.scene_pixels import scene_pixels
from p3vae.cli.labels.surroundings import with_surroundings
from p3vae.cli.landcover.cover import require_cover
from p3vae.cli.landcover.doubtful import GROUPS_PER_SCENE, require_place, save_doubtful
from p3vae.cli.landcover.irradiance import scene_irradiance
from p3vae.cli.landcover.scene_state import FEWEST_PIXELS
from p3vae.cli.landcover.terrain import SceneTerrain, require_takes_terrain
from p3vae.cli.landcover.train_report import TrainingProgress
from p3vae.cli.landcover.train_settings import TrainSettings
from p3vae.cli.records.manifest import sha256
from p3vae.cli.records.staging import require_folder, require_free, writing
from p3vae.cli.run.fitness import fit_bands, require_land_cover
from p3vae.cli.run.model_files import find_model, load_land_cover, resolve_device
from p3vae.cli.scenes.base import Scene, reading
from p3vae.cli.scenes.opening import open_scene, scene_files
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.signals import stop_on_signals
from p3vae.models.landcover.usable import bright
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands

if TYPE_CHECKING:
    from p3vae.models.landcover.library.transfer import PriorModel
    from p3vae.models.landcover.model import LandCoverModel
    from p3vae.models.landcover.types import (
        ClassLegend,
        EpochReport,
        TrainingSet,
        TrainingState,
    )

SAME_SUN_DEG = 3.0
"""Scenes whose sun zeniths differ by less are trained on together [degree]."""


def train(request: TrainSettings, scene_options: SceneSettings) -> LandCoverModel:
    """Train a land-cover model and write it, with a checkpoint after every epoch."""
    from p3vae.models.checkpoint import ModelFormatError, load_state, save_state
    from p3vae.models.landcover.model import save_model
    from p3vae.models.landcover.train import train_land_cover
    from p3vae.models.landcover.types import TrainingError

    _require_free(request)
    if request.doubtful is not None:
        require_place(request.scenes, scene_options)
    device = resolve_device(request.device)
    source = prior_source(request)
    checkpoint = checkpoint_path(request.output)
    try:
        state = load_state(checkpoint) if request.resume and checkpoint.exists() else None
        with (
            stop_on_signals("run it again with --resume", once_checked=True) as check,
            TrainingProgress(show=request.show_progress) as progress,
        ):
            progress.step("reading scenes and labels")
            training_set, bands, irradiance, legend = gather(request, scene_options)
            prior = prior_model(source, request, legend)
            settings = request.estimator
            if request.prior is not None:
                settings = replace(settings, prior=find_model(request.prior).stem)

            def keep(latest: TrainingState) -> None:
                with writing(checkpoint):
                    save_state(checkpoint, latest)
                check()

            def show(epoch: EpochReport) -> None:
                progress.epoch(epoch)
                check()

            model = train_land_cover(
                training_set,
                bands,
                irradiance,
                legend,
                settings,
                on_epoch=show,
                resume_from=state,
                save_state=keep,
                device=device,
                prior=prior,
            )
            progress.step("hashing scenes and labels")
            model = replace(model, sources=tuple(training_sources(request)))
    except ModelFormatError as error:
        raise P3vaeError(str(error), remedy="--overwrite, without --resume, starts anew") from error
    except TrainingError as error:
        raise P3vaeError(str(error), path=request.output) from error
    with writing(request.output):
        save_model(request.output, model)
    checkpoint.unlink(missing_ok=True)
    if request.doubtful is not None:
        save_doubtful(request.doubtful, request, scene_options, model.summary.doubtful)
    if prior is not None:
        _say_matches(prior, legend, str(request.prior))
    return model


def training_sources(request: TrainSettings) -> list[dict[str, str]]:
    """Role, name and SHA-256 of every file that a model is trained on: scenes, then labels."""
    files = [("scene", file) for path in request.scenes for file in scene_files(path)]
    files += [("labels", file) for file in label_files(request.labels)]
    if request.prior is not None:
        files.append(("prior", find_model(request.prior)))
    files += [("terrain", file) for file in (request.terrain.dem, request.terrain.incidence) if file]
    return [{"role": role, "name": file.name, "sha256": _digest(file)} for role, file in files]


def prior_source(request: TrainSettings) -> LandCoverModel | None:
    """The model that --from names, checked before any scene is read."""
    aliases = [_alias(text) for text in request.alias]
    if request.prior is None:
        if aliases:
            raise UsageError("--alias says how names of a model match", remedy="give that model with --from")
        return None
    model = load_land_cover(request.prior, "cpu")
    require_cover(model, "--from", find_model(request.prior).name)
    return model


def prior_model(
    source: LandCoverModel | None, request: TrainSettings, legend: ClassLegend
) -> PriorModel | None:
    """The prior of the classes, and what its names are to theirs."""
    from p3vae.models.landcover.library.transfer import PriorModel, matched_names

    if source is None:
        return None
    alias = dict(_alias(text) for text in request.alias)
    return PriorModel(source, matched_names(source, legend.names, alias))


def _say_matches(prior: PriorModel, legend: ClassLegend, name: str) -> None:
    unnamed = [one for one in legend.names if one not in prior.matches]
    said = [f"{own} is its {known}" for own, known in prior.matches.items()]
    said += [f"{', '.join(unnamed)} may be any of its materials (--alias says which)"] if unnamed else []
    note(f"{name}: {'; '.join(said)}")


def _alias(text: str) -> tuple[str, str]:
    """Class of the labels and name in the library, of `CLASS=NAME`."""
    own, equals, name = (part.strip() for part in text.partition("="))
    if not (own and equals and name):
        raise UsageError(f"--alias {text!r} is not CLASS=NAME", remedy="for instance --alias lawn=grass")
    return own, name


def _digest(file: Path) -> str:
    with reading(file):
        return sha256(file)


def checkpoint_path(output: Path) -> Path:
    """Where an unfinished training is kept."""
    return output.with_name(output.name + ".checkpoint")


def _require_free(request: TrainSettings) -> None:
    """Say at once what would only fail after minutes of training."""
    for path in (request.output, request.doubtful):
        if path is not None:
            require_free(path, overwrite=request.overwrite, inputs=(*request.scenes, request.labels))
    with writing(request.output):
        request.output.parent.mkdir(parents=True, exist_ok=True)
    require_folder(request.output.parent)
    if checkpoint_path(request.output).exists() and not (request.resume or request.overwrite):
        raise ProductError(
            "an unfinished training is there",
            path=checkpoint_path(request.output),
            remedy="--resume or --overwrite",
        )


@dataclass(frozen=True, eq=False)
class _Drawn:
    """What one scene contributes, at the model's bands."""

    samples: Samples
    irradiance: SpectralIrradiance
    pixels: npt.NDArray[np.float32]
    """By which other scenes are compared with this one, (pixels, bands)."""


def gather(
    request: TrainSettings, scene_options: SceneSettings
) -> tuple[TrainingSet, Bands, SpectralIrradiance, ClassLegend]:
    """Spectra, irradiance and classes of all scenes together, at the good bands of the first one."""
    from p3vae.models.landcover.registry import estimator_type, learns_from_images, may_average_neighbours

    given = {} if request.colours is None else read_colours(request.colours)
    parts: list[_Drawn] = []
    bands: Bands | None = None
    said: set[str] = set()
    require_takes_terrain(estimator_type(request.estimator), request.terrain, request.model)
    for path in request.scenes:
        with open_scene(path, scene_options) as scene:
            require_land_cover(scene)
            samples = _scene_samples(scene, request, said)
            bands = bands or usable_bands(scene.bands, samples, scene.path)
            adapter = fit_bands(scene, bands, request.scenes[0].name)
            samples = _without_dark(
                replace(samples, spectra=adapter(samples.spectra), unlabelled=adapter(samples.unlabelled))
            )
            if may_average_neighbours(request.estimator):
                samples = with_surroundings(
                    scene, samples, adapter, scenes=len(request.scenes), seed=request.seed
                )
            if learns_from_images(request.estimator):
                samples = with_patches(
                    scene,
                    samples,
                    adapter,
                    unlabelled=request.unlabelled // len(request.scenes),
                    scenes=len(request.scenes),
                    seed=request.seed,
                )
            irradiance = scene_irradiance(scene, bands, request.irradiance)
            terrain = SceneTerrain.of(scene, request.terrain)
            if terrain is not None:
                place = samples.pixels.row, samples.pixels.col
                samples = replace(samples, flat=terrain.flat(samples.spectra, *place, irradiance))
            parts.append(_Drawn(samples, irradiance, scene_pixels(scene, adapter)))
    assert bands is not None
    _require_one_sun(request.scenes, [part.irradiance for part in parts])
    training_set, legend = _merge([part.samples for part in parts], request.labels, given)
    scenes = tuple(part.pixels for part in parts if len(part.pixels) >= FEWEST_PIXELS)
    return replace(training_set, scenes=scenes), bands, parts[0].irradiance, legend


def _scene_samples(scene: Scene, request: TrainSettings, said: set[str]) -> Samples:
    """Samples of one scene; notes in `said` are not repeated, others are added to it."""
    try:
        pixels = read_labels(
            request.labels, scene.grid, class_field=request.class_field, class_names=request.class_names
        )
    except NoLabelOnSceneError:
        if len(request.scenes) == 1:
            raise
        note(f"{scene.path}: no label falls on it; its pixels serve as unlabelled")
        pixels = LabelledPixels.none()
    for text in pixels.notes:
        if text not in said:
            note(f"{request.labels}: {text}")
            said.add(text)
    return draw_samples(
        scene,
        pixels,
        per_class=request.samples_per_class,
        unlabelled=request.unlabelled // len(request.scenes),
        seed=request.seed,
    )


def _without_dark(samples: Samples) -> Samples:
    shown = np.flatnonzero(bright(samples.spectra))
    pixels = samples.pixels.subset(shown, "all that were drawn are black in the scene")
    return replace(samples, spectra=samples.spectra[shown], pixels=pixels)


def _require_one_sun(scenes: Sequence[Path], irradiances: Sequence[SpectralIrradiance]) -> None:
    zeniths = [irradiance.sun_zenith_deg for irradiance in irradiances]
    if max(zeniths) - min(zeniths) > SAME_SUN_DEG:
        odd = scenes[int(np.argmax(np.abs(np.subtract(zeniths, zeniths[0]))))]
        raise SceneError(
            f"its sun is more than {SAME_SUN_DEG:g} degrees from that of {scenes[0].name}",
            path=odd,
            remedy="train on scenes of one sun; the model can be applied under any other",
        )


def _merge(
    parts: Sequence[Samples], labels: Path, given: Mapping[str, str]
) -> tuple[TrainingSet, ClassLegend]:
    from p3vae.cli.labels import surroundings
    from p3vae.models.landcover.patches import joined
    from p3vae.models.landcover.types import ClassLegend, TrainingSet

    patches = [part.patches for part in parts if part.patches is not None]
    around = [part.around for part in parts if part.around is not None]
    flat = [part.flat for part in parts if part.flat is not None]
    classes = sorted({entry.id: entry for part in parts for entry in part.pixels.classes}.items())
    lost = _lost_classes(parts, {id_ for id_, _ in classes})
    if len(classes) < 2:
        found = "1 class has" if classes else "no class has"
        raise LabelError(
            "; ".join([f"{found} labelled pixels in the scene", *lost]),
            path=labels,
            remedy="at least two are needed",
        )
    for text in lost:
        note(f"{labels}: {text}; the model is trained without")
    index = {id_: position for position, (id_, _) in enumerate(classes)}
    groups = [part.pixels.group + number * GROUPS_PER_SCENE for number, part in enumerate(parts)]
    training_set = TrainingSet(
        spectra=np.concatenate([part.spectra for part in parts]),
        class_index=np.array([index[id_] for part in parts for id_ in part.pixels.class_id.tolist()]),
        group=np.concatenate(groups),
        unlabelled=np.concatenate([part.unlabelled for part in parts]),
        patches=joined(patches) if patches else None,
        around=surroundings.joined(around) if around else None,
        flat=np.concatenate(flat) if flat else None,
    )
    entries = [entry for _, entry in classes]
    own: dict[str, str | None] = {entry.name: entry.colour for entry in entries}
    colours = class_colours([entry.name for entry in entries], {**own, **given})
    legend = ClassLegend(
        ids=tuple(entry.id for entry in entries),
        names=tuple(entry.name for entry in entries),
        colours=tuple(rgb_colour(colour) for colour in colours),
    )
    return training_set, legend


def _lost_classes(parts: Sequence[Samples], kept: set[int]) -> list[str]:
    """Per reason, which classes of the labels have no pixel in any scene."""
    reasons: dict[LabelClass, list[str]] = {}
    for part in parts:
        for entry, reason in part.pixels.lost.items():
            if entry.id not in kept and reason not in reasons.setdefault(entry, []):
                reasons[entry].append(reason)
    names: dict[str, list[str]] = {}
    for entry in sorted(reasons, key=lambda entry: entry.id):
        names.setdefault(", ".join(reasons[entry]), []).append(entry.name)
    return [f"no usable pixel of {', '.join(which)}: {reason}" for reason, which in names.items()]
