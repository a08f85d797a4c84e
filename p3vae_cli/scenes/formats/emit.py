"""EMIT L1B radiance and L2A reflectance (netCDF-4).

The file holds the swath and a geometric lookup table (GLT): for every map pixel the 1-based swath column
and line to take, 0 for none. A map repeats some pixels of the swath and leaves out others. Radiance stays on
the detector grid, where a retrieval sees each pixel once beside its true neighbours, and its products are
mapped through the table. Reflectance is mapped pixel by pixel and its labels and masks are maps: it is
gathered as the map, window by window, because an orthorectified cube would take gigabytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from affine import Affine
from rasterio.crs import CRS
from rasterio.errors import CRSError

from p3vae.cli.errors import SceneError
from p3vae.cli.scenes.base import (
    Acquisition,
    BandIndex,
    FloatArray,
    Grid,
    Pixels,
    Quantity,
    RawScene,
    as_slice,
    reading,
)
from p3vae.cli.scenes.flags import Flags
from p3vae.cli.scenes.formats.hdf5 import attribute, group, open_as, open_hdf5, small_array, text
from p3vae.cli.scenes.formats.swaths import centre_of, located_grid, mean_angle, mean_azimuth
from p3vae.cli.scenes.metadata import utc_time
from p3vae.cli.scenes.registry import Driver
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.scenes.tiling import Window, windows

_FILL = -9999.0
_GATHER = 64
_STRIP = 512
_LARGEST_MAP = 10**8
"""Pixels of a map grid; that of a real granule has about 5 million."""
_RADIANCE_FACTOR = 10.0  # µW cm-2 sr-1 nm-1 to W m-2 sr-1 µm-1
_KINDS: dict[str, tuple[str, Quantity, float]] = {
    "reflectance": ("L2A", "reflectance", 1.0),
    "radiance": ("L1B", "radiance", _RADIANCE_FACTOR),
}
_FLAGS = ("cloud flag", "cirrus flag", "spectf-cloud flag")
"""Names of the bands of a mask file that are read, of all versions, in small letters."""
_TO_SENSOR_ZENITH, _TO_SUN_AZIMUTH, _TO_SUN_ZENITH = 2, 3, 4


@dataclass(frozen=True, eq=False)
class EmitTable:
    """The lookup table and the geolocation of a granule, read by window."""

    grid: Grid
    """The map grid."""
    column: h5py.Dataset = field(repr=False)
    line: h5py.Dataset = field(repr=False)
    longitude: h5py.Dataset = field(repr=False)
    latitude: h5py.Dataset = field(repr=False)

    def swath_pixels(self, window: Window) -> Pixels:
        """By the table of the file; -1 where it names none."""
        row = self.line[window.slices].astype(np.intp) - 1
        col = self.column[window.slices].astype(np.intp) - 1
        none = (row < 0) | (col < 0)
        row[none] = col[none] = -1
        return row, col

    def map_pixels(self, window: Window) -> Pixels:
        """By the centres of the swath's pixels."""
        assert self.grid.transform is not None
        x, y = ~self.grid.transform @ self.geolocation(window)
        col, row = (np.where(np.isfinite(part), np.floor(part), -1).astype(np.intp) for part in (x, y))
        none = (row < 0) | (col < 0) | (row >= self.grid.height) | (col >= self.grid.width)
        row[none] = col[none] = -1
        return row, col

    def geolocation(self, window: Window) -> tuple[FloatArray, FloatArray]:
        """Longitude and latitude [degree] of a window of the swath."""
        lon, lat = (np.asarray(part[window.slices], np.float64) for part in (self.longitude, self.latitude))
        missing = (lon == _FILL) | (lat == _FILL)
        lon[missing] = lat[missing] = np.nan
        return lon, lat

    def require_inside(self, path: Path, height: int, width: int) -> None:
        """Refuse a table of another granule: it shows pixels that the swath does not have."""
        for window in windows(Window(0, 0, self.grid.height, self.grid.width), (_STRIP, self.grid.width)):
            row, col = self.swath_pixels(window)
            if row.max() >= height or col.max() >= width:
                raise SceneError(
                    f"its lookup table points to line {row.max() + 1}, column {col.max() + 1} of a swath of "
                    f"{height} lines, {width} columns",
                    path=path,
                    remedy="download the original granule",
                )


