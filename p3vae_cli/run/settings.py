"""Settings of every command that maps scenes: which part of them, where the products go, how it is done."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import click

from p3vae.cli.errors import UsageError
from p3vae.cli.params import FILE, POSITIVE, OutputPath
from p3vae.cli.run.lists import Shard
from p3vae.cli.run.naming import NameTemplate
from p3vae.cli.settings import ARCHIVE, AREA, MACHINE, OUTPUT, RARE, Settings, option

if TYPE_CHECKING:
    from p3vae.cli.run.mapper import Mapper
    from p3vae.cli.scenes.base import Scene

RASTERS = (".tif", ".tiff")
"""Suffixes of an --output that is one file."""


def is_raster(path: Path) -> bool:
    """Whether a place for products is one file, not a folder."""
    return path.suffix.lower() in RASTERS


def parse_bbox(text: str) -> tuple[float, float, float, float]:
    """Four numbers from "xmin,ymin,xmax,ymax" (commas or spaces)."""
    try:
        xmin, ymin, xmax, ymax = (float(part) for part in text.replace(",", " ").split())
    except ValueError as error:
        raise UsageError(f"--bbox {text!r} is not four numbers", remedy="xmin,ymin,xmax,ymax") from error
    return xmin, ymin, xmax, ymax


def parse_size(text: str) -> int:
    """Bytes from "600MB", "2GB" or a plain number of megabytes."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", text.lower())
    if match is None:
        raise UsageError(f"--mem-limit {text!r} is not a size", remedy='for example "600MB" or "2GB"')
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2] or "m"))


def _creation_options(pairs: Iterable[str]) -> dict[str, str]:
    from p3vae.cli.rasters.files import parse_creation_options

    return parse_creation_options(pairs)


@dataclass(frozen=True)
class OutputSettings(Settings):
    """Which part of a scene is mapped, where products go, and how much is said about them."""

    destination: Path | None = option(
        None,
        "-o",
        "--output",
        type=OutputPath(),
        metavar="PATH",
        group=OUTPUT,
        decides=False,
        help="Folder for the products (a .tif if there is one map only). Default: beside the scene.",
    )
    overwrite: bool = option(
        False, "--overwrite", group=OUTPUT, decides=False, help="Replace products that exist."
    )
    report: bool = option(
        False,
        "--report",
        group=OUTPUT,
        decides=False,
        help='Then show the folder on a page, as "p3vae report" does.',
    )
    qgis: bool = option(
        False,
        "--qgis",
        group=OUTPUT,
        decides=False,
        help='Then write its QGIS project, as "p3vae qgis" does.',
    )
    stac: bool = option(
        False,
        "--stac",
        group=OUTPUT,
        decides=False,
        help="Write a STAC item beside each manifest, and a collection of them.",
    )
    creation_options: Mapping[str, str] | None = option(
        None,
        "--co",
        metavar="NAME=VALUE",
        multiple=True,
        parse=_creation_options,
        group=OUTPUT,
        help="GDAL creation option of the COG driver.",
    )
    as_json: bool = option(
        False, "--json", group=OUTPUT, decides=False, help="One JSON line per scene on stdout."
    )
    quiet: bool = option(False, "-q", "--quiet", group=OUTPUT, decides=False, help="Only errors.")
    verbose: bool = option(
        False,
        "-v",
        "--verbose",
        group=OUTPUT,
        decides=False,
        help="Tables of classes and figures also where there are several scenes.",
    )
    show_progress: bool | None = option(
        None,
        "--progress/--no-progress",
        group=OUTPUT,
        decides=False,
        help="Show progress. Default: on a terminal.",
    )

    mask: Path | None = option(
        None,
        "--mask",
        type=FILE,
        metavar="FILE",
        group=AREA,
        help="Map only where this raster is not zero, or inside these polygons.",
    )
    bbox: tuple[float, float, float, float] | None = option(
        None,
        "--bbox",
        "--bounds",
        metavar="XMIN,YMIN,XMAX,YMAX",
        parse=parse_bbox,
        group=AREA,
        help="Part of the scene to map.",
    )
    bbox_crs: str | None = option(
        None, "--bbox-crs", metavar="CRS", group=AREA, help="CRS of --bbox. Default: the scene's."
    )
    to_utm: bool = option(
        False,
        "--grid",
        type=click.Choice(["scene", "utm"]),
        parse=lambda grid: grid == "utm",
        group=AREA,
        help="Grid of a swath's products: the map grid in the file (EMIT), else the detector's with control "
        "points, or UTM. Default: scene.",
    )
    pixel_size: float | None = option(
        None, "--pixel-size", type=POSITIVE, metavar="M", group=AREA, help="Of --grid utm."
    )

    template: NameTemplate | None = option(
        None,
        "--output-template",
        metavar="TEXT",
        parse=NameTemplate.parse,
        group=ARCHIVE,
        decides=False,
        help='Folders and names of products below --output, e.g. "{parent}/{stem}".',
    )
    resume: bool | None = option(
        None,
        "--resume/--no-resume",
        group=ARCHIVE,
        decides=False,
        help="Skip scenes whose manifest shows that they are done. Default: unless --overwrite.",
    )
    on_error: Literal["skip", "stop"] = option(
        "skip",
        "--on-error",
        type=click.Choice(["skip", "stop"]),
        group=ARCHIVE,
        decides=False,
        help="What a failed scene means for those after it.",
    )
    jobs: int = option(
        1, "-j", "--jobs", type=click.IntRange(1), group=ARCHIVE, decides=False, help="Scenes side by side."
    )
    shard: Shard | None = option(
        None,
        "--shard",
        metavar="I/N",
        parse=Shard.parse,
        group=ARCHIVE,
        decides=False,
        help="Only the I-th of N parts of the scenes, e.g. 2/8.",
    )
    scheduler: str | None = option(
        None,
        "--scheduler",
        metavar="tcp://HOST:PORT",
        group=ARCHIVE,
        decides=False,
        help="Map on the workers of a Dask cluster.",
    )
    null: bool = option(
        False,
        "-0",
        "--null",
        group=ARCHIVE,
        decides=False,
        help="Names in lists end with a zero byte (find -print0).",
    )
    dry_run: bool = option(
        False,
        "--dry-run",
        group=ARCHIVE,
        decides=False,
        help="Only say what would be done, with an estimate.",
    )
    log_file: Path | None = option(
        None,
        "--log-file",
        type=OutputPath(),
        metavar="FILE",
        group=ARCHIVE,
        decides=False,
        help="Add a JSON line with the time for everything that happens.",
    )
    worker_patience_s: float = option(
        60.0,
        "--worker-timeout",
        type=click.FloatRange(min=0, min_open=True, max=1e9),
        metavar="SECONDS",
        group=RARE,
        decides=False,
        help="How long to wait while the cluster has no worker.",
    )

    tile_size: int | None = option(
        None,
        "--tile-size",
        type=click.IntRange(1),
        metavar="PIXELS",
        group=MACHINE,
        decides=False,
        help="Side of a tile.",
    )
    mem_limit: int | None = option(
        None,
        "--mem-limit",
        metavar="SIZE",
        parse=parse_size,
        group=MACHINE,
        decides=False,
        help='Memory a run may use, e.g. "600MB" or "2GB".',
    )

    def __post_init__(self) -> None:
        if self.bbox_crs and not self.bbox:
            raise UsageError("--bbox-crs is of no use without --bbox", remedy="give both or none")
        if self.pixel_size and not self.to_utm:
            raise UsageError("--pixel-size is of no use without --grid utm", remedy="give both or none")

    def request(self) -> dict[str, Any]:
        """Creation options as a mapping, empty or not."""
        return super().request() | {"creation_options": dict(self.creation_options or {})}

    def target_of(self, scene: Path) -> tuple[Path, str]:
        """Where the products of a scene go (or the raster itself), and the first part of their names."""
        folder = self.destination or scene.parent
        return (folder, scene.stem) if self.template is None else self.template.target(folder, scene)

    def manifest_of(self, scene: Path) -> Path:
        """The record of a scene's runs."""
        folder, stem = self.target_of(scene)
        if is_raster(folder):
            return folder.with_name(f"{folder.stem}_p3vae.json")
        return folder / f"{stem}_p3vae.json"

    def collection_folder_of(self, scene: Path) -> Path:
        """Where the STAC collection lies to which a scene's item belongs."""
        if self.destination is None:
            return scene.parent
        return self.destination.parent if is_raster(self.destination) else self.destination

    @property
    def shows_progress(self) -> bool | None:
        """None is: if stderr is a terminal."""
        return False if self.quiet else self.show_progress

    @property
    def skips_done(self) -> bool:
        """Whether scenes that are done are left as they are."""
        return not self.overwrite if self.resume is None else self.resume


