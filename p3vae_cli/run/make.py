"""Everything between an opened scene and finished products, in one call."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from p3vae.cli.console import silent_libraries
from p3vae.cli.errors import SceneError, UsageError
from p3vae.cli.rasters.files import GDAL_CACHE_MB, MapSpec, RasterSink, gdal_environment
from p3vae.cli.rasters.grids import bbox_window, subgrid, whole
from p3vae.cli.rasters.resample import resample, swath_map
from p3vae.cli.records.manifest import Provenance, manifest_document, require_ours
from p3vae.cli.records.stac import file_record, item_name, stac_item
from p3vae.cli.records.staging import Staging, require_space, writing
from p3vae.cli.run.mapper import Mapper
from p3vae.cli.run.maps import MapFiles, Maps, RasterArrays
from p3vae.cli.run.pipeline import NoProgress, Progress, run
from p3vae.cli.run.settings import OutputSettings, is_raster
from p3vae.cli.scenes.base import Grid, Scene
from p3vae.cli.scenes.identity import require_unchanged
from p3vae.cli.scenes.tiling import Window, tile_pixels, tile_shape, windows
from p3vae.cli.signals import stop_on_signals

_SWATH = ".swath"
"""Suffix of the rasters of a swath, from which those on a map grid are made."""
_TYPICAL_RESIDENT = 400 * 2**20
"""Memory of the program before the first tile, on a system that does not report it [bytes]."""


@dataclass(frozen=True)
class Target:
    """Where the products of one scene go."""

    destination: Path
    """A folder, or the raster itself when there is only one map."""
    stem: str
    """First part of the names."""
    inputs: tuple[Path, ...] = ()
    """Files that no product may replace; those of the scene are always among them."""
    replaceable: frozenset[str] = frozenset()
    """Names of products that may be replaced without `--overwrite`."""
    collection: Path | None = None
    """Path of the STAC collection to which an item beside the manifest belongs; None for no item."""

    @property
    def folder(self) -> Path:
        """Where all files are."""
        return self.destination.parent if is_raster(self.destination) else self.destination

    @property
    def manifest(self) -> str:
        """Name of the record of the runs."""
        return f"{self.destination.stem if is_raster(self.destination) else self.stem}_p3vae.json"

    def names(self, mapper: Mapper) -> list[str]:
        """Names of the maps, then of the further files that `mapper` announces."""
        ends = [*(f"{spec.suffix}.tif" for spec in mapper.specs.values()), *mapper.files]
        if not is_raster(self.destination):
            return [f"{self.stem}_{end}" for end in ends]
        if len(ends) != 1:
            maps = len(mapper.specs)
            raise UsageError(
                f"--output {self.destination} is one file and there are {maps} maps", remedy="give a folder"
            )
        return [self.destination.name]


def mapped_area(scene: Scene, outputs: OutputSettings) -> Window:
    """The part of a scene that is to be mapped."""
    return bbox_window(scene.grid, outputs.bbox, outputs.bbox_crs) if outputs.bbox else whole(scene.grid)


def make_products(
    scene: Scene,
    mapper: Mapper,
    target: Target,
    outputs: OutputSettings | None = None,
    *,
    provenance: Provenance | None = None,
    progress: Progress | None = None,
    steps: Callable[[int, int], None] = lambda done, total: None,
    in_flight: int = 2,
) -> MapFiles:
    """Map every pixel of `scene` and write its maps, all of them or none.

    The products, their styles and the manifest appear together at the end.
    """
    started = time.monotonic()
    outputs, progress = outputs or OutputSettings(), progress or NoProgress()
    provenance = provenance or Provenance()
    folder, manifest, names = target.folder, target.manifest, target.names(mapper)
    inputs = (scene.path, *(file.path for file in scene.files), *target.inputs)
    item = item_name(manifest, provenance.command_name) if target.collection else None
    staging = Staging(
        folder,
        [*names, *([item] if item else [])],
        manifest,
        overwrite=outputs.overwrite,
        inputs=inputs,
        replaceable=target.replaceable,
    )
    require_ours(folder / manifest, overwrite=outputs.overwrite, inputs=inputs)
    area = mapped_area(scene, outputs)
    grid, origin = subgrid(scene.grid, area), (area.row, area.col)
    if outputs.to_utm and grid.transform is None and not grid.gcps:
        raise UsageError("a UTM grid needs a georeferenced scene", path=scene.path)
    require_space(folder, area.pixels * sum(spec.bytes_per_pixel for spec in mapper.specs.values()))
    mapper.prepare(steps)
    with stop_on_signals() as check, silent_libraries(), gdal_environment(), staging, ExitStack() as cleanup:
        maker = _SinkMaker(staging, provenance.tags(scene, mapper.model_sha256), outputs, cleanup)
        named = dict(zip(mapper.specs, names, strict=False))  # after them come those of further files
        sinks = {key: maker.open(named[key], spec, grid, origin) for key, spec in mapper.specs.items()}
        progress.begin(area.pixels)
        cleanup.callback(progress.end)
        valid = run(
            scene,
            windows(area, _tile(scene, outputs, mapper, in_flight)),
            mapper,
            sinks,
            progress=progress,
            in_flight=in_flight,
            check=check,
            around=lambda window: window.grown(mapper.halo, scene.grid.height, scene.grid.width),
        )
        maps = maker.on_map(sinks, scene, area, grid, folder / manifest, target.stem, valid)
        _finish(maps, scene, mapper, check)
        maps.seconds = time.monotonic() - started
        _write_records(maps, scene, mapper, provenance, target, item)
        staging.commit(remove=maps.removed)
    mapper.keep()
    return maps


def _finish(maps: MapFiles, scene: Scene, mapper: Mapper, check: Callable[[], None]) -> None:
    """Make the final rasters, and what the mapper makes of them; the scene must be as it was."""
    maps.lines += _require_results(scene, maps.valid_pixels, list(maps.sinks.values()))
    for sink in maps.sinks.values():
        sink.finish()
        check()
    mapper.finish(maps)
    for raster in maps.staging.path("").glob(f"*{_SWATH}"):
        raster.unlink()  # is no product
    check()
    require_unchanged(scene.files)


def _write_records(
    maps: MapFiles, scene: Scene, mapper: Mapper, provenance: Provenance, target: Target, item: str | None
) -> None:
    """Stage the manifest, and the STAC item if there is one."""
    staging, listed = maps.staging, maps.records()
    if item is not None:
        assert target.collection is not None
        listed.append(_write_item(staging, item, scene, provenance, mapper, maps, listed, target.collection))
    for record in listed:
        record["modified_ns"] = staging.path(record["file"]).stat().st_mtime_ns
    document = manifest_document(scene, provenance, mapper, listed, maps)
    with writing(maps.manifest):
        staging.path(maps.manifest.name).write_bytes(document)


def _write_item(
    staging: Staging,
    name: str,
    scene: Scene,
    provenance: Provenance,
    mapper: Mapper,
    maps: MapFiles,
    listed: Sequence[Mapping[str, object]],
    collection: Path,
) -> dict[str, object]:
    """Stage the STAC item; returns what the manifest says of it."""
    with writing(staging.folder / name):
        sinks = list(maps.sinks.values())
        path = staging.folder / name
        content = stac_item(scene, provenance, mapper.model_sha256, sinks, listed, path, collection)
        staging.path(name).write_bytes(content)
        return file_record(staging.path(name))


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
    outputs: OutputSettings
    cleanup: ExitStack

    def open(self, name: str, spec: MapSpec, grid: Grid, origin: tuple[int, int] = (0, 0)) -> RasterSink:
        sink = RasterSink(
            self.staging,
            name,
            spec,
            grid,
            origin=origin,
            tags=self.tags,
            creation_options=self.outputs.creation_options,
        )
        self.cleanup.callback(sink.close)
        return sink

    def on_map(
        self,
        sinks: dict[str, RasterSink],
        scene: Scene,
        area: Window,
        grid: Grid,
        manifest: Path,
        stem: str,
        valid: int,
    ) -> MapFiles:
        """Maps of an area on a map grid, if it has one, with those of the swath that they come from."""
        onto = swath_map(scene, area, grid, utm=self.outputs.to_utm, pixel_size=self.outputs.pixel_size)
        specs, swath = {key: sink.spec for key, sink in sinks.items()}, None
        if onto is not None:
            seen, sinks, rasters = sinks, {}, {}
            for key, sink in seen.items():
                sink.close()
                rasters[key] = sink.working.rename(sink.working.with_suffix(_SWATH))
                sinks[key] = self.open(sink.name, sink.spec, onto.grid)
                with writing(sink.final):
                    resample(rasters[key], sinks[key], onto)
            swath = Maps(scene.path, grid, specs, RasterArrays(rasters), area, self.tags)
            grid = onto.grid
        return MapFiles(
            scene=scene.path,
            grid=grid,
            specs=specs,
            arrays=RasterArrays({key: self.staging.path(sink.name) for key, sink in sinks.items()}),
            area=area,
            tags=self.tags,
            swath=swath,
            onto=onto,
            staging=self.staging,
            stem=stem,
            manifest=manifest,
            sinks=sinks,
            pixels=area.pixels,
            valid_pixels=valid,
        )


def _tile(scene: Scene, outputs: OutputSettings, mapper: Mapper, in_flight: int) -> tuple[int, int]:
    budget = None if outputs.mem_limit is None else outputs.mem_limit - _needed_anyway()
    affordable = tile_pixels(len(scene.bands), budget=budget, in_flight=in_flight)
    size = outputs.tile_size or (mapper.tile_size if outputs.mem_limit is None else None)
    wanted = (size + 2 * mapper.halo) ** 2 if size else affordable
    return tile_shape(scene.grid.height, scene.grid.width, scene.block_shape, wanted, mapper.halo)


@cache
def _needed_anyway() -> int:
    """What the program takes whatever the size of tiles: libraries and model as loaded now, and GDAL's cache
    [bytes]. Told once a run: what an earlier scene has freed would count too."""
    try:
        resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        resident = _TYPICAL_RESIDENT
    return resident + GDAL_CACHE_MB * 2**20