class EmitSwath:
    """Reads windows of the detector grid."""

    def __init__(self, file: h5py.File, cube: h5py.Dataset, factor: float) -> None:
        self._file, self._cube, self._factor = file, cube, np.float32(factor)

    def read(self, window: Window, bands: BandIndex) -> npt.NDArray[np.float32]:
        """The given bands of a window, in physical units."""
        stored = self._cube[(*window.slices, slice(None))][..., as_slice(bands)]
        return _physical(stored.astype(np.float32), self._factor)

    def close(self) -> None:
        """Release the file."""
        self._file.close()


class EmitMap:
    """Gathers map windows from the swath through the GLT."""

    def __init__(self, file: h5py.File, cube: h5py.Dataset, factor: float, table: EmitTable) -> None:
        self._file, self._cube, self._factor, self._table = file, cube, np.float32(factor), table

    def read(self, window: Window, bands: BandIndex) -> npt.NDArray[np.float32]:
        """In small squares: they bound the part of an inclined swath that is held at once."""
        values = np.full((window.rows, window.cols, len(bands)), np.nan, dtype=np.float32)
        line, column = self._table.swath_pixels(window)
        for row in range(0, window.rows, _GATHER):
            for col in range(0, window.cols, _GATHER):
                part = slice(row, row + _GATHER), slice(col, col + _GATHER)
                self._gather(line[part], column[part], bands, values[part])
        return _physical(values, self._factor)

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def _gather(
        self,
        line: npt.NDArray[np.intp],
        column: npt.NDArray[np.intp],
        bands: BandIndex,
        target: npt.NDArray[np.float32],
    ) -> None:
        seen = line >= 0
        if not seen.any():
            return
        x, y = column[seen], line[seen]
        left, top = x.min(), y.min()
        swath = self._cube[top : y.max() + 1, left : x.max() + 1, :]
        target[seen] = swath[y - top, x - left][:, as_slice(bands)]


def _physical(values: npt.NDArray[np.float32], factor: np.float32) -> npt.NDArray[np.float32]:
    """In the unit of the scene; NaN where missing."""
    values[(values == np.float32(_FILL)) | ~np.isfinite(values)] = np.nan
    if factor != 1:
        values *= factor
    return values


def _open(path: Path, options: SceneSettings) -> RawScene:
    return open_as(path, _raw_scene)


def _raw_scene(path: Path, file: h5py.File) -> RawScene:
    kind = next((name for name in _KINDS if name in file), None)
    if kind is None:
        raise SceneError(
            "holds neither radiance nor reflectance",
            path=path,
            remedy="give the EMIT L1B_RAD or L2A_RFL file",
        )
    level, quantity, factor = _KINDS[kind]
    bands = group(file, "sensor_band_parameters")
    good = small_array(bands["good_wavelengths"]) > 0 if "good_wavelengths" in bands else None
    wavelength: FloatArray = small_array(bands["wavelengths"])
    cube = file[kind]
    if cube.ndim != 3 or cube.shape[2] != len(wavelength):
        raise SceneError(
            f"its cube of shape {cube.shape} does not have its {len(wavelength)} bands",
            path=path,
            remedy="download the original granule",
        )
    table = _table(path, file, cube.shape)
    described: dict[str, Any] = {
        "path": path,
        "level": level,
        "wavelength_nm": wavelength,
        "fwhm_nm": small_array(bands["fwhm"]) if "fwhm" in bands else None,
        "good": np.ones(cube.shape[2], dtype=bool) if good is None else good,
        "quantity": quantity,
        "flags": _flags(path, cube.shape[:2], table if quantity == "reflectance" else None),
    }
    if quantity == "reflectance":
        return RawScene(
            grid=table.grid,
            acquisition=_acquisition(path, file, None),
            block_shape=(min(_GATHER, table.grid.height), min(_GATHER, table.grid.width)),
            reader=EmitMap(file, cube, factor, table),
            **described,
        )
    grid = located_grid(table.geolocation, cube.shape[0], cube.shape[1])
    return RawScene(
        grid=grid,
        acquisition=_acquisition(path, file, grid),
        block_shape=(1, grid.width),
        reader=EmitSwath(file, cube, factor),
        geolocator=table.geolocation,
        ortho=table,
        **described,
    )


