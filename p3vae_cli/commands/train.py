"""`p3vae train`: a land-cover model from scenes and labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from p3vae.cli.batch_options import OutputPath
from p3vae.cli.options import (
    FileCommand,
    config_option,
    device_option,
    irradiance_options,
    scene_options,
    scenes_argument,
)
from p3vae.models.landcover.registry import estimator_names

if TYPE_CHECKING:
    from p3vae.cli.landcover.irradiance import IrradianceOptions
    from p3vae.cli.scenes import SceneOptions


@click.command(cls=FileCommand)
@scenes_argument
@click.option(
    "--labels",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="Polygons or points (GeoPackage, GeoJSON, shapefile, FlatGeobuf, .gdb), or a raster of ids.",
)
@click.option("--class-field", metavar="NAME", help='Attribute that names the class. Default: "class".')
@click.option(
    "--class-names", metavar="A,B,...", default="", help="Names of a label raster's values, ascending."
)
@click.option(
    "-o",
    "--output",
    type=OutputPath(also=(".checkpoint",)),
    required=True,
    metavar="MODEL",
    help="Model file to write.",
)
@click.option(
    "--model",
    type=click.Choice(estimator_names()),
    default="p3vae",
    show_default=True,
    help="What to train: p3VAE, or one of the models it is compared with.",
)
@click.option(
    "--preset",
    type=click.Choice(["default", "paper"]),
    default="default",
    show_default=True,
    help="p3VAE with our settings, or as published.",
)
@click.option(
    "--sky-offset",
    type=click.FloatRange(0.0, 1.0),
    default=0.2,
    show_default=True,
    metavar="SHARE",
    help="With --preset paper: skylight of ground without sun, as a share of open ground's.",
)
@click.option(
    "--epochs", type=click.IntRange(1), help="Passes of a network over the data. Default: the model's."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Same seed, same model.")
@click.option("--no-physics", is_flag=True, help="Leave the physics layer out (ablation).")
@click.option("--no-stop-gradient", is_flag=True, help="Let unlabelled pixels change the decoder of a VAE.")
@click.option(
    "--class-prior",
    type=click.Choice(["uniform", "labels", "scene"]),
    default="uniform",
    show_default=True,
    help="Prior of the classes: all the same, as in the labels, or estimated from unlabelled pixels.",
)
@click.option(
    "--doubtful",
    type=OutputPath(),
    metavar="FILE",
    help="Also write the polygons that the other labels contradict most, as a GeoPackage to review.",
)
@click.option(
    "--from",
    "prior",
    type=click.Path(path_type=Path),
    metavar="MODEL",
    help="Model of materials (earth) that says what one to three polygons per class cannot.",
)
@click.option(
    "--alias",
    multiple=True,
    metavar="CLASS=NAME",
    help="With --from: the class or material of MODEL that a class of the labels is. May be repeated.",
)
@click.option(
    "--samples-per-class",
    type=click.IntRange(2),
    default=2000,
    show_default=True,
    help="Labelled pixels drawn per class, at most.",
)
@click.option(
    "--unlabelled", type=click.IntRange(0), default=20_000, show_default=True, help="Unlabelled pixels drawn."
)
@click.option("--resume", is_flag=True, help="Go on with an unfinished training of the same output.")
@click.option("--overwrite", is_flag=True, help="Replace an existing model.")
@click.option("--progress/--no-progress", default=None, help="Show progress. Default: on a terminal.")
@click.option("-q", "--quiet", is_flag=True, help="Only errors.")
@click.option("--json", "as_json", is_flag=True, help="The validation as one JSON line on stdout.")
@device_option
@config_option
@irradiance_options
@scene_options
def train(
    scenes: tuple[str, ...],
    class_names: str,
    model: Any,
    preset: Any,
    sky_offset: float,
    epochs: int | None,
    seed: int,
    no_physics: bool,
    no_stop_gradient: bool,
    class_prior: Any,
    progress: bool | None,
    quiet: bool,
    as_json: bool,
    irradiance: IrradianceOptions,
    scene_options: SceneOptions,
    **request: Any,
) -> None:
    """Train a land-cover model on each SCENE with labels that cover a little of it.

    Validation holds out whole polygons, the same for every model. Networks also learn from the unlabelled
    rest of the scene.
    """
    from p3vae.cli.landcover.train import TrainingRequest
    from p3vae.cli.landcover.train import train as run
    from p3vae.cli.landcover.train_report import report, report_json
    from p3vae.cli.run.lists import expand_scenes
    from p3vae.models.landcover.types import TrainingSettings

    settings = TrainingSettings(
        model=model,
        preset=preset,
        epochs=epochs,
        seed=seed,
        physics=not no_physics,
        stop_gradient=not no_stop_gradient,
        class_prior=class_prior,
        sky_offset=sky_offset,
    )
    names = tuple(name.strip() for name in class_names.split(",") if name.strip())
    asked = TrainingRequest(
        scenes=tuple(expand_scenes(scenes)),
        settings=settings,
        class_names=names,
        irradiance=irradiance,
        show_progress=False if quiet else progress,
        **request,
    )
    trained = run(asked, scene_options)
    if as_json:
        report_json(trained, asked.output)
    elif not quiet:
        report(trained, asked.output)
