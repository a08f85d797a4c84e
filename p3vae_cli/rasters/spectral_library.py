"""Spectral libraries: ENVI `.sli` and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.records.staging import Staging, writing
from p3vae.cli.tables import write_rows


@dataclass(frozen=True, eq=False)
class SpectralLibraryFile:
    """Named spectra at common bands."""

    names: tuple[str, ...]
    values: npt.NDArray[np.floating[Any]]
    """Reflectance [1], (spectra, bands)."""
    wavelength_nm: npt.NDArray[np.float64]
    fwhm_nm: npt.NDArray[np.float64]


def save_sli(
    library: SpectralLibraryFile, path: Path, *, overwrite: bool, inputs: tuple[Path, ...] = ()
) -> None:
    """An ENVI spectral library: float32 spectra one after the other, and a header of the same name."""
    header = f"{path.stem}.hdr"
    spectra, bands = library.values.shape
    fields = {
        "description": "{Latent reflectance spectra of a p3vae model}",
        "samples": str(bands),
        "lines": str(spectra),
        "bands": "1",
        "header offset": "0",
        "file type": "ENVI Spectral Library",
        "data type": "4",
        "interleave": "bsq",
        "byte order": "0",
        "wavelength units": "Nanometers",
        "spectra names": _list(name.replace(",", ";") for name in library.names),
        "wavelength": _list(f"{value:.4f}" for value in library.wavelength_nm),
        "fwhm": _list(f"{value:.4f}" for value in library.fwhm_nm),
    }
    text = "ENVI\n" + "".join(f"{name} = {value}\n" for name, value in fields.items())
    with (
        Staging(path.parent, [path.name, header], header, overwrite=overwrite, inputs=inputs) as staging,
        writing(path),
    ):
        library.values.astype("<f4").tofile(staging.path(path.name))
        staging.path(header).write_text(text, encoding="utf-8")
        staging.commit()


def save_csv(
    library: SpectralLibraryFile, path: Path, *, overwrite: bool, inputs: tuple[Path, ...] = ()
) -> None:
    """One line per band: wavelength_nm, fwhm_nm, then a column per spectrum."""
    rows: list[Sequence[object]] = [("wavelength_nm", "fwhm_nm", *library.names)]
    for centre, width, values in zip(library.wavelength_nm, library.fwhm_nm, library.values.T, strict=True):
        rows.append((f"{centre:.4f}", f"{width:.4f}", *(f"{value:.6f}" for value in values)))
    with (
        Staging(path.parent, [path.name], path.name, overwrite=overwrite, inputs=inputs) as staging,
        writing(path),
    ):
        write_rows(staging.path(path.name), rows)
        staging.commit()


def _list(values: Any) -> str:
    return "{" + ", ".join(values) + "}"
