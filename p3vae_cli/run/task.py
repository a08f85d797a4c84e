"""What is done with one scene of a call, here or in another process."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from p3vae.cli.console import RichProgress, StepProgress
from p3vae.cli.errors import P3vaeError, ProductError
from p3vae.cli.rasters.files import gdal_environment
from p3vae.cli.records.manifest import Provenance, command_line
from p3vae.cli.records.resume import done_run, hashed_files, named_products, same_products
from p3vae.cli.records.stac import collection_name
from p3vae.cli.records.staging import require_folder, require_free, writing
from p3vae.cli.records.transactions import finish_dead_run
from p3vae.cli.run.after_run import more_files
from p3vae.cli.run.make import Target, make_products, mapped_area
from p3vae.cli.run.maps import MapFiles
from p3vae.cli.run.outcomes import Outcome, Shown, failed
from p3vae.cli.run.settings import MappingSettings, OutputSettings
from p3vae.cli.scenes.base import Scene, reading
from p3vae.cli.scenes.identity import identify
from p3vae.cli.scenes.inputs import declared_inputs
from p3vae.cli.scenes.masking import masked
from p3vae.cli.scenes.opening import open_scene, scene_files
from p3vae.cli.scenes.settings import SceneSettings


@dataclass(frozen=True)
class SceneTask:
    """Map a scene as a call asks for it."""

    settings: MappingSettings
    scene_settings: SceneSettings
    outputs: OutputSettings
    request: Mapping[str, Any]
    """What decides the products, JSON-like."""
    inputs: tuple[Path, ...]
    """Files that no product may replace."""
    command: str = field(default_factory=command_line)
    """As it was typed: another process that does the work was started by other words."""

    @classmethod
    def of(
        cls,
        settings: MappingSettings,
        scenes: Sequence[Path],
        scene_settings: SceneSettings,
        outputs: OutputSettings,
    ) -> SceneTask:
        """The task of a call: its request is known by the files' content."""
        asked = {
            "command": settings.command,
            **settings.request(),
            "scene_options": scene_settings.request(),
            **outputs.request(),
            **({"stac": True} if outputs.stac else {}),
        }
        inputs = (*scenes, *declared_inputs(), *([outputs.mask] if outputs.mask else []))
        return cls(settings, scene_settings, outputs, hashed_files(asked), inputs)

    def done(self, path: Path) -> Outcome | None:
        """The outcome of a scene for which there is nothing to do, or whose earlier run is in the way."""
        try:
            return self._done(path)
        except BaseException as error:
            return failed(path, error)

    def __call__(self, path: Path, label: str = "") -> Outcome:
        """Map a scene, unless that is done; whatever goes wrong is part of the outcome."""
        done = self.done(path)
        if done is not None:
            return done
        try:
            try:
                self.settings.load()
            except P3vaeError as error:
                return Outcome(path, "failed", error=error, fatal=True)
            if self.outputs.dry_run:
                return self._estimate(path)
            return self._map(path, label or path.name)
        except BaseException as error:
            return failed(path, error)

    def _done(self, path: Path) -> Outcome | None:
        """Whether there is nothing to do; finishes what a killed run had nearly done."""
        manifest = self.outputs.manifest_of(path)
        if not self.outputs.dry_run:
            with writing(manifest.parent):
                finish_dead_run(manifest.parent, manifest.name)
        if not (self.outputs.skips_done and manifest.is_file()):
            return None
        with reading(path):
            files = identify(scene_files(path))
        overwrite, version = self.outputs.overwrite, importlib.metadata.version("p3vae")
        done = done_run(manifest, self.request, version, files, replace=overwrite)
        if done is None or not self._kept(replaceable=overwrite):
            return None
        return Outcome(path, "skipped", {"manifest": str(manifest), "products": done.products})

    def _kept(self, *, replaceable: bool) -> bool:
        """Whether the run that made the products went on to write what is kept elsewhere."""
        kept = self.settings.kept
        if kept is None or kept.exists():
            return True
        if replaceable:
            return False
        raise ProductError(
            "was not written by the run that made the maps", path=kept, remedy="use --overwrite to repeat it"
        )

    def _map(self, path: Path, label: str) -> Outcome:
        folder, stem = self.outputs.target_of(path)
        collected = self.outputs.collection_folder_of(path) / collection_name(self.settings.command)
        target = Target(
            folder, stem, self.inputs, self._replaceable(path), collected if self.outputs.stac else None
        )
        shown = self.outputs.shows_progress
        with open_scene(path, self.scene_settings) as opened:
            scene = masked(opened, self.outputs.mask) if self.outputs.mask else opened
            mapper = self.settings.mapper(scene)
            require_keepable(self.settings, scene, overwrite=self.outputs.overwrite)
            with StepProgress("learning from the scene", show=shown) as steps:
                maps = make_products(
                    scene,
                    mapper,
                    target,
                    self.outputs,
                    provenance=Provenance(self.command, self.request),
                    progress=RichProgress(label, show=shown),
                    steps=steps.step,
                )
        return Outcome(path, "done", _record(maps, mapper.results), _shown(maps))

    def _replaceable(self, path: Path) -> frozenset[str]:
        """Products of other commands that this one would make the same: both map the light."""
        version = importlib.metadata.version("p3vae")
        with reading(path):
            files = identify(scene_files(path))
        manifest = self.outputs.manifest_of(path)
        return same_products(manifest, self.request, self.settings.additions(), version, files)

    def _estimate(self, path: Path) -> Outcome:
        """What a run would write and how long it would take."""
        with gdal_environment(), open_scene(path, self.scene_settings) as scene:
            area = mapped_area(scene, self.outputs)
            mapper = self.settings.mapper(scene)
            values = area.pixels * len(scene.bands)
        folder, stem = self.outputs.target_of(path)
        names = Target(folder, stem).names(mapper)
        more = sum(end.endswith(".tif") for end in mapper.files)  # class maps, a byte a pixel
        size = area.pixels * (sum(spec.bytes_per_pixel for spec in mapper.specs.values()) + more)
        pages, bytes_of_pages = more_files(self.outputs, len(mapper.specs), area.pixels)
        names, size = names + pages, size + bytes_of_pages
        seconds = self.settings.seconds_per_scene + values / self.settings.values_per_second
        estimate = {"pixels": area.pixels, "estimated_bytes": size, "estimated_seconds": seconds}
        return Outcome(path, "to do", estimate | {"files": names})


