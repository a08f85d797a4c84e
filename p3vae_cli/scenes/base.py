"""What every scene offers, whatever its file format.

A product family contributes a `CubeReader` (raw access to one file layout) and a function that
fills a `Scene` from that product's metadata. Everything that is common to all products (masking,
bad bands, what the user overrides by option) is done here, once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
from affine import Affine
from p3vae.cli.tiling import Window
from p3vae.physics.spectral_response import Bands
from rasterio.control import GroundControlPoint
from rasterio.crs import CRS

Quantity = Literal["reflectance", "radiance"]

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
    """Control points of a swath; empty for a map grid."""


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


@dataclass(frozen=True)
class SpectraTile:
    """The spectra of one window, in physical units."""

    values: npt.NDArray[np.float32]
    """(rows, cols, bands): reflectance [1] or radiance [W m-2 sr-1 um-1]; NaN where invalid."""
    valid: npt.NDArray[np.bool_]
    """(rows, cols): True where every good band holds a finite value."""
    window: Window


class CubeReader(Protocol):
    """Raw access to one file layout."""

    def read(self, window: Window) -> npt.NDArray[np.float32]:
        """Physical values of a window, (rows, cols, bands) in the order of the scene's bands; NaN = missing."""

    def close(self) -> None:
        """Release file handles."""


@dataclass(frozen=True)
class Scene:
    """An opened hyperspectral scene: its metadata at hand, its pixels read window by window."""

    path: Path
    product: str
    """E.g. "PRISMA", "EnMAP", "EMIT", "ENVI", "GeoTIFF"."""
    level: str | None
    grid: Grid
    bands: Bands
    quantity: Quantity
    acquisition: Acquisition
    block_shape: tuple[int, int]
    """(rows, cols) that the file stores together: windows aligned to it are read fastest."""
    reader: CubeReader = field(repr=False)
