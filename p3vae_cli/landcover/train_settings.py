"""Settings of `p3vae train`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from p3vae.cli.landcover.settings import LightSettings
from p3vae.cli.landcover.terrain_settings import TerrainSettings
from p3vae.cli.params import FILE, OutputPath
from p3vae.cli.run.settings import device_option
from p3vae.cli.settings import LABELS, MODEL, OUTPUT, RARE, Settings, option
from p3vae.models.landcover.registry import estimator_names

if TYPE_CHECKING:
    from p3vae.models.landcover.types import TrainingSettings


def _names(text: str) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


@dataclass(frozen=True)
class TrainSettings(Settings):
    """What `p3vae train` learns, from what, and how."""

    scenes: tuple[Path, ...] = ()
    labels: Path = option(
        Path(),
        "--labels",
        type=FILE,
        required=True,
        metavar="FILE",
        group=LABELS,
        help="Polygons or points (GeoPackage, GeoJSON, shapefile, FlatGeobuf, .gdb), or a raster of ids.",
    )
    class_field: str | None = option(
        None,
        "--class-field",
        metavar="NAME",
        group=LABELS,
        help='Attribute that names the class. Default: "class".',
    )
    class_names: tuple[str, ...] = option(
        (),
        "--class-names",
        metavar="A,B,...",
        parse=_names,
        group=LABELS,
        help="Names of a label raster's values, ascending.",
    )
    colours: Path | None = option(
        None,
        "--colours",
        type=FILE,
        metavar="FILE",
        group=LABELS,
        help="Colours of classes by name: a QGIS style (.qml), a CSV of name,color or a GIMP palette. "
        'Default: those of the labels (a field "color", a colour table), else by the words of the names.',
    )
    samples_per_class: int = option(
        2000,
        "--samples-per-class",
        type=click.IntRange(2),
        group=LABELS,
        help="Labelled pixels drawn per class, at most.",
    )
    unlabelled: int = option(
        20_000, "--unlabelled", type=click.IntRange(0), group=LABELS, help="Unlabelled pixels drawn."
    )
    doubtful: Path | None = option(
        None,
        "--doubtful",
        type=OutputPath(),
        metavar="FILE",
        group=LABELS,
        help="Also write the polygons that the other labels contradict most, as a GeoPackage to review.",
    )
    model: str = option(
        "p3vae",
        "--model",
        type=click.Choice(estimator_names()),
        group=MODEL,
        help="What to train: p3VAE, or one of the models it is compared with.",
    )
    preset: Literal["default", "paper"] = option(
        "default",
        "--preset",
        type=click.Choice(["default", "paper"]),
        group=MODEL,
        help="p3VAE with our settings, or as published.",
    )
    prior: Path | None = option(
        None,
        "--from",
        type=FILE,
        metavar="MODEL",
        group=MODEL,
        help="Model of materials (earth) that says what one to three polygons per class cannot.",
    )
    alias: tuple[str, ...] = option(
        (),
        "--alias",
        multiple=True,
        metavar="CLASS=NAME",
        group=MODEL,
        help="With --from: the class or material of MODEL that a class of the labels is. May be repeated.",
    )
    class_prior: Literal["uniform", "labels", "scene"] = option(
        "uniform",
        "--class-prior",
        type=click.Choice(["uniform", "labels", "scene"]),
        group=MODEL,
        help="Prior of the classes: all the same, as in the labels, or estimated from unlabelled pixels.",
    )
    seed: int = option(0, "--seed", type=click.IntRange(0), group=MODEL, help="Same seed, same model.")
    epochs: int | None = option(
        None,
        "--epochs",
        type=click.IntRange(1),
        group=MODEL,
        help="Passes of a network over the data. Default: the model's.",
    )
    physics: bool = option(
        True, "--physics/--no-physics", group=RARE, help="Leave the physics layer out (ablation)."
    )
    stop_gradient: bool = option(
        True,
        "--stop-gradient/--no-stop-gradient",
        group=RARE,
        help="Whether unlabelled pixels leave the decoder of a VAE as it is.",
    )
    sky_offset: float = option(
        0.2,
        "--sky-offset",
        type=click.FloatRange(0.0, 1.0),
        metavar="SHARE",
        group=RARE,
        help="With --preset paper: skylight of ground without sun, as a share of open ground's.",
    )
    output: Path = option(
        Path(),
        "-o",
        "--output",
        type=OutputPath(also=(".checkpoint",)),
        required=True,
        metavar="MODEL",
        group=OUTPUT,
        help="Model file to write.",
    )
    resume: bool = option(
        False, "--resume", group=OUTPUT, help="Go on with an unfinished training of the same output."
    )
    overwrite: bool = option(False, "--overwrite", group=OUTPUT, help="Replace an existing model.")
    as_json: bool = option(False, "--json", group=OUTPUT, help="The validation as one JSON line on stdout.")
    quiet: bool = option(False, "-q", "--quiet", group=OUTPUT, help="Only errors.")
    show_progress: bool | None = option(
        None, "--progress/--no-progress", group=OUTPUT, help="Show progress. Default: on a terminal."
    )
    device: str = device_option()
    irradiance: LightSettings = field(default_factory=LightSettings)
    terrain: TerrainSettings = field(default_factory=TerrainSettings)

    @property
    def estimator(self) -> TrainingSettings:
        """The settings of the estimator."""
        from p3vae.models.landcover.types import TrainingSettings

        return TrainingSettings(
            model=self.model,
            preset=self.preset,
            epochs=self.epochs,
            seed=self.seed,
            physics=self.physics,
            stop_gradient=self.stop_gradient,
            class_prior=self.class_prior,
            sky_offset=self.sky_offset,
        )