def require_keepable(settings: MappingSettings, scene: Scene, *, overwrite: bool) -> None:
    """Refuse a file to keep that cannot be written, before the work."""
    if settings.kept is not None:
        require_free(settings.kept, overwrite=overwrite, inputs=(scene.path,))
        require_folder(settings.kept.parent)


def _shown(maps: MapFiles) -> Shown:
    folder = maps.manifest.parent
    files = [str(folder / record["file"]) for record in maps.added]
    return Shown(maps.made, folder, [*files, *maps.lines], maps.pixels, maps.seconds)


def _record(maps: MapFiles, results: Mapping[str, Any]) -> dict[str, Any]:
    folder = maps.manifest.parent
    made = {maps.specs[name].suffix: str(path) for name, path in maps.paths.items()}
    others = {name: str(folder / name) for name in (str(record["file"]) for record in maps.added)}
    return {
        "products": made | named_products(others, maps.manifest),
        "classes": {
            maps.specs[name].suffix: [asdict(extent) for extent in extents]
            for name, extents in maps.classes.items()
        },
        "manifest": str(maps.manifest),
        "pixels": maps.pixels,
        "valid_pixels": maps.valid_pixels,
        "seconds": round(maps.seconds, 3),
        **results,
        **maps.record,
    }


def quiet(task: SceneTask) -> SceneTask:
    """The same task without progress, for other processes."""
    return replace(task, outputs=replace(task.outputs, show_progress=False))
