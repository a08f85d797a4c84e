"""Cubes that GDAL reads: values by band, scaled, with missing ones as NaN."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import rasterio
from rasterio.windows import Window as RasterWindow

from p3vae.cli.errors import SceneError
from p3vae.cli.scenes.base import BandIndex, FloatArray, Grid, Quantity, reading
from p3vae.cli.scenes.drivers import ForeignFileError, open_dataset
from p3vae.cli.scenes.metadata import StatedQuantity
from p3vae.cli.scenes.registry import product_names
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.scenes.tiling import Window


def open_raster(path: Path, drivers: Sequence[str] = ()) -> rasterio.DatasetReader:
    """Opens a raster, or explains why it is none; `drivers` are those that the user allows besides."""
    try:
        with reading(path):
            source = open_dataset(path, drivers)
    except SceneError as error:
        if not isinstance(error.__cause__, ForeignFileError):
            raise
        raise SceneError(
            str(error.__cause__),
            path=path,
            remedy=f"give a file of {product_names()}; others need --driver NAME",
        ) from error
    if not source.count:
        source.close()
        raise SceneError(
            "holds several rasters or none, but no bands of its own",
            path=path,
            remedy="give one raster whose bands are the spectrum",
        )
    if np.dtype(source.dtypes[0]).kind not in "iuf":
        source.close()
        raise SceneError(f"holds {source.dtypes[0]} values", path=path, remedy="give real numbers")
    return source


def grid_of(source: rasterio.DatasetReader) -> Grid:
    """The grid of a raster, which may be tied down by control points or by nothing."""
    gcps, gcp_crs = source.gcps
    if gcps:
        return Grid(source.width, source.height, gcp_crs, None, tuple(gcps))
    transform = None if source.crs is None and source.transform.is_identity else source.transform
    return Grid(source.width, source.height, source.crs, transform)


def to_physical(
    raw: npt.NDArray[Any],
    gain: FloatArray,
    offset: FloatArray,
    missing: float | None,
    out: npt.NDArray[np.float32] | None = None,
) -> npt.NDArray[np.float32]:
    """raw * gain + offset, (rows, cols, bands); NaN where missing or infinite.

    It is computed in float64 and rounded once: the same numbers stored otherwise give the same values.
    `raw` is any (rows, cols, bands) view. The result keeps its order in memory and is made one slice of
    its slowest axis at a time, because transposing costs more than everything else done to a value.
    """
    values = np.empty_like(raw, dtype=np.float32, subok=False) if out is None else out
    gain, offset = gain.astype(np.float64), offset.astype(np.float64)
    storage = sorted(range(raw.ndim), key=lambda axis: -abs(raw.strides[axis]))
    absent, is_float, shifted = _same_type(missing, raw.dtype), raw.dtype.kind == "f", bool(offset.any())
    plain = not shifted and bool(np.all(gain == 1.0))
    product: npt.NDArray[np.float64] | None = None  # memory for one slice, taken once
    slices = (
        array.transpose(storage)
        for array in (raw, values, np.broadcast_to(gain, raw.shape), np.broadcast_to(offset, raw.shape))
    )
    for source, target, factor, shift in zip(*slices, strict=True):
        if plain:
            np.copyto(target, source, casting="unsafe")
        elif shifted:
            product = np.multiply(source, factor, out=product)
            np.add(product, shift, out=target, casting="unsafe")
        else:
            np.multiply(source, factor, out=target, casting="unsafe")
        if absent is not None:
            np.copyto(target, np.nan, where=source == absent)
        if is_float:
            np.copyto(target, np.nan, where=~np.isfinite(target))
    return values


def calibration(
    stated: StatedQuantity, options: SceneSettings, gain: FloatArray, offset: FloatArray
) -> tuple[FloatArray, FloatArray, Quantity, bool]:
    """Gain, offset, quantity of a plain raster, and whether its scale is only a guess.

    `gain` and `offset` are those the file states per band (1 and 0 where it states none).
    """
    quantity = options.quantity or stated.quantity or "reflectance"
    if options.scale is not None:
        return np.full_like(gain, options.scale), np.zeros_like(offset), quantity, False
    factor = stated.unit_factor if quantity == "radiance" else 1.0 / (stated.reflectance_scale or 1.0)
    silent = stated.reflectance_scale is None and bool(np.all(gain == 1.0))
    return gain * factor, offset * factor, quantity, quantity == "reflectance" and silent


class RasterCube:
    """Reads a raster through GDAL, all bands of a window at once."""

    def __init__(
        self, source: rasterio.DatasetReader, gain: FloatArray, offset: FloatArray, missing: float | None
    ) -> None:
        self._source = source
        self._gain, self._offset = gain, offset
        self._missing = missing

    def read(self, window: Window, bands: BandIndex) -> npt.NDArray[np.float32]:
        """The given bands of a window, in physical units."""
        area = RasterWindow(window.col, window.row, window.cols, window.rows)
        raw = self._source.read([int(band) + 1 for band in bands], window=area)
        return to_physical(raw.transpose(1, 2, 0), self._gain[bands], self._offset[bands], self._missing)

    def close(self) -> None:
        """Release the file."""
        self._source.close()


def _same_type(missing: float | None, dtype: np.dtype[Any]) -> Any:
    """The missing value as stored; None when it is NaN or when the type cannot hold it."""
    if missing is None or np.isnan(missing):
        return None
    if dtype.kind == "f":
        return dtype.type(missing)
    info = np.iinfo(dtype)
    return (
        dtype.type(int(missing)) if float(missing).is_integer() and info.min <= missing <= info.max else None
    )
