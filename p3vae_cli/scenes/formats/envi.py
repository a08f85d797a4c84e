"""ENVI: a text header beside a plain binary cube, which is read directly.

GDAL places the grid (its `map info` handling includes rotation); everything else is read here, because
GDAL is very slow on pixel-interleaved cubes and cuts wavelengths to 1 nm.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from p3vae.cli.errors import SceneError
from p3vae.cli.scenes.base import BandIndex, FloatArray, Grid, RawScene, as_slice, reading
from p3vae.cli.scenes.formats.geotiff import files_of_image, open_any_raster
from p3vae.cli.scenes.formats.rasters import calibration, grid_of, open_raster, to_physical
from p3vae.cli.scenes.metadata import acquisition, flags, ignored_value, nm_per_unit, numbers, stated_quantity
from p3vae.cli.scenes.registry import Candidate, Driver
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.scenes.tiling import Window

Fields = dict[str, str]

_DTYPES = {1: "u1", 2: "i2", 3: "i4", 4: "f4", 5: "f8", 12: "u2", 13: "u4", 14: "i8", 15: "u8"}
_SUFFIXES = ("", ".img", ".dat", ".bsq", ".bil", ".bip", ".raw", ".bin", ".envi")
_MAX_HEADER_BYTES = 16_000_000
_MOST_WASTE = 4
"""Lines are read whole when at least one column in so many is wanted."""


def header_of(path: Path) -> Path | None:
    """The ENVI header that belongs to a file, which may be that file itself; None when there is none."""
    beside = [
        name for end in (".hdr", ".HDR") for name in (path.with_name(path.name + end), path.with_suffix(end))
    ]
    candidates = (path, *beside)
    return next((file for file in candidates if file.is_file() and _is_header(file)), None)


def _matches(candidate: Candidate) -> bool:
    other = candidate.is_tiff_or_xml or candidate.is_hdf5 or candidate.is_zip
    return not other and header_of(candidate.path) is not None


def _open(path: Path, options: SceneSettings) -> RawScene:
    """From the header or the cube."""
    header = header_of(path)
    if header is None:
        raise SceneError("has no ENVI header", path=path, remedy="put its .hdr file beside it")
    fields = read_header(header)
    data = path if header != path else _data_of(header)
    if fields.get("file_compression", "0").strip() != "0":
        return open_any_raster(data, options)
    try:
        return _raw_scene(data, fields, options)
    except (KeyError, ValueError) as error:
        raise SceneError(
            f"has an unreadable field: {error}", path=header, remedy="correct the ENVI header"
        ) from error


def read_header(path: Path) -> Fields:
    """The fields of an ENVI header, their names in lower case with underscores."""
    with reading(path):
        text = _start_of(path).decode("utf-8", errors="replace")
    return dict(_pairs(text.replace("\r", "")))


def _start_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MAX_HEADER_BYTES)


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Names and values of "name = value" lines; a value in braces may take several lines.

    Every character is looked at a fixed number of times, whatever the text.
    """
    start, last_brace = 0, text.rfind("}")
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        name, equals, value = text[start:end].partition("=")
        if equals and name.strip() and not {"{", "}"} & set(name):
            if value.lstrip().startswith("{") and last_brace > start + len(name):
                close = text.find("}", start + len(name))
                value, end = text[start + len(name) + 1 : close + 1], close + 1
            yield "_".join(name.lower().split()), value.strip()
        start = end + 1


@dataclass(frozen=True)
class Layout:
    """How a cube lies in its file."""

    dtype: np.dtype[np.generic]
    start: int
    """Bytes before the first value."""
    axes: str
    """Order of rows (r), columns (c) and bands (b), the slowest first."""
    shape: tuple[int, int, int]
    """Sizes in that order."""

    @classmethod
    def of(cls, fields: Fields) -> Self:
        """From the fields of a header; KeyError or ValueError where they make no sense."""
        axes = {"bsq": "brc", "bil": "rbc", "bip": "rcb"}[fields["interleave"].lower()]
        sizes = {"r": int(fields["lines"]), "c": int(fields["samples"]), "b": int(fields["bands"])}
        start = int(fields.get("header_offset", "0"))
        first, second, third = (sizes[axis] for axis in axes)
        if min(first, second, third) < 1 or start < 0:
            raise ValueError(f"a cube of {first} x {second} x {third} values")
        return cls(_dtype(fields), start, axes, (first, second, third))

    def size(self, axis: str) -> int:
        """Size of an axis (r, c or b)."""
        return self.shape[self.axes.index(axis)]

    def require_in(self, path: Path) -> None:
        """Refuse a file that is shorter than the header says."""
        needed = self.start + math.prod(self.shape) * self.dtype.itemsize
        with reading(path):
            found = path.stat().st_size
        if found < needed:
            raise SceneError(
                f"is truncated: {found} of {needed} bytes", path=path, remedy="copy or download it again"
            )


