"""What every scene offers, whatever its file format.

A product family contributes a `CubeReader` (raw access to one file layout) and a `RawScene` (what its
metadata says, band by band as filed). `assemble` turns these into a `Scene`, so that everything common
to all products (band order, masking, what the user overrides by option) is done once.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt
from affine import Affine
from rasterio.control import GroundControlPoint
from rasterio.crs import CRS
from rasterio.errors import RasterioError

from p3vae.cli.errors import P3vaeError, SceneError
from p3vae.cli.scenes.flags import Flags
from p3vae.cli.scenes.identity import FileIdentity
from p3vae.cli.scenes.tiling import SpectraTile, Window
from p3vae.physics.spectral_response import Bands

Quantity = Literal["reflectance", "radiance"]
Overlap = Literal["swir", "vnir"]
FloatArray = npt.NDArray[np.float64]
BandIndex = npt.NDArray[np.intp]
Pixels = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]
"""Rows and columns."""
Geolocator = Callable[[Window], tuple[FloatArray, FloatArray]]

_SAME_GRID_TOLERANCE = 1e-3
"""Of a pixel: grids closer than this are the same."""

UNITS: dict[Quantity, str] = {"reflectance": "1", "radiance": "W m-2 sr-1 um-1"}


@dataclass(frozen=True)
class Grid:
    """Where pixels are: an affine map grid, or a swath tied to the ground by control points."""

    width: int
    height: int
    crs: CRS | None
    """CRS of `transform`, or of `gcps` for a swath; None when the file says nothing."""
    transform: Affine | None
    """Pixel corner (col, row) to map coordinates; None for a swath."""
    gcps: tuple[GroundControlPoint, ...] = ()
    """Control points of a swath, at pixel centres (col + 0.5, row + 0.5); empty for a map grid."""


def same_place(crs: CRS | None, transform: Affine, grid: Grid) -> bool:
    """True when a raster lies on `grid`; without a CRS, or beside a swath, it is taken pixel for pixel."""
    if grid.transform is None or crs is None:
        return True
    offsets = np.subtract(transform[:6], grid.transform[:6]) / np.hypot(grid.transform.a, grid.transform.d)
    return bool(crs == grid.crs and np.all(np.abs(offsets) < _SAME_GRID_TOLERANCE))


@dataclass(frozen=True)
class Acquisition:
    """Sun, view, time and place; angles in degrees, None where unknown."""

    sun_zenith_deg: float | None = None
    sun_azimuth_deg: float | None = None
    view_zenith_deg: float | None = None
    time: datetime | None = None
    """Start of acquisition, UTC."""
    longitude_deg: float | None = None
    latitude_deg: float | None = None


class CubeReader(Protocol):
    """Raw access to one file layout."""

    def read(self, window: Window, bands: BandIndex) -> npt.NDArray[np.float32]:
        """Physical values, (rows, cols, len(bands)), of the given bands (as filed); NaN = missing."""

    def close(self) -> None:
        """Release file handles and temporary files."""


class OrthoGrid(Protocol):
    """The map grid that a product brings with its swath; -1 stands for no pixel."""

    @property
    def grid(self) -> Grid:
        """The map grid."""

    def swath_pixels(self, window: Window) -> Pixels:
        """The pixel of the swath that each pixel of a window of the map shows, (rows, cols) each."""

    def map_pixels(self, window: Window) -> Pixels:
        """The pixel of the map in which the centre of each pixel of a window of the swath lies."""


@dataclass(frozen=True, eq=False)
class RawScene:
    """What a file says about itself, its bands as filed (every order, zeros and overlaps included)."""

    path: Path
    level: str | None
    grid: Grid
    wavelength_nm: FloatArray | None
    """(file bands,); zero or NaN where a band does not exist; None when the file gives no wavelengths."""
    fwhm_nm: FloatArray | None
    good: npt.NDArray[np.bool_]
    """(file bands,)."""
    quantity: Quantity
    acquisition: Acquisition
    block_shape: tuple[int, int]
    reader: CubeReader = field(repr=False)
    detector: npt.NDArray[np.intp] | None = None
    """(file bands,): 0 VNIR, 1 SWIR, where overlapping detectors need a choice."""
    column_wavelength_nm: FloatArray | None = None
    """(width, file bands)."""
    column_fwhm_nm: FloatArray | None = None
    geolocator: Geolocator | None = None
    ortho: OrthoGrid | None = None
    guessed_scale: bool = False
    """True when no metadata says how counts become reflectance, so that values must be checked."""
    product: str | None = None
    """Name of the product, where it is not that of the driver."""
    flags: Flags | None = None
    """Cloud and cirrus as the product has them; None where it says nothing of them."""


@dataclass(frozen=True, eq=False, repr=False)
class Scene:
    """An opened hyperspectral scene: its metadata at hand, its pixels read window by window.

    Threads may share it; they read one after the other, because the libraries below do not allow more.
    """

    path: Path
    product: str
    """As its driver calls it, e.g. "PRISMA"."""
    level: str | None
    grid: Grid
    bands: Bands
    quantity: Quantity
    acquisition: Acquisition
    block_shape: tuple[int, int]
    """(rows, cols) that the file stores together: windows aligned to it are read fastest."""
    reader: CubeReader = field(repr=False)
    file_bands: BandIndex = field(repr=False)
    """(bands,): where each band of the scene is found in the file."""
    column_wavelength_nm: FloatArray | None = field(default=None, repr=False)
    """(width, bands): centre wavelengths [nm] of every image column (spectral smile), where known."""
    column_fwhm_nm: FloatArray | None = field(default=None, repr=False)
    """(width, bands): widths [nm] of every image column, where known."""
    geolocator: Geolocator | None = field(default=None, repr=False)
    ortho: OrthoGrid | None = field(default=None, repr=False)
    """The map grid of a swath onto which its products are mapped; None where the file has none."""
    flags: Flags | None = field(default=None, repr=False)
    """Cloud and cirrus as the product has them."""
    quality_mask: bool = True
    """Whether what is flagged, or seen to be of no use, is left out of the maps."""
    files: tuple[FileIdentity, ...] = field(default=(), repr=False)
    """The files that it is read from, as they were before the first byte was read."""
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def __repr__(self) -> str:
        nm, sun = self.bands.wavelength_nm, self.acquisition.sun_zenith_deg
        size = f"{self.grid.height} x {self.grid.width} pixels"
        spectrum = f"{len(self.bands)} bands from {nm[0]:.0f} to {nm[-1]:.0f} nm"
        light = "sun unknown" if sun is None else f"sun {sun:.1f} deg from the zenith"
        return f"<Scene {self.path.name}: {self.product}, {size}, {spectrum}, {self.quantity}, {light}>"

    @property
    def unit(self) -> str:
        """Unit of `SpectraTile.values`."""
        return UNITS[self.quantity]

    def read(self, window: Window) -> SpectraTile:
        """The spectra of a window, which must lie inside the grid; bad bands come back as NaN."""
        self._check_inside(window)
        with self.lock, reading(self.path):
            values = self.reader.read(window, self.file_bands)
        valid = _all_finite(values, self.bands.good)
        for run in _runs(~self.bands.good):
            values[..., run] = np.nan
        return SpectraTile(values, valid, window)

    def geolocation(self, window: Window) -> tuple[FloatArray, FloatArray] | None:
        """Longitude and latitude [deg, WGS 84] of every pixel centre of a swath; None for a map grid."""
        self._check_inside(window)
        if self.geolocator is None:
            return None
        with self.lock, reading(self.path):
            return self.geolocator(window)

    def close(self) -> None:
        """Release the file; the scene cannot be read afterwards."""
        with self.lock:
            self.reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_inside(self, window: Window) -> None:
        rows_fit = 0 <= window.row <= window.row + window.rows <= self.grid.height
        cols_fit = 0 <= window.col <= window.col + window.cols <= self.grid.width
        if not (rows_fit and cols_fit):
            raise ValueError(f"{window} does not lie inside {self.grid.height} x {self.grid.width} pixels")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns whatever the libraries raise on a damaged or foreign file into a SceneError.

    They raise nearly anything: a changed byte may turn a number into a group, or a size into a huge one.
    """
    try:
        yield
    except P3vaeError:
        raise
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SceneError("no such file", path=path, remedy="check the path") from error
    except PermissionError as error:
        raise SceneError("may not be read", path=path, remedy="check the file's permissions") from error
    except (OSError, RasterioError, RuntimeError, EOFError) as error:
        if not _is_there(path):
            raise SceneError("no such file", path=path, remedy="check the path") from error
        too_long = isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG
        raise SceneError(
            f"cannot be read: {_one_line(error)}",
            path=path,
            remedy="check the path"
            if too_long
            else "the file looks truncated or damaged; copy or download it again",
        ) from error
    except MemoryError as error:
        raise SceneError(
            "claims more values than memory can hold", path=path, remedy="check that the file is intact"
        ) from error
    except Exception as error:
        raise SceneError(
            f"is not laid out as expected: {_one_line(error)}",
            path=path,
            remedy="check that it is the product its name says, and complete",
        ) from error


