"""Parts of a scene's grid, exactly aligned with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from rasterio.control import GroundControlPoint
from rasterio.crs import CRS
from rasterio.errors import CRSError
from rasterio.warp import transform as transform_points

from p3vae.cli.errors import UsageError
from p3vae.cli.scenes.base import Grid
from p3vae.cli.scenes.gdal import GdalError, gdal_errors
from p3vae.cli.scenes.tiling import Window

Bbox = tuple[float, float, float, float]
"""xmin, ymin, xmax, ymax."""

_EDGE = 1e-6  # of a pixel: a bbox written with rounded decimals of a pixel edge must not take one pixel more
_POINTS_PER_SIDE = 21


def whole(grid: Grid) -> Window:
    """The window that covers the grid."""
    return Window(0, 0, grid.height, grid.width)


def bbox_window(grid: Grid, bbox: Bbox, bbox_crs: str | None = None) -> Window:
    """The smallest window of whole pixels that covers `bbox`, cut to the scene.

    `bbox_crs` (anything PROJ reads) defaults to the scene's CRS; for swaths to that of the control
    points. In a swath, the window bounds the pixels whose centres lie inside.
    """
    if bbox[0] >= bbox[2] or bbox[1] >= bbox[3]:
        raise UsageError(f"--bbox {_text(bbox)} is empty", remedy="give xmin,ymin,xmax,ymax")
    window = (
        _map_window(grid, bbox, bbox_crs)
        if grid.transform is not None
        else _swath_window(grid, bbox, bbox_crs)
    )
    if window is None:
        raise UsageError(
            f"--bbox {_text(bbox)} lies outside the scene", remedy="check --bbox-crs and the order of numbers"
        )
    return window


def in_crs_of(grid: Grid, points: npt.NDArray[np.float64], crs: str | None) -> npt.NDArray[np.float64]:
    """Points (n, 2) of another CRS in that of `grid`; as they are where `crs` is None."""
    if crs is None:
        return points
    if grid.crs is None:
        raise UsageError("--crs is of no use: the scene has no CRS", remedy="give its own coordinates")
    return np.column_stack(_moved(_crs(crs, "--crs"), grid.crs, points[:, 0], points[:, 1], "--crs"))


def subgrid(grid: Grid, window: Window) -> Grid:
    """The grid of a window.

    A swath keeps all its control points, also those outside the window: the position of a pixel
    stays what it is in the whole scene.
    """
    transform = grid.transform
    if transform is not None:
        transform = transform @ transform.translation(window.col, window.row)
    return replace(
        grid,
        width=window.cols,
        height=window.rows,
        transform=transform,
        gcps=tuple(_shifted(point, window) for point in grid.gcps),
    )


def _map_window(grid: Grid, bbox: Bbox, bbox_crs: str | None) -> Window | None:
    assert grid.transform is not None
    xs, ys = _outline(bbox)
    source = _crs(bbox_crs) if bbox_crs else grid.crs
    if source != grid.crs:
        if grid.crs is None:
            raise UsageError(
                "--bbox-crs is of no use: the scene has no CRS", remedy="give --bbox in its own coordinates"
            )
        xs, ys = _moved(source, grid.crs, xs, ys)
    cols, rows = ~grid.transform @ (xs, ys)
    finite = np.isfinite(cols) & np.isfinite(rows)
    if not finite.any():
        return None
    return _clipped(grid, rows[finite], cols[finite])


def _moved(
    source: CRS, target: CRS, x: npt.NDArray[Any], y: npt.NDArray[Any], option: str = "--bbox-crs"
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Coordinates in another CRS."""
    try:
        with gdal_errors():
            moved = transform_points(source, target, x, y)
    except (GdalError, CRSError) as error:  # a local CRS has no place on earth
        raise UsageError(
            f"{option} and the scene's CRS have nothing to do with each other",
            remedy="give the scene's own coordinates",
        ) from error
    return np.asarray(moved[0]), np.asarray(moved[1])


def _clipped(grid: Grid, rows: npt.NDArray[Any], cols: npt.NDArray[Any]) -> Window | None:
    top, left = (max(0, int(np.floor(part.min() + _EDGE))) for part in (rows, cols))
    bottom = min(grid.height, int(np.ceil(rows.max() - _EDGE)))
    right = min(grid.width, int(np.ceil(cols.max() - _EDGE)))
    return Window(top, left, bottom - top, right - left) if bottom > top and right > left else None


def _swath_window(grid: Grid, bbox: Bbox, bbox_crs: str | None) -> Window | None:
    if not grid.gcps:
        raise UsageError(
            "--bbox needs a georeferenced scene; this one has neither a transform nor control points"
        )
    x, y = pixel_centres(grid)
    source = _crs(bbox_crs) if bbox_crs else grid.crs
    if source != grid.crs:
        x, y = (part.reshape(x.shape) for part in _moved(grid.crs, source, x.ravel(), y.ravel()))
    inside = (x >= bbox[0]) & (x <= bbox[2]) & (y >= bbox[1]) & (y <= bbox[3])
    rows, cols = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    if not rows.size:
        return None
    return Window(int(rows[0]), int(cols[0]), int(rows[-1] - rows[0] + 1), int(cols[-1] - cols[0] + 1))


def pixel_centres(grid: Grid) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """x and y of all pixel centres of a swath, linear between its control points; NaN outside them."""
    from scipy.interpolate import LinearNDInterpolator

    points = np.array([(gcp.row, gcp.col) for gcp in grid.gcps])
    places = np.array([(gcp.x, gcp.y) for gcp in grid.gcps])
    rows, cols = np.mgrid[0.5 : grid.height, 0.5 : grid.width]
    found = LinearNDInterpolator(points, places)(rows, cols)
    return found[..., 0], found[..., 1]


def _outline(bbox: Bbox) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Points along the sides of a bbox: straight sides bend in another CRS."""
    steps = np.linspace(0.0, 1.0, _POINTS_PER_SIDE)
    x, y = bbox[0] + steps * (bbox[2] - bbox[0]), bbox[1] + steps * (bbox[3] - bbox[1])
    same = np.ones_like(steps)
    xs = np.concatenate([x, x, same * bbox[0], same * bbox[2]])
    ys = np.concatenate([same * bbox[1], same * bbox[3], y, y])
    return xs, ys


def _crs(text: str, option: str = "--bbox-crs") -> CRS:
    try:
        return CRS.from_user_input(text)
    except CRSError as error:
        raise UsageError(f"{option} {text} is not a CRS", remedy="for example EPSG:4326") from error


def _shifted(point: GroundControlPoint, window: Window) -> GroundControlPoint:
    return GroundControlPoint(
        row=point.row - window.row, col=point.col - window.col, x=point.x, y=point.y, z=point.z, id=point.id
    )


def _text(bbox: Sequence[float]) -> str:
    return ",".join(f"{part:g}" for part in bbox)
