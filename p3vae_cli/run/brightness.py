"""The simplest map of a scene: how bright each pixel is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.rasters.files import MapSpec
from p3vae.cli.styles.rasters import Ramp

if TYPE_CHECKING:
    from p3vae.cli.run.pipeline import PixelFunction
    from p3vae.cli.scenes.base import Scene
    from p3vae.cli.scenes.tiling import SpectraTile


def brightness_function(scene: Scene) -> PixelFunction:
    """A function from spectra to `{"brightness": mean over the good bands}` in the scene's unit."""
    weights = scene.bands.good.astype(np.float32)
    weights /= weights.sum()
    good = np.flatnonzero(scene.bands.good)
    everything = len(good) == len(scene.bands)

    def brightness(tile: SpectraTile) -> dict[str, npt.NDArray[Any]]:
        # Bad bands are NaN, and NaN times a zero weight is NaN: they must be left out, not weighted.
        values = tile.values if everything else tile.values[..., good]
        flat = values.reshape(-1, values.shape[-1])
        return {"brightness": (flat @ weights[good]).reshape(values.shape[:2])}

    return brightness


def brightness_specs(scene: Scene) -> dict[str, MapSpec]:
    """What the brightness map of `scene` is."""
    from p3vae.cli.scenes.base import UNITS

    unit = UNITS[scene.quantity]
    shown = "" if unit == "1" else f" [{unit}]"
    spec = MapSpec(
        suffix="brightness",
        description=f"mean {scene.quantity} over the good bands{shown}",
        unit=unit,
        style=Ramp(minimum=0.0, colormap="gray", suffix=shown and f" {unit}"),
    )
    return {"brightness": spec}
