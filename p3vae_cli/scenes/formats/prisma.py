"""PRISMA L1 (HCO), L2B, L2C and L2D (HDF-EOS5), as delivered in a zip archive or unpacked.

L1, L2B and L2C are swaths stored (across east to west, band, along north to south): they are turned and
mirrored here to lie north-up-ish. L2D is stored (row, band, column) on a UTM grid.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import numpy.typing as npt

from p3vae.cli.errors import SceneError
from p3vae.cli.scenes.base import (
    Acquisition,
    BandIndex,
    FloatArray,
    Grid,
    Quantity,
    RawScene,
    as_slice,
    reading,
)
from p3vae.cli.scenes.flags import Flags
from p3vae.cli.scenes.formats.hdf5 import Hdf5Archive, attribute, group, open_hdf5, text
from p3vae.cli.scenes.formats.prisma_geometry import (
    Geolocation,
    column_table,
    map_grid,
    mean_angle,
    swath_grid,
)
from p3vae.cli.scenes.formats.rasters import to_physical
from p3vae.cli.scenes.metadata import utc_time
from p3vae.cli.scenes.registry import Candidate, Driver
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.scenes.tiling import Window

_SWATH = re.compile(r"PRS_L(1|2B|2C|2D)_(HCO|HRC|PCO|PRC)")
_QUANTITIES: dict[str, Quantity] = {
    "1": "radiance",  # at the sensor
    "2B": "radiance",  # at the ground
    "2C": "reflectance",
    "2D": "reflectance",
}
_MAX_COUNT = 65535.0


@dataclass(frozen=True, eq=False)
class Detector:
    """One of the two cubes: where it lies in the file and how its counts become physical values."""

    name: str
    cube: h5py.Dataset
    errors: h5py.Dataset | None
    """Non-zero where a count is saturated, dead or otherwise not to be used."""
    first_band: int
    """Place of its first band among the bands of both cubes."""
    gain: float
    offset: float

    @property
    def stop_band(self) -> int:
        """Place after its last band."""
        return self.first_band + int(self.cube.shape[1])


class PrismaCube:
    """Reads both detectors of a window and lays them out as one cube."""

    def __init__(self, detectors: list[Detector], level: str, release: Callable[[], None]) -> None:
        self._detectors, self._release = detectors, release
        self._mapped = level == "2D"
        self._missing = None if level == "1" else 0.0

    def read(self, window: Window, bands: BandIndex) -> npt.NDArray[np.float32]:
        """In L1 a count of 0 is dark, unless all bands hold 0; in L2 it is missing."""
        values = self._empty(window, len(bands))
        lit = np.zeros(values.shape[:2], dtype=bool)
        if lit.size == 0:
            return values
        for detector in self._detectors:
            place = np.flatnonzero((bands >= detector.first_band) & (bands < detector.stop_band))
            if len(place):
                # The overlap choice has parted the detectors, so that each fills one run of bands.
                target = values[..., place[0] : place[-1] + 1]
                lit |= self._fill(target, detector, window, bands[place] - detector.first_band)
        values[~lit] = np.nan
        return values

    def close(self) -> None:
        """Release the file."""
        self._release()

    def _empty(self, window: Window, bands: int) -> npt.NDArray[np.float32]:
        """(rows, cols, bands), in memory as the file has it."""
        if self._mapped:
            return np.empty((window.rows, bands, window.cols), dtype=np.float32).transpose(0, 2, 1)
        return np.empty((window.cols, bands, window.rows), dtype=np.float32).transpose(2, 0, 1)

    def _fill(
        self, target: npt.NDArray[np.float32], detector: Detector, window: Window, bands: BandIndex
    ) -> npt.NDArray[np.bool_]:
        raw = self._oriented(detector.cube, window, bands)
        gain, offset = np.full(len(bands), detector.gain), np.full(len(bands), detector.offset)
        to_physical(raw, gain, offset, self._missing, out=target)
        if detector.errors is not None:
            np.copyto(target, np.nan, where=self._oriented(detector.errors, window, bands) != 0)
        return np.asarray(raw.any(axis=-1))

    def _oriented(self, dataset: h5py.Dataset, window: Window, bands: BandIndex) -> npt.NDArray[np.generic]:
        low, high = int(bands.min()), int(bands.max()) + 1
        rows, cols = window.slices
        if self._mapped:
            stored = dataset[rows, low:high, cols].transpose(0, 2, 1)
        else:
            width = dataset.shape[0]
            mirrored = slice(width - cols.stop, width - cols.start)
            stored = dataset[mirrored, low:high, rows][::-1].transpose(2, 0, 1)
        oriented: npt.NDArray[np.generic] = stored[..., as_slice(bands - low)]
        return oriented


def _matches(candidate: Candidate) -> bool:
    """HDF-EOS5, or a zip archive, as it is delivered; opening says if it is of another sensor."""
    return candidate.is_zip or candidate.has_group("HDFEOS")


def _open(path: Path, options: SceneSettings) -> RawScene:
    """From the .he5 or from the archive."""
    if zipfile.is_zipfile(path):
        archive = Hdf5Archive(path, ".he5")
        file, release = archive.file, archive.close
    else:
        file = open_hdf5(path)
        release = file.close
    try:
        with reading(path):
            return _raw_scene(path, file, release)
    except BaseException:
        release()
        raise


def _raw_scene(path: Path, file: h5py.File, release: Callable[[], None]) -> RawScene:
    level, swath = _swath(path, file)
    detectors = _detectors(path, file, swath, level)
    geolocation = Geolocation.find(swath)
    shape = detectors[0].cube.shape
    if any((one.cube.shape[0], one.cube.shape[2]) != (shape[0], shape[2]) for one in detectors):
        raise ValueError("VNIR and SWIR cubes differ in size")
    if level == "2D":
        grid = map_grid(path, file, shape[0], shape[2], geolocation)
    else:
        grid = swath_grid(path, file, height=shape[2], width=shape[0], geolocation=geolocation)
    centre, fwhm, good = _band_lists(file, detectors)
    is_swath = level != "2D"
    calibration = file if "KDP_AUX" in file else swath  # at the root in the files known to us
    return RawScene(
        path=path,
        level=f"L{level}",
        grid=grid,
        wavelength_nm=centre,
        fwhm_nm=fwhm,
        good=good,
        quantity=_QUANTITIES[level],
        acquisition=_acquisition(file, swath, grid),
        block_shape=(grid.height, 1) if is_swath else (1, grid.width),
        reader=PrismaCube(detectors, level, release),
        detector=np.concatenate(
            [np.full(one.cube.shape[1], one.name == "Swir", np.intp) for one in detectors]
        ),
        column_wavelength_nm=column_table(calibration, "Cw", detectors, centre, centre),
        column_fwhm_nm=column_table(calibration, "Fwhm", detectors, centre, fwhm),
        geolocator=geolocation.swath_window if is_swath and geolocation is not None else None,
        flags=_flags(swath, grid),
    )


def _swath(path: Path, file: h5py.File) -> tuple[str, h5py.Group]:
    """Level and co-registered hyperspectral swath."""
    swaths = group(file, "HDFEOS/SWATHS") if "HDFEOS/SWATHS" in file else {}
    found = [match for match in map(_SWATH.fullmatch, swaths) if match]
    for match in found:
        if match[2] == "HCO":
            return match[1], group(swaths, match[0])
    if not found:
        raise SceneError("holds no PRISMA swath", path=path, remedy="give a PRISMA L1, L2B, L2C or L2D file")
    kinds = ", ".join(sorted(match[2] for match in found))
    raise SceneError(
        f"holds no co-registered hyperspectral swath (HCO), only {kinds}",
        path=path,
        remedy="order the product with its hyperspectral cube",
    )


def _detectors(path: Path, file: h5py.File, swath: h5py.Group, level: str) -> list[Detector]:
    found: list[Detector] = []
    for name in ("Vnir", "Swir"):
        cube = swath.get(f"Data Fields/{name.upper()}_Cube")
        if cube is None and f"{name.upper()}_Cube" in set(group(swath, "Data Fields")):
            raise ValueError(f"the {name.upper()} cube is listed, but not there")
        if cube is None:
            continue
        kind = "SAT" if level == "1" else "L2"
        errors = swath.get(f"Data Fields/{name.upper()}_PIXEL_{kind}_ERR_MATRIX")
        gain, offset = _calibration(file, name, level)
        found.append(Detector(name, cube, errors, found[-1].stop_band if found else 0, gain, offset))
    if not found:
        raise SceneError(
            "holds no hyperspectral cube", path=path, remedy="order the product with its hyperspectral cube"
        )
    return found


def _calibration(file: h5py.File, name: str, level: str) -> tuple[float, float]:
    """Gain and offset from count to physical value."""
    if level == "1":
        return 1.0 / float(attribute(file, f"ScaleFactor_{name}")), -float(attribute(file, f"Offset_{name}"))
    low, high = (float(attribute(file, f"L2Scale{name}{end}")) for end in ("Min", "Max"))
    return (high - low) / _MAX_COUNT, low


def _band_lists(
    file: h5py.File, detectors: list[Detector]
) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
    """Centres and widths [nm], zero where a band is not in use, and flags, over the bands of both cubes."""
    centres, widths = [], []
    for one in detectors:
        count = one.cube.shape[1]
        centre, width, flag = (
            np.asarray(file.attrs[key], dtype=float)
            for key in (f"List_Cw_{one.name}", f"List_Fwhm_{one.name}", f"List_Cw_{one.name}_Flags")
        )
        if not len(centre) == len(width) == len(flag) == count:
            raise ValueError(f"{one.name.upper()} lists {len(centre)} wavelengths for {count} bands")
        centres.append(np.where(flag == 1, centre, 0.0))
        widths.append(width)
    centre = np.concatenate(centres)
    return centre, np.concatenate(widths), centre > 0


def _acquisition(file: h5py.File, swath: h5py.Group, grid: Grid) -> Acquisition:
    zenith = _angle(file, "Sun_zenith_angle")
    longitude = latitude = None
    if grid.gcps:
        longitude = float(np.mean([point.x for point in grid.gcps]))
        latitude = float(np.mean([point.y for point in grid.gcps]))
    return Acquisition(
        sun_zenith_deg=mean_angle(swath, "Solar_Zenith_Angle") if zenith is None else zenith,
        sun_azimuth_deg=_angle(file, "Sun_azimuth_angle"),
        view_zenith_deg=mean_angle(swath, "Observing_Angle"),
        time=utc_time(text(file.attrs["Product_StartTime"])) if "Product_StartTime" in file.attrs else None,
        longitude_deg=longitude,
        latitude_deg=latitude,
    )


def _flags(swath: h5py.Group, grid: Grid) -> Flags | None:
    """The cloud mask of L1, filed like the geolocation: 1 is cloud, 10 none of its classes."""
    mask = swath.get("Data Fields/Cloud_Mask")
    if mask is None or mask.shape != (grid.width, grid.height):
        return None

    def cloud(window: Window) -> npt.NDArray[np.bool_]:
        rows, cols = window.slices
        mirrored = slice(grid.width - cols.stop, grid.width - cols.start)
        return np.asarray(mask[mirrored, rows][::-1].T == 1)

    return Flags.of({"cloud": cloud})


def _angle(file: h5py.File, name: str) -> float | None:
    return float(attribute(file, name)) if name in file.attrs else None


DRIVER = Driver("PRISMA", _matches, _open, specificity=1)
