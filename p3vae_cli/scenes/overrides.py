"""Reading what the user states about a scene: ranges of bad bands, and a table of wavelengths."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt

from p3vae.cli.errors import SceneError, UsageError
from p3vae.cli.tables import read_rows

_COLUMNS = ("wavelength_nm", "fwhm_nm", "good")
_TRUTH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


@dataclass(frozen=True, eq=False)
class WavelengthTable:
    """A table of wavelengths [nm], bands in the order of the file; None for a column it lacks."""

    wavelength_nm: npt.NDArray[np.float64]
    fwhm_nm: npt.NDArray[np.float64] | None
    good: npt.NDArray[np.bool_] | None


def _sensors() -> dict[str, list[list[str]]]:
    """Band, centre [nm], width [nm] and sizes of stacks of every sensor of the table, by its name."""
    rows = read_rows(Path(str(files("p3vae.physics") / "data" / "sensors.csv")))[1:]
    return {name: [row[1:] for row in rows if row[0] == name] for name in dict.fromkeys(r[0] for r in rows)}


def wavelengths_of(name_or_path: Path, bands: int) -> WavelengthTable:
    """The table of a known sensor for a stack of so many bands, or of a CSV."""
    sensor = _sensors().get(str(name_or_path))
    if sensor is None or name_or_path.is_file():
        return _read_wavelengths_file(name_or_path)
    chosen = [row for row in sensor if str(bands) in row[3].split()]
    if not chosen:
        sizes = " or ".join(map(str, sorted({int(size) for row in sensor for size in row[3].split()})))
        raise UsageError(
            f"--wavelengths {name_or_path} is for stacks of {sizes} bands, not {bands}",
            remedy="give a CSV with a line per band",
        )
    centre, width = (np.array([float(row[column]) for row in chosen]) for column in (1, 2))
    return WavelengthTable(centre, width, None)


def _read_wavelengths_file(path: Path) -> WavelengthTable:
    """Reads a CSV `wavelength_nm[,fwhm_nm][,good]`; without a heading the columns are taken in that order."""
    rows = _read_rows(path)
    heading = tuple(cell.strip().lower() for cell in rows[0]) if rows else ()
    named = _COLUMNS[0] in heading
    names = heading if named else _COLUMNS[: len(heading)]
    columns = list(zip(*rows[named:], strict=False))
    if not columns:
        raise _bad_table(path, "holds no wavelengths")
    table = dict(zip(names, columns, strict=False))
    wavelength = _numbers(path, table["wavelength_nm"])
    if not np.all(wavelength > 0) or wavelength.max() < 100:
        raise _bad_table(path, "holds wavelengths that are not in nm")
    fwhm = _numbers(path, table["fwhm_nm"]) if "fwhm_nm" in table else None
    if fwhm is not None and not np.all(fwhm > 0):
        raise _bad_table(path, "holds widths that are not positive")
    return WavelengthTable(wavelength, fwhm, _flags(path, table["good"]) if "good" in table else None)


def _read_rows(path: Path) -> list[list[str]]:
    try:
        rows = read_rows(path)
    except FileNotFoundError as error:
        known = ", ".join(_sensors())
        raise SceneError(
            "no such file", path=path, remedy=f"give a CSV to --wavelengths, or one of {known}"
        ) from error
    except (OSError, ValueError) as error:
        raise _bad_table(path, f"cannot be read as CSV: {error}") from error
    if len({len(row) for row in rows}) > 1:
        raise _bad_table(path, "has lines of different length")
    return rows


def _numbers(path: Path, cells: tuple[str, ...]) -> npt.NDArray[np.float64]:
    try:
        numbers = np.array([float(cell) for cell in cells])
    except ValueError as error:
        raise _bad_table(path, f"holds something that is not a number: {error}") from error
    if not np.isfinite(numbers).all():
        raise _bad_table(path, "holds a number that is not finite")
    return numbers


def _flags(path: Path, cells: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    try:
        return np.array([_TRUTH[cell.strip().lower()] for cell in cells])
    except KeyError as error:
        raise _bad_table(path, f"holds the flag {error}, which is neither 1 nor 0") from error


def _bad_table(path: Path, problem: str) -> SceneError:
    return SceneError(problem, path=path, remedy="give a CSV with the columns wavelength_nm[,fwhm_nm][,good]")
