"""Everything between an opened scene and finished products, in one call."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from p3vae.cli.console import silent_libraries
from p3vae.cli.errors import SceneError, UsageError
from p3vae.cli.rasters.areas import ClassExtent
from p3vae.cli.rasters.files import GDAL_CACHE_MB, MapSpec, RasterSink, gdal_environment
from p3vae.cli.rasters.grids import Bbox, bbox_window, subgrid, whole
from p3vae.cli.rasters.resample import SwathMap, resample, swath_map
from p3vae.cli.rasters.statistics import Statistics
from p3vae.cli.records.manifest import Provenance, manifest_document, product_record, require_ours
from p3vae.cli.records.stac import file_record, item_name, stac_item
from p3vae.cli.records.staging import Staging, require_space, writing
from p3vae.cli.run.pipeline import NoProgress, PixelFunction, Progress, run
from p3vae.cli.scenes.base import Grid, Scene
from p3vae.cli.scenes.identity import require_unchanged
from p3vae.cli.scenes.tiling import Window, tile_pixels, tile_shape, windows
from p3vae.cli.signals import stop_on_signals

_TYPICAL_RESIDENT = 400 * 2**20
"""Memory of the program before the first tile, on a system that does not report it [bytes]."""


@dataclass(frozen=True)
class Product:
    """A finished map."""

    path: Path
    spec: MapSpec
    statistics: tuple[Statistics, ...]
    """One per band."""
    classes: tuple[ClassExtent, ...] = ()
    """What each class covers; empty unless the map has categories."""


@dataclass(frozen=True)
class Findings:
    """What work on the finished maps reports."""

    lines: Sequence[str] = ()
    """For the report."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """For `--json`."""
    products: Sequence[Mapping[str, Any]] = ()
    """Records, for the manifest, of the files that it made."""
    removed: Sequence[str] = ()
    """Names of files of an earlier run that are not part of the products any more."""


@dataclass(frozen=True)
class SwathMaps:
    """The maps of a swath as they were before they came onto a map grid."""

    rasters: Mapping[str, Path]
    """By suffix; they lie in the staging folder and are gone after the run."""
    grid: Grid
    """Of the swath."""
    onto: SwathMap


@dataclass(frozen=True)
class RunSummary:
    """What a run made."""

    products: tuple[Product, ...]
    manifest: Path
    pixels: int
    valid_pixels: int
    seconds: float
    area: Window
    """The part of the scene."""
    findings: Findings = Findings()
    swath: SwathMaps | None = None
    """During the run, if its maps were brought onto a map grid."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The rasters."""
        return tuple(product.path for product in self.products)


AfterMaps = Callable[[RunSummary, Staging], Findings]
"""Work on the finished maps, which lie in the staging folder still, and into which it puts its own files."""


@dataclass(frozen=True)
class RunOptions:
    """How a run is done; nothing here changes a pixel but `bbox`."""

    overwrite: bool = False
    bbox: Bbox | None = None
    bbox_crs: str | None = None
    tile_size: int | None = None
    """Tiles of about this many pixels squared; None to choose by memory."""
    mem_limit: int | None = None
    """Of the whole process [bytes]; None for tiles of the usual size."""
    in_flight: int = 2
    inputs: tuple[Path, ...] = ()
    """Files that no product may replace; the scene is always one."""
    creation_options: Mapping[str, str] | None = None
    to_utm: bool = False
    """Put the products of a swath on a UTM grid; scenes that are maps keep their own grid."""
    pixel_size: float | None = None
    """Of that UTM grid [m]; None for the swath's own."""
    replaceable: frozenset[str] = frozenset()
    """Names of products that may be replaced without `overwrite`."""
    stem: str | None = None
    """First part of the products' names; None for that of the scene."""
    collection: Path | None = None
    """Path of the STAC collection to which an item beside the manifest belongs; None for no item."""


