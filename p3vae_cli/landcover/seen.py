"""What the pixels of a mapped scene say of the model and of the scene's units."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.scenes.tiling import SpectraTile

if TYPE_CHECKING:
    from p3vae.models.landcover.types import ClassLegend, Prediction

_USUAL_SHARE = 0.25
"""Of out-of-distribution pixels on ground like that of training, where polygons are pure and edges mixed."""
_HARDLY_ANY = 0.05
"""Of pixels lit like the labels [1]."""
_PLAUSIBLE = (0.3, 1.5)
"""Median z_E of land over cosΘ0: level ground has one, slopes and shade change it by less than that [1]."""
_FEWEST_LIT = 100
"""Pixels of land, from fewer the light says nothing."""
_STEP, _STEPS = 0.01, 400
"""Of the histogram of z_E [1]."""


@dataclass
class Seen:
    """Of the mapped pixels: how many are unlike anything learned, how many are lit as the labels, and z_E."""

    legend: ClassLegend
    judged: int = 0
    outside: int = 0
    lit: int = 0
    like_labels: float = 0.0
    """Sum of r."""
    light: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(_STEPS, np.int64))
    """Pixels of land by z_E."""

    def add(self, prediction: Prediction, tile: SpectraTile) -> None:
        """Count the pixels of a tile that have a class; those around it belong to others."""
        here = np.zeros_like(tile.valid)
        here[tile.inside] = True
        counted = here[tile.valid] & (prediction.class_id > 0)
        if prediction.misfit is not None:
            self.judged += int(counted.sum())
            self.outside += int((prediction.misfit[counted] > 1).sum())
        if prediction.known_light is not None:
            self.lit += int(counted.sum())
            self.like_labels += float(prediction.known_light[counted].sum(dtype=np.float64))
        if prediction.irradiance is not None:
            pairs = zip(self.legend.ids, self.legend.names, strict=True)
            wet = [id_ for id_, name in pairs if "water" in name.lower()]
            land = counted & ~np.isin(prediction.class_id, wet)
            step = np.clip(prediction.irradiance[land] / _STEP, 0, _STEPS - 1).astype(np.int64)
            self.light += np.bincount(step, minlength=_STEPS)

    def record(self) -> dict[str, Any]:
        """Shares of mapped pixels; None where the model cannot say."""
        return {
            "out_of_distribution": round(self.outside / self.judged, 4) if self.judged else None,
            "lit_like_labels": round(self.like_labels / self.lit, 4) if self.lit else None,
            "median_light_of_land": self._median_light(),
        }

    def _median_light(self) -> float | None:
        total = int(self.light.sum())
        if total < _FEWEST_LIT:
            return None
        return round(_STEP * (float(np.searchsorted(self.light.cumsum(), total / 2)) + 0.5), 3)

    def lines(self, model_name: str, sun_zenith_deg: float) -> list[str]:
        """One line where a share or the light is more than chance explains."""
        shares, lines = self.record(), []
        outside, lit = shares["out_of_distribution"], shares["lit_like_labels"]
        if outside is not None and outside > _USUAL_SHARE:
            lines.append(
                f"{outside:.0%} of the pixels are unlike anything the model {model_name} learned; "
                "their confidence is low (--unknown marks them)"
            )
        if lit is not None and lit < _HARDLY_ANY:
            lines.append(
                f"hardly any pixel is lit as the labels of the model {model_name} are; its physics decides"
            )
        light, level = shares["median_light_of_land"], float(np.cos(np.radians(sun_zenith_deg)))
        if light is not None and not _PLAUSIBLE[0] <= light / level <= _PLAUSIBLE[1]:
            lines.append(
                f"the direct light of land is {light:.2f}, and level ground has {level:.2f}: check "
                "the unit (--quantity), --scale and --sun-zenith"
            )
        return lines
