"""`p3vae irradiance-map`: how much direct sun each pixel gets, and the scene without that effect."""

from __future__ import annotations

import click

from p3vae.cli.landcover.settings import IrradianceMapSettings
from p3vae.cli.options import FileCommand, config_option, scenes_argument
from p3vae.cli.run.settings import OutputSettings
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.settings import takes


@click.command(cls=FileCommand)
@scenes_argument
@config_option
@takes(settings=IrradianceMapSettings, outputs=OutputSettings, scene_settings=SceneSettings)
def irradiance_map(
    scenes: tuple[str, ...],
    settings: IrradianceMapSettings,
    outputs: OutputSettings,
    scene_settings: SceneSettings,
) -> None:
    """Map the local direct irradiance of each SCENE: sunlit fraction times cosine of incidence, δ·cosΘ.

    1 is a surface facing the unobstructed sun, 0 full shadow.
    """
    from p3vae.cli.run.batch import map_scenes

    map_scenes(scenes, settings, scene_settings, outputs)
