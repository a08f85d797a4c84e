"""Tanager basic (swath) and ortho (map grid) radiance and surface reflectance (HDF-EOS5).

Cubes are (band, row, column). The names of fields and attributes are those of Planet's product specification
of 2025. Basic products have a longitude and a latitude per pixel, ortho products a UTM grid that is described
in the text `StructMetadata.0`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from affine import Affine
from rasterio.crs import CRS

from p3vae.cli.errors import SceneError
from p3vae.cli.scenes.base import (
    Acquisition,
    BandIndex,
    FloatArray,
    Geolocator,
    Grid,
    Quantity,
    RawScene,
    as_slice,
)
from p3vae.cli.scenes.flags import Flags
from p3vae.cli.scenes.formats.hdf5 import group, open_as, text
from p3vae.cli.scenes.formats.swaths import centre_of, located_grid, mean_angle, mean_azimuth
from p3vae.cli.scenes.metadata import radiance_factor
from p3vae.cli.scenes.registry import Candidate, Driver
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.scenes.tiling import Window

_SWATH, _GRID = "HDFEOS/SWATHS/HYP", "HDFEOS/GRIDS/HYP"
_CUBES: dict[str, tuple[str, Quantity]] = {
    "toa_radiance": ("radiance", "radiance"),
    "surface_reflectance": ("surface reflectance", "reflectance"),
}
_FILL = -9999.0
_UNIT = "W/(m^2 sr um)"
_STRUCTURE = "HDFEOS INFORMATION/StructMetadata.0"
_LONGEST_STRUCTURE = 10**6
_EVERY = 16
"""Angles and times are read at every 16th pixel."""
_EARLIEST_S, _LATEST_S = 1e9, 1e10
"""Since 1970: from 2001 on [s]; anything else is no time."""


class TanagerCube:
    """Reads windows of a cube; pixels outside the footprint are missing."""

    def __init__(
        self, file: h5py.File, cube: h5py.Dataset, outside: h5py.Dataset | None, factor: float
    ) -> None:
        self._file, self._cube, self._outside, self._factor = file, cube, outside, np.float32(factor)
        self._fill = np.float32(cube.attrs.get("_FillValue", _FILL))

    def read(self, window: Window, bands: BandIndex) -> npt.NDArray[np.float32]:
        """The given bands of a window, in physical units."""
        low, high = int(bands.min()), int(bands.max()) + 1
        stored = self._cube[(slice(low, high), *window.slices)].astype(np.float32, copy=False)
        stored[(stored == self._fill) | ~np.isfinite(stored)] = np.nan
        if self._outside is not None:
            stored[:, self._outside[window.slices] != 0] = np.nan
        if self._factor != 1:
            stored *= self._factor
        values: npt.NDArray[np.float32] = stored[as_slice(bands - low)].transpose(1, 2, 0)
        return values

    def close(self) -> None:
        """Release the file."""
        self._file.close()


@dataclass(frozen=True, eq=False)
class _Fields:
    """The two groups of a product."""

    data: h5py.Group
    located: h5py.Group | None

    @classmethod
    def of(cls, file: h5py.File) -> _Fields:
        root = group(file, _SWATH if _SWATH in file else _GRID)
        place = "Geolocation Fields"
        return cls(group(root, "Data Fields"), group(root, place) if place in root else None)

    def geolocator(self, shape: tuple[int, int]) -> Geolocator:
        """From windows to longitude and latitude [degree]."""
        if self.located is None:
            raise KeyError("Geolocation Fields")
        longitude, latitude = self.located["Longitude"], self.located["Latitude"]
        if longitude.shape != shape or latitude.shape != shape:
            raise ValueError("cube and geolocation differ in size")

        def locate(window: Window) -> tuple[FloatArray, FloatArray]:
            lon, lat = (np.asarray(part[window.slices], np.float64) for part in (longitude, latitude))
            nowhere = ~((np.abs(lon) <= 360.0) & (np.abs(lat) <= 90.0))
            lon[nowhere] = lat[nowhere] = np.nan
            return lon, lat

        return locate

    def angles(self, name: str) -> FloatArray:
        """Some values of a field of angles [degree]; empty without it."""
        if name not in self.data:
            return np.empty(0)
        angles = np.asarray(self.data[name][::_EVERY, ::_EVERY], np.float64)
        return angles[(angles > -360.0) & (angles <= 360.0)]

    def time(self) -> datetime | None:
        """Start of acquisition; the file counts seconds since 1970."""
        for parent, name in ((self.located, "Time"), (self.data, "time")):
            if parent is not None and name in parent:
                seconds = np.asarray(parent[name][::_EVERY], np.float64)
                seconds = seconds[(seconds > _EARLIEST_S) & (seconds < _LATEST_S)]
                if seconds.size:
                    return datetime.fromtimestamp(float(seconds.min()), UTC)
        return None


def _matches(candidate: Candidate) -> bool:
    return candidate.has_group(_SWATH) or candidate.has_group(_GRID)


def _open(path: Path, options: SceneSettings) -> RawScene:
    return open_as(path, _raw_scene)


def _raw_scene(path: Path, file: h5py.File) -> RawScene:
    fields = _Fields.of(file)
    name = next((name for name in _CUBES if name in fields.data), None)
    if name is None:
        raise SceneError(
            "holds neither toa_radiance nor surface_reflectance",
            path=path,
            remedy="give the radiance_hdf5 or sr_hdf5 file of a Tanager scene",
        )
    cube, (level, quantity) = fields.data[name], _CUBES[name]
    bands, height, width = cube.shape
    is_swath = _SWATH in file
    locate = fields.geolocator((height, width)) if is_swath else None
    grid = _utm_grid(path, file, height, width) if locate is None else located_grid(locate, height, width)
    wavelength, fwhm = (_band_list(cube, key, bands) for key in ("wavelengths", "fwhm"))
    return RawScene(
        path=path,
        level=f"{'basic' if is_swath else 'ortho'} {level}",
        grid=grid,
        wavelength_nm=wavelength,
        fwhm_nm=fwhm,
        good=_good_bands(cube, bands),
        quantity=quantity,
        acquisition=_acquisition(fields, grid if is_swath else None),
        block_shape=(1, width) if cube.chunks is None else (cube.chunks[1], cube.chunks[2]),
        reader=TanagerCube(file, cube, fields.data.get("nodata_pixels"), _factor(path, cube, quantity)),
        geolocator=locate,
        guessed_scale=quantity == "reflectance",
        flags=_flags(fields.data, (height, width)),
    )


def _factor(path: Path, cube: h5py.Dataset, quantity: Quantity) -> float:
    """To the unit of a scene."""
    if quantity == "reflectance":
        return 1.0
    unit = text(cube.attrs.get("Unit", cube.attrs.get("units", _UNIT)))
    factor = radiance_factor(unit)
    if factor is None:
        raise SceneError(
            f"has radiance in {unit[:40]!r}, which is no known unit", path=path, remedy="download it again"
        )
    return factor


def _band_list(cube: h5py.Dataset, name: str, bands: int) -> FloatArray | None:
    """A list with a value per band [nm]; None without it."""
    if name not in cube.attrs:
        return None
    values = np.asarray(cube.attrs[name], np.float64).ravel()
    if len(values) != bands:
        raise ValueError(f"it lists {len(values)} {name} for {bands} bands")
    return values


def _good_bands(cube: h5py.Dataset, bands: int) -> npt.NDArray[np.bool_]:
    """Bands that are good in every line, if the file says so."""
    for name in ("all_good_wavelengths", "good_wavelengths"):
        flags = np.asarray(cube.attrs.get(name, []))
        if flags.size and flags.size % bands == 0:
            return np.asarray((flags.reshape(-1, bands) != 0).all(axis=0))
    return np.ones(bands, np.bool_)


def _flags(data: h5py.Group, shape: tuple[int, int]) -> Flags | None:
    def layer(mask: h5py.Dataset) -> Callable[[Window], npt.NDArray[Any]]:
        return lambda window: np.asarray(mask[window.slices])

    masks = {flag: data.get(f"beta_{flag}_mask") for flag in ("cloud", "cirrus")}
    return Flags.of(
        {flag: layer(mask) for flag, mask in masks.items() if mask is not None and mask.shape == shape}
    )


def _acquisition(fields: _Fields, swath: Grid | None) -> Acquisition:
    longitude, latitude = (None, None) if swath is None else centre_of(swath)
    return Acquisition(
        sun_zenith_deg=mean_angle(fields.angles("sun_zenith")),
        sun_azimuth_deg=mean_azimuth(fields.angles("sun_azimuth")),
        view_zenith_deg=mean_angle(fields.angles("sensor_zenith")),
        time=fields.time(),
        longitude_deg=longitude,
        latitude_deg=latitude,
    )


def _utm_grid(path: Path, file: h5py.File, height: int, width: int) -> Grid:
    """The grid of an ortho product, as HDF-EOS5 describes grids: outer corners [m] and UTM zone."""
    described = text(file[_STRUCTURE][()])[:_LONGEST_STRUCTURE] if _STRUCTURE in file else ""
    corners = [
        re.search(rf"{name}=\(([-+.\deE]+),([-+.\deE]+)\)", described)
        for name in ("UpperLeftPointMtrs", "LowerRightMtrs")
    ]
    code = _epsg(group(file, _GRID), described)
    if code is None or not all(corners):
        raise SceneError("has no usable map grid", path=path, remedy="give the basic product")
    (left, top), (right, bottom) = ((float(match[1]), float(match[2])) for match in corners if match)
    step_x, step_y = (right - left) / width, (bottom - top) / height
    return Grid(width, height, CRS.from_epsg(code), Affine(step_x, 0.0, left, 0.0, step_y, top))


def _epsg(hyp: h5py.Group, described: str) -> int | None:
    """Code of the CRS, from an attribute or from the number of the UTM zone, negative in the south."""
    if "epsg_code" in hyp.attrs:
        return int(np.ravel(hyp.attrs["epsg_code"])[0])
    zone = re.search(r"ZoneCode=(-?\d+)", described)
    number = 0 if zone is None else int(zone[1])
    if not 1 <= abs(number) <= 60:
        return None
    return (32600 if number > 0 else 32700) + abs(number)


DRIVER = Driver("Tanager", _matches, _open)
