"""`p3vae info`: what scenes hold and which models could map them, or the card of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from p3vae.cli.options import FileCommand, null_option, scenes_argument
from p3vae.cli.params import OutputPath
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.settings import takes


def _show_formats(context: click.Context, option: click.Parameter, asked: bool) -> None:
    from p3vae.cli.scenes.registry import drivers

    if asked:
        for driver in drivers():
            click.echo(driver.name)
        context.exit()


@click.command(cls=FileCommand)
@scenes_argument
@click.option(
    "--json", "form", flag_value="json", help="Print JSON instead of a table; a line each for several scenes."
)
@click.option("--csv", "form", flag_value="csv", help="Print an inventory: a line of CSV per scene.")
@click.option(
    "-m",
    "--model",
    "models",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A model to judge as well.",
)
@click.option(
    "--stac",
    type=OutputPath(),
    metavar="FILE",
    help="Write a STAC item (MLM) of the one model given; replaced if it exists.",
)
@click.option(
    "--formats",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_formats,
    help="List the products that can be read.",
)
@null_option
@takes(scene_settings=SceneSettings)
def info(
    scenes: tuple[str, ...],
    form: Any,
    models: tuple[Path, ...],
    stac: Path | None,
    null: bool,
    scene_settings: SceneSettings,
) -> None:
    """Show what each SCENE holds: product, grid, bands, sun, and what could be done with it.

    SCENE may also be one model: a file, or the name of a shipped one.
    """
    from p3vae.cli.landcover.model_card import names_model, save_item, show_card
    from p3vae.cli.report.inventory import show_scenes
    from p3vae.cli.run.lists import expand_scenes

    if stac is not None:
        save_item(stac, [Path(name) for name in scenes])
    elif len(scenes) == 1 and names_model(Path(scenes[0])):
        show_card(Path(scenes[0]), as_json=form == "json")
    else:
        show_scenes(expand_scenes(scenes, null=null), scene_settings, models, form or "report")
