"""What the user states about a scene."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from p3vae.cli.errors import UsageError
from p3vae.cli.params import FILE, POSITIVE, FiniteRange
from p3vae.cli.settings import AREA, RARE, SCENE, Settings, option

_RANGE = re.compile(r"\s*(\d+(?:\.\d*)?)\s*(?:-\s*(\d+(?:\.\d*)?))?\s*(?:nm)?\s*")


def parse_ranges(text: str) -> tuple[tuple[float, float], ...]:
    """Ranges of wavelength [nm] from text such as "1340-1450,1800-1950"; one number is a range of itself."""
    ranges = []
    for part in filter(str.strip, text.split(",")):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise UsageError(
                f"{part.strip()!r} is not a range of wavelengths", remedy="write e.g. 1340-1450,1800-1950"
            )
        low = float(match[1])
        high = float(match[2]) if match[2] else low
        if high < low:
            raise UsageError(f"{part.strip()!r} ends before it starts", remedy=f"write {match[2]}-{match[1]}")
        ranges.append((low, high))
    return tuple(ranges)


@dataclass(frozen=True)
class SceneSettings(Settings):
    """What the user states about a scene; it wins over what the file says. None = as in the file."""

    sun_zenith_deg: float | None = option(
        None, "--sun-zenith", type=FiniteRange(0, 90), metavar="DEG", group=SCENE, help="Sun zenith angle."
    )
    sun_azimuth_deg: float | None = option(
        None,
        "--sun-azimuth",
        type=FiniteRange(-360, 360),
        metavar="DEG",
        group=SCENE,
        help="Sun azimuth, clockwise from north.",
    )
    view_zenith_deg: float | None = option(
        None,
        "--view-zenith",
        type=FiniteRange(0, 90),
        metavar="DEG",
        group=SCENE,
        help="Sensor's view zenith angle.",
    )
    wavelengths_file: Path | None = option(
        None,
        "--wavelengths",
        "--wavelengths-file",
        type=FILE,
        metavar="SENSOR|CSV",
        group=SCENE,
        help="Bands of a file that names none: those of sentinel-2, landsat-5, -7, -8 or -9, or a CSV of its "
        "bands in their order, wavelength_nm[,fwhm_nm][,good].",
    )
    bad_bands: tuple[tuple[float, float], ...] = option(
        (),
        "--bad-bands",
        metavar="RANGES",
        parse=parse_ranges,
        group=SCENE,
        help='Bands to leave out, in nm, ends included: "1340-1450,1800-1950".',
    )
    quantity: Literal["reflectance", "radiance"] | None = option(
        None,
        "--quantity",
        type=click.Choice(["reflectance", "radiance"]),
        group=SCENE,
        help="What the file holds, if it does not say.",
    )
    scale: float | None = option(
        None,
        "--scale",
        type=POSITIVE,
        metavar="FACTOR",
        group=SCENE,
        help="Stored value to physical unit, e.g. 1e-4, for GeoTIFF and ENVI.",
    )
    nodata: float | None = option(
        None,
        "--nodata",
        type=float,
        metavar="VALUE",
        group=SCENE,
        help="Stored value that means 'no data', for GeoTIFF and ENVI.",
    )
    quality_mask: bool = option(
        True,
        "--quality-mask/--no-quality-mask",
        group=AREA,
        help="Leave out pixels that the product flags as cloud or cirrus; in methane maps also cloud, water, "
        "flares and saturation as seen in the spectra.",
    )
    drivers: tuple[str, ...] = option(
        (),
        "--driver",
        multiple=True,
        metavar="NAME",
        group=SCENE,
        help="GDAL format to open besides the known ones, e.g. VRT: such a file may refer to any other.",
    )
    overlap: Literal["swir", "vnir"] = option(
        "swir",
        "--overlap",
        type=click.Choice(["swir", "vnir"]),
        group=RARE,
        help="Detector kept where two overlap (PRISMA).",
    )
