"""`p3vae spectra`: the latent reflectance spectra of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.colours import hex_colour
from p3vae.cli.errors import ModelFileError, UsageError
from p3vae.cli.rasters.spectral_library import SpectralLibraryFile, save_csv, save_sli
from p3vae.cli.report.charts import Axis, Line, with_gaps
from p3vae.cli.report.figure import FIGURE_SUFFIXES, Chart, save_charts
from p3vae.cli.report.spectra import WIDEST_GAP_NM, distinct
from p3vae.cli.run.model_files import load_land_cover, model_name

SUFFIXES = (".sli", ".csv", *FIGURE_SUFFIXES)


def export_spectra(model: Path | None, outputs: tuple[Path, ...], *, overwrite: bool) -> dict[str, int]:
    """Write the spectra in the formats that the names of `outputs` ask for; spectra per class."""
    for path in outputs:
        if path.suffix.lower() not in SUFFIXES:
            raise UsageError(f"is none of {', '.join(SUFFIXES)}", path=path, remedy="choose one of them")
    loaded = load_land_cover(model, "cpu")
    found = loaded.latent_spectra()
    if found is None:
        raise ModelFileError(
            f"a {loaded.settings.model} model has no latent spectra",
            path=model_name(model),
            remedy="use a p3vae model",
        )
    names, found = loaded.legend.names, [distinct(own) for own in found]
    library = SpectralLibraryFile(
        tuple(f"{name} {k}" for name, own in zip(names, found, strict=True) for k in range(1, len(own) + 1)),
        np.concatenate(found),
        loaded.bands.wavelength_nm,
        loaded.bands.fwhm_nm,
    )
    inputs = () if model is None else (model,)
    for path in outputs:
        suffix = path.suffix.lower()
        if suffix in FIGURE_SUFFIXES:
            colours = [hex_colour(colour) for colour in loaded.legend.colours]
            charts = [_chart(*parts, library) for parts in zip(names, colours, found, strict=True)]
            title = f"Latent spectra of {model_name(model)}"
            save_charts(charts, path, title, overwrite=overwrite, inputs=inputs)
        else:
            (save_sli if suffix == ".sli" else save_csv)(library, path, overwrite=overwrite, inputs=inputs)
    return {name: len(own) for name, own in zip(names, found, strict=True)}


def _chart(name: str, colour: str, spectra: npt.NDArray[Any], library: SpectralLibraryFile) -> Chart:
    x = library.wavelength_nm
    places = with_gaps(x, x, WIDEST_GAP_NM)[0]
    lines = tuple(
        Line(f"{name} {k}", colour, with_gaps(x, values, WIDEST_GAP_NM)[1], dashed=k > 1)
        for k, values in enumerate(spectra, start=1)
    )
    across = Axis("wavelength [nm]", float(x[0]), float(x[-1]))
    return Chart(
        name, places, lines, across, Axis("reflectance [1]", 0.0, max(float(library.values.max()), 1e-3))
    )
