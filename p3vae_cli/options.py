"""Options that several commands share, spelled as rio and GDAL users expect them.

Nothing heavy is imported here: values become dataclasses only when a command runs.
"""

from __future__ import annotations

import functools
import math
import re
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from p3vae.cli.batch_options import BATCH_OPTIONS, OutputPath, batch_values
from p3vae.cli.errors import UsageError


class Finite(click.types.FloatParamType):
    """A number that is neither infinite nor NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class FiniteRange(Finite, click.FloatRange):
    """A finite number in a range; to click, NaN is inside of any."""


class FileCommand(click.Command):
    """A command whose outputs, before any work starts, are checked to be none of its inputs.

    Whatever value is the path of a file, and no `OutputPath`, is an input.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        if ctx.resilient_parsing:
            return rest
        from p3vae.cli.scenes.inputs import declared, require_no_input

        ctx.with_resource(declared(_inputs(ctx)))
        for param in self.params:
            if isinstance(param.type, OutputPath):
                for path in _values(ctx, param):
                    for end in ("", *param.type.also):
                        require_no_input(path.with_name(path.name + end))
        return rest


def _values(ctx: click.Context, param: click.Parameter) -> Iterator[Path]:
    """The values of a parameter that could be paths."""
    value = ctx.params.get(param.name or "")
    for one in value if isinstance(value, tuple) else (value,):
        if isinstance(one, str | Path) and Path(one).name:
            yield Path(one)


def _inputs(ctx: click.Context) -> Iterator[Path]:
    """Every file that a call names, those in lists and of globs too; a list on stdin is read later."""
    yield from ctx.meta.get(_CONFIG, ())
    for param in ctx.command.params:
        if isinstance(param.type, OutputPath):
            continue
        for path in _values(ctx, param):
            yield path
            if param.name == "scenes":
                yield from _scenes(str(path), null=bool(ctx.params.get("null")))


def _scenes(typed: str, *, null: bool) -> Iterator[Path]:
    from p3vae.cli.run.lists import expand_scenes

    is_list = typed.startswith("@")
    if is_list:
        yield Path(typed[1:])
    with suppress(UsageError, OSError, ValueError):  # which the command itself will report
        if typed == "-" or (is_list and not Path(typed[1:]).is_file()):
            return  # a pipe can be read once
        yield from expand_scenes([typed], null=null)


_CONFIG = "p3vae.config"
"""Where the path of --config is kept: it is no value of the command."""
scenes_argument = click.argument("scenes", nargs=-1, required=True, metavar="SCENE...")

_SCENE_OPTIONS = (
    click.option("--sun-zenith", type=FiniteRange(0, 90), metavar="DEG", help="Sun zenith angle."),
    click.option(
        "--sun-azimuth",
        type=FiniteRange(-360, 360),
        metavar="DEG",
        help="Sun azimuth, clockwise from north.",
    ),
    click.option("--view-zenith", type=FiniteRange(0, 90), metavar="DEG", help="Sensor's view zenith angle."),
    click.option(
        "--wavelengths",
        "--wavelengths-file",
        "wavelengths_file",
        type=click.Path(path_type=Path),
        metavar="SENSOR|CSV",
        help="Bands of a file that names none: those of sentinel-2, landsat-5, -7, -8 or -9, or a CSV of its "
        "bands in their order, wavelength_nm[,fwhm_nm][,good].",
    ),
    click.option("--bad-bands", metavar="RANGES", help='Bands to leave out, in nm: "1340-1450,1800-1950".'),
    click.option(
        "--quantity",
        type=click.Choice(["reflectance", "radiance"]),
        help="What the file holds, if it does not say.",
    ),
    click.option(
        "--scale",
        type=FiniteRange(min=0, min_open=True),
        metavar="FACTOR",
        help="Stored value to physical unit, e.g. 1e-4.",
    ),
    click.option("--nodata", type=float, metavar="VALUE", help="Stored value that means 'no data'."),
    click.option(
        "--quality-mask/--no-quality-mask",
        default=True,
        show_default=True,
        help="Leave out pixels that the product flags as cloud or cirrus; in methane maps also cloud, water, "
        "flares and saturation as seen in the spectra.",
    ),
    click.option(
        "--driver",
        "drivers",
        multiple=True,
        metavar="NAME",
        help="GDAL format to open besides the known ones, e.g. VRT: such a file may refer to any other.",
    ),
    click.option(
        "--overlap",
        type=click.Choice(["swir", "vnir"]),
        default="swir",
        show_default=True,
        help="Detector kept where two overlap (PRISMA).",
    ),
)


