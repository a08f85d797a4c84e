"""Options that several commands share, spelled as rio and GDAL users expect them.

Nothing heavy is imported here: values become dataclasses only when a command runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

SCENE = click.Path(path_type=Path)

scene_argument = click.argument("scene", type=SCENE, metavar="SCENE")

_SCENE_OPTIONS = (
    click.option("--sun-zenith", type=click.FloatRange(0, 90), metavar="DEG", help="Sun zenith angle."),
    click.option(
        "--sun-azimuth",
        type=click.FloatRange(-360, 360),
        metavar="DEG",
        help="Sun azimuth, clockwise from north.",
    ),
    click.option(
        "--view-zenith", type=click.FloatRange(0, 90), metavar="DEG", help="Sensor's view zenith angle."
    ),
    click.option(
        "--wavelengths-file",
        type=click.Path(path_type=Path),
        metavar="CSV",
        help="Bands of the file, in its order: wavelength_nm[,fwhm_nm][,good].",
    ),
    click.option("--bad-bands", metavar="RANGES", help='Bands to leave out, in nm: "1340-1450,1800-1950".'),
    click.option(
        "--quantity",
        type=click.Choice(["reflectance", "radiance"]),
        help="What the file holds, if it does not say.",
    ),
    click.option("--scale", type=float, metavar="FACTOR", help="Stored value to physical unit, e.g. 1e-4."),
    click.option("--nodata", type=float, metavar="VALUE", help="Stored value that means 'no data'."),
    click.option(
        "--overlap",
        type=click.Choice(["swir", "vnir"]),
        default="swir",
        show_default=True,
        help="Detector kept where two overlap (PRISMA).",
    ),
)


def scene_options(command: Command) -> Command:
    """Add what overrides or completes a scene's metadata; the command gets it as `scene_options`."""

    @functools.wraps(command)
    def wrapper(
        *args: Any,
        sun_zenith: float | None,
        sun_azimuth: float | None,
        view_zenith: float | None,
        wavelengths_file: Path | None,
        bad_bands: str | None,
        quantity: Any,
        scale: float | None,
        nodata: float | None,
        overlap: Any,
        **kwargs: Any,
    ) -> Any:
        from p3vae.cli.scenes import SceneOptions, parse_ranges

        overrides = SceneOptions(
            sun_zenith_deg=sun_zenith,
            sun_azimuth_deg=sun_azimuth,
            view_zenith_deg=view_zenith,
            wavelengths_file=wavelengths_file,
            bad_bands=parse_ranges(bad_bands) if bad_bands else (),
            quantity=quantity,
            scale=scale,
            nodata=nodata,
            overlap=overlap,
        )
        return command(*args, scene_options=overrides, **kwargs)

    return _with(_SCENE_OPTIONS, wrapper)


def _with(options: tuple[Callable[[Any], Any], ...], command: Any) -> Any:
    return functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)
