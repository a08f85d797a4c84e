"""Writes PRISMA-like HDF5 files: level 1 radiance on the swath, level 2D reflectance on a UTM grid.

The structure follows the real products: two detectors, each with wavelengths that decrease and with
entries that are zero; level 1 has its axes across (east to west), band, along (north to south).
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from pyproj import Transformer

from p3vae.cli.simulate.layouts import Placement
from p3vae.physics.spectral_response import Bands

Array = npt.NDArray[Any]

RADIANCE_SCALE = 100.0
"""Counts per W m-2 sr-1 um-1."""
MATRIX_COLUMNS = 256
"""Detector elements along the spectrum in the calibration matrices."""
FIRST_ELEMENT = 60
"""Where our bands begin among them; any place will do, unused elements are zero."""


@dataclass(frozen=True)
class _Spectrometer:
    """One of the two spectrometers: how many entries its lists have and which of them are unused."""

    name: str
    unused_first: int
    unused_last: int
    centres_nm: tuple[float, ...]
    """Ascending."""

    @property
    def entries(self) -> int:
        return self.unused_first + len(self.centres_nm) + self.unused_last

    def listed(self, ascending: Array, axis: int = 0) -> Array:
        """Values per band, ascending, to the file's order: decreasing, with zeros for unused entries."""
        pad = [(0, 0)] * ascending.ndim
        pad[axis] = (self.unused_first, self.unused_last)
        return np.pad(np.flip(ascending, axis), pad)


def _centres(first_nm: float, last_nm: float, count: int, first_step: float) -> tuple[float, ...]:
    """Centres whose spacing changes evenly from `first_step`, as prisms make it [nm]."""
    steps = count - 1
    last_step = 2 * (last_nm - first_nm) / steps - first_step
    centres = first_nm + np.concatenate(([0.0], np.cumsum(np.linspace(first_step, last_step, steps))))
    return tuple(float(np.float32(round(centre, 3))) for centre in centres)


VNIR = _Spectrometer("Vnir", 3, 0, _centres(406.9, 977.4, 63, 7.4))
SWIR = _Spectrometer("Swir", 0, 2, _centres(943.4, 2497.1, 171, 10.9))


def prisma_bands(detector: str) -> Bands:
    """The bands of one detector, "vnir" or "swir"."""
    centres = np.array(_detector(detector).centres_nm)
    return Bands.from_centres(centres, np.float32(np.gradient(centres) * 1.25).astype(np.float64))


def prisma_all_bands() -> tuple[Bands, npt.NDArray[np.bool_]]:
    """The bands of both detectors in ascending order, and which of them are SWIR; they overlap."""
    vnir, swir = prisma_bands("vnir"), prisma_bands("swir")
    centres = np.concatenate((vnir.wavelength_nm, swir.wavelength_nm))
    order = np.argsort(centres)
    is_swir = np.repeat([False, True], [len(vnir), len(swir)])[order]
    return Bands.from_centres(centres[order], np.concatenate((vnir.fwhm_nm, swir.fwhm_nm))[order]), is_swir