def _is_there(path: Path) -> bool:
    """Whether there is a file of that name; True for a name that nobody may look up."""
    try:
        path.stat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def as_slice(index: BandIndex) -> slice | BandIndex:
    """The same selection as a slice where it is evenly spaced, because numpy copies less for slices."""
    steps = np.unique(np.diff(index))
    if len(index) == 1:
        return slice(int(index[0]), int(index[0]) + 1)
    if len(steps) != 1 or steps[0] == 0:
        return index
    step, stop = int(steps[0]), int(index[-1]) + int(np.sign(steps[0]))
    return slice(int(index[0]), stop if stop >= 0 else None, step)


def _one_line(error: BaseException) -> str:
    text = str(error.args[0] if error.args else error)
    if isinstance(error, RasterioError) and error.__cause__ is not None:
        text = str(error.__cause__)  # rasterio only refers to it
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror
    return " ".join(text.split())


def _runs(mask: npt.NDArray[np.bool_]) -> list[slice]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return [slice(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def _all_finite(values: npt.NDArray[np.float32], good: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """True where all good bands are finite: a sum is finite only then, and needs no temporary cube."""
    valid = np.ones(values.shape[:2], dtype=bool)
    for run in _runs(good):
        valid &= np.isfinite(values[..., run].sum(axis=-1))
    return valid
