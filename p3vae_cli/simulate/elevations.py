"""The elevation model beside simulated mountains, with the errors that real ones have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from affine import Affine
from rasterio.enums import Resampling
from rasterio.warp import reproject
from scipy.ndimage import gaussian_filter

from p3vae.cli.rasters.files import MapSpec, RasterSink
from p3vae.cli.rasters.grids import whole
from p3vae.cli.records.staging import Staging
from p3vae.cli.scenes.base import Grid
from p3vae.cli.styles.rasters import Ramp
from p3vae.physics.simulation.scene import Map, SimulatedScene

_ERROR_LENGTH = 1.5
"""Standard deviation of the blur that makes errors of neighbouring heights alike [pixels]."""


@dataclass(frozen=True)
class DemError:
    """What is wrong with an elevation model."""

    error_m: float = 0.0
    """Standard deviation of its heights [m]; neighbours err alike."""
    offset_m: tuple[float, float] = (0.0, 0.0)
    """By how much it is displaced towards east and north [m]."""
    pixel_size_m: float | None = None
    """None: that of the scene."""


def erroneous(heights_m: Map, error_m: float, seed: int) -> Map:
    """Heights with an error that neighbours share."""
    noise = gaussian_filter(np.random.default_rng([seed, 29]).standard_normal(heights_m.shape), _ERROR_LENGTH)
    return np.asarray(heights_m + error_m * noise / noise.std(), dtype=np.float32)


def write_dem(
    staging: Staging,
    name: str,
    simulated: SimulatedScene,
    grid: Grid,
    error: DemError,
    tags: Mapping[str, str],
) -> None:
    """Stage the elevation model, which reaches beyond the scene."""
    settings, transform = simulated.settings, grid.transform
    assert transform is not None, "mountains lie on a map grid"
    margin = settings.margin
    own = transform @ Affine.translation(-margin, -margin)
    heights = erroneous(simulated.surroundings_m, error.error_m, settings.seed)
    shape, step = heights.shape, (error.pixel_size_m or settings.pixel_size_m) / settings.pixel_size_m
    rows, cols = (int(size / step) for size in shape)
    target = own @ Affine.scale(step)
    coarser = np.empty((rows, cols), np.float32)
    method = Resampling.average if step > 1 else Resampling.cubic
    places = {"src_crs": grid.crs, "src_transform": own, "dst_crs": grid.crs, "dst_transform": target}
    reproject(heights, coarser, resampling=method, **places)
    shifted = Affine.translation(*error.offset_m) @ target
    spec = MapSpec("dem", "Elevation [m]", unit="m", nodata=-9999.0, style=Ramp(0.0, None, "viridis", " m"))
    placed = Grid(cols, rows, grid.crs, shifted)
    sink = RasterSink(staging, name, spec, placed, tags=tags)
    try:
        sink.write(whole(placed), coarser)
        sink.finish()
    finally:
        sink.close()
