"""What every mapping command does once it knows how to turn spectra into maps."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from p3vae.cli.console import RichProgress, note
from p3vae.cli.errors import P3vaeError, ProductError, UsageError
from p3vae.cli.rasters.files import MapSpec
from p3vae.cli.rasters.grids import bbox_window, whole
from p3vae.cli.records.manifest import Provenance, command_line
from p3vae.cli.records.resume import done_run, hashed_files, named_products, same_products
from p3vae.cli.records.stac import collection_name, require_pystac
from p3vae.cli.records.stac_collection import write_collection
from p3vae.cli.records.staging import require_free, writing
from p3vae.cli.records.transactions import finish_dead_run
from p3vae.cli.run.lists import OnError, Shard, expand_scenes
from p3vae.cli.run.make import AfterMaps, RunOptions, RunSummary, make_products
from p3vae.cli.run.naming import NameTemplate
from p3vae.cli.run.outcomes import Outcome, failed
from p3vae.cli.run.pipeline import PixelFunction
from p3vae.cli.scenes import Scene, SceneOptions, open_scene, scene_files
from p3vae.cli.scenes.base import reading
from p3vae.cli.scenes.identity import identify
from p3vae.cli.scenes.inputs import declared_inputs, require_no_input
from p3vae.cli.scenes.masking import masked


@dataclass(frozen=True)
class Plan:
    """How one scene becomes maps."""

    function: PixelFunction
    specs: Mapping[str, MapSpec]
    """The maps that `function` returns, by name."""
    model_sha256: str | None = None
    settings: Mapping[str, Any] | None = None
    """What decides the result, for the manifest."""
    halo: int = 0
    """How far `function` looks at neighbours [pixels]."""
    results: Callable[[], Mapping[str, Any]] = dict
    """What is known once every pixel is mapped, for the manifest and JSON."""
    after: AfterMaps | None = None
    """Work on the finished maps."""
    more: Sequence[str] = ()
    """Ends of the names of the files that `after` makes."""
    tile_size: int | None = None
    """Side of tiles that suits `function`, unless the user gives one or a limit of memory."""
    last: Callable[[], None] | None = None
    """What is left to do when all products are in place."""


Planner = Callable[[Scene], Plan]


class Job:
    """A mapping command with its options: small, immutable, and sent to other processes."""

    command: ClassVar[str]
    bytes_per_pixel: ClassVar[int]
    """Of all products, before compression, for an estimate."""
    seconds_per_scene: ClassVar[float] = 0.1
    """Of one core, for a scene however small."""

    @property
    def values_per_second(self) -> float:
        """Pixels times bands that one core maps, for an estimate; measured by `benchmarks/archive.py`."""
        raise NotImplementedError

    @property
    def made(self) -> tuple[str, ...]:
        """Ends of the names of all products, if they should be free before a plan, which may take long."""
        return ()

    @property
    def kept(self) -> Path | None:
        """A file elsewhere that is written last, by a call with one scene."""
        return None

    def request(self) -> dict[str, Any]:
        """All options that decide the result; paths stand for the content of their files."""
        raise NotImplementedError

    def planner(self) -> Planner:
        """Load the model, if there is one; the result makes a plan for each scene."""
        raise NotImplementedError

    @property
    def land_cover_model(self) -> Path | None:
        """The model that a report should show, if the user named one."""
        return None

    @property
    def remark(self) -> str:
        """What the user should know beside the maps; "" for nothing."""
        return ""

    def for_worker(self, number: int) -> Job:
        """The same job for one of several processes, counted from 0."""
        return self

    def after_batch(self, home: Path, folders: Sequence[Path], *, several: bool) -> Sequence[str]:
        """Work on the products of all scenes, which lie in `folders`; lines for the report."""
        return ()


@dataclass(frozen=True)
class OutputOptions:
    """Where products go, which scenes are mapped again, and how much is said about them."""

    destination: Path | None
    """Folder, or the raster itself if there is one only; None is beside the scene."""
    mask: Path | None
    run: RunOptions
    on_error: OnError
    show_progress: bool | None
    quiet: bool
    as_json: bool
    template: NameTemplate | None = None
    """Folders and first part of the products' names; None is the scene's own name."""
    resume: bool | None = None
    """Whether scenes that are done are skipped; None is: unless products may be replaced."""
    jobs: int = 1
    """Processes side by side."""
    scheduler: str | None = None
    """Address of a Dask scheduler, on whose workers scenes are mapped."""
    worker_patience_s: float = 60.0
    """How long to wait while it has no worker [s]."""
    shard: Shard | None = None
    null: bool = False
    """Whether names in lists end with a zero byte."""
    log_file: Path | None = None
    stac: bool = False
    """Whether each scene gets a STAC item, and all together a collection."""
    dry_run: bool = False
    report: bool = False
    """Whether a page about the folder is written at the end."""
    qgis: bool = False
    """Whether a QGIS project of the folder is written at the end."""

    def target_of(self, scene: Path) -> tuple[Path, str]:
        """Where the products of a scene go (or the raster itself), and the first part of their names."""
        folder = self.destination or scene.parent
        return (folder, scene.stem) if self.template is None else self.template.target(folder, scene)

    def manifest_of(self, scene: Path) -> Path:
        """The record of a scene's runs."""
        folder, stem = self.target_of(scene)
        if folder.suffix.lower() in {".tif", ".tiff"}:
            return folder.with_name(f"{folder.stem}_p3vae.json")
        return folder / f"{stem}_p3vae.json"

    def collection_folder_of(self, scene: Path) -> Path:
        """Where the STAC collection lies to which a scene's item belongs."""
        if self.destination is None:
            return scene.parent
        is_file = self.destination.suffix.lower() in {".tif", ".tiff"}
        return self.destination.parent if is_file else self.destination

    @property
    def shows_progress(self) -> bool | None:
        """None is: if stderr is a terminal."""
        return False if self.quiet else self.show_progress

    @property
    def skips_done(self) -> bool:
        """See `resume`."""
        return not self.run.overwrite if self.resume is None else self.resume


