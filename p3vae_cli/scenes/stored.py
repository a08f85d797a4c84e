"""The numbers of a raster as they are stored, for files that do not say what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import rasterio
from rasterio.windows import Window

from p3vae.cli.scenes.base import Grid, reading
from p3vae.cli.scenes.drivers import open_dataset
from p3vae.cli.scenes.formats.rasters import grid_of

_SIDE, _PLACES, _BANDS = 32, (0.1, 0.5, 0.9), 16
"""Sampled windows: their side [pixels], where they lie along each axis, and of how many bands."""
_COMMON = 0.05
"""Share of the values from which an extreme one looks like a mark for missing data."""


@dataclass(frozen=True)
class StoredValues:
    """What a raster holds, from windows spread over it and bands spread over the spectrum."""

    grid: Grid
    bands: int
    dtype: str
    nodata: float | None
    sampled: int
    """Values seen, `nodata` and NaN left out."""
    minimum: float
    median: float
    maximum: float
    suspect: float | None
    """A smallest or largest value that is so frequent that it may mean 'no data'."""


def stored_values(path: Path, drivers: Sequence[str] = ()) -> StoredValues:
    """Raises ForeignFileError, RasterioError or OSError if the file is no raster of numbers."""
    with reading(path), open_dataset(path, drivers) as source:
        values = _sample(source)
        low, middle, high = (
            (float(values.min()), float(np.median(values)), float(values.max()))
            if len(values)
            else [np.nan] * 3
        )
        nodata = None if source.nodata is None else float(source.nodata)
        suspect = next((v for v in (low, high) if low < high and (values == v).mean() > _COMMON), None)
        return StoredValues(
            grid_of(source), source.count, source.dtypes[0], nodata, len(values), low, middle, high, suspect
        )


def _sample(source: rasterio.DatasetReader) -> npt.NDArray[np.float64]:
    rows, cols = min(_SIDE, source.height), min(_SIDE, source.width)
    bands = np.unique(np.linspace(1, source.count, min(_BANDS, source.count)).astype(int)).tolist()
    parts = [
        source.read(
            bands,
            window=Window(int(right * (source.width - cols)), int(down * (source.height - rows)), cols, rows),
        )
        for down in _PLACES
        for right in _PLACES
    ]
    values = np.concatenate([part.ravel() for part in parts]).real.astype(np.float64)
    known: npt.NDArray[np.float64] = values[np.isfinite(values) & (values != source.nodata)]
    return known