def write_prisma_l1(
    path: Path,
    cube: npt.NDArray[np.float32],
    placement: Placement,
    column_shift_nm: npt.NDArray[np.float64],
) -> None:
    """Radiance [W m-2 sr-1 um-1] (rows, cols, bands of `prisma_all_bands`) as a level 1 swath.

    `column_shift_nm` (cols,) is how far the wavelengths of each image column lie from the nominal ones.
    """
    rows, cols = cube.shape[:2]
    lon, lat = _geolocation(placement, rows, cols)
    with _written_whole(path) as file:
        attributes = _common_attributes(placement, "1") | {"ScaleFactor_Vnir": np.float32(RADIANCE_SCALE)}
        attributes |= {"ScaleFactor_Swir": np.float32(RADIANCE_SCALE)}
        attributes |= {f"Offset_{name}": np.float32(0.0) for name in ("Vnir", "Swir")}
        for corner, pixel in _corners(rows, cols).items():
            attributes[f"Product_{corner}corner_lat"] = np.float32(lat[pixel])
            attributes[f"Product_{corner}corner_long"] = np.float32(lon[pixel])
        _set_attributes(file, attributes)
        swath = file.create_group("HDFEOS/SWATHS/PRS_L1_HCO")
        for detector, part in _by_detector(cube):
            name = detector.name.upper()
            counts = np.clip(np.rint(part * RADIANCE_SCALE), 0, 65535).astype(np.uint16)
            stored = detector.listed(_across_first(counts), axis=1)
            swath[f"Data Fields/{name}_Cube"] = stored
            # Never written, so it takes no room: HDF5 gives zeros, which mean "no error".
            swath.create_dataset(f"Data Fields/{name}_PIXEL_SAT_ERR_MATRIX", stored.shape, np.uint8)
            swath[f"Geolocation Fields/Latitude_{name}"] = _across_first(lat)
            swath[f"Geolocation Fields/Longitude_{name}"] = _across_first(lon)
            _write_calibration(file, detector, column_shift_nm[::-1])
        for mask, value in (("Cloud", 0), ("SunGlint", 0), ("LandCover", 6)):
            swath[f"Data Fields/{mask}_Mask"] = np.full((cols, rows), value, np.uint8)
        swath["Geolocation Fields/Time"] = _line_times(placement.time, rows)


def write_prisma_l2d(path: Path, cube: npt.NDArray[np.float32], placement: Placement) -> None:
    """Reflectance [1] (rows, cols, bands of `prisma_all_bands`), NaN on padding, as a level 2D map."""
    rows, cols = cube.shape[:2]
    padding = np.isnan(cube[..., 0])
    lon, lat = _geolocation(placement, rows, cols)
    with _written_whole(path) as file:
        attributes = _common_attributes(placement, "2D") | {"Epsg_Code": np.int32(placement.epsg)}
        for corner, (row, col) in _corners(rows, cols).items():
            x, y = placement.transform @ (col % cols + 0.5, row % rows + 0.5)
            attributes[f"Product_{corner}corner_easting"] = np.float32(x)
            attributes[f"Product_{corner}corner_northing"] = np.float32(y)
        swath = file.create_group("HDFEOS/SWATHS/PRS_L2D_HCO")
        for detector, part in _by_detector(cube):
            name = detector.name.upper()
            counts, low, high = _scaled(part, padding)
            attributes |= {f"L2Scale{detector.name}Min": low, f"L2Scale{detector.name}Max": high}
            stored = detector.listed(counts.transpose(0, 2, 1), axis=1)
            errors = np.repeat(padding[:, None, :].astype(np.uint8), stored.shape[1], axis=1)
            swath[f"Data Fields/{name}_Cube"] = stored
            swath[f"Data Fields/{name}_PIXEL_L2_ERR_MATRIX"] = errors
        _set_attributes(file, attributes)
        swath["Geolocation Fields/Latitude"] = lat
        swath["Geolocation Fields/Longitude"] = lon
        swath["Geolocation Fields/Time"] = _line_times(placement.time, rows)
        for field, angle in (
            ("Solar_Zenith_Angle", placement.sun_zenith_deg),
            ("Observing_Angle", placement.view_zenith_deg),
            ("Rel_Azimuth_Angle", abs(placement.sun_azimuth_deg - 180.0)),
        ):
            swath[f"Geometric Fields/{field}"] = np.where(padding, 0.0, angle).astype(np.float32)


@contextmanager
def _written_whole(path: Path) -> Iterator[h5py.File]:
    """An HDF5 file made in memory: the library crashes the process when the disk fills under it."""
    memory = io.BytesIO()
    with h5py.File(memory, "w") as file:
        yield file
    path.write_bytes(memory.getbuffer())


def _detector(name: str) -> _Spectrometer:
    return {"vnir": VNIR, "swir": SWIR}[name]


def _by_detector(cube: Array) -> list[tuple[_Spectrometer, Array]]:
    is_swir = prisma_all_bands()[1]
    return [(VNIR, cube[..., ~is_swir]), (SWIR, cube[..., is_swir])]


