"""`p3vae invert-methane`: methane, plumes and emission rates from radiance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from p3vae.cli.batch_options import OutputPath
from p3vae.cli.options import (
    FileCommand,
    Finite,
    FiniteRange,
    device_option,
    output_options,
    scene_options,
    scenes_argument,
)

if TYPE_CHECKING:
    from p3vae.cli.run.mapping import OutputOptions
    from p3vae.cli.scenes import SceneOptions

FILE = click.Path(path_type=Path)


@click.command(cls=FileCommand)
@scenes_argument
@click.option(
    "--method",
    type=click.Choice(["p3vae", "oe", "mf", "mf-log", "mag1c"]),
    default="p3vae",
    show_default=True,
    help="p3VAE, optimal estimation, matched filters, or the iterative sparse filter.",
)
@click.option(
    "--preset",
    type=click.Choice(["default", "paper"]),
    default="default",
    show_default=True,
    help="Our p3VAE, or the one published.",
)
@click.option("--plume-mask", type=FILE, metavar="FILE", help="Where plumes may be: raster or polygons.")
@click.option("-m", "--model", type=FILE, metavar="MODEL", help="A background saved by --save-model.")
@click.option(
    "--save-model", type=OutputPath(), metavar="MODEL", help="Keep the background for scenes of this sensor."
)
@click.option(
    "--absorption", type=FILE, metavar="CSV", help="wavelength_nm, absorption [ppm-1 m-1], one way."
)
@click.option(
    "--absorption-scale",
    type=FiniteRange(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Multiplies the absorption.",
)
@click.option(
    "--max-ppm-m",
    type=FiniteRange(min=0, min_open=True),
    help="Largest enhancement considered. Default: 50,000.",
)
@click.option(
    "--wind",
    "winds",
    multiple=True,
    metavar="M/S|CSV|NETCDF",
    help="10 m wind, for Q: one speed, a table of scene, wind_m_s [, wind_std_m_s, source], or a field of "
    "u10, v10 (ERA5) or U10M, V10M (GEOS). Several: the first is that of Q, the others stand beside it.",
)
@click.option(
    "--wind-uncertainty",
    "wind_std_m_s",
    type=FiniteRange(0),
    metavar="M/S",
    help="Default: 50 % below 3 m/s, else 1.5 m/s.",
)
@click.option("--ueff-a", type=Finite(), help="U_eff = a * wind + b. Default: by sensor.")
@click.option("--ueff-b", type=Finite(), help="See --ueff-a.")
@click.option(
    "--ground-sampling",
    "ground_sampling_m",
    type=FiniteRange(min=0, min_open=True),
    metavar="M",
    help="Side of a pixel, for masses in a scene without georeference.",
)
@click.option("--control", is_flag=True, help="Count plumes in the sign-flipped map, where there are none.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@device_option
@output_options
@scene_options
def invert_methane(
    scenes: tuple[str, ...],
    outputs: OutputOptions,
    scene_options: SceneOptions,
    device: str,
    winds: tuple[str, ...],
    wind_std_m_s: float | None,
    ueff_a: float | None,
    ueff_b: float | None,
    ground_sampling_m: float | None,
    control: bool,
    **options: Any,
) -> None:
    """Map methane enhancement [ppm m] in each radiance SCENE, and list its plumes.

    The background is learned from the scene's own plume-free pixels, which are found by themselves.
    """
    from p3vae.cli.methane.fit import MethaneOptions
    from p3vae.cli.methane.plumes import PlumeOptions
    from p3vae.cli.methane.wind import WindOption
    from p3vae.cli.run.jobs import MethaneJob
    from p3vae.cli.run.mapping import map_scenes

    plumes = PlumeOptions(
        winds=tuple(map(WindOption.parse, winds)),
        wind_std_m_s=wind_std_m_s,
        ueff_a=ueff_a,
        ueff_b=ueff_b,
        ground_sampling_m=ground_sampling_m,
        control=control,
    )
    asked = MethaneOptions(
        plumes=plumes, overwrite=outputs.run.overwrite, quality_mask=scene_options.quality_mask, **options
    )
    map_scenes(scenes, scene_options, outputs, MethaneJob(device, asked, outputs.shows_progress))
