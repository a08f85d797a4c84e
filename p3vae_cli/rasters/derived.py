"""Maps that are in memory as a whole, as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

from p3vae.cli.rasters.files import MapSpec, RasterSink, gdal_environment
from p3vae.cli.rasters.grids import whole
from p3vae.cli.records.staging import Staging
from p3vae.cli.scenes.base import Grid

Layers = Mapping[str, tuple[MapSpec, npt.NDArray[Any]]]
"""File name to what the map is and its values, (rows, cols) or (bands, rows, cols)."""


def write_derived(
    folder: Path,
    layers: Layers,
    grid: Grid,
    tags: Mapping[str, str],
    *,
    overwrite: bool,
    inputs: tuple[Path, ...],
) -> None:
    """Write maps on one grid, with the provenance among `tags`, all of them or none."""
    kept = {key: value for key, value in tags.items() if key.startswith("P3VAE_")}
    with (
        gdal_environment(),
        Staging(folder, layers, [*layers][-1], overwrite=overwrite, inputs=inputs) as staging,
    ):
        for name, (spec, values) in layers.items():
            sink = RasterSink(staging, name, spec, grid, tags=kept)
            try:
                sink.write(whole(grid), values)
                sink.finish()
            finally:
                sink.close()
        staging.commit()