@dataclass(frozen=True)
class SceneTask:
    """What is done with each scene, here or in another process."""

    job: Job
    scene_options: SceneOptions
    outputs: OutputOptions
    request: Mapping[str, Any]
    """What decides the products, JSON-like."""
    command: str = field(default_factory=command_line)
    """As it was typed: another process that does the work was started by other words."""

    def __call__(self, path: Path, label: str = "") -> Outcome:
        """Map a scene, unless that is done; whatever goes wrong is part of the outcome."""
        try:
            done = self._done(path)
            if done is not None:
                return done
            if self.outputs.dry_run:
                return self._estimate(path)
            try:
                plan = _planner(self.job)
            except P3vaeError as error:
                return Outcome(path, "failed", error=error, fatal=True)
            summary = self._map(path, plan, label or path.name)
            return Outcome(path, "done", _record(summary), summary)
        except BaseException as error:
            return failed(path, error)

    def _done(self, path: Path) -> Outcome | None:
        """Whether there is nothing to do; finishes what a killed run had nearly done."""
        manifest = self.outputs.manifest_of(path)
        if not self.outputs.dry_run:
            with writing(manifest.parent):
                finish_dead_run(manifest.parent, manifest.name)
        overwrite = self.outputs.run.overwrite
        if self.outputs.skips_done and manifest.is_file():
            with reading(path):
                files = identify(scene_files(path))
            version = importlib.metadata.version("p3vae")
            done = done_run(manifest, self.request, version, files, replace=overwrite)
            if done is not None and self._kept(replaceable=overwrite):
                return Outcome(path, "skipped", {"manifest": str(manifest), "products": done.products})
        folder, stem = self.outputs.target_of(path)
        for end in self.job.made:
            require_free(folder / f"{stem}_{end}", overwrite=overwrite, inputs=self.outputs.run.inputs)
        return None

    def _kept(self, *, replaceable: bool) -> bool:
        """Whether the run that made the products went on to write what is kept elsewhere."""
        kept = self.job.kept
        if kept is None or kept.exists():
            return True
        if replaceable:
            return False
        raise ProductError(
            "was not written by the run that made the maps", path=kept, remedy="use --overwrite to repeat it"
        )

    def _map(self, path: Path, plan: Planner, label: str) -> RunSummary:
        folder, stem = self.outputs.target_of(path)
        collected = self.outputs.collection_folder_of(path) / collection_name(self.job.command)
        options = replace(self.outputs.run, stem=stem, collection=collected if self.outputs.stac else None)
        with open_scene(path, self.scene_options) as opened:
            scene = masked(opened, self.outputs.mask) if self.outputs.mask else opened
            planned = plan(scene)
            if options.tile_size is None and options.mem_limit is None:
                options = replace(options, tile_size=planned.tile_size)
            summary = make_products(
                scene,
                planned.function,
                planned.specs,
                folder,
                halo=planned.halo,
                options=replace(options, replaceable=self._replaceable(path)),
                progress=RichProgress(label, show=self.outputs.shows_progress),
                provenance=Provenance(
                    command=self.command,
                    model_sha256=planned.model_sha256,
                    settings=planned.settings or {},
                    request=self.request,
                    results=planned.results,
                ),
                after=planned.after,
                more=planned.more,
            )
        if planned.last is not None:
            planned.last()
        found = summary.findings
        return replace(summary, findings=replace(found, record={**planned.results(), **found.record}))

    def _replaceable(self, path: Path) -> frozenset[str]:
        """Products of other commands that this one would make the same: both map the light."""
        version = importlib.metadata.version("p3vae")
        with reading(path):
            files = identify(scene_files(path))
        return same_products(self.outputs.manifest_of(path), self.request, version, files)

    def _estimate(self, path: Path) -> Outcome:
        run = self.outputs.run
        with open_scene(path, self.scene_options) as scene:
            area = bbox_window(scene.grid, run.bbox, run.bbox_crs) if run.bbox else whole(scene.grid)
            values = area.pixels * len(scene.bands)
        size = area.pixels * self.job.bytes_per_pixel
        seconds = self.job.seconds_per_scene + values / self.job.values_per_second
        return Outcome(
            path, "to do", {"pixels": area.pixels, "estimated_bytes": size, "estimated_seconds": seconds}
        )


