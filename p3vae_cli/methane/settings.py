"""Settings of `p3vae invert-methane`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import click

from p3vae.cli.errors import UsageError
from p3vae.cli.params import FILE, POSITIVE, Finite, FiniteRange, OutputPath
from p3vae.cli.run.settings import MappingSettings, device_of_worker, device_option
from p3vae.cli.settings import LIGHT, OUTPUT, PLUMES, RARE, RETRIEVAL, Settings, option
from p3vae.models.methane.plumes.rule import PlumeRule

if TYPE_CHECKING:
    from p3vae.cli.run.mapper import Mapper
    from p3vae.cli.scenes.base import Scene

USUAL_MAX_PPM_M = 50_000.0


@dataclass(frozen=True)
class WindSource:
    """A value of `--wind`: a speed [m s-1], a CSV file or a NetCDF file."""

    value: float | Path

    @classmethod
    def parse(cls, text: str) -> Self:
        """From the command line: what is no number is a file."""
        try:
            value = float(text)
        except ValueError:
            return cls(Path(text))
        if not (math.isfinite(value) and value >= 0.0):
            raise UsageError(
                f"--wind {text} is no speed", remedy="give metres per second, or a CSV or NetCDF file"
            )
        return cls(value)


def _winds(texts: Iterable[str]) -> tuple[WindSource, ...]:
    return tuple(WindSource.parse(text) for text in texts)


@dataclass(frozen=True)
class PlumeSettings(Settings):
    """How plumes are separated from noise, and what is known of the wind."""

    winds: tuple[WindSource, ...] = option(
        (),
        "--wind",
        multiple=True,
        metavar="M/S|CSV|NETCDF",
        parse=_winds,
        group=PLUMES,
        help="10 m wind, for Q: one speed, a table of scene, wind_m_s [, wind_std_m_s, source], or a field "
        "of u10, v10 (ERA5) or U10M, V10M (GEOS). Several: the first is that of Q, the others stand beside "
        "it.",
    )
    wind_std_m_s: float | None = option(
        None,
        "--wind-uncertainty",
        type=FiniteRange(0),
        metavar="M/S",
        group=PLUMES,
        help="Default: 50 % below 3 m/s, else 1.5 m/s.",
    )
    ground_sampling_m: float | None = option(
        None,
        "--ground-sampling",
        type=POSITIVE,
        metavar="M",
        group=PLUMES,
        help="Side of a pixel, for masses in a scene without georeference.",
    )
    control: bool = option(
        False,
        "--control",
        group=PLUMES,
        help="Count plumes in the sign-flipped map, where there are none.",
    )
    ueff_a: float | None = option(
        None, "--ueff-a", type=Finite(), group=RARE, help="U_eff = a * wind + b. Default: by sensor."
    )
    ueff_b: float | None = option(None, "--ueff-b", type=Finite(), group=RARE, help="See --ueff-a.")
    rule: PlumeRule = field(default_factory=PlumeRule)
    """What counts as a plume."""

    def request(self) -> dict[str, Any]:
        """With the rule, which no option changes."""
        from dataclasses import asdict

        return super().request() | {"rule": asdict(self.rule)}


@dataclass(frozen=True)
class RetrievalSettings(MappingSettings):
    """What `p3vae invert-methane` makes."""

    command: ClassVar[str] = "invert-methane"
    seconds_per_scene: ClassVar[float] = 6.0  # learns the background

    method: Literal["p3vae", "oe", "mf", "mf-log", "mag1c"] = option(
        "p3vae",
        "--method",
        type=click.Choice(["p3vae", "oe", "mf", "mf-log", "mag1c"]),
        group=RETRIEVAL,
        help="p3VAE, optimal estimation, matched filters, or the iterative sparse filter.",
    )
    preset: Literal["default", "paper"] = option(
        "default",
        "--preset",
        type=click.Choice(["default", "paper"]),
        group=RETRIEVAL,
        help="Our p3VAE, or the one published.",
    )
    plume_mask: Path | None = option(
        None,
        "--plume-mask",
        type=FILE,
        metavar="FILE",
        group=RETRIEVAL,
        help="Where plumes may be: raster or polygons.",
    )
    model: Path | None = option(
        None,
        "-m",
        "--model",
        type=FILE,
        metavar="MODEL",
        group=RETRIEVAL,
        help="A background saved by --save-model.",
    )
    save_model: Path | None = option(
        None,
        "--save-model",
        type=OutputPath(),
        metavar="MODEL",
        group=OUTPUT,
        decides=False,
        help="Keep the background for scenes of this sensor.",
    )
    max_ppm_m: float | None = option(
        None,
        "--max-ppm-m",
        type=POSITIVE,
        group=RETRIEVAL,
        help="Largest enhancement considered. Default: 50,000, or that of the model.",
    )
    absorption: Path | None = option(
        None,
        "--absorption",
        type=FILE,
        metavar="CSV",
        group=LIGHT,
        help="wavelength_nm, absorption [ppm-1 m-1], one way.",
    )
    absorption_scale: float = option(
        1.0, "--absorption-scale", type=POSITIVE, group=RARE, help="Multiplies the absorption."
    )
    seed: int = option(0, "--seed", type=click.IntRange(0), group=RETRIEVAL, help="Same seed, same maps.")
    device: str = device_option()
    plumes: PlumeSettings = field(default_factory=PlumeSettings)

    @property
    def largest_ppm_m(self) -> float:
        """Largest enhancement that a background is learned for [ppm m]."""
        return USUAL_MAX_PPM_M if self.max_ppm_m is None else self.max_ppm_m

    @property
    def values_per_second(self) -> float:
        """The posterior costs more than a filter."""
        return 6e6 if self.method == "p3vae" else 1.5e7

    @property
    def kept(self) -> Path | None:
        """The saved background."""
        return self.save_model

    def mapper(self, scene: Scene) -> Mapper:
        """A mapper that learns the background from the scene."""
        from p3vae.cli.methane.retrieval import MethaneMapper

        return MethaneMapper(scene, self)

    def for_worker(self, number: int) -> Self:
        """On a device of its own."""
        return replace(self, device=device_of_worker(self.device, number))

    def after_batch(self, home: Path, folders: Sequence[Path], *, several: bool) -> Sequence[str]:
        """One table of the plumes of all scenes, also kept up to date by runs of single scenes."""
        from p3vae.cli.methane.plume_collection import COLLECTION, collect_plumes

        if not several and not (home / COLLECTION).exists():
            return ()
        path, plumes, scenes = collect_plumes(home, folders)
        return [f"{path}: {plumes} plumes of {scenes} scenes"]
