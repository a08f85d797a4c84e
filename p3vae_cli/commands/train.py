"""`p3vae train`: a land-cover model from scenes and labels."""

from __future__ import annotations

from dataclasses import replace

import click

from p3vae.cli.landcover.train_settings import TrainSettings
from p3vae.cli.options import FileCommand, config_option, scenes_argument
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.settings import takes


@click.command(cls=FileCommand)
@scenes_argument
@config_option
@takes(settings=TrainSettings, scene_settings=SceneSettings)
def train(scenes: tuple[str, ...], settings: TrainSettings, scene_settings: SceneSettings) -> None:
    """Train a land-cover model on each SCENE with labels that cover a little of it.

    Validation holds out whole polygons, the same for every model. Networks also learn from the unlabelled
    rest of the scene.
    """
    from p3vae.cli.landcover.train import train as run
    from p3vae.cli.landcover.train_report import report, report_json
    from p3vae.cli.run.lists import expand_scenes

    trained = run(replace(settings, scenes=tuple(expand_scenes(scenes))), scene_settings)
    if settings.as_json:
        report_json(trained, settings.output)
    elif not settings.quiet:
        report(trained, settings.output)
