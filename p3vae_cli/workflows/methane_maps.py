"""The pixel function of `invert-methane`: estimates, the prior of plumes, and the quality of every pixel."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from p3vae.cli.base.tiling import SpectraTile
from p3vae.cli.products.rasters import MapSpec, class_map
from p3vae.cli.products.styles import Categories, Category, Ramp
from p3vae.cli.workflows.methane_fit import Fitted, Inverter
from p3vae.cli.workflows.methane_scene import MethaneScene
from p3vae.models.methane.plume_prior import HALO_PIXELS
from p3vae.models.methane.types import MethaneEstimate
from p3vae.physics.quality import Quality, quality_classes

Array = npt.NDArray[Any]

NODATA = -9999.0
LARGEST_SHOWN_PPM_M = 10_000.0
"""End of the colour scale, the same for every scene [ppm m]."""


class _Cores:
    """A method at work on every core, a part of the pixels each: many small matrices need no more threads."""

    def __init__(self, method: Inverter) -> None:
        self._method, self._count = method, torch.get_num_threads()
        self._pool = ThreadPoolExecutor(
            self._count, "p3vae-invert", initializer=torch.set_num_threads, initargs=(1,)
        )

    def invert(self, radiance: torch.Tensor, detector_column: torch.Tensor | None) -> MethaneEstimate:
        """Enhancement of radiance (pixels, bands)."""
        parts = torch.chunk(radiance, self._count)
        columns = (
            [None] * len(parts) if detector_column is None else torch.chunk(detector_column, self._count)
        )
        return MethaneEstimate.concatenate(list(self._pool.map(self._method.invert, parts, columns)))


class MethaneMaps:
    """From the spectra of a tile to its maps."""

    def __init__(self, fitted: Fitted, view: MethaneScene, *, quality_mask: bool) -> None:
        self._cores, self._prior, self._view = _Cores(fitted.method), fitted.prior, view
        self._quality_mask = quality_mask

    @property
    def halo(self) -> int:
        """How far the prior looks at neighbours [pixels]."""
        return 0 if self._prior is None else HALO_PIXELS

    def __call__(self, tile: SpectraTile) -> Mapping[str, Array]:
        """Enhancement, std, sensitivity and quality, (rows, cols) each."""
        view, shape = self._view, tile.valid.shape
        values = tile.values[..., view.bands].reshape(-1, len(view.bands))
        column = np.tile(np.arange(tile.window.cols) + tile.window.col, tile.window.rows)
        usable = tile.valid.ravel() & view.usable(values, column)
        classes = quality_classes(values, view.nominal, view.sun_zenith_deg)
        dark = tile.valid.ravel() & (classes == Quality.WATER)
        explained = usable | (~view.dead[column] & (dark | (classes == Quality.SATURATED)))
        quality = np.where(explained, classes, 0)
        found = self._estimates(values, column, usable, usable & (quality == Quality.CLEAR), shape)
        if self._quality_mask:
            found[:, quality != Quality.CLEAR] = NODATA
        named = zip(
            ("methane", "methane_std", "methane_sensitivity", "quality"), (*found, quality), strict=True
        )
        return {name: part.reshape(shape) for name, part in named}

    def _estimates(
        self, values: Array, column: Array, usable: Array, clear: Array, shape: tuple[int, ...]
    ) -> npt.NDArray[np.float32]:
        """Enhancement, std and sensitivity, (3, pixels); NODATA where there is none."""
        found = np.full((3, len(values)), NODATA, np.float32)
        if not usable.any():
            return found
        radiance = torch.from_numpy(np.ascontiguousarray(values[usable]))
        estimate = self._cores.invert(radiance, self._view.groups(column[usable]))
        found[:, usable] = torch.stack([estimate.ppm_m, estimate.std, estimate.sensitivity]).numpy()
        if self._prior is None:
            return found
        ppm_m, std = (np.where(usable, part, 1.0).reshape(shape) for part in found[:2])
        informed = np.stack(self._prior.apply(ppm_m, std, clear.reshape(shape))).reshape(3, -1)
        return np.where(usable, informed, NODATA).astype(np.float32)


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