def scene_options(command: Callable[..., Any]) -> Callable[..., Any]:
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
        drivers: tuple[str, ...],
        overlap: Any,
        quality_mask: bool,
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
            drivers=drivers,
            overlap=overlap,
            quality_mask=quality_mask,
        )
        return command(*args, scene_options=overrides, **kwargs)

    return _with(_SCENE_OPTIONS, wrapper)


_IRRADIANCE_OPTIONS = (
    click.option(
        "--irradiance",
        "irradiance_table",
        type=click.Path(path_type=Path),
        metavar="CSV",
        help="Irradiance on flat ground: wavelength_nm,direct,diffuse. Default: clear sky.",
    ),
    click.option(
        "--aod",
        type=FiniteRange(0, 20),
        default=0.35,  # AEROSOL_OPTICAL_DEPTH, whose home would import numpy for --help
        show_default=True,
        help="Aerosol optical depth at 500 nm, for the clear sky.",
    ),
    click.option(
        "--water-vapour",
        type=FiniteRange(0, 50),
        default=1.0,
        show_default=True,
        metavar="CM",
        help="Water vapour column, for the clear sky.",
    ),
    click.option(
        "--albedo",
        type=FiniteRange(0, 1),
        default=0.3,
        show_default=True,
        help="Mean reflectance of the surroundings, for the clear sky.",
    ),
)


def irradiance_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what decides the irradiance; the command gets it as `irradiance`."""

    @functools.wraps(command)
    def wrapper(
        *args: Any,
        irradiance_table: Path | None,
        aod: float,
        water_vapour: float,
        albedo: float,
        **kwargs: Any,
    ) -> Any:
        from p3vae.cli.landcover.irradiance import IrradianceOptions

        return command(
            *args, irradiance=IrradianceOptions(irradiance_table, aod, water_vapour, albedo), **kwargs
        )

    return _with(_IRRADIANCE_OPTIONS, wrapper)


model_option = click.option(
    "-m",
    "--model",
    type=click.Path(path_type=Path),
    metavar="MODEL",
    help="Model file. Default: the shipped one.",
)
scene_gain_option = click.option(
    "--no-scene-gain",
    is_flag=True,
    help="Leave gain, haze and noise as the scene has them, also where the model's scene had others.",
)
device_option = click.option(
    "--device", default="auto", show_default=True, metavar="auto|cpu|cuda[:N]|mps", help="Where to compute."
)


def _read_config(context: click.Context, config: click.Parameter, path: Path | None) -> None:
    """Values of a TOML file become the defaults of the options of the same names."""
    if path is None:
        return
    context.meta[_CONFIG] = (path,)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot be read as TOML: {error}", path=path) from error
    except RecursionError as error:
        raise UsageError("cannot be read as TOML: it is nested too deeply", path=path) from error
    options = {
        spelling.removeprefix("--"): option
        for option in context.command.params
        if isinstance(option, click.Option) and option is not config
        for spelling in (*option.opts, *option.secondary_opts)
        if spelling.startswith("--")
    }
    defaults = {}
    for key, value in values.items():
        option = options.get(key)
        if option is None:
            raise UsageError(f"sets {key!r}, which is no option of {context.info_name}", path=path)
        try:
            defaults[option.name] = _config_value(option, key, value)
        except click.BadParameter as error:
            raise UsageError(f"sets {key!r} to {value!r}: {error.message}", path=path) from error
    context.default_map = {**(context.default_map or {}), **defaults}


def _config_value(option: click.Option, key: str, value: Any) -> Any:
    """A value from TOML as click takes it from the command line."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise click.BadParameter("expected true or false")
        return value != (f"--{key}" in option.secondary_opts)
    parts = [_config_text(part) for part in (value if isinstance(value, list) else [value])]
    if option.multiple:
        return parts
    if isinstance(value, list) and option.type is not click.STRING:
        raise click.BadParameter("expected a single value")
    text = ",".join(parts)
    option.type.convert(text, option, None)  # an error here still knows the file
    return text


def _config_text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise click.BadParameter("expected a number or text")
    if "\0" in str(value):
        raise click.BadParameter("it holds a zero byte")
    return str(value)


config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    callback=_read_config,
    is_eager=True,
    expose_value=False,
    metavar="TOML",
    help="Options from a file, by their long names without dashes in front.",
)

