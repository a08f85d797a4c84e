"""`p3vae classify`: land cover, confidence and irradiance of scenes."""

from __future__ import annotations

import click

from p3vae.cli.landcover.settings import ClassifySettings
from p3vae.cli.options import FileCommand, config_option, scenes_argument
from p3vae.cli.run.settings import OutputSettings
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.settings import takes


@click.command(cls=FileCommand)
@scenes_argument
@config_option
@takes(settings=ClassifySettings, outputs=OutputSettings, scene_settings=SceneSettings)
def classify(
    scenes: tuple[str, ...],
    settings: ClassifySettings,
    outputs: OutputSettings,
    scene_settings: SceneSettings,
) -> None:
    """Map the land cover of each SCENE, with confidence, irradiance and its uncertainty.

    SCENE may be a path, a glob, @list.txt, or - for a list on stdin.
    """
    from p3vae.cli.run.batch import map_scenes

    map_scenes(scenes, settings, scene_settings, outputs)
