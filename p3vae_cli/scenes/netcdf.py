"""NetCDF files as grids of numbers: netCDF-4, which is HDF5, by h5py; classic ones by SciPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np
import numpy.typing as npt

from p3vae.cli.scenes.base import reading
from p3vae.cli.scenes.formats.hdf5 import open_hdf5, text
from p3vae.cli.scenes.identity import FileIdentity

_HDF5, _CLASSIC = b"\x89HDF\r\n\x1a\n", (b"CDF\x01", b"CDF\x02")


class Variable(Protocol):
    """One grid of numbers; only what is asked for is read."""

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Names of its axes."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Their lengths."""

    def words(self, name: str) -> str:
        """An attribute as text; empty without it."""

    def read(self, index: Sequence[int | slice]) -> npt.NDArray[np.float64]:
        """Part of the values, unpacked; NaN where missing."""


def is_netcdf(path: Path) -> bool:
    """True for a file that begins like netCDF, classic or 4."""
    with path.open("rb") as file:
        return file.read(8).startswith((_HDF5, *_CLASSIC))


@contextmanager
def open_netcdf(path: Path) -> Iterator[dict[str, Variable]]:
    """The variables of a file by name; SceneError for a damaged one."""
    with reading(path):
        FileIdentity.of(path)
        with path.open("rb") as start:
            classic = start.read(4) in _CLASSIC
        if not classic:
            with open_hdf5(path) as file:
                found = {name: node for name, node in file.items() if isinstance(node, h5py.Dataset)}
                yield {name: _Hdf5Variable(node) for name, node in found.items()}
            return
        from scipy.io import netcdf_file

        with netcdf_file(path, "r", mmap=True) as file:
            yield {name: _ClassicVariable(file, name) for name in file.variables}


class _Hdf5Variable:
    def __init__(self, dataset: h5py.Dataset) -> None:
        self._dataset = dataset

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._dataset.shape)

    @property
    def dimensions(self) -> tuple[str, ...]:
        if self._dataset.is_scale and self._dataset.ndim == 1:
            return (_last(self._dataset.name),)
        return tuple(_last(scale[0].name) if len(scale) else "" for scale in self._dataset.dims)

    def words(self, name: str) -> str:
        return text(self._dataset.attrs[name]) if name in self._dataset.attrs else ""

    def read(self, index: Sequence[int | slice]) -> npt.NDArray[np.float64]:
        return _unpacked(self._dataset[tuple(index)], dict(self._dataset.attrs))


class _ClassicVariable:
    """Looked up in the file for every use: whatever refers to its memory keeps the file open."""

    def __init__(self, file: Any, name: str) -> None:
        self._file, self._name = file, name

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._file.variables[self._name].shape)

    @property
    def dimensions(self) -> tuple[str, ...]:
        return tuple(self._file.variables[self._name].dimensions)

    def words(self, name: str) -> str:
        value = getattr(self._file.variables[self._name], name, None)
        return "" if value is None else text(value)

    def read(self, index: Sequence[int | slice]) -> npt.NDArray[np.float64]:
        variable = self._file.variables[self._name]
        names = ("_FillValue", "missing_value", "scale_factor", "add_offset")
        packing = {name: getattr(variable, name) for name in names if hasattr(variable, name)}
        values = variable[tuple(index)] if variable.shape else variable.getValue()
        return _unpacked(np.array(values), packing)


def _unpacked(stored: Any, attributes: dict[str, Any]) -> npt.NDArray[np.float64]:
    values = np.array(stored, dtype=np.float64)
    missing = np.zeros(values.shape, np.bool_)
    for name in ("_FillValue", "missing_value"):
        if name in attributes:
            missing |= values == float(np.ravel(attributes[name])[0])
    factor, offset = (
        float(np.ravel(attributes.get(name, usual))[0])
        for name, usual in (("scale_factor", 1.0), ("add_offset", 0.0))
    )
    return np.where(missing, np.nan, values * factor + offset)


def _last(path: str) -> str:
    return path.rpartition("/")[2]
