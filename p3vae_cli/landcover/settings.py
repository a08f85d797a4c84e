"""Settings of the commands that use or make a land-cover model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import click

from p3vae.cli.errors import UsageError
from p3vae.cli.landcover.terrain_settings import TerrainMapSettings, TerrainSettings
from p3vae.cli.params import FILE, FiniteRange, OutputPath
from p3vae.cli.run.settings import MappingSettings, device_of_worker, device_option
from p3vae.cli.settings import (
    LABELS,
    LIGHT,
    MODEL,
    OUTPUT,
    RARE,
    RETRIEVAL,
    Settings,
    option,
)
from p3vae.models.landcover.registry import estimator_names

if TYPE_CHECKING:
    from p3vae.cli.run.mapper import Mapper
    from p3vae.cli.scenes.base import Scene
    from p3vae.models.landcover.types import TrainingSettings


@dataclass(frozen=True)
class LightSettings(Settings):
    """What decides the irradiance assumed on flat ground."""

    table: Path | None = option(
        None,
        "--irradiance",
        type=FILE,
        metavar="CSV",
        group=LIGHT,
        help="Irradiance on flat ground: wavelength_nm,direct,diffuse. Default: clear sky.",
    )
    aerosol_optical_depth: float = option(
        0.35,
        "--aod",
        type=FiniteRange(0, 20),
        group=LIGHT,
        help="Aerosol optical depth at 500 nm, for the clear sky.",
    )
    water_vapour_cm: float = option(
        1.0,
        "--water-vapour",
        type=FiniteRange(0, 50),
        metavar="CM",
        group=LIGHT,
        help="Water vapour column, for the clear sky.",
    )
    ground_albedo: float = option(
        0.3,
        "--albedo",
        type=FiniteRange(0, 1),
        group=LIGHT,
        help="Mean reflectance of the surroundings, for the clear sky.",
    )


def _model(**more: Any) -> Any:
    return option(
        None,
        "-m",
        "--model",
        type=FILE,
        metavar="MODEL",
        group=RETRIEVAL,
        help="Model file, or the name of a shipped one. Default: earth.",
        **more,
    )


def _scene_gain() -> Any:
    return option(
        True,
        "--scene-gain/--no-scene-gain",
        group=LIGHT,
        help="Correct gain, haze and noise where they differ from those of the model's scene.",
    )


@dataclass(frozen=True)
class ModelMapSettings(MappingSettings):
    """What both maps by a land-cover model are asked for."""

    model: Path | None = _model()
    scene_gain: bool = _scene_gain()
    device: str = device_option()
    irradiance: LightSettings = field(default_factory=LightSettings)
    terrain: TerrainMapSettings = field(default_factory=TerrainMapSettings)

    @property
    def values_per_second(self) -> float:
        """A model of libraries has many more components than one of a scene."""
        from p3vae.cli.run.model_files import find_model

        return 1.6e7 if find_model(self.model).stem == "earth" else 5.5e7

    @classmethod
    def additions(cls) -> frozenset[str]:
        """Those of both commands: each may find what the other has made."""
        return ClassifySettings.own_additions() | IrradianceMapSettings.own_additions()

    def load(self) -> None:
        """The model."""
        from p3vae.cli.run.model_files import load_land_cover

        load_land_cover(self.model, self.device)

    def request(self) -> dict[str, Any]:
        """With the file of the model."""
        from p3vae.cli.run.model_files import find_model

        return super().request() | {"model": find_model(self.model)}

    @property
    def shown_model(self) -> Path | None:
        """The model that a report should show, if the user named one."""
        return self.model

    def for_worker(self, number: int) -> Self:
        """On a device of its own."""
        return replace(self, device=device_of_worker(self.device, number))


@dataclass(frozen=True)
class ClassifySettings(ModelMapSettings):
    """What `p3vae classify` makes."""

    command: ClassVar[str] = "classify"

    method: Literal["posterior", "classifier"] | None = option(
        None,
        "--method",
        type=click.Choice(["posterior", "classifier"]),
        group=RETRIEVAL,
        help="Class by the posterior p(y|x), or by the classifier q(y|x) alone where the model has one.",
    )
    neighbours: bool = option(
        True,
        "--neighbours/--no-neighbours",
        group=RETRIEVAL,
        adds=True,
        help="Average over neighbours where that is better, or map every pixel by itself.",
    )
    unknown: bool = option(
        False,
        "--unknown",
        group=RETRIEVAL,
        adds=True,
        help="Mark pixels unlike anything the model learned (value 255).",
    )
    probabilities: bool = option(
        False,
        "--probabilities",
        group=OUTPUT,
        adds=True,
        help="Also write the probability of every class, one band each.",
    )
    materials: bool = option(
        False,
        "--materials",
        group=OUTPUT,
        adds=True,
        help="Also write the likeliest material and its probability.",
    )
    fractions: bool = option(
        False,
        "--fractions",
        group=OUTPUT,
        adds=True,
        help="Also write the cover fraction of every class, with its std.",
    )
    smooth: int | None = option(
        None,
        "--smooth",
        type=click.IntRange(1, 50),
        metavar="PIXELS",
        group=OUTPUT,
        adds=True,
        help='Also write the map with each pixel as most within this radius ("p3vae smooth").',
    )
    polygons: bool = option(
        False,
        "--polygons",
        group=OUTPUT,
        adds=True,
        help="Also write the map, smoothed if asked, as polygons with areas.",
    )

    def mapper(self, scene: Scene) -> Mapper:
        """Classes and light, by the model that was loaded."""
        from p3vae.cli.landcover.maps import ClassMapper

        return ClassMapper.of_file(scene, self)

    @property
    def remark(self) -> str:
        """Which model it was, if the user named none."""
        from p3vae.cli.run.model_files import find_model

        if self.model is not None:
            return ""
        name = find_model(None).stem
        return f'no --model was given: the shipped one, {name}, maps broad classes ("p3vae info {name}")'


@dataclass(frozen=True)
class IrradianceMapSettings(ModelMapSettings):
    """What `p3vae irradiance-map` makes."""

    command: ClassVar[str] = "irradiance-map"

    relight: bool = option(
        False,
        "--relight",
        group=OUTPUT,
        adds=True,
        help="Also write the reflectance of flat, sunlit ground as a cube.",
    )

    def mapper(self, scene: Scene) -> Mapper:
        """Light alone, by the model that was loaded."""
        from p3vae.cli.landcover.maps import LightMapper

        return LightMapper.of_file(scene, self)


def _place(text: str) -> tuple[float, float]:
    return _pair(text, "--at", float, "two numbers")


def _pixel(text: str) -> tuple[int, int]:
    return _pair(text, "--pixel", int, "two whole numbers")


def _pair(text: str, option: str, number: Callable[[str], Any], kind: str) -> tuple[Any, Any]:
    """Two numbers from "a,b" (comma or space)."""
    try:
        first, second = (number(part) for part in text.replace(",", " ").split())
    except ValueError as error:
        raise UsageError(f"{option} {text!r} is not {kind}", remedy="separate them with a comma") from error
    return first, second


@dataclass(frozen=True)
class ExplainSettings(Settings):
    """What `p3vae explain` is asked."""

    at: tuple[float, float] | None = option(
        None, "--at", metavar="X,Y", parse=_place, help="Map coordinates of the pixel."
    )
    crs: str | None = option(None, "--crs", metavar="CRS", help="CRS of --at. Default: the scene's.")
    pixel: tuple[int, int] | None = option(
        None, "--pixel", metavar="COL,ROW", parse=_pixel, help="Column and row of the pixel, from 0."
    )
    output: Path | None = option(
        None,
        "-o",
        "--output",
        type=OutputPath(),
        metavar="FILE",
        group=OUTPUT,
        help="Also draw the spectra: .html or .png.",
    )
    overwrite: bool = option(False, "--overwrite", group=OUTPUT, help="Replace an existing drawing.")
    as_json: bool = option(False, "--json", group=OUTPUT, help="Print JSON instead of tables.")
    model: Path | None = _model()
    scene_gain: bool = _scene_gain()
    irradiance: LightSettings = field(default_factory=LightSettings)
    terrain: TerrainSettings = field(default_factory=TerrainSettings)


@dataclass(frozen=True)
class SuggestSettings(Settings):
    """What `p3vae suggest` is asked."""

    output: Path = option(
        Path(),
        "-o",
        "--output",
        type=OutputPath(),
        required=True,
        metavar="GPKG",
        help="GeoPackage to write.",
    )
    count: int = option(20, "-n", "--n", type=click.IntRange(1, 1000), help="Places.")
    seed: int = option(0, "--seed", type=click.IntRange(0), help="Same seed, same places.")
    overwrite: bool = option(False, "--overwrite", group=OUTPUT, help="Replace an existing file.")
    as_json: bool = option(False, "--json", group=OUTPUT, help="Print JSON.")
    model: Path | None = _model()
    scene_gain: bool = _scene_gain()
    irradiance: LightSettings = field(default_factory=LightSettings)


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
        """What the model is told."""
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