def _table(path: Path, file: h5py.File, shape: tuple[int, ...]) -> EmitTable:
    if "location/glt_x" not in file or "location/glt_y" not in file:
        raise SceneError("has no geometric lookup table", path=path, remedy="download the original granule")
    names = ("glt_x", "glt_y", "lon", "lat")
    column, line, longitude, latitude = (file[f"location/{name}"] for name in names)
    if column.ndim != 2 or column.shape != line.shape or not column.size:
        raise SceneError(
            f"its lookup tables for columns and lines have {column.shape} and {line.shape} values",
            path=path,
            remedy="download the original granule",
        )
    if column.size > _LARGEST_MAP:
        raise ValueError(f"its lookup table claims {column.size} values")
    if longitude.shape != shape[:2] or latitude.shape != shape[:2]:
        raise SceneError(
            f"its geolocation has {longitude.shape} values for a swath of {tuple(shape[:2])}",
            path=path,
            remedy="download the original granule",
        )
    table = EmitTable(_map_grid(path, file, column.shape), column, line, longitude, latitude)
    table.require_inside(path, shape[0], shape[1])
    return table


def _map_grid(path: Path, file: h5py.File, shape: tuple[int, int]) -> Grid:
    try:
        transform = Affine.from_gdal(*(float(value) for value in np.ravel(attribute(file, "geotransform"))))
        crs = CRS.from_wkt(text(attribute(file, "spatial_ref")))  # other forms may name a file or a host
    except (KeyError, TypeError, CRSError) as error:
        raise SceneError(f"has no usable map grid: {error}", path=path, remedy="download it again") from error
    return Grid(shape[1], shape[0], crs, transform)


def _acquisition(path: Path, file: h5py.File, swath: Grid | None) -> Acquisition:
    time = utc_time(text(file.attrs["time_coverage_start"])) if "time_coverage_start" in file.attrs else None
    longitude, latitude = (None, None) if swath is None else centre_of(swath)
    companion = _file_beside(path, "OBS")
    if companion is None:
        return Acquisition(time=time, longitude_deg=longitude, latitude_deg=latitude)
    with reading(companion), open_hdf5(companion) as observed:
        angles = np.asarray(observed["obs"][::16, ::16, :], dtype=float)
    angles[angles <= _FILL] = np.nan
    return Acquisition(
        sun_zenith_deg=mean_angle(angles[..., _TO_SUN_ZENITH]),
        sun_azimuth_deg=mean_azimuth(angles[..., _TO_SUN_AZIMUTH]),
        view_zenith_deg=mean_angle(angles[..., _TO_SENSOR_ZENITH]),
        time=time,
        longitude_deg=longitude,
        latitude_deg=latitude,
    )


def _flags(path: Path, shape: tuple[int, int], table: EmitTable | None) -> Flags | None:
    """Cloud and cirrus of the L2A_MASK file beside it, on the swath, or on the map through its table."""
    beside = _file_beside(path, "MASK")
    if beside is None:
        return None

    @cache
    def swath() -> npt.NDArray[np.bool_]:
        with reading(beside), open_hdf5(beside) as file:
            names = [text(name).lower() for name in file["sensor_band_parameters/mask_bands"][:]]
            mask = file["mask"]
            if mask.shape != (*shape, len(names)):
                raise ValueError(f"its mask of {mask.shape} does not fit a swath of {shape}")
            set_ = np.zeros(shape, dtype=bool)
            for place in (place for place, name in enumerate(names) if name in _FLAGS):
                set_ |= mask[..., place] > 0
            return set_

    def at(window: Window) -> npt.NDArray[np.bool_]:
        if table is None:
            return swath()[window.slices]
        row, col = table.swath_pixels(window)
        return np.asarray((row >= 0) & swath()[row, col])

    return Flags(("cloud", "cirrus"), at)


def _file_beside(path: Path, kind: str) -> Path | None:
    """The file of another kind of the same acquisition in the same folder."""
    stamp = re.search(r"\d{8}T\d{6}", path.name)
    if stamp is None:
        return None
    return next(iter(sorted(path.parent.glob(f"*_{kind}_*{stamp[0]}*.nc"))), None)


def _files(path: Path) -> tuple[Path, ...]:
    beside = (_file_beside(path, kind) for kind in ("OBS", "MASK"))
    return (path, *(file for file in beside if file not in (None, path)))


DRIVER = Driver("EMIT", lambda candidate: candidate.has_group("sensor_band_parameters"), _open, _files)