@lru_cache(maxsize=1)
def _planner(job: Job) -> Planner:
    """One model per process, however many scenes."""
    return job.planner()


def scene_task(
    job: Job, paths: Sequence[Path], scene_options: SceneOptions, outputs: OutputOptions
) -> SceneTask:
    """The task of a call: its inputs are never replaced, its request is known by the files' content."""
    run = outputs.run
    inputs = (*paths, *declared_inputs(), *([outputs.mask] if outputs.mask else []))
    asked = {
        "command": job.command,
        **job.request(),
        "scene_options": asdict(scene_options),
        "mask": outputs.mask,
        "bbox": run.bbox,
        "bbox_crs": run.bbox_crs,
        "to_utm": run.to_utm,
        "pixel_size": run.pixel_size,
        "creation_options": run.creation_options,
        **({"stac": True} if outputs.stac else {}),
    }
    return SceneTask(
        job, scene_options, replace(outputs, run=replace(run, inputs=inputs)), hashed_files(asked)
    )


def map_scenes(scenes: Sequence[str], scene_options: SceneOptions, outputs: OutputOptions, job: Job) -> None:
    """Map each scene that is not done yet and report what became of it."""
    from p3vae.cli.run.after_run import common_folder, require_replaceable, write_pages
    from p3vae.cli.run.executors import outcomes_of
    from p3vae.cli.run.reporting import Reporter

    if outputs.stac:
        require_pystac()
    every = expand_scenes(scenes, null=outputs.null)
    require_products_of_their_own(every, outputs)
    if job.kept is not None and len(every) > 1:
        raise UsageError(f"{job.kept} can be made of one scene, and there are {len(every)}")
    for kept in (outputs.log_file, job.kept):
        if kept is not None:
            require_no_input(kept, every)  # those of a list on stdin are known now
    paths = outputs.shard.of(every) if outputs.shard else every
    folder = common_folder(every, outputs)
    require_replaceable(folder, outputs)
    task = scene_task(job, every, scene_options, outputs)
    with (
        Reporter(job.command, paths, outputs) as reporter,
        closing(outcomes_of(task, paths)) as outcomes,
    ):
        for outcome in outcomes:
            reporter.add(outcome)
            if outcome.fatal or (outcome.error and outputs.on_error == "stop"):
                break
    if outputs.stac and not outputs.dry_run:
        for place in sorted({outputs.collection_folder_of(path) for path in paths}):
            if place.is_dir():
                write_collection(place, job.command)
    if not outputs.dry_run:
        _after_batch(job, every, folder, outputs)
    if reporter.any_products and job.remark and not outputs.quiet:
        note(job.remark)
    if reporter.any_products and not outputs.dry_run:
        write_pages(folder, outputs, job.land_cover_model)
    reporter.raise_failures()


def _after_batch(job: Job, paths: Sequence[Path], home: Path, outputs: OutputOptions) -> None:
    """What belongs to all scenes goes to `home`, unless their products lie beside them in several folders."""
    folders = sorted({outputs.target_of(path)[0] for path in paths})
    if (outputs.destination is None and len(folders) > 1) or not home.is_dir():
        return
    for line in job.after_batch(home, folders, several=len(paths) > 1):
        if not outputs.quiet:
            note(line)


def require_products_of_their_own(paths: Sequence[Path], outputs: OutputOptions) -> None:
    """Scenes of one name would replace each other's products."""
    destination = outputs.destination
    if len(paths) > 1 and destination is not None and destination.suffix.lower() in {".tif", ".tiff"}:
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


def _record(summary: RunSummary) -> dict[str, Any]:
    folder = summary.manifest.parent
    made = {product.spec.suffix: str(product.path) for product in summary.products}
    others = {name: str(folder / name) for name in (str(p["file"]) for p in summary.findings.products)}
    return {
        "products": made | named_products(others, summary.manifest),
        "classes": {
            product.spec.suffix: [asdict(extent) for extent in product.classes]
            for product in summary.products
            if product.classes
        },
        "manifest": str(summary.manifest),
        "pixels": summary.pixels,
        "valid_pixels": summary.valid_pixels,
        "seconds": round(summary.seconds, 3),
        **summary.findings.record,
    }
