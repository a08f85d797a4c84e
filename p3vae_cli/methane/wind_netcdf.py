"""NetCDF files as grids of numbers: netCDF-4, which is HDF5, by h5py; classic ones by SciPy."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np
import numpy.typing as npt

from p3vae.cli.errors import SceneError
from p3vae.cli.scenes.base import reading
from p3vae.cli.scenes.formats.hdf5 import open_hdf5, text
from p3vae.cli.scenes.identity import FileIdentity

_LONGEST_S = 8.0
"""That the subprocess may take to follow references [s]."""
_REFUSED = 9
"""Exit code of the subprocess for a file that must not be read."""
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
            dimensions = _dimensions(FileIdentity.of(path))
            with open_hdf5(path) as file:
                yield {name: _Hdf5Variable(file[name], axes) for name, axes in dimensions.items()}
            return
        from scipy.io import netcdf_file

        with netcdf_file(path, "r", mmap=True) as file:
            yield {name: _ClassicVariable(file, name) for name in file.variables}


@lru_cache(maxsize=4)
def _dimensions(file: FileIdentity) -> dict[str, tuple[str, ...]]:
    """Names of the axes of all variables of an HDF5 file, as a process of its own tells them.

    They are kept as references, and the HDF5 library may crash on those of a damaged file.
    """
    words = ["-P", "-m", __name__, str(file.path.absolute())]  # -P: without modules of the user's folder
    command = [sys.executable, *words]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_LONGEST_S)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise _damaged(file.path, f"reading it takes more than {_LONGEST_S:.0f} s") from error
    if done.returncode == _REFUSED:
        raise _damaged(file.path, done.stdout.decode(errors="replace"))
    if done.returncode != 0:
        raise _damaged(file.path, "is damaged: the HDF5 library crashes on it")
    return {name: tuple(axes) for name, axes in json.loads(done.stdout).items()}


def _damaged(path: Path, problem: str) -> SceneError:
    return SceneError(problem, path=path, remedy="download it again")


def _tell_dimensions(path: Path) -> int:
    """Print them, having looked at attributes and coordinates too; the exit code."""
    try:
        with open_hdf5(path) as file:
            found = {name: node for name, node in file.items() if isinstance(node, h5py.Dataset)}
            axes = {name: _axes(node) for name, node in found.items()}
            for node in found.values():
                dict(node.attrs)
    except SceneError as error:
        print(error.problem, end="")
        return _REFUSED
    except Exception as error:
        print(" ".join(f"is damaged: {error}".split())[:200], end="")
        return _REFUSED
    print(json.dumps(axes))
    return 0


def _axes(dataset: h5py.Dataset) -> list[str]:
    if dataset.is_scale and dataset.ndim == 1:
        return [_last(dataset.name)]
    return [_last(scale[0].name) if len(scale) else "" for scale in dataset.dims]


class _Hdf5Variable:
    def __init__(self, dataset: h5py.Dataset, dimensions: tuple[str, ...]) -> None:
        self._dataset, self._dimensions = dataset, dimensions

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._dataset.shape)

    @property
    def dimensions(self) -> tuple[str, ...]:
        return self._dimensions

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


if __name__ == "__main__":
    sys.exit(_tell_dimensions(Path(sys.argv[1])))