@dataclass(frozen=True)
class MappingSettings(Settings):
    """A mapping command as it was asked for: small, immutable, and sent to other processes."""

    command: ClassVar[str]
    seconds_per_scene: ClassVar[float] = 0.1
    """Of one core, for a scene however small."""

    @property
    def values_per_second(self) -> float:
        """Pixels times bands that one core maps, for an estimate; measured by `benchmarks/archive.py`."""
        raise NotImplementedError

    @classmethod
    def additions(cls) -> frozenset[str]:
        """Fields that add products but change no map that two commands make."""
        return cls.own_additions()

    def load(self) -> None:
        """Load what serves every scene; an error here is one for all of them."""

    def mapper(self, scene: Scene) -> Mapper:
        """What maps a scene; it has not learned from it yet."""
        raise NotImplementedError

    @property
    def kept(self) -> Path | None:
        """A file elsewhere that is written last, by a call with one scene."""
        return None

    @property
    def shown_model(self) -> Path | None:
        """The model that a report should show, if the user named one."""
        return None

    @property
    def remark(self) -> str:
        """What the user should know beside the maps; "" for nothing."""
        return ""

    def for_worker(self, number: int) -> Self:
        """The same for one of several processes, counted from 0."""
        return self

    def after_batch(self, home: Path, folders: Sequence[Path], *, several: bool) -> Sequence[str]:
        """Work on the products of all scenes, which lie in `folders`; lines for the report."""
        return ()


@dataclass(frozen=True)
class BrightnessSettings(MappingSettings):
    """What `p3vae brightness` makes."""

    command: ClassVar[str] = "brightness"

    @property
    def values_per_second(self) -> float:
        """Reading is what takes the time."""
        return 2e8

    def mapper(self, scene: Scene) -> Mapper:
        """One that learns nothing."""
        from p3vae.cli.run.brightness import Brightness

        return Brightness(scene)


def device_option() -> Any:
    """The field of settings that says where to compute."""
    return option(
        "auto",
        "--device",
        metavar="auto|cpu|cuda[:N]|mps",
        group=MACHINE,
        decides=False,
        help="Where to compute.",
    )


def device_of_worker(device: str, number: int) -> str:
    """The device of one of several processes: they share the GPUs out among themselves."""
    if device not in ("auto", "cuda"):
        return device
    import torch

    count = torch.cuda.device_count()
    return f"cuda:{number % count}" if count else device
