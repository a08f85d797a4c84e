"""`p3vae explain`: why a pixel has its class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from p3vae.cli.batch_options import OutputPath
from p3vae.cli.options import (
    FileCommand,
    irradiance_options,
    model_option,
    parse_pair,
    scene_gain_option,
    scene_options,
)

if TYPE_CHECKING:
    from p3vae.cli.landcover.irradiance import IrradianceOptions
    from p3vae.cli.scenes import SceneOptions

FILE = click.Path(path_type=Path)


@click.command(cls=FileCommand)
@click.argument("scene", type=FILE, metavar="SCENE")
@model_option
@click.option("--at", metavar="X,Y", help="Map coordinates of the pixel.")
@click.option("--crs", metavar="CRS", help="CRS of --at. Default: the scene's.")
@click.option("--pixel", metavar="COL,ROW", help="Column and row of the pixel, from 0.")
@click.option(
    "-o", "--output", type=OutputPath(), metavar="FILE", help="Also draw the spectra: .html or .png."
)
@click.option("--overwrite", is_flag=True, help="Replace an existing drawing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@scene_gain_option
@irradiance_options
@scene_options
def explain(
    scene: Path,
    model: Path | None,
    at: str | None,
    crs: str | None,
    pixel: str | None,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
    no_scene_gain: bool,
    irradiance: IrradianceOptions,
    scene_options: SceneOptions,
) -> None:
    """Show why a pixel of SCENE has its class.

    Its spectrum and what the two likeliest classes make of it, its light with uncertainty, and where the
    second class fits worse.
    """
    from p3vae.cli.console import stdout
    from p3vae.cli.landcover import explain_report
    from p3vae.cli.landcover.explain import explain_pixel
    from p3vae.cli.records.manifest import finite
    from p3vae.cli.scenes import open_scene

    asked = parse_pair(at, "--at"), crs, parse_pair(pixel, "--pixel", whole=True)
    with open_scene(scene, scene_options) as opened:
        found = explain_pixel(opened, model, irradiance, *asked, scene_gain=not no_scene_gain)
    if output is not None:
        explain_report.save(found, output, overwrite=overwrite)
    if as_json:
        click.echo(json.dumps(finite(explain_report.record(found))))
    else:
        explain_report.show(found, stdout())
