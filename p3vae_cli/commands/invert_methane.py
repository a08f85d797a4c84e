"""`p3vae invert-methane`: methane, plumes and emission rates from radiance."""

from __future__ import annotations

import click

from p3vae.cli.methane.settings import RetrievalSettings
from p3vae.cli.options import FileCommand, config_option, scenes_argument
from p3vae.cli.run.settings import OutputSettings
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.settings import takes


@click.command(cls=FileCommand)
@scenes_argument
@config_option
@takes(settings=RetrievalSettings, outputs=OutputSettings, scene_settings=SceneSettings)
def invert_methane(
    scenes: tuple[str, ...],
    settings: RetrievalSettings,
    outputs: OutputSettings,
    scene_settings: SceneSettings,
) -> None:
    """Map methane enhancement [ppm m] in each radiance SCENE, and list its plumes.

    The background is learned from the scene's own plume-free pixels, which are found by themselves.
    """
    from p3vae.cli.run.batch import map_scenes

    map_scenes(scenes, settings, scene_settings, outputs)
