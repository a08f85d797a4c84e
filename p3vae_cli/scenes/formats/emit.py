"""EMIT L1B radiance and L2A reflectance (netCDF-4), put on their map grid tile by tile.

The file holds the swath and a geometric lookup table (GLT): for every map pixel the 1-based swath column
and line to take, 0 for none. An orthorectified cube would take gigabytes, so only windows are gathered.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from affine import Affine
from rasterio.crs import CRS
from rasterio.errors import CRSError

from p3vae.cli.base.errors import SceneError
from p3vae.cli.base.tiling import Window
from p3vae.cli.scenes.base import (
    Acquisition,
    BandIndex,
    FloatArray,
    Grid,
    Product,
    Quantity,
    as_slice,
    reading,
)
from p3vae.cli.scenes.formats.hdf5 import attribute, group, open_hdf5, small_array, text
from p3vae.cli.scenes.metadata import utc_time

_FILL = -9999.0
_GATHER = 64
_RADIANCE_FACTOR = 10.0  # µW cm-2 sr-1 nm-1 to W m-2 sr-1 µm-1
_KINDS: dict[str, tuple[str, Quantity, float]] = {
    "reflectance": ("L2A", "reflectance", 1.0),
    "radiance": ("L1B", "radiance", _RADIANCE_FACTOR),
}
_TO_SENSOR_ZENITH, _TO_SUN_AZIMUTH, _TO_SUN_ZENITH = 2, 3, 4


class EmitCube:
    """Gathers map windows from the swath through the GLT."""

    def __init__(self, file: h5py.File, cube: h5py.Dataset, factor: float) -> None:
        self._file, self._cube, self._factor = file, cube, np.float32(factor)
        self._glt_x, self._glt_y = file["location/glt_x"], file["location/glt_y"]

    def read(self, window: Window, bands: BandIndex) -> npt.NDArray[np.float32]:
        """See `CubeReader`. Small squares bound the part of an inclined swath that is held at once."""
        values = np.full((window.rows, window.cols, len(bands)), np.nan, dtype=np.float32)
        column, line = self._glt_x[window.slices], self._glt_y[window.slices]
        for row in range(0, window.rows, _GATHER):
            for col in range(0, window.cols, _GATHER):
                part = slice(row, row + _GATHER), slice(col, col + _GATHER)
                self._gather(column[part], line[part], bands, values[part])
        values[values == np.float32(_FILL)] = np.nan
        values[~np.isfinite(values)] = np.nan
        if self._factor != 1:
            values *= self._factor
        return values

    def close(self) -> None:
        """See `CubeReader`."""
        self._file.close()

    def _gather(
        self,
        column: npt.NDArray[np.integer[Any]],
        line: npt.NDArray[np.integer[Any]],
        bands: BandIndex,
        target: npt.NDArray[np.float32],
    ) -> None:
        seen = (column > 0) & (line > 0)
        if not seen.any():
            return
        x, y = column[seen].astype(np.intp) - 1, line[seen].astype(np.intp) - 1
        left, top = x.min(), y.min()
        swath = self._cube[top : y.max() + 1, left : x.max() + 1, :]
        target[seen] = swath[y - top, x - left][:, as_slice(bands)]


def open_product(path: Path) -> Product:
    """Opens an EMIT granule that holds radiance or reflectance and a GLT."""
    file = open_hdf5(path)
    try:
        with reading(path):
            return _product(path, file)
    except BaseException:
        file.close()
        raise


def _product(path: Path, file: h5py.File) -> Product:
    kind = next((name for name in _KINDS if name in file), None)
    if kind is None:
        raise SceneError(
            "holds neither radiance nor reflectance",
            path=path,
            remedy="give the EMIT L1B_RAD or L2A_RFL file",
        )
    if "location/glt_x" not in file or "location/glt_y" not in file:
        raise SceneError("has no geometric lookup table", path=path, remedy="download the original granule")
    level, quantity, factor = _KINDS[kind]
    bands = group(file, "sensor_band_parameters")
    good = small_array(bands["good_wavelengths"]) > 0 if "good_wavelengths" in bands else None
    wavelength: FloatArray = small_array(bands["wavelengths"])
    grid = _grid(path, file)
    return Product(
        path=path,
        name="EMIT",
        level=level,
        grid=grid,
        wavelength_nm=wavelength,
        fwhm_nm=small_array(bands["fwhm"]) if "fwhm" in bands else None,
        good=np.ones(file[kind].shape[2], dtype=bool) if good is None else good,
        quantity=quantity,
        acquisition=_acquisition(path, file),
        block_shape=(min(_GATHER, grid.height), min(_GATHER, grid.width)),
        reader=EmitCube(file, file[kind], factor),
    )


def _grid(path: Path, file: h5py.File) -> Grid:
    height, width = file["location/glt_x"].shape
    try:
        transform = Affine.from_gdal(*(float(value) for value in np.ravel(attribute(file, "geotransform"))))
        crs = CRS.from_wkt(text(attribute(file, "spatial_ref")))  # other forms may name a file or a host
    except (KeyError, TypeError, CRSError) as error:
        raise SceneError(f"has no usable map grid: {error}", path=path, remedy="download it again") from error
    return Grid(width, height, crs, transform)


def _acquisition(path: Path, file: h5py.File) -> Acquisition:
    time = utc_time(text(file.attrs["time_coverage_start"])) if "time_coverage_start" in file.attrs else None
    companion = observation_file(path)
    if companion is None:
        return Acquisition(time=time)
    with reading(companion), open_hdf5(companion) as observed:
        angles = np.asarray(observed["obs"][::16, ::16, :], dtype=float)
    angles[angles <= _FILL] = np.nan
    azimuth = np.radians(angles[..., _TO_SUN_AZIMUTH])
    mean_azimuth = np.degrees(np.arctan2(np.nanmean(np.sin(azimuth)), np.nanmean(np.cos(azimuth)))) % 360
    return Acquisition(
        sun_zenith_deg=float(np.nanmean(angles[..., _TO_SUN_ZENITH])),
        sun_azimuth_deg=float(mean_azimuth),
        view_zenith_deg=float(np.nanmean(angles[..., _TO_SENSOR_ZENITH])),
        time=time,
    )


def observation_file(path: Path) -> Path | None:
    """The OBS file of the same acquisition in the same folder."""
    stamp = re.search(r"\d{8}T\d{6}", path.name)
    if stamp is None:
        return None
    return next(iter(sorted(path.parent.glob(f"*_OBS_*{stamp[0]}*.nc"))), None)
