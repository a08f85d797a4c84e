"""A call of a mapping command: each of its scenes, and what is made of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from p3vae.cli.console import note
from p3vae.cli.errors import UsageError
from p3vae.cli.records.stac import require_pystac
from p3vae.cli.records.stac_collection import write_collection
from p3vae.cli.run.after_run import common_folder, require_replaceable, write_pages
from p3vae.cli.run.executors import outcomes_of
from p3vae.cli.run.lists import expand_scenes
from p3vae.cli.run.reporting import Reporter
from p3vae.cli.run.settings import MappingSettings, OutputSettings, is_raster
from p3vae.cli.run.task import SceneTask
from p3vae.cli.scenes.inputs import require_no_input
from p3vae.cli.scenes.settings import SceneSettings


def map_scenes(
    scenes: Sequence[str], settings: MappingSettings, scene_settings: SceneSettings, outputs: OutputSettings
) -> None:
    """Map each scene that is not done yet and report what became of it."""
    if outputs.stac:
        require_pystac()
    every = expand_scenes(scenes, null=outputs.null)
    _require_products_of_their_own(every, outputs)
    if settings.kept is not None and len(every) > 1:
        raise UsageError(f"{settings.kept} can be made of one scene, and there are {len(every)}")
    for kept in (outputs.log_file, settings.kept):
        if kept is not None:
            require_no_input(kept, every)  # those of a list on stdin are known now
    paths = outputs.shard.of(every) if outputs.shard else every
    folder = common_folder(every, outputs)
    require_replaceable(folder, outputs)
    task = SceneTask.of(settings, every, scene_settings, outputs)
    with (
        Reporter(settings.command, paths, outputs) as reporter,
        closing(outcomes_of(task, paths)) as outcomes,
    ):
        for outcome in outcomes:
            reporter.add(outcome)
            if outcome.fatal or (outcome.error and outputs.on_error == "stop"):
                break
    if not outputs.dry_run:
        _after_scenes(settings, paths, every, folder, outputs)
    if reporter.any_products and settings.remark and not outputs.quiet:
        note(settings.remark)
    if reporter.any_products and not outputs.dry_run:
        write_pages(folder, outputs, settings.shown_model)
    reporter.raise_failures()


def _after_scenes(
    settings: MappingSettings,
    paths: Sequence[Path],
    every: Sequence[Path],
    home: Path,
    outputs: OutputSettings,
) -> None:
    """What belongs to all scenes goes to `home`, unless their products lie beside them in several folders."""
    if outputs.stac:
        for place in sorted({outputs.collection_folder_of(path) for path in paths}):
            if place.is_dir():
                write_collection(place, settings.command)
    folders = sorted({outputs.target_of(path)[0] for path in every})
    if (outputs.destination is None and len(folders) > 1) or not home.is_dir():
        return
    for line in settings.after_batch(home, folders, several=len(every) > 1):
        if not outputs.quiet:
            note(line)


def _require_products_of_their_own(paths: Sequence[Path], outputs: OutputSettings) -> None:
    """Scenes of one name would replace each other's products."""
    destination = outputs.destination
    if len(paths) > 1 and destination is not None and is_raster(destination):
        raise UsageError(
            f"--output {destination} is one file and there are {len(paths)} scenes", remedy="give a folder"
        )
    seen: dict[tuple[Path, str], Path] = {}
    for path in paths:
        other = seen.setdefault(outputs.target_of(path), path)
        if other != path:
            raise UsageError(
                f"and {other} would have the same products",
                path=path,
                remedy='map them into two folders, or use --output-template "{parent}/{stem}"',
            )