_OUTPUT_OPTIONS = (
    click.option(
        "-o",
        "--output",
        type=OutputPath(),
        metavar="PATH",
        help="Folder for the products (a .tif if there is one map only). Default: beside the scene.",
    ),
    click.option("--overwrite", is_flag=True, help="Replace products that exist."),
    click.option(
        "--mask",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Map only where this raster is not zero, or inside these polygons.",
    ),
    click.option("--bbox", "--bounds", metavar="XMIN,YMIN,XMAX,YMAX", help="Part of the scene to map."),
    click.option("--bbox-crs", metavar="CRS", help="CRS of --bbox. Default: the scene's."),
    click.option(
        "--grid",
        type=click.Choice(["scene", "utm"]),
        default="scene",
        show_default=True,
        help="Grid of a swath's products: the map grid in the file (EMIT), else the detector's with control "
        "points, or UTM.",
    ),
    click.option("--pixel-size", type=FiniteRange(min=0, min_open=True), metavar="M", help="Of --grid utm."),
    click.option("--co", metavar="NAME=VALUE", multiple=True, help="GDAL creation option of the COG driver."),
    click.option("--tile-size", type=click.IntRange(1), metavar="PIXELS", help="Side of a tile."),
    click.option("--mem-limit", metavar="SIZE", help='Memory a run may use, e.g. "600MB" or "2GB".'),
    click.option("--progress/--no-progress", default=None, help="Show progress. Default: on a terminal."),
    click.option("-q", "--quiet", is_flag=True, help="Only errors."),
    click.option("--json", "as_json", is_flag=True, help="One JSON line per scene on stdout."),
    click.option("--report", is_flag=True, help='Then show the folder on a page, as "p3vae report" does.'),
    click.option("--qgis", is_flag=True, help='Then write its QGIS project, as "p3vae qgis" does.'),
)


def output_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add what decides where products go; the command gets it as `outputs`."""

    @functools.wraps(command)
    def wrapper(
        *args: Any,
        output: Path | None,
        overwrite: bool,
        mask: Path | None,
        bbox: str | None,
        bbox_crs: str | None,
        grid: str,
        pixel_size: float | None,
        co: tuple[str, ...],
        tile_size: int | None,
        mem_limit: str | None,
        progress: bool | None,
        quiet: bool,
        as_json: bool,
        report: bool,
        qgis: bool,
        **kwargs: Any,
    ) -> Any:
        from p3vae.cli.rasters.files import parse_creation_options
        from p3vae.cli.run.make import RunOptions
        from p3vae.cli.run.mapping import OutputOptions

        if bbox_crs and not bbox:
            raise UsageError("--bbox-crs is of no use without --bbox", remedy="give both or none")
        if pixel_size and grid != "utm":
            raise UsageError("--pixel-size is of no use without --grid utm", remedy="give both or none")
        run = RunOptions(
            overwrite=overwrite,
            bbox=parse_bbox(bbox) if bbox else None,
            bbox_crs=bbox_crs,
            tile_size=tile_size,
            mem_limit=parse_size(mem_limit) if mem_limit else None,
            to_utm=grid == "utm",
            pixel_size=pixel_size,
            creation_options=parse_creation_options(co),
        )
        batch = batch_values(kwargs) | {"report": report, "qgis": qgis}
        outputs = OutputOptions(
            output, mask, run, show_progress=progress, quiet=quiet, as_json=as_json, **batch
        )
        return command(*args, outputs=outputs, **kwargs)

    return _with((config_option, *_OUTPUT_OPTIONS, *BATCH_OPTIONS), wrapper)


def parse_bbox(text: str) -> tuple[float, float, float, float]:
    """Four numbers from "xmin,ymin,xmax,ymax" (commas or spaces)."""
    try:
        xmin, ymin, xmax, ymax = (float(part) for part in text.replace(",", " ").split())
    except ValueError as error:
        raise UsageError(f"--bbox {text!r} is not four numbers", remedy="xmin,ymin,xmax,ymax") from error
    return xmin, ymin, xmax, ymax


def parse_pair(text: str | None, option: str, *, whole: bool = False) -> Any:
    """Two numbers from "a,b" (comma or space); None stays None."""
    if text is None:
        return None
    try:
        first, second = ((int if whole else float)(part) for part in text.replace(",", " ").split())
    except ValueError as error:
        kind = "two whole numbers" if whole else "two numbers"
        raise UsageError(f"{option} {text!r} is not {kind}", remedy="separate them with a comma") from error
    return first, second


def parse_size(text: str) -> int:
    """Bytes from "600MB", "2GB" or a plain number of megabytes."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", text.lower())
    if match is None:
        raise UsageError(f"--mem-limit {text!r} is not a size", remedy='for example "600MB" or "2GB"')
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2] or "m"))


def _with(options: tuple[Callable[..., Any], ...], command: Callable[..., Any]) -> Callable[..., Any]:
    return functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)
