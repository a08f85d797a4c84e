"""`p3vae suggest`: where labels would help a model most."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from p3vae.cli.batch_options import OutputPath
from p3vae.cli.options import FileCommand, irradiance_options, model_option, scene_options

if TYPE_CHECKING:
    from p3vae.cli.landcover.irradiance import IrradianceOptions
    from p3vae.cli.scenes import SceneOptions

FILE = click.Path(path_type=Path)


@click.command(cls=FileCommand)
@click.argument("scene", type=FILE, metavar="SCENE")
@model_option
@click.option("-o", "--output", type=OutputPath(), required=True, metavar="GPKG", help="GeoPackage to write.")
@click.option(
    "-n", "--n", "count", type=click.IntRange(1, 1000), default=20, show_default=True, help="Places."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Same seed, same places.")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@irradiance_options
@scene_options
def suggest(
    scene: Path,
    model: Path | None,
    output: Path,
    count: int,
    seed: int,
    overwrite: bool,
    as_json: bool,
    irradiance: IrradianceOptions,
    scene_options: SceneOptions,
) -> None:
    """Find places in SCENE whose labels would help MODEL most.

    Pixels that it does not know or is not sure about, each of another kind of spectrum.
    """
    from p3vae.cli.landcover.suggest import suggest as run
    from p3vae.cli.scenes import open_scene

    with open_scene(scene, scene_options) as opened:
        found = run(opened, model, irradiance, output, count=count, seed=seed, overwrite=overwrite)
    if as_json:
        click.echo(json.dumps([asdict(place) for place in found]))
        return
    unknown = sum(place.reason == "unknown" for place in found)
    click.echo(f"{len(found)} places, {unknown} of them unlike anything the model learned\n{output}")
