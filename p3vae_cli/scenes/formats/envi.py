"""ENVI: a text header beside a plain binary cube, which is memory-mapped.

GDAL places the grid (its `map info` handling includes rotation); everything else is read here, because
GDAL is very slow on pixel-interleaved cubes and cuts wavelengths to 1 nm.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from p3vae.cli.base.errors import SceneError
from p3vae.cli.base.tiling import Window
from p3vae.cli.scenes.base import BandIndex, FloatArray, Grid, Product, SceneOptions, as_slice, reading
from p3vae.cli.scenes.formats import geotiff
from p3vae.cli.scenes.formats.rasters import calibration, grid_of, open_raster, to_physical
from p3vae.cli.scenes.metadata import acquisition, flags, ignored_value, meaning, nm_per_unit, numbers

Fields = dict[str, str]

_FIELD = re.compile(r"^[ \t]*([^={}\n]+?)[ \t]*=[ \t]*(\{[^}]*\}|[^\n]*)", re.MULTILINE)
_DTYPES = {1: "u1", 2: "i2", 3: "i4", 4: "f4", 5: "f8", 12: "u2", 13: "u4", 14: "i8", 15: "u8"}
_SUFFIXES = ("", ".img", ".dat", ".bsq", ".bil", ".bip", ".raw", ".bin", ".envi")
_MAX_HEADER_BYTES = 16_000_000


def header_of(path: Path) -> Path | None:
    """The ENVI header that belongs to a file, which may be that file itself; None when there is none."""
    beside = [
        name for end in (".hdr", ".HDR") for name in (path.with_name(path.name + end), path.with_suffix(end))
    ]
    candidates = (path, *beside)
    return next((file for file in candidates if file.is_file() and _is_header(file)), None)


def open_product(path: Path, options: SceneOptions) -> Product:
    """Opens an ENVI cube from its header or its data file."""
    header = header_of(path)
    if header is None:
        raise SceneError("has no ENVI header", path=path, remedy="put its .hdr file beside it")
    fields = read_header(header)
    data = path if header != path else _data_of(header)
    if fields.get("file_compression", "0").strip() != "0":
        return geotiff.open_product(data, options)
    try:
        return _product(data, fields, options)
    except (KeyError, ValueError) as error:
        raise SceneError(
            f"has an unreadable field: {error}", path=header, remedy="correct the ENVI header"
        ) from error


def read_header(path: Path) -> Fields:
    """The fields of an ENVI header, their names in lower case with underscores."""
    with reading(path):
        text = path.read_bytes()[:_MAX_HEADER_BYTES].decode("utf-8", errors="replace")
    pairs = _FIELD.findall(text.replace("\r", ""))
    return {re.sub(r"\s+", "_", name.strip().lower()): value.strip() for name, value in pairs}


class EnviCube:
    """Reads an uncompressed cube through a memory map made for each window.

    A map that lives on would let the pages of the whole cube count as memory of this process.
    """

    def __init__(
        self, path: Path, fields: Fields, gain: FloatArray, offset: FloatArray, missing: float | None
    ) -> None:
        self._path = path
        self._dtype = _dtype(fields)
        self._start = int(fields.get("header_offset", "0"))
        sizes = {"r": int(fields["lines"]), "c": int(fields["samples"]), "b": int(fields["bands"])}
        self._axes = {"bsq": "brc", "bil": "rbc", "bip": "rcb"}[fields["interleave"].lower()]
        self._shape = tuple(sizes[axis] for axis in self._axes)
        self._gain, self._offset = gain.astype(np.float32), offset.astype(np.float32)
        self._missing = missing
        self._check_size()

    @property
    def block_shape(self) -> tuple[int, int]:
        """Whole lines lie together in every interleave."""
        return 1, self._shape[self._axes.index("c")]

    def read(self, window: Window, bands: BandIndex) -> npt.NDArray[np.float32]:
        """See `CubeReader`."""
        if window.rows == 0 or window.cols == 0:
            return np.empty((window.rows, window.cols, len(bands)), np.float32)
        cube = np.memmap(self._path, self._dtype, "r", self._start, self._shape)
        cube = cube.transpose([self._axes.index(axis) for axis in "rcb"])
        raw = np.asarray(cube[window.slices][..., as_slice(bands)])
        return to_physical(raw, self._gain[bands], self._offset[bands], self._missing)

    def close(self) -> None:
        """See `CubeReader`: nothing is held open between windows."""

    def _check_size(self) -> None:
        needed = self._start + int(np.prod(self._shape)) * self._dtype.itemsize
        if min(self._shape) < 1 or self._start < 0:
            raise ValueError(f"a cube of {self._shape} pixels and bands")
        with reading(self._path):
            found = self._path.stat().st_size
        if found < needed:
            raise SceneError(
                f"is truncated: {found} of {needed} bytes",
                path=self._path,
                remedy="copy or download it again",
            )


def _product(data: Path, fields: Fields, options: SceneOptions) -> Product:
    count = int(fields["bands"])
    gains = _per_band(fields, "data_gain_values", count, 1.0)
    offsets = _per_band(fields, "data_offset_values", count, 0.0)
    gain, offset, quantity, guessed = calibration(meaning(fields), options, gains, offsets)
    missing = ignored_value(fields) if options.nodata is None else options.nodata
    reader = EnviCube(data, fields, gain, offset, missing)
    wavelength, fwhm = _wavelengths(fields)
    listed = flags(fields.get("bbl", ""))
    return Product(
        path=data,
        name="ENVI",
        level=fields.get("processing_level"),
        grid=_grid(data, fields),
        wavelength_nm=wavelength,
        fwhm_nm=fwhm,
        good=listed if len(listed) == count else np.ones(count, dtype=bool),
        quantity=quantity,
        acquisition=acquisition(fields),
        block_shape=reader.block_shape,
        reader=reader,
        guessed_scale=guessed,
    )


def _grid(data: Path, fields: Fields) -> Grid:
    with open_raster(data) as source:
        if source.driver != "ENVI":
            return Grid(int(fields["samples"]), int(fields["lines"]), None, None)
        return grid_of(source)


def _wavelengths(fields: Fields) -> tuple[FloatArray | None, FloatArray | None]:
    if "wavelength" not in fields:
        return None, None
    values, widths = numbers(fields["wavelength"]), numbers(fields.get("fwhm", ""))
    factor = nm_per_unit(fields.get("wavelength_units"), values)
    return values * factor, widths * factor if len(widths) == len(values) else None


def _per_band(fields: Fields, name: str, count: int, default: float) -> FloatArray:
    values = numbers(fields.get(name, ""))
    return values if len(values) == count else np.full(count, default)


def _dtype(fields: Fields) -> np.dtype[np.generic]:
    code = int(fields["data_type"])
    if code not in _DTYPES:
        raise ValueError(f"data type {code} is no real number")
    order = ">" if fields.get("byte_order", "0").strip() == "1" else "<"
    return np.dtype(order + _DTYPES[code])


def _is_header(path: Path) -> bool:
    with reading(path), path.open("rb") as file:
        start = file.read(5)
    return start[:4] == b"ENVI" and start[4:] in (b"\n", b"\r", b" ", b"")


def _data_of(header: Path) -> Path:
    """The cube beside a header: only names made from the header's own are tried."""
    stem = header.with_suffix("")
    for suffix in (*_SUFFIXES, *map(str.upper, _SUFFIXES)):
        data = stem.with_name(stem.name + suffix)
        if data.is_file() and data != header:
            return data
    raise SceneError("has no data file beside it", path=header, remedy=f"put {stem.name}.img beside it")
