"""`p3vae brightness`: the simplest map, to look at a scene before anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from p3vae.cli.options import FileCommand, output_options, scene_options, scenes_argument

if TYPE_CHECKING:
    from p3vae.cli.run.mapping import OutputOptions
    from p3vae.cli.scenes import SceneOptions


@click.command(cls=FileCommand)
@scenes_argument
@output_options
@scene_options
def brightness(scenes: tuple[str, ...], outputs: OutputOptions, scene_options: SceneOptions) -> None:
    """Map the mean over the good bands of each SCENE, in its own unit.

    SCENE may be a path, a glob, @list.txt, or - for a list on stdin.
    """
    from p3vae.cli.run.jobs import BrightnessJob
    from p3vae.cli.run.mapping import map_scenes

    map_scenes(scenes, scene_options, outputs, BrightnessJob())