def product_names(
    stem: str, specs: Sequence[MapSpec], destination: Path, more: Sequence[str] = ()
) -> tuple[Path, list[str], str]:
    """Folder, names of rasters and of `more` files, and manifest name of a run.

    `destination` is a folder, or the .tif itself when there is only one map.
    """
    if destination.suffix.lower() not in {".tif", ".tiff"}:
        ends = [*(f"{spec.suffix}.tif" for spec in specs), *more]
        return destination, [f"{stem}_{end}" for end in ends], f"{stem}_p3vae.json"
    if len(specs) + len(more) != 1:
        raise UsageError(
            f"--output {destination} is one file and there are {len(specs)} maps", remedy="give a folder"
        )
    return destination.parent, [destination.name], f"{destination.stem}_p3vae.json"


def make_products(
    scene: Scene,
    function: PixelFunction,
    specs: Mapping[str, MapSpec],
    destination: Path,
    *,
    halo: int = 0,
    options: RunOptions | None = None,
    progress: Progress | None = None,
    provenance: Provenance | None = None,
    after: AfterMaps | None = None,
    more: Sequence[str] = (),
) -> RunSummary:
    """Apply `function` to every pixel of `scene` and write its maps, all of them or none.

    `specs` maps the names that `function` returns to what these maps are. `halo` is how far it looks at
    neighbours [pixels]. `after` works on the finished maps; `more` are the ends of the names of its files.
    The products, their styles and the manifest appear together at the end.
    """
    started = time.monotonic()
    options, provenance = options or RunOptions(), provenance or Provenance()
    progress = progress or NoProgress()
    stem = options.stem or scene.path.stem
    folder, names, manifest = product_names(stem, list(specs.values()), destination, more)
    inputs = (scene.path, *(file.path for file in scene.files), *options.inputs)
    item = item_name(manifest, provenance.command_name) if options.collection else None
    staging = Staging(
        folder,
        [*names, *([item] if item else [])],
        manifest,
        overwrite=options.overwrite,
        inputs=inputs,
        replaceable=options.replaceable,
    )
    require_ours(folder / manifest, overwrite=options.overwrite, inputs=inputs)
    area = bbox_window(scene.grid, options.bbox, options.bbox_crs) if options.bbox else whole(scene.grid)
    grid, origin = subgrid(scene.grid, area), (area.row, area.col)
    if options.to_utm and grid.transform is None and not grid.gcps:
        raise UsageError("a UTM grid needs a georeferenced scene", path=scene.path)
    require_space(folder, area.pixels * sum(spec.bytes_per_pixel for spec in specs.values()))
    with stop_on_signals() as check, silent_libraries(), gdal_environment(), staging, ExitStack() as cleanup:
        maker = _SinkMaker(staging, provenance.tags(scene), options, cleanup)
        named = dict(zip(specs, names, strict=False))  # after them come those of `more`
        sinks = {key: maker.open(named[key], spec, grid, origin) for key, spec in specs.items()}
        progress.begin(area.pixels)
        cleanup.callback(progress.end)
        valid = run(
            scene,
            windows(area, _tile(scene, options, halo)),
            function,
            sinks,
            progress=progress,
            in_flight=options.in_flight,
            check=check,
            around=lambda window: window.grown(halo, scene.grid.height, scene.grid.width),
        )
        sinks, swath = maker.on_map(sinks, scene, area, grid)
        warnings = _require_results(scene, valid, list(sinks.values()))
        for sink in sinks.values():
            sink.finish()
            check()
        summary = _summary(sinks, folder / manifest, area, valid, time.monotonic() - started)
        found = after(replace(summary, swath=swath), staging) if after else Findings()
        for source in swath.rasters.values() if swath else ():
            source.unlink()
        check()
        require_unchanged(scene.files)
        summary = replace(
            summary,
            seconds=time.monotonic() - started,
            findings=replace(found, lines=[*warnings, *found.lines]),
        )
        made = [product_record(staging.path(sink.name), sink) for sink in sinks.values()]
        listed = [*made, *found.products]
        if item is not None:
            listed.append(_write_item(staging, item, scene, provenance, [*sinks.values()], listed, options))
        listed = [
            {**record, "modified_ns": staging.path(record["file"]).stat().st_mtime_ns} for record in listed
        ]
        document = manifest_document(scene, provenance, listed, summary, found.removed)
        with writing(folder / manifest):
            staging.path(manifest).write_bytes(document)
        staging.commit(remove=found.removed)
    return summary


