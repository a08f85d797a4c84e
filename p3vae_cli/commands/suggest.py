"""`p3vae suggest`: where labels would help a model most."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from p3vae.cli.landcover.settings import SuggestSettings
from p3vae.cli.options import FileCommand
from p3vae.cli.params import FILE
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.settings import takes


@click.command(cls=FileCommand)
@click.argument("scene", type=FILE, metavar="SCENE")
@takes(settings=SuggestSettings, scene_settings=SceneSettings)
def suggest(scene: Path, settings: SuggestSettings, scene_settings: SceneSettings) -> None:
    """Find places in SCENE whose labels would help MODEL most.

    Pixels that it does not know or is not sure about, each of another kind of spectrum.
    """
    from p3vae.cli.landcover.suggest import suggest as run
    from p3vae.cli.scenes.opening import open_scene

    with open_scene(scene, scene_settings) as opened:
        found = run(opened, settings)
    if settings.as_json:
        click.echo(json.dumps([asdict(place) for place in found]))
        return
    unknown = sum(place.reason == "unknown" for place in found)
    click.echo(f"{len(found)} places, {unknown} of them unlike anything the model learned\n{settings.output}")
