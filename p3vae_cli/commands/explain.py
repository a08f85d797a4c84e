"""`p3vae explain`: why a pixel has its class."""

from __future__ import annotations

import json
from pathlib import Path

import click

from p3vae.cli.landcover.settings import ExplainSettings
from p3vae.cli.options import FileCommand
from p3vae.cli.params import FILE
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.settings import takes


@click.command(cls=FileCommand)
@click.argument("scene", type=FILE, metavar="SCENE")
@takes(settings=ExplainSettings, scene_settings=SceneSettings)
def explain(scene: Path, settings: ExplainSettings, scene_settings: SceneSettings) -> None:
    """Show why a pixel of SCENE has its class.

    Its spectrum and what the two likeliest classes make of it, its light with uncertainty, and where the
    second class fits worse.
    """
    from p3vae.cli.console import stdout
    from p3vae.cli.landcover import explain_report
    from p3vae.cli.landcover.explain import explain_pixel
    from p3vae.cli.records.manifest import finite
    from p3vae.cli.scenes.opening import open_scene

    with open_scene(scene, scene_settings) as opened:
        found = explain_pixel(opened, settings)
    if settings.output is not None:
        explain_report.save(found, settings.output, overwrite=settings.overwrite)
    if settings.as_json:
        click.echo(json.dumps(finite(explain_report.record(found))))
    else:
        explain_report.show(found, stdout())
