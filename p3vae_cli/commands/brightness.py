"""`p3vae brightness`: the simplest map, to look at a scene before anything else."""

from __future__ import annotations

import click

from p3vae.cli.options import FileCommand, config_option, scenes_argument
from p3vae.cli.run.settings import BrightnessSettings, OutputSettings
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.settings import takes


@click.command(cls=FileCommand)
@scenes_argument
@config_option
@takes(settings=BrightnessSettings, outputs=OutputSettings, scene_settings=SceneSettings)
def brightness(
    scenes: tuple[str, ...],
    settings: BrightnessSettings,
    outputs: OutputSettings,
    scene_settings: SceneSettings,
) -> None:
    """Map the mean over the good bands of each SCENE, in its own unit.

    SCENE may be a path, a glob, @list.txt, or - for a list on stdin.
    """
    from p3vae.cli.run.batch import map_scenes

    map_scenes(scenes, settings, scene_settings, outputs)
