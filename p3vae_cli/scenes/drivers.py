"""The kinds of files that are opened, by name: others may refer to any file or host.

GDAL tries every driver it has. Among them are formats that are mere descriptions of other files (VRT, WMS,
STACIT, GDALG), under any file name. A file from somebody else must not decide what is read.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import rasterio
from rasterio.errors import NotGeoreferencedWarning, RasterioIOError

from p3vae.cli.scenes.identity import FileIdentity

TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
"""First bytes of TIFF files."""
_RASTERS = ("GTiff", "ENVI")
_SIBLINGS = (".msk", ".ovr", ".msk.ovr", ".ovr.msk", ".ovr.ovr")
"""Suffixes of files beside a raster that GDAL opens by itself; in capitals, too."""
_BEGINNING = 2**16
_LARGEST_BLOCK = 2**29
"""Of a band, as a raster is stored [bytes]."""


class ForeignFileError(Exception):
    """A file of a kind that is not opened."""


def open_dataset(path: Path, more: Sequence[str] = ()) -> rasterio.DatasetReader:
    """A raster that GDAL opens as GeoTIFF or ENVI, or by a driver that the user has named.

    ForeignFileError for other files; RasterioError for damaged ones.
    """
    FileIdentity.of(path)
    _require_plain_siblings(path)
    drivers = ("GTiff",) if beginning(path).startswith(TIFF) else (*_RASTERS, *more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        for driver in drivers:
            try:
                return _with_blocks_that_fit(rasterio.open(gdal_name(path), driver=driver))
            except RasterioIOError as error:
                if "not recognized" not in str(error):
                    raise
    raise ForeignFileError("is not a raster in GeoTIFF or ENVI format")


def _with_blocks_that_fit(source: rasterio.DatasetReader) -> rasterio.DatasetReader:
    """The same raster; to read one pixel, the whole block around it is unpacked."""
    for (height, width), dtype in zip(source.block_shapes, source.dtypes, strict=True):
        size = height * width * np.dtype(dtype).itemsize
        if size > _LARGEST_BLOCK:
            source.close()
            raise ForeignFileError(
                f"keeps {size / 2**20:,.0f} MB in one block; gdal_translate -co TILED=YES makes tiles of it"
            )
    return source


def open_geotiff(path: Path) -> rasterio.DatasetReader:
    """A GeoTIFF; RasterioError for other files."""
    return rasterio.open(gdal_name(path), driver="GTiff")


def gdal_name(path: Path) -> str:
    """The name by which GDAL finds a file of this machine: an absolute path is no location."""
    name = str(path.absolute())
    if name.startswith(("/vsi", "//")):
        raise ForeignFileError("has a name that GDAL takes for another place")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ForeignFileError("has a name that is not UTF-8; rename the file or its folder") from error
    return name


def _require_plain_siblings(path: Path) -> None:
    for end in (*_SIBLINGS, *map(str.upper, _SIBLINGS)):
        beside = path.with_name(path.name + end)
        if beside.exists() and not beginning(beside).startswith(TIFF):
            raise ForeignFileError(f"has {beside.name} beside it, which is no TIFF")


def beginning(path: Path) -> bytes:
    """The first bytes of a regular file."""
    FileIdentity.of(path)
    with path.open("rb") as file:
        return file.read(_BEGINNING)
