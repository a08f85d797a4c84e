"""What every mapping command does once it knows how to turn spectra into maps."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from p3vae.cli.base.batch import OnError, expand_scenes, for_each_scene
from p3vae.cli.base.console import RichProgress, note, stdout
from p3vae.cli.base.errors import UsageError
from p3vae.cli.base.pipeline import PixelFunction
from p3vae.cli.products.make import Findings, Product, RunOptions, RunSummary, make_products
from p3vae.cli.products.manifest import Provenance, finite
from p3vae.cli.products.rasters import MapSpec
from p3vae.cli.products.staging import require_free
from p3vae.cli.products.styles import Categories
from p3vae.cli.scenes import Scene, SceneOptions, open_scene
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
    after: Callable[[RunSummary], Findings] = lambda summary: Findings()
    """Work on the finished maps."""


@dataclass(frozen=True)
class OutputOptions:
    """Where products go and how much is said about them."""

    destination: Path | None
    """Folder, or the raster itself if there is one only; None is beside the scene."""
    mask: Path | None
    run: RunOptions
    on_error: OnError
    show_progress: bool | None
    quiet: bool
    as_json: bool

    def folder_of(self, scene: Path) -> Path:
        """Where the products of a scene go, or the raster itself."""
        return self.destination or scene.parent

    @property
    def shows_progress(self) -> bool | None:
        """None is: if stderr is a terminal."""
        return False if self.quiet else self.show_progress


def map_scenes(
    scenes: Sequence[str],
    scene_options: SceneOptions,
    outputs: OutputOptions,
    plan: Callable[[Scene], Plan],
    made: Sequence[str] = (),
) -> None:
    """Open each scene, apply its plan to every pixel, write the products and report them.

    `made`: ends of the names of all products, if they should be free before a plan is made, which may take
    long.
    """
    paths = expand_scenes(scenes)
    _require_products_of_their_own(paths, outputs.destination)
    inputs = (*paths, outputs.mask) if outputs.mask else tuple(paths)
    spared = replace(outputs, run=replace(outputs.run, inputs=inputs))

    def map_one(path: Path) -> tuple[RunSummary, Findings]:
        for end in made:
            target = spared.folder_of(path) / f"{path.stem}_{end}"
            require_free(target, overwrite=spared.run.overwrite, inputs=inputs)
        return _map_scene(path, scene_options, spared, plan)

    for_each_scene(
        paths,
        map_one,
        on_done=lambda path, made: _report_products(path, *made, outputs),
        report=lambda error: note(f"Error: {error}"),
        on_error=outputs.on_error,
    )


def _require_products_of_their_own(paths: Sequence[Path], destination: Path | None) -> None:
    """Scenes of one name would replace each other's products."""
    if len(paths) > 1 and destination is not None and destination.suffix.lower() in {".tif", ".tiff"}:
        raise UsageError(
            f"--output {destination} is one file and there are {len(paths)} scenes", remedy="give a folder"
        )
    seen: dict[tuple[Path, str], Path] = {}
    for path in paths:
        other = seen.setdefault((destination or path.parent, path.stem), path)
        if other != path:
            raise UsageError(
                f"and {other} would have the same products", path=path, remedy="map them into two folders"
            )


def _map_scene(
    path: Path, scene_options: SceneOptions, outputs: OutputOptions, plan: Callable[[Scene], Plan]
) -> tuple[RunSummary, Findings]:
    with open_scene(path, scene_options) as opened:
        scene = masked(opened, outputs.mask) if outputs.mask else opened
        planned = plan(scene)
        summary = make_products(
            scene,
            planned.function,
            planned.specs,
            outputs.folder_of(path),
            halo=planned.halo,
            options=outputs.run,
            progress=RichProgress(path.name, show=outputs.shows_progress),
            provenance=Provenance(model_sha256=planned.model_sha256, settings=planned.settings or {}),
        )
        return summary, planned.after(summary)


def _report_products(path: Path, summary: RunSummary, findings: Findings, outputs: OutputOptions) -> None:
    if outputs.as_json:
        stdout().out(json.dumps(finite({**_record(path, summary), **findings.record})), highlight=False)
    elif not outputs.quiet:
        _print_table(summary)
        for line in findings.lines:
            stdout().print(line, markup=False, highlight=False, soft_wrap=True)


def _record(path: Path, summary: RunSummary) -> dict[str, Any]:
    return {
        "scene": str(path),
        "products": {product.spec.suffix: str(product.path) for product in summary.products},
        "manifest": str(summary.manifest),
        "pixels": summary.pixels,
        "valid_pixels": summary.valid_pixels,
        "seconds": round(summary.seconds, 3),
    }


def _print_table(summary: RunSummary) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("Map", overflow="fold")
    for heading in ("Mean", "Range"):
        table.add_column(heading, no_wrap=True)
    for product in summary.products:
        table.add_row(str(product.path), *_figures(product))
    console = stdout()
    for product in summary.products:
        if product.class_pixels:
            console.print(_class_table(product, summary.valid_pixels))
    console.print(table)
    rate = summary.pixels / max(summary.seconds, 1e-9)
    console.print(
        f"{summary.pixels:,} pixels in {summary.seconds:.1f} s ({rate:,.0f} pixels/s)", highlight=False
    )


def _figures(product: Product) -> tuple[str, str]:
    if product.class_pixels or len(product.statistics) != 1 or not product.statistics[0].count:
        return "", ""
    statistics = product.statistics[0]
    unit = f" {product.spec.unit}" if product.spec.unit not in ("", "1") else ""
    return f"{statistics.mean:.4g}{unit}", f"{statistics.minimum:.4g} to {statistics.maximum:.4g}{unit}"


def _class_table(product: Product, valid_pixels: int) -> Table:
    style = product.spec.style
    assert isinstance(style, Categories)
    table = Table(box=None, pad_edge=False)
    table.add_column("Class")
    table.add_column("Pixels", justify="right")
    table.add_column("Share", justify="right")
    for item in style.items:
        count = product.class_pixels.get(item.value, 0)
        share = f"{100 * count / max(valid_pixels, 1):.1f} %"
        table.add_row(Text.assemble(("■ ", item.color), item.name), f"{count:,}", share)
    return table
