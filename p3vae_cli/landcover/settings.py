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
    LIGHT,
    OUTPUT,
    RETRIEVAL,
    Settings,
    option,
)

if TYPE_CHECKING:
    from p3vae.cli.run.mapper import Mapper
    from p3vae.cli.scenes.base import Scene


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