def _write_item(
    staging: Staging,
    name: str,
    scene: Scene,
    provenance: Provenance,
    sinks: Sequence[RasterSink],
    listed: Sequence[Mapping[str, Any]],
    options: RunOptions,
) -> dict[str, Any]:
    """Stage the STAC item; returns what the manifest says of it."""
    assert options.collection is not None
    with writing(staging.folder / name):
        content = stac_item(scene, provenance, sinks, listed, staging.folder / name, options.collection)
        staging.path(name).write_bytes(content)
        return file_record(staging.path(name))


def _summary(
    sinks: Mapping[str, RasterSink], manifest: Path, area: Window, valid: int, seconds: float
) -> RunSummary:
    products = tuple(
        Product(sink.final, sink.spec, tuple(sink.statistics), sink.classes) for sink in sinks.values()
    )
    return RunSummary(products, manifest, area.pixels, valid, seconds, area)


def _require_results(scene: Scene, valid: int, sinks: Sequence[RasterSink]) -> list[str]:
    """Refuse maps without any value; names of those that have none beside others that do."""
    if not valid:
        raise SceneError(
            "no pixel has a valid value in every good band",
            path=scene.path,
            remedy="check --nodata, --bad-bands, --bbox and --mask",
        )
    results = [sink for sink in sinks if not sink.reports_invalid]
    empty = [sink.name for sink in results if not any(band.count for band in sink.statistics)]
    if results and len(empty) == len(results):
        raise SceneError(
            "no pixel has a result: its values are too low or otherwise useless",
            path=scene.path,
            remedy="check --scale, --quantity and the file itself",
        )
    return [f"warning: {name} holds no value" for name in empty]


@dataclass(frozen=True)
class _SinkMaker:
    """What all sinks of a run share."""

    staging: Staging
    tags: Mapping[str, str]
    options: RunOptions
    cleanup: ExitStack

    def open(self, name: str, spec: MapSpec, grid: Grid, origin: tuple[int, int] = (0, 0)) -> RasterSink:
        sink = RasterSink(
            self.staging,
            name,
            spec,
            grid,
            origin=origin,
            tags=self.tags,
            creation_options=self.options.creation_options,
        )
        self.cleanup.callback(sink.close)
        return sink

    def on_map(
        self, swaths: dict[str, RasterSink], scene: Scene, area: Window, grid: Grid
    ) -> tuple[dict[str, RasterSink], SwathMaps | None]:
        """Maps of an area on a map grid, if it has one, and those of the swath that they come from."""
        size = self.options.pixel_size
        onto = swath_map(scene, area, grid, utm=self.options.to_utm, pixel_size=size)
        if onto is None:
            return swaths, None
        sinks, rasters = {}, {}
        for key, swath in swaths.items():
            swath.close()
            source = swath.working.rename(swath.working.with_suffix(".swath"))
            sinks[key] = self.open(swath.name, swath.spec, onto.grid)
            with writing(swath.final):
                resample(source, sinks[key], onto)
            rasters[swath.spec.suffix] = source
        return sinks, SwathMaps(rasters, grid, onto)


def _tile(scene: Scene, options: RunOptions, halo: int) -> tuple[int, int]:
    budget = None if options.mem_limit is None else options.mem_limit - _needed_anyway()
    affordable = tile_pixels(len(scene.bands), budget=budget, in_flight=options.in_flight)
    wanted = (options.tile_size + 2 * halo) ** 2 if options.tile_size else affordable
    return tile_shape(scene.grid.height, scene.grid.width, scene.block_shape, wanted, halo)


@cache
def _needed_anyway() -> int:
    """What the program takes whatever the size of tiles: libraries and model as loaded now, and GDAL's cache
    [bytes]. Told once a run: what an earlier scene has freed would count too."""
    try:
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        resident = _TYPICAL_RESIDENT
    return resident + GDAL_CACHE_MB * 2**20
