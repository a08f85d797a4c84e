"""`p3vae irradiance-map`: how much direct sun each pixel gets, and the scene without that effect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from p3vae.cli.options import (
    FileCommand,
    device_option,
    irradiance_options,
    model_option,
    output_options,
    scene_gain_option,
    scene_options,
    scenes_argument,
)

if TYPE_CHECKING:
    from p3vae.cli.landcover.irradiance import IrradianceOptions
    from p3vae.cli.run.mapping import OutputOptions
    from p3vae.cli.scenes import SceneOptions


@click.command(cls=FileCommand)
@scenes_argument
@model_option
@click.option("--relight", is_flag=True, help="Also write the reflectance of flat, sunlit ground as a cube.")
@scene_gain_option
@device_option
@irradiance_options
@output_options
@scene_options
def irradiance_map(
    scenes: tuple[str, ...],
    model: Path | None,
    relight: bool,
    no_scene_gain: bool,
    device: str,
    irradiance: IrradianceOptions,
    outputs: OutputOptions,
    scene_options: SceneOptions,
) -> None:
    """Map the local direct irradiance of each SCENE: sunlit fraction times cosine of incidence, δ·cosΘ.

    1 is a surface facing the unobstructed sun, 0 full shadow.
    """
    from p3vae.cli.run.jobs import IrradianceJob
    from p3vae.cli.run.mapping import map_scenes

    map_scenes(
        scenes, scene_options, outputs, IrradianceJob(model, device, irradiance, relight, not no_scene_gain)
    )
