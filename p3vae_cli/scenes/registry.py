"""The registry of readers: every module in `formats/` with an attribute `DRIVER` reads a product.

Nothing else lists them: what opens a scene, which files belong to it, and the names in messages and in
`p3vae info --formats` come from here.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from p3vae.cli.errors import SceneError
from p3vae.cli.scenes.base import RawScene, reading
from p3vae.cli.scenes.drivers import TIFF
from p3vae.cli.scenes.identity import FileIdentity
from p3vae.cli.scenes.settings import SceneSettings

if TYPE_CHECKING:
    import h5py

_FORMATS = "p3vae.cli.scenes.formats"
_START_BYTES = 512
_HDF5, _ZIP = b"\x89HDF\r\n\x1a\n", b"PK\x03\x04"
_XML = b"\xef\xbb\xbf \r\n"
"""What may stand before the first < of an XML file."""


class Candidate:
    """A file that may be a scene, for drivers to look at: its name, its first bytes, what is in its HDF5."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with reading(path):
            if path.is_dir():
                raise SceneError("is a folder", path=path, remedy="give the image or product file in it")
            FileIdentity.of(path)
            with path.open("rb") as file:
                self.start = file.read(_START_BYTES)

    @property
    def is_hdf5(self) -> bool:
        """HDF5, also as HDF-EOS5 and netCDF-4."""
        return self.start.startswith(_HDF5)

    @property
    def is_zip(self) -> bool:
        """A zip archive."""
        return self.start.startswith(_ZIP)

    @property
    def is_tiff_or_xml(self) -> bool:
        """An image, or the description of one."""
        return self.start.startswith(TIFF) or self.start.lstrip(_XML).startswith(b"<")

    def has_group(self, name: str) -> bool:
        """Whether it is HDF5 with a group of this name, e.g. "HDFEOS/SWATHS"."""
        return self.is_hdf5 and name in self._hdf5

    def close(self) -> None:
        """Release the file, if a driver has looked into it."""
        if "_hdf5" in self.__dict__:
            self._hdf5.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @cached_property
    def _hdf5(self) -> h5py.File:
        from p3vae.cli.scenes.formats.hdf5 import open_hdf5

        return open_hdf5(self.path)


def only_itself(path: Path) -> tuple[Path, ...]:
    """The files of a product that is one file."""
    return (path,)


@dataclass(frozen=True)
class Driver:
    """How one product is recognised and read."""

    name: str
    """In messages, reports and manifests."""
    matches: Callable[[Candidate], bool]
    """Whether a file is such a product, from a cheap look at it."""
    open: Callable[[Path, SceneSettings], RawScene]
    """Reads the metadata; pixels stay in the file. What it raises on a damaged file becomes one message."""
    files: Callable[[Path], tuple[Path, ...]] = only_itself
    """The files that a scene is read from: its image first, then those beside it that describe it."""
    calibrated: bool = True
    """Whether the product states its unit, scale and missing value, so that an option would contradict it."""
    specificity: int = 2
    """2: recognised by its own names; 1: by a layout that others share; 0: any raster. Greater ones first."""


@lru_cache
def drivers() -> tuple[Driver, ...]:
    """Every driver there is, the most specific first."""
    folder = import_module(_FORMATS).__path__
    modules = [import_module(f"{_FORMATS}.{module.name}") for module in pkgutil.iter_modules(folder)]
    found = [module.DRIVER for module in modules if hasattr(module, "DRIVER")]
    return tuple(sorted(found, key=lambda driver: (-driver.specificity, driver.name.lower())))


def driver_of(candidate: Candidate) -> Driver:
    """The driver that reads a file; SceneError if there is none."""
    with reading(candidate.path):
        found = next((driver for driver in drivers() if driver.matches(candidate)), None)
    if found is None:
        kind = "an HDF5 file of another kind" if candidate.is_hdf5 else "no known product"
        raise SceneError(f"is {kind}", path=candidate.path, remedy=f"give a file of {product_names()}")
    return found


def product_names() -> str:
    """All products that are read, in words."""
    *names, last = (driver.name for driver in drivers())
    return f"{', '.join(names)} or {last}"
