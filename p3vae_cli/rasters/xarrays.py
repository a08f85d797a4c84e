"""Spectra and maps as xarray has them: with coordinates, units, and the CRS where rioxarray looks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from p3vae.cli.errors import P3vaeError
from p3vae.cli.rasters.grids import subgrid, whole
from p3vae.cli.scenes.base import UNITS, Grid, Scene
from p3vae.cli.scenes.tiling import Window

if TYPE_CHECKING:
    import xarray


def scene_to_xarray(scene: Scene, window: Window | None = None) -> xarray.DataArray:
    """The spectra of a scene, or of a window of it, as (y, x, wavelength); the whole is held in memory."""
    area = window or whole(scene.grid)
    tile = scene.read(area)
    data = xarray_module().DataArray(
        np.where(tile.valid[..., None], tile.values, np.nan),
        dims=("y", "x", "wavelength"),
        coords={"wavelength": ("wavelength", scene.bands.wavelength_nm, {"units": "nm"})},
        name=scene.quantity,
        attrs={"units": UNITS[scene.quantity], "scene": str(scene.path)},
    )
    made: xarray.DataArray = georeferenced(data, subgrid(scene.grid, area))
    return made


def georeferenced(data: Any, grid: Grid) -> Any:
    """With coordinates of pixel centres and a `spatial_ref`, as the CF conventions and rioxarray have it."""
    attributes: dict[str, Any] = {}
    if grid.crs is not None:
        attributes |= {"crs_wkt": grid.crs.to_wkt(), "spatial_ref": grid.crs.to_wkt()}
    coordinates: dict[str, Any] = {}
    transform = grid.transform
    if transform is not None and transform.b == transform.d == 0:
        coordinates["x"] = transform.c + transform.a * (np.arange(grid.width) + 0.5)
        coordinates["y"] = transform.f + transform.e * (np.arange(grid.height) + 0.5)
    if transform is not None:
        attributes["GeoTransform"] = " ".join(repr(float(v)) for v in transform.to_gdal())
    coordinates["spatial_ref"] = xarray_module().DataArray(0, attrs=attributes)
    return data.assign_coords(coordinates)


def xarray_module() -> Any:
    """xarray, which is an extra."""
    try:
        import xarray
    except ImportError as error:
        raise P3vaeError("xarray is not installed", remedy="pip install 'p3vae[xarray]'") from error
    return xarray