class EnviCube:
    """Reads an uncompressed cube, the bytes of a window only.

    Not through a memory map: the system kills a process that looks at a part of the map that is cut off.
    """

    def __init__(
        self, path: Path, layout: Layout, gain: FloatArray, offset: FloatArray, missing: float | None
    ) -> None:
        self._path, self._layout = path, layout
        self._gain, self._offset = gain, offset
        self._missing = missing

    @property
    def block_shape(self) -> tuple[int, int]:
        """Whole lines lie together in every interleave."""
        return 1, self._layout.size("c")

    def read(self, window: Window, bands: BandIndex) -> npt.NDArray[np.float32]:
        """The given bands of a window, in physical units."""
        if window.rows == 0 or window.cols == 0 or len(bands) == 0:
            return np.empty((window.rows, window.cols, len(bands)), np.float32)
        layout, low = self._layout, int(bands.min())
        wanted = {
            "r": (window.row, window.row + window.rows),
            "c": (window.col, window.col + window.cols),
            "b": (low, int(bands.max()) + 1),
        }
        innermost = layout.axes[2]
        if innermost == "b" or window.cols * _MOST_WASTE >= layout.size("c"):
            wanted[innermost] = (0, layout.size(innermost))  # one long read instead of many short ones
        cube = self._cut(wanted).transpose([layout.axes.index(axis) for axis in "rcb"])
        left = window.col - wanted["c"][0]
        raw = cube[:, left : left + window.cols, as_slice(bands - wanted["b"][0])]
        return to_physical(raw, self._gain[bands], self._offset[bands], self._missing)

    def _cut(self, wanted: Mapping[str, tuple[int, int]]) -> npt.NDArray[np.generic]:
        """The values between start and stop of each axis, in the order of the file."""
        layout = self._layout
        (first, _), (second, _), (third, _) = (wanted[axis] for axis in layout.axes)
        values = np.empty([wanted[axis][1] - wanted[axis][0] for axis in layout.axes], layout.dtype)
        whole_third, whole_second = (values.shape[axis] == layout.shape[axis] for axis in (2, 1))
        with self._path.open("rb", buffering=0) as file:

            def fill(target: npt.NDArray[np.generic], i: int, j: int) -> None:
                place = (i * layout.shape[1] + j) * layout.shape[2] + third
                _read_exactly(file.fileno(), target, layout.start + place * layout.dtype.itemsize)

            if whole_third and whole_second:
                fill(values, first, second)
            elif whole_third:
                for i, plane in enumerate(values):
                    fill(plane, first + i, second)
            else:
                for i, j in np.ndindex(*values.shape[:2]):
                    fill(values[i, j], first + i, second + j)
        return values

    def close(self) -> None:
        """Nothing to release: no file is held open between windows."""


def _read_exactly(file: int, target: npt.NDArray[np.generic], start: int) -> None:
    view, done = target.view(np.uint8).data.cast("B"), 0
    while done < len(view):
        count = os.preadv(file, [view[done:]], start + done)
        if count == 0:
            raise EOFError("it ends before the pixels that its header promises")
        done += count


def _raw_scene(data: Path, fields: Fields, options: SceneSettings) -> RawScene:
    layout = Layout.of(fields)
    layout.require_in(data)
    count = layout.size("b")
    gains = _per_band(fields, "data_gain_values", count, 1.0)
    offsets = _per_band(fields, "data_offset_values", count, 0.0)
    gain, offset, quantity, guessed = calibration(stated_quantity(fields), options, gains, offsets)
    missing = ignored_value(fields) if options.nodata is None else options.nodata
    reader = EnviCube(data, layout, gain, offset, missing)
    wavelength, fwhm = _wavelengths(fields)
    listed = flags(fields.get("bbl", ""))
    return RawScene(
        path=data,
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


def _files(path: Path) -> tuple[Path, ...]:
    header = header_of(path)
    return files_of_image(_data_of(path) if header == path else path, header)


DRIVER = Driver("ENVI", _matches, _open, _files, calibrated=False, specificity=1)
