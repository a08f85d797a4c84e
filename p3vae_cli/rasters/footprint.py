"""Where a grid lies on Earth, as GeoJSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import shapely
from rasterio.errors import CRSError
from rasterio.transform import AffineTransformer, GCPTransformer
from rasterio.warp import transform as transform_points
from shapely.geometry.polygon import orient

from p3vae.cli.scenes.base import Grid
from p3vae.cli.scenes.gdal import GdalError, gdal_errors

_POINTS_PER_SIDE = 9
_WGS84 = "EPSG:4326"
_DIGITS = 7
"""Of degrees: a centimetre."""


@dataclass(frozen=True)
class Footprint:
    """The outline of a grid in longitude and latitude [degree], WGS 84."""

    geometry: dict[str, Any]
    """GeoJSON; two polygons where it crosses the antimeridian."""
    bbox: list[float]
    """West, south, east, north; west is the larger number where it crosses the antimeridian."""


def footprint(grid: Grid) -> Footprint | None:
    """Of a map grid, or of a swath by its control points; None where it has no place on Earth."""
    if grid.crs is None:
        return None
    try:
        with gdal_errors():
            lon, lat = (np.asarray(part) for part in transform_points(grid.crs, _WGS84, *_outline(grid)))
    except (GdalError, CRSError):  # a local CRS
        return None
    if not (np.isfinite(lon).all() and np.isfinite(lat).all()):
        return None
    return _split(np.unwrap(lon, period=360.0), lat)


def _outline(grid: Grid) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """x and y along the border, which is closed."""
    steps = np.linspace(0.0, 1.0, _POINTS_PER_SIDE)
    ahead, back = steps[:-1], steps[:0:-1]
    cols = np.concatenate([ahead, np.ones_like(ahead), back, np.zeros_like(back), [0.0]]) * grid.width
    rows = np.concatenate([np.zeros_like(ahead), ahead, np.ones_like(back), back, [0.0]]) * grid.height
    transformer = (
        GCPTransformer(list(grid.gcps), tps=True)
        if grid.transform is None
        else AffineTransformer(grid.transform)
    )
    x, y = transformer.xy(rows, cols, offset="ul")
    return np.asarray(x), np.asarray(y)


def _split(lon: npt.NDArray[np.float64], lat: npt.NDArray[np.float64]) -> Footprint:
    """Longitudes run on beyond 180 degrees at the antimeridian, where the outline is cut."""
    if abs(lon[-1] - lon[0]) > 180.0:  # the outline goes round a pole
        south, north = (-90.0, lat.max()) if lat.mean() < 0 else (lat.min(), 90.0)
        return Footprint(
            shapely.box(-180.0, south, 180.0, north).__geo_interface__, [-180.0, south, 180.0, north]
        )
    lon = lon - 360.0 * np.floor((lon.min() + 180.0) / 360.0)
    outline = shapely.make_valid(shapely.polygons(np.column_stack([lon, lat])))
    here = shapely.intersection(outline, shapely.box(-180.0, -90.0, 180.0, 90.0))
    beyond = shapely.intersection(outline, shapely.box(180.0, -90.0, 540.0, 90.0))
    parts = [*_polygons(here), *(shapely.transform(part, _westward) for part in _polygons(beyond))]
    shape = parts[0] if len(parts) == 1 else shapely.multipolygons(parts)
    geometry = shapely.set_precision(shape, 10.0**-_DIGITS, mode="pointwise").__geo_interface__
    east = lon.max() - 360.0 if lon.max() > 180.0 else lon.max()
    bbox = [round(float(value), _DIGITS) for value in (lon.min(), lat.min(), east, lat.max())]
    return Footprint(geometry, bbox)


def _westward(points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return points - [360.0, 0.0]


def _polygons(shape: shapely.Geometry) -> list[shapely.Polygon]:
    parts = (part for part in shapely.get_parts(shape) if part.geom_type == "Polygon" and part.area > 0)
    return [orient(part) for part in parts]
