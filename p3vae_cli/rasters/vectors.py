"""Vector products: GeoPackages that any GDAL since 3.0 reads without a warning."""

from __future__ import annotations

import warnings
from pathlib import Path

import geopandas
import pyogrio
from pyogrio.errors import DataLayerError, DataSourceError

from p3vae.cli.records.staging import Staging, writing

_FIXED_DATE = "2000-01-01T00:00:00Z"
_GEOPACKAGE_VERSION = "1.2"
"""GDAL 3.6 warns about the 1.4 that newer ones write."""


def write_geopackage(path: Path, frame: geopandas.GeoDataFrame, layer: str) -> None:
    """A GeoPackage whose bytes depend on the features only: GDAL would note the time of writing."""
    pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": _FIXED_DATE})
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "'crs' was not provided")  # features that are nowhere on Earth
            frame.to_file(path, driver="GPKG", layer=layer, engine="pyogrio", VERSION=_GEOPACKAGE_VERSION)
    except (DataSourceError, DataLayerError) as error:
        raise OSError(str(error)) from error
    finally:
        pyogrio.set_gdal_config_options({"OGR_CURRENT_DATE": None})


def save_geopackage(
    path: Path,
    frame: geopandas.GeoDataFrame,
    layer: str,
    *,
    overwrite: bool = False,
    inputs: tuple[Path, ...] = (),
    style: bytes | None = None,
) -> None:
    """The same as a product: whole or not at all, with a QGIS style beside it."""
    with Staging(path.parent, [path.name], path.name, overwrite=overwrite, inputs=inputs) as staging:
        with writing(path):
            write_geopackage(staging.path(path.name), frame, layer)
            if style is not None:
                staging.path(f"{path.stem}.qml").write_bytes(style)
        staging.commit()
