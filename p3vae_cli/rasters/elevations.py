"""Elevations of any raster, brought to the grid of a scene and some pixels around it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import rasterio
from affine import Affine
from rasterio.crs import CRS
from rasterio.enums import Resampling
from rasterio.warp import reproject, transform_bounds
from rasterio.warp import transform as transform_points

from p3vae.cli.errors import SceneError, UsageError
from p3vae.cli.rasters.files import gdal_environment
from p3vae.cli.scenes.base import Grid, reading
from p3vae.cli.scenes.drivers import ForeignFileError, open_dataset
from p3vae.cli.scenes.gdal import gdal_errors
from p3vae.physics.terrain import REACH

Field = npt.NDArray[np.float32]

_METRES = {
    "": 1.0,
    **dict.fromkeys(("m", "metre", "metres", "meter", "meters"), 1.0),
    **dict.fromkeys(("ft", "foot", "feet", "international foot"), 0.3048),
    **dict.fromkeys(("us-ft", "us survey foot", "ftus", "us_survey_foot"), 1200 / 3937),
}
_NOT_HEIGHTS = ("slope", "aspect", "depth", "bathym", "hillshade")
_COARSEST = 50.0
"""Pixel size over that of the scene up to which elevations tell slopes."""
_WGS84_M, _WGS84_E2 = 6_378_137.0, 0.00669437999014
_STEP = 10


def read_elevations(path: Path, grid: Grid) -> tuple[Field, int]:
    """Heights [m] of a map grid and of the returned number of pixels around it; NaN where there are none.

    From finer grids means, from coarser ones cubic splines. GDAL reads the file piece by piece.
    """
    assert grid.transform is not None
    with gdal_environment(), reading(path):
        try:
            source = open_dataset(path)
        except ForeignFileError as error:
            raise UsageError(str(error), path=path, remedy="give elevations as GeoTIFF or ENVI") from error
        with source:
            factor = _factor(source, path)
            step = _coarseness(source, grid, path)
            margin = _margin(source, grid, path)
            heights = np.full((grid.height + 2 * margin, grid.width + 2 * margin), np.nan, np.float32)
            with gdal_errors():
                reproject(
                    rasterio.band(source, 1),
                    heights,
                    dst_crs=grid.crs,
                    dst_transform=grid.transform @ Affine.translation(-margin, -margin),
                    dst_nodata=np.nan,
                    resampling=Resampling.average if step < 0.75 else Resampling.cubic_spline,
                )
    inner = heights[margin : margin + grid.height, margin : margin + grid.width]
    if np.isnan(inner).all():
        raise UsageError("has no elevation in the scene", path=path, remedy="check its nodata value and CRS")
    if np.nanmax(heights) - np.nanmin(heights) < 1e-3:
        raise UsageError("has the same elevation everywhere", path=path, remedy="check that it holds heights")
    return heights * np.float32(factor), margin


def _factor(source: rasterio.DatasetReader, path: Path) -> float:
    """Metres per unit of the values."""
    said = (
        f"{source.descriptions[0] or ''} {source.units[0] or ''} {source.tags().get('quantity', '')}".lower()
    )
    wrong = next((word for word in _NOT_HEIGHTS if word in said), None)
    if wrong:
        raise UsageError(
            f'holds "{said.strip()}", not elevations', path=path, remedy="give heights in metres"
        )
    unit = (source.units[0] or "").strip().lower()
    if unit not in _METRES:
        raise UsageError(f'has the unit "{unit}"', path=path, remedy="give heights in metres or feet")
    if source.crs is None:
        raise UsageError("has no CRS", path=path, remedy="gdal_edit.py -a_srs EPSG:... sets it")
    return _METRES[unit]


def _coarseness(source: rasterio.DatasetReader, grid: Grid, path: Path) -> float:
    """Pixel size over that of the scene."""
    assert grid.transform is not None and grid.crs is not None
    ours = steps_on_ground(grid.crs, grid.transform, grid.width / 2, grid.height / 2)
    theirs = steps_on_ground(source.crs, source.transform, source.width / 2, source.height / 2)
    ratio = float(np.sqrt(abs(np.linalg.det(theirs) / np.linalg.det(ours))))
    if not ratio <= _COARSEST:
        raise UsageError(
            f"has pixels {ratio:.0f} times as large as the scene's, which tell nothing of its slopes",
            path=path,
            remedy="give finer elevations",
        )
    return ratio


def _margin(source: rasterio.DatasetReader, grid: Grid, path: Path) -> int:
    """Pixels around the scene that the elevations reach, at most as far as horizons are looked for."""
    assert grid.transform is not None
    with gdal_errors():
        bounds = transform_bounds(source.crs, grid.crs, *source.bounds)
    corners = [(bounds[i], bounds[k]) for i in (0, 2) for k in (1, 3)]
    cols, rows = np.array([~grid.transform @ corner for corner in corners]).T
    beyond = min(-cols.min(), -rows.min(), cols.max() - grid.width, rows.max() - grid.height)
    if not beyond > -1:
        width = max(0.0, min(cols.max(), grid.width) - max(cols.min(), 0))
        height = max(0.0, min(rows.max(), grid.height) - max(rows.min(), 0))
        share = width * height / (grid.width * grid.height)
        raise UsageError(
            f"covers {share:.0%} of the scene",
            path=path,
            remedy="give elevations of all of it",
        )
    return int(np.clip(beyond, 0, REACH))


def steps_on_ground(crs: CRS, transform: Affine, col: float, row: float) -> npt.NDArray[np.float64]:
    """Metres towards east and north (rows) per column and per row (columns), about a place of a grid.

    By longitude and latitude on the WGS 84 ellipsoid, so that it holds for any CRS, with its unit, its turn
    and the convergence of its meridians.
    """
    places = [(col, row), (col + _STEP, row), (col, row + _STEP)]
    xs, ys = np.array([transform @ place for place in places]).T
    with gdal_errors():
        lon, lat = (np.array(each) for each in transform_points(crs, CRS.from_epsg(4326), xs, ys))
    if not (np.isfinite(lon).all() and np.isfinite(lat).all()):
        raise SceneError("its grid has no place on the ground")
    sine = np.sin(np.radians(lat[0]))
    across = _WGS84_M / np.sqrt(1 - _WGS84_E2 * sine**2)
    along = across * (1 - _WGS84_E2) / (1 - _WGS84_E2 * sine**2)
    east = np.radians(lon[1:] - lon[0]) * across * np.cos(np.radians(lat[0]))
    north = np.radians(lat[1:] - lat[0]) * along
    return np.stack([east, north]) / _STEP