def _across_first(image: Array) -> Array:
    """(along, across west to east[, bands]) to (across east to west, [bands,] along)."""
    flipped = image[:, ::-1]
    return np.ascontiguousarray(flipped.transpose(1, 2, 0) if image.ndim == 3 else flipped.T)


def _scaled(part: Array, padding: npt.NDArray[np.bool_]) -> tuple[Array, np.float32, np.float32]:
    """Counts 1 to 65535 between two limits, 0 on padding: a count of 0 is invalid in level 2."""
    low, high = float(part[~padding].min()), float(part[~padding].max())
    low -= (high - low) / 60_000
    limits = np.float32(low), np.float32(max(high, low + 1e-3))
    counts = np.rint((part - limits[0]) / (limits[1] - limits[0]) * 65535)
    counts = np.where(padding[..., None], 0, np.clip(counts, 1, 65535))
    return counts.astype(np.uint16), *limits


def _geolocation(placement: Placement, rows: int, cols: int) -> tuple[Array, Array]:
    row, col = np.mgrid[0:rows, 0:cols] + 0.5
    x, y = placement.transform @ (col, row)
    to_degrees = Transformer.from_crs(placement.crs.to_wkt(), "EPSG:4326", always_xy=True)
    lon, lat = to_degrees.transform(x, y)
    return np.asarray(lon), np.asarray(lat)


def _corners(rows: int, cols: int) -> dict[str, tuple[int, int]]:
    return {"UL": (0, 0), "UR": (0, cols - 1), "LL": (rows - 1, 0), "LR": (rows - 1, cols - 1)}


def _line_times(start: datetime, rows: int) -> npt.NDArray[np.float64]:
    """Days since 2000-01-01 (MJD2000) of every line, 4.31 ms apart as for a 30 m step in orbit."""
    first = (start - datetime(2000, 1, 1, tzinfo=UTC)).total_seconds()
    seconds = first + 4.31e-3 * np.arange(rows)
    return np.asarray(seconds / 86400.0, dtype=np.float64)


def _common_attributes(placement: Placement, level: str) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "Processing_Level": np.bytes_(level),
        "Product_StartTime": np.bytes_(placement.time.strftime("%Y-%m-%dT%H:%M:%S.%f")),
        "Product_StopTime": np.bytes_(placement.time.strftime("%Y-%m-%dT%H:%M:%S.%f")),
        "Sun_zenith_angle": np.float32(placement.sun_zenith_deg),
        "Sun_azimuth_angle": np.float32(placement.sun_azimuth_deg),
        "Cloudy_pixels_percentage": np.float32(0.0),
    }
    for detector in (VNIR, SWIR):
        bands = prisma_bands(detector.name.lower())
        attributes[f"List_Cw_{detector.name}"] = detector.listed(bands.wavelength_nm).astype(np.float32)
        attributes[f"List_Fwhm_{detector.name}"] = detector.listed(bands.fwhm_nm).astype(np.float32)
        attributes[f"List_Cw_{detector.name}_Flags"] = detector.listed(np.ones(len(bands), np.uint8))
    return attributes


def _set_attributes(file: h5py.File, attributes: Mapping[str, Any]) -> None:
    for name, value in attributes.items():
        file.attrs[name] = value


def _write_calibration(file: h5py.File, detector: _Spectrometer, shift_nm: Array) -> None:
    """Wavelengths and widths of every detector column, (across, elements); unused elements are zero."""
    bands = prisma_bands(detector.name.lower())
    used = slice(FIRST_ELEMENT, FIRST_ELEMENT + len(bands))
    for label, values, shift in (
        ("Cw", bands.wavelength_nm, shift_nm),
        ("Fwhm", bands.fwhm_nm, 0 * shift_nm),
    ):
        matrix = np.zeros((len(shift_nm), MATRIX_COLUMNS), np.float32)
        matrix[:, used] = values[::-1] + shift[:, None]
        file[f"KDP_AUX/{label}_{detector.name}_Matrix"] = matrix
