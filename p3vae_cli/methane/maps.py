"""The pixel function of `invert-methane`: estimates, the prior of plumes, and the quality of every pixel."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from p3vae.cli.methane.fit import Fitted
from p3vae.cli.methane.scene import MethaneScene
from p3vae.cli.rasters.files import MapSpec, class_map
from p3vae.cli.scenes.tiling import SpectraTile
from p3vae.cli.styles.rasters import Categories, Category, Ramp
from p3vae.models.methane.devices import OnDevice
from p3vae.physics.quality import Quality, quality_classes

Array = npt.NDArray[Any]

NODATA = -9999.0
ESTIMATES = ("methane", "methane_std", "methane_sensitivity")
CHUNK_PIXELS = 4096
"""Pixels inverted at once: few enough that copies of their spectra need little memory."""
LARGEST_SHOWN_PPM_M = 10_000.0
"""End of the colour scale, the same for every scene [ppm m]."""


class MethaneTiles:
    """From the spectra of a tile to its maps."""

    def __init__(self, fitted: Fitted, seen: MethaneScene, *, quality_mask: bool) -> None:
        self._inverter: OnDevice | None = fitted.inverter
        self._prior, self._seen = fitted.prior, seen
        self._quality_mask = quality_mask
        # many small matrices: a part of the pixels on each core, with one thread; a GPU is one
        cores = torch.get_num_threads() if fitted.inverter.device == "cpu" else 1
        self._pool = ThreadPoolExecutor(
            cores, "p3vae-invert", initializer=torch.set_num_threads, initargs=(1,)
        )

    def close(self) -> None:
        """Let go of threads and tables, once every pixel is mapped."""
        self._pool.shutdown()
        self._inverter = None

    def __call__(self, tile: SpectraTile) -> Mapping[str, Array]:
        """Enhancement, std, sensitivity and quality, (rows, cols) each."""
        rows, cols = tile.valid.shape
        step = max(1, CHUNK_PIXELS // cols)
        parts = self._pool.map(lambda row: self._rows(tile, slice(row, row + step)), range(0, rows, step))
        estimate, quality = (np.concatenate(part, axis=-2) for part in zip(*parts, strict=True))
        usable = estimate[1] != NODATA
        if self._prior is not None and usable.any():
            clear = usable & (quality == Quality.CLEAR)
            ppm_m, std = (np.where(usable, part, 1.0) for part in estimate[:2])
            estimate = np.where(usable, self._prior.apply(ppm_m, std, clear), NODATA).astype(np.float32)
        if self._quality_mask:
            estimate[:, quality != Quality.CLEAR] = NODATA
        return dict(zip(ESTIMATES, estimate, strict=True)) | {"quality": quality}

    def _rows(self, tile: SpectraTile, rows: slice) -> tuple[npt.NDArray[np.float32], Array]:
        """Estimates of some rows without the prior, (3, rows, cols), NODATA where none is; and quality."""
        seen, valid = self._seen, tile.valid[rows]
        values = np.ascontiguousarray(tile.values[rows][..., seen.bands].reshape(-1, len(seen.bands)))
        column = np.tile(np.arange(tile.window.cols) + tile.window.col, len(valid))
        usable = valid.ravel() & seen.usable(values, column)
        classes = quality_classes(values, seen.nominal, seen.sun_zenith_deg)
        dark = valid.ravel() & (classes == Quality.WATER)
        explained = usable | (~seen.dead[column] & (dark | (classes == Quality.SATURATED)))
        found = np.full((3, len(values)), NODATA, np.float32)
        if usable.any():
            assert self._inverter is not None
            estimate = self._inverter.invert(torch.from_numpy(values[usable]), seen.groups(column[usable]))
            found[:, usable] = torch.stack([estimate.ppm_m, estimate.std, estimate.sensitivity]).numpy()
        return found.reshape(3, *valid.shape), np.where(explained, classes, 0).reshape(valid.shape)


SPECS = {
    "methane": MapSpec(
        suffix="methane",
        description="methane enhancement [ppm m]",
        nodata=NODATA,
        unit="ppm m",
        style=Ramp(minimum=0.0, maximum=LARGEST_SHOWN_PPM_M, colormap="inferno", suffix=" ppm·m"),
    ),
    "methane_std": MapSpec(
        suffix="methane_std",
        description="standard deviation of the methane enhancement [ppm m]",
        nodata=NODATA,
        unit="ppm m",
        style=Ramp(minimum=0.0, colormap="cividis", suffix=" ppm·m"),
    ),
    "methane_sensitivity": MapSpec(
        suffix="methane_sensitivity",
        description="change of the estimate per change of the truth",
        nodata=NODATA,
        unit="1",
        style=Ramp(minimum=0.0, maximum=1.0, colormap="viridis"),
    ),
    "quality": replace(
        class_map(
            "quality",
            "what the ground is, as far as it matters for methane",
            Categories(tuple(Category(quality.value, quality.label, quality.colour) for quality in Quality)),
        ),
        reports_invalid=True,
    ),
}
