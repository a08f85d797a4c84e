"""Where PRISMA pixels lie, and how their wavelengths shift across the track."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import h5py
import numpy as np
from affine import Affine
from pyproj import Transformer
from rasterio.control import GroundControlPoint
from rasterio.crs import CRS
from rasterio.errors import CRSError

from p3vae.cli.errors import SceneError
from p3vae.cli.scenes.base import FloatArray, Grid
from p3vae.cli.scenes.formats.hdf5 import attribute, small_array
from p3vae.cli.scenes.formats.swaths import control_points, lattice
from p3vae.cli.scenes.tiling import Window
from p3vae.cli.scenes.utm import utm_epsg

_LARGEST_SMILE_NM = 5.0  # half of the band spacing: further away it is another band
_CORNERS = (("UL", 0, 0), ("UR", 0, 1), ("LL", 1, 0), ("LR", 1, 1))


class CubeOfDetector(Protocol):
    """What is needed to know of a detector."""

    @property
    def name(self) -> str:
        """ "Vnir" or "Swir"."""

    @property
    def first_band(self) -> int:
        """Place of its first band among the bands of both cubes."""

    @property
    def stop_band(self) -> int:
        """Place after its last band."""


@dataclass(frozen=True, eq=False)
class Geolocation:
    """The arrays that place every pixel, as stored."""

    longitude: h5py.Dataset
    latitude: h5py.Dataset

    @classmethod
    def find(cls, swath: h5py.Group) -> Self | None:
        """The geolocation of a swath; that of the SWIR detector where each detector has its own."""
        for suffix in ("", "_SWIR", "_VNIR"):
            names = [f"Geolocation Fields/{axis}{suffix}" for axis in ("Longitude", "Latitude")]
            if all(name in swath for name in names):
                return cls(swath[names[0]], swath[names[1]])
        return None

    def swath_window(self, window: Window) -> tuple[FloatArray, FloatArray]:
        """Longitude and latitude [deg] of a window of the turned and mirrored swath."""
        rows, cols = window.slices
        width = self.longitude.shape[0]
        stored = slice(width - cols.stop, width - cols.start), rows
        return _turned(self.longitude[stored]), _turned(self.latitude[stored])


def swath_grid(
    path: Path, file: h5py.File, *, height: int, width: int, geolocation: Geolocation | None
) -> Grid:
    """A swath tied down by a lattice of its geolocation, or else by its four corners."""
    if geolocation is None:
        gcps = _corner_gcps(path, file, height, width)
    elif geolocation.longitude.shape != (width, height) or geolocation.latitude.shape != (width, height):
        raise ValueError("cubes and geolocation differ in size")
    else:
        gcps = lattice(geolocation.swath_window, height, width)
    return Grid(width, height, CRS.from_epsg(4326), None, gcps)


def map_grid(path: Path, file: h5py.File, height: int, width: int, geolocation: Geolocation | None) -> Grid:
    """The UTM grid of L2D, whose corner attributes are pixel centres."""
    left, right = (float(attribute(file, f"Product_{corner}corner_easting")) for corner in ("UL", "LR"))
    top, bottom = (float(attribute(file, f"Product_{corner}corner_northing")) for corner in ("UL", "LR"))
    step_x, step_y = (right - left) / max(width - 1, 1), (bottom - top) / max(height - 1, 1)
    transform = Affine(step_x, 0, left - step_x / 2, 0, step_y, top - step_y / 2)
    return Grid(
        width, height, _utm(path, file, (left + right) / 2, (top + bottom) / 2, geolocation), transform
    )


def column_table(
    calibration: h5py.Group,
    kind: str,
    detectors: Sequence[CubeOfDetector],
    centre_nm: FloatArray,
    nominal_nm: FloatArray,
) -> FloatArray | None:
    """Centres ("Cw") or widths ("Fwhm") [nm] of every image column, (width, file bands); None if not given.

    The matrices have 256 columns of which the non-zero ones are in use: each band takes the one whose
    mean centre lies nearest to its nominal centre.
    """
    tables = []
    for one in detectors:
        centres = calibration.get(f"KDP_AUX/Cw_{one.name}_Matrix")
        wanted = calibration.get(f"KDP_AUX/{kind}_{one.name}_Matrix")
        if centres is None or wanted is None:
            return None
        bands = slice(one.first_band, one.stop_band)
        matched = _matched_columns(small_array(centres), small_array(wanted), centre_nm[bands])
        if matched is None:
            return None
        tables.append(np.where(matched > 0, matched, nominal_nm[bands]))
    return np.concatenate(tables, axis=1)


def mean_angle(swath: h5py.Group, name: str) -> float | None:
    """Mean of a field of angles [deg] over pixels that are no padding; None without such a field."""
    field = swath.get(f"Geometric Fields/{name}")
    if field is None:
        return None
    angles = np.asarray(field[::8, ::8], dtype=float)
    angles = angles[np.isfinite(angles) & (angles > 0) & (angles < 90)]
    return float(angles.mean()) if len(angles) else None


def _matched_columns(centres: FloatArray, wanted: FloatArray, centre_nm: FloatArray) -> FloatArray | None:
    in_use = np.flatnonzero(np.all(centres > 0, axis=0))
    table = np.zeros((len(centres), len(centre_nm)))
    bands = np.flatnonzero(centre_nm > 0)
    if len(in_use) == 0 or len(bands) == 0:
        return None
    distance = np.abs(centres[:, in_use].mean(axis=0)[None, :] - centre_nm[bands, None])
    if distance.min(axis=1).max() > _LARGEST_SMILE_NM:
        return None
    table[:, bands] = wanted[:, in_use[distance.argmin(axis=1)]]
    return table[::-1]


def _turned(stored: FloatArray) -> FloatArray:
    return np.asarray(stored[::-1].T, dtype=np.float64)


def _corner_gcps(path: Path, file: h5py.File, height: int, width: int) -> tuple[GroundControlPoint, ...]:
    try:
        points = [
            (
                down * (height - 1),
                right * (width - 1),
                float(attribute(file, f"Product_{corner}corner_long")),
                float(attribute(file, f"Product_{corner}corner_lat")),
            )
            for corner, down, right in _CORNERS
        ]
    except KeyError as error:
        raise SceneError("has no geolocation", path=path, remedy="download the original product") from error
    return control_points(points)


def _utm(path: Path, file: h5py.File, x: float, y: float, geolocation: Geolocation | None) -> CRS:
    """The stated CRS, or the UTM zone in which the centre of the grid falls on its geolocation."""
    code = int(attribute(file, "Epsg_Code")) if "Epsg_Code" in file.attrs else 0
    try:
        if code > 0:
            return CRS.from_epsg(code)
    except CRSError:
        pass
    lon, lat = _centre(path, file, geolocation)
    candidates = [utm_epsg(near, lat) for near in (lon, lon - 6.0, lon + 6.0)]

    def distance(epsg: int) -> float:
        east, north = Transformer.from_crs(4326, epsg, always_xy=True).transform(lon, lat)
        return float(np.hypot(east - x, north - y))

    return CRS.from_epsg(min(candidates, key=distance))


def _centre(path: Path, file: h5py.File, geolocation: Geolocation | None) -> tuple[float, float]:
    """Longitude and latitude near the centre of the grid, for a product that does not state its CRS."""
    if geolocation is not None:
        row, col = (size // 2 for size in geolocation.longitude.shape)
        lon, lat = float(geolocation.longitude[row, col]), float(geolocation.latitude[row, col])
        if np.isfinite([lon, lat]).all() and (lon, lat) != (0.0, 0.0):
            return lon, lat
    names = [(f"Product_{name}_long", f"Product_{name}_lat") for name in ("center", "ULcorner", "LRcorner")]
    for lon_name, lat_name in names:
        if lon_name in file.attrs and lat_name in file.attrs:
            return float(attribute(file, lon_name)), float(attribute(file, lat_name))
    raise SceneError(
        "states no CRS (Epsg_Code) and no longitude and latitude to find it by",
        path=path,
        remedy="download the original product",
    )
