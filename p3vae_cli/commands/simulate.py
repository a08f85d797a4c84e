"""`p3vae simulate`: a synthetic scene with exact truth, in the layout of a real product."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from p3vae.cli.errors import UsageError
from p3vae.cli.options import FileCommand
from p3vae.cli.params import FiniteRange, OutputPath

LAYOUTS = ("geotiff", "envi", "prisma-l2d", "prisma-l1")


def _parse_size(ctx: click.Context, param: click.Parameter, text: str) -> tuple[int, int]:
    """ROWSxCOLS, or one number for a square, as rows and columns."""
    parts = text.lower().split("x")
    if len(parts) not in (1, 2) or not all(part.isdecimal() for part in parts):
        raise click.BadParameter(f"{text!r} is not ROWSxCOLS, for example 200x300")
    return int(parts[0]), int(parts[-1])


@click.command(cls=FileCommand)
@click.option("-o", "--output", type=OutputPath(), required=True, help="Scene file, or a folder for it.")
@click.option(
    "--layout", type=click.Choice(LAYOUTS), help="Product to imitate [default: by the file's name]."
)
@click.option(
    "--size",
    callback=_parse_size,
    default="160x160",
    metavar="ROWSxCOLS",
    show_default=True,
    help="Size of the scene in pixels.",
)
@click.option(
    "--pixel-size",
    type=FiniteRange(0, min_open=True),
    metavar="M",
    help="[default: 1, PRISMA and mountains 30]",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Another seed, another town."
)
@click.option("--bands", default="96", show_default=True, help='Evenly spaced bands, or "prisma".')
@click.option("--time", metavar="ISO", help="Time of acquisition, UTC [default: 2024-04-02T10:28:37.932].")
@click.option(
    "--sun-zenith", type=FiniteRange(0, 80), metavar="DEG", help="[default: from time, at Toulouse]"
)
@click.option("--sun-azimuth", type=FiniteRange(0, 360), metavar="DEG", help="Clockwise from north.")
@click.option(
    "--noise", type=FiniteRange(0), default=0.005, show_default=True, help="Noise over mean signal."
)
@click.option(
    "--plume",
    type=FiniteRange(0),
    default=0.0,
    metavar="PPM_M",
    help="Peak enhancement of a methane plume (prisma-l1).",
)
@click.option("--plumes", type=click.IntRange(1), default=1, show_default=True, help="How many plumes.")
@click.option(
    "--smile",
    type=FiniteRange(0, 3),
    default=1.0,
    show_default=True,
    metavar="NM",
    help="Shift of wavelengths across the swath (prisma-l1).",
)
@click.option(
    "--relief",
    type=click.Choice(["town", "mountains"]),
    default="town",
    show_default=True,
    help="What it shows.",
)
@click.option(
    "--dem-error",
    type=FiniteRange(0),
    default=0.0,
    show_default=True,
    metavar="M",
    help="Error of the elevation model of mountains, one standard deviation.",
)
@click.option(
    "--dem-offset",
    type=(FiniteRange(-500, 500), FiniteRange(-500, 500)),
    default=(0.0, 0.0),
    metavar="EAST NORTH",
    help="How far the elevation model is displaced, in metres.",
)
@click.option(
    "--dem-pixel-size",
    type=FiniteRange(0, min_open=True),
    metavar="M",
    help="Pixel size of the elevation model [default: that of the scene].",
)
@click.option("--overwrite", is_flag=True, help="Replace existing files.")
def simulate(
    *,
    output: Path,
    layout: Any,
    size: tuple[int, int],
    time: str | None,
    plume: float,
    plumes: int,
    **options: Any,
) -> None:
    """Write a synthetic scene under the sun: the scene, its true maps, and label polygons.

    It shows a town, or mountains with an elevation model beside it. Material spectra are synthetic. The same
    options always give the same bytes. Objects are about ten pixels across at any pixel size.
    """
    from p3vae.cli.simulate.elevations import DemError
    from p3vae.cli.simulate.scene import SimulationRequest, layout_of, simulate_to_files

    request = SimulationRequest(
        output=output,
        layout=layout or layout_of(output),
        rows=size[0],
        cols=size[1],
        pixel_size_m=options["pixel_size"],
        seed=options["seed"],
        bands=options["bands"],
        time=_parse_time(time),
        sun_zenith_deg=options["sun_zenith"],
        sun_azimuth_deg=options["sun_azimuth"],
        noise=options["noise"],
        plume_peak_ppm_m=plume,
        plume_count=plumes,
        smile_nm=options["smile"],
        relief=options["relief"],
        dem=DemError(options["dem_error"], options["dem_offset"], options["dem_pixel_size"]),
        overwrite=options["overwrite"],
    )
    try:
        summary = simulate_to_files(request)
    except MemoryError as error:
        raise UsageError(
            f"--size {size[0]}x{size[1]} needs more memory than there is", remedy="simulate a smaller scene"
        ) from error
    for path in (summary.scene, summary.labels, *summary.truth):
        click.echo(path)
    for mass in summary.plume_mass_kg:
        click.echo(f"plume of {mass:.6g} kg", err=True)


def _parse_time(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is no ISO time, for example 2024-04-02T10:28:37", param_hint="--time"
        ) from error
