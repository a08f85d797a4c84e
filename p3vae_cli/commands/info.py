"""`p3vae info`: what a scene holds and which models could map it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from p3vae.cli.options import scene_argument, scene_options

if TYPE_CHECKING:
    from p3vae.cli.scenes import SceneOptions


@click.command()
@scene_argument
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "-m",
    "--model",
    "models",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A model to judge as well.",
)
@scene_options
def info(scene: Path, as_json: bool, models: tuple[Path, ...], scene_options: SceneOptions) -> None:
    """Show what SCENE holds: product, grid, bands, sun, and what could be done with it."""
    from p3vae.cli.base.console import stdout
    from p3vae.cli.products.manifest import finite
    from p3vae.cli.scenes import open_scene
    from p3vae.cli.workflows.info import render, summarise
    from p3vae.cli.workflows.model_files import shipped_models, verdicts

    with open_scene(scene, scene_options) as opened:
        summary = summarise(opened) | {
            "models": [verdict.record() for verdict in verdicts(opened, [*shipped_models(), *models])]
        }
    if as_json:
        click.echo(json.dumps(finite(summary), indent=2))
    else:
        stdout().print(render(summary))
