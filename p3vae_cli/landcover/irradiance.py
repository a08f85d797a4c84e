"""The irradiance a scene was seen under: from a table of the user's, or a clear-sky model for its sun."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from p3vae.cli.errors import UsageError
from p3vae.cli.landcover.settings import LightSettings
from p3vae.cli.run.fitness import sun_above_horizon
from p3vae.cli.scenes.base import Scene
from p3vae.cli.tables import read_columns
from p3vae.physics.illumination import SpectralIrradiance, clear_sky_irradiance
from p3vae.physics.spectral_response import BandCoverageError, Bands

_COLUMNS = ("wavelength_nm", "direct", "diffuse")


def scene_irradiance(scene: Scene, bands: Bands, options: LightSettings) -> SpectralIrradiance:
    """Direct and diffuse irradiance on flat ground at `bands`, for the sun of `scene`."""
    zenith = sun_above_horizon(scene)
    if options.table is not None:
        return _from_table(options.table, bands, zenith)
    time = scene.acquisition.time
    return clear_sky_irradiance(
        bands,
        zenith,
        aerosol_optical_depth=options.aerosol_optical_depth,
        water_vapour_cm=options.water_vapour_cm,
        ground_albedo=options.ground_albedo,
        **({"day_of_year": time.timetuple().tm_yday} if time else {}),
    )


def _from_table(path: Path, bands: Bands, zenith: float) -> SpectralIrradiance:
    try:
        rows = read_columns(path, _COLUMNS)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot be read as an irradiance table: {error}", path=path, remedy=",".join(_COLUMNS)
        ) from error
    if len(rows) < 2:
        raise UsageError("holds fewer than two wavelengths", path=path)
    try:
        wavelength, direct, diffuse = rows[np.argsort(rows[:, 0])].T
        table = SpectralIrradiance(wavelength, direct, diffuse, zenith)
        return table.at(bands)
    except BandCoverageError as error:
        raise UsageError(str(error), path=path, remedy="the table must reach over all bands") from error
    except ValueError as error:
        raise UsageError(str(error), path=path) from error
