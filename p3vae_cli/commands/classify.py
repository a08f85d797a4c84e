"""`p3vae classify`: land cover, confidence and irradiance of scenes."""

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
    from p3vae.models.landcover.types import Method


@click.command(cls=FileCommand)
@scenes_argument
@model_option
@click.option(
    "--method",
    type=click.Choice(["posterior", "classifier"]),
    help="Class by the posterior p(y|x), or by the classifier q(y|x) alone where the model has one.",
)
@click.option(
    "--probabilities", is_flag=True, help="Also write the probability of every class, one band each."
)
@click.option("--no-neighbours", is_flag=True, help="Map every pixel by itself, whatever its neighbours are.")
@click.option("--unknown", is_flag=True, help="Mark pixels unlike anything the model learned (value 255).")
@click.option("--materials", is_flag=True, help="Also write the likeliest material and its probability.")
@click.option("--fractions", is_flag=True, help="Also write the cover fraction of every class, with its std.")
@click.option(
    "--smooth",
    type=click.IntRange(1, 50),
    metavar="PIXELS",
    help='Also write the map with each pixel as most within this radius ("p3vae smooth").',
)
@click.option(
    "--polygons", is_flag=True, help="Also write the map, smoothed if asked, as polygons with areas."
)
@scene_gain_option
@device_option
@irradiance_options
@output_options
@scene_options
def classify(
    scenes: tuple[str, ...],
    model: Path | None,
    method: Method | None,
    probabilities: bool,
    no_neighbours: bool,
    unknown: bool,
    materials: bool,
    fractions: bool,
    smooth: int | None,
    polygons: bool,
    no_scene_gain: bool,
    device: str,
    irradiance: IrradianceOptions,
    outputs: OutputOptions,
    scene_options: SceneOptions,
) -> None:
    """Map the land cover of each SCENE, with confidence, irradiance and its uncertainty.

    SCENE may be a path, a glob, @list.txt, or - for a list on stdin.
    """
    from p3vae.cli.landcover.extras import LandCoverExtras
    from p3vae.cli.landcover.maps import ClassifyOptions
    from p3vae.cli.run.jobs import ClassifyJob
    from p3vae.cli.run.mapping import map_scenes

    options = ClassifyOptions(
        method,
        probabilities,
        unknown,
        irradiance,
        materials,
        fractions,
        neighbours=not no_neighbours,
        scene_gain=not no_scene_gain,
    )
    map_scenes(
        scenes, scene_options, outputs, ClassifyJob(model, device, options, LandCoverExtras(smooth, polygons))
    )
