"""The simplest map of a scene: how bright each pixel is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.rasters.files import MapSpec
from p3vae.cli.run.mapper import Mapper
from p3vae.cli.scenes.base import UNITS, Scene
from p3vae.cli.scenes.tiling import SpectraTile
from p3vae.cli.styles.rasters import Ramp


class Brightness(Mapper):
    """Mean over the good bands, in the scene's unit."""

    def __init__(self, scene: Scene) -> None:
        unit = UNITS[scene.quantity]
        shown = "" if unit == "1" else f" [{unit}]"
        spec = MapSpec(
            suffix="brightness",
            description=f"mean {scene.quantity} over the good bands{shown}",
            unit=unit,
            style=Ramp(minimum=0.0, colormap="gray", suffix=shown and f" {unit}"),
        )
        self.specs = {"brightness": spec}
        self._good = np.flatnonzero(scene.bands.good)
        self._everything = len(self._good) == len(scene.bands)
        self._weights = np.full(len(self._good), 1.0, np.float32) / np.float32(len(self._good))

    def __call__(self, tile: SpectraTile) -> Mapping[str, npt.NDArray[Any]]:
        """The weighted sum over bands."""
        # Bad bands are NaN, and NaN times a zero weight is NaN: they must be left out, not weighted.
        values = tile.values if self._everything else tile.values[..., self._good]
        flat = values.reshape(-1, values.shape[-1])
        return {"brightness": (flat @ self._weights).reshape(values.shape[:2])}
