"""`p3vae classify`: land cover, confidence and irradiance of scenes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from p3vae.cli.options import (
    device_option,
    irradiance_options,
    model_option,
    output_options,
    scene_options,
    scenes_argument,
)

if TYPE_CHECKING:
    from p3vae.cli.scenes import SceneOptions
    from p3vae.cli.workflows.irradiance import IrradianceOptions
    from p3vae.cli.workflows.mapping import OutputOptions
    from p3vae.models.landcover.types import Method


@click.command()
@scenes_argument
@model_option
@click.option(
    "--method",
    type=click.Choice(["posterior", "classifier"]),
    help="Class by the full posterior p(y|x), the default, or by the fast network q(y|x).",
)
@click.option(
    "--probabilities", is_flag=True, help="Also write the probability of every class, one band each."
)
@click.option("--unknown", is_flag=True, help="Mark pixels that the model cannot reconstruct (value 255).")
@device_option
@irradiance_options
@output_options
@scene_options
def classify(
    scenes: tuple[str, ...],
    model: Path | None,
    method: Method | None,
    probabilities: bool,
    unknown: bool,
    device: str,
    irradiance: IrradianceOptions,
    outputs: OutputOptions,
    scene_options: SceneOptions,
) -> None:
    """Map the land cover of each SCENE, with confidence, irradiance and its uncertainty.

    SCENE may be a path, a glob, @list.txt, or - for a list on stdin.
    """
    from p3vae.cli.workflows.landcover import ClassifyOptions, classify_plan
    from p3vae.cli.workflows.mapping import map_scenes
    from p3vae.cli.workflows.model_files import load_land_cover, model_name

    loaded = load_land_cover(model, device)
    options = ClassifyOptions(method, probabilities, unknown, irradiance)
    map_scenes(
        scenes, scene_options, outputs, lambda scene: classify_plan(scene, loaded, options, model_name(model))
    )
