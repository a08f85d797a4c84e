"""Finished methane maps for the search for plumes: without prior and gaps, on the scene's own grid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from affine import Affine
from scipy import ndimage

from p3vae.cli.run.maps import Maps
from p3vae.cli.scenes.base import Grid
from p3vae.physics.quality import Quality

Values = npt.NDArray[np.floating[Any]]
Mask = npt.NDArray[np.bool_]

UNSURE = 3.0
"""Pixels this many times less certain than the scene's median are judged by their neighbours."""
REACH_PIXELS, FEWEST_SURE = 1.5, 0.1
"""Standard deviation of the neighbourhood's weights, and the share of it that must be sure."""
UNFIT_TO_FILL = (Quality.CLOUD, Quality.FLARE)


@dataclass(frozen=True)
class ClearFigures:
    """What the clear pixels of a map say, as it is; others may be there on request and are no measure."""

    pixels: int
    mean_ppm_m: float | None
    std_ppm_m: float | None
    """Of the values."""
    typical_std_ppm_m: float | None
    """Median of the standard deviations of single pixels."""
    others: int
    """Pixels with a value that are not clear."""

    @classmethod
    def of(cls, ppm_m: Values, std: Values, clear: Mask, others: int) -> ClearFigures:
        """From a map; None for figures of no pixel."""
        count = int(clear.sum())
        if not count:
            return cls(0, None, None, None, others)
        values = ppm_m[clear].astype(np.float64)
        return cls(count, float(values.mean()), float(values.std()), float(np.median(std[clear])), others)

    def line(self) -> str:
        """For the report."""
        if self.mean_ppm_m is None:
            return "no clear pixel"
        return (
            f"{self.pixels:,} clear pixels: mean {self.mean_ppm_m:,.0f}, scatter {self.std_ppm_m:,.0f}, "
            f"usual std {self.typical_std_ppm_m:,.0f} ppm·m"
        )


@dataclass(frozen=True, eq=False)
class MethaneMap:
    """Arrays are (rows, cols)."""

    ppm_m: Values
    """Without the prior and without gaps: see `fill_from_neighbours`."""
    std: Values
    valid: Mask
    """Where a plume may be: a result, over ground that allows one."""
    clear: Mask
    quality: npt.NDArray[np.uint8]
    grid: Grid
    """Of the scene: pixels are those of the detector, each of them once."""
    figures: ClearFigures

    @classmethod
    def of(cls, maps: Maps, *, prior: bool) -> MethaneMap:
        """The maps as the sensor saw them; `prior`: whether they hold one, which dividing by the sensitivity
        takes out."""
        ppm_m, grid = maps["methane"], maps.grid
        if grid.transform is None and not grid.gcps:
            grid = replace(grid, transform=Affine.identity())
        missing = ppm_m == maps.specs["methane"].nodata
        std, sensitivity, quality = maps["methane_std"], maps["methane_sensitivity"], maps["quality"]
        clear = ~missing & (quality == Quality.CLEAR)
        figures = ClearFigures.of(ppm_m, std, clear, int((~missing & ~clear).sum()))
        if prior:
            ppm_m = np.where(clear, ppm_m / np.where(clear, sensitivity, 1.0), 0.0)
            std = np.where(clear, std / np.sqrt(np.where(clear, sensitivity, 1.0)), 1.0)
        ppm_m, std, valid = fill_from_neighbours(ppm_m, std, clear)
        allowed = valid & ~np.isin(quality, UNFIT_TO_FILL)
        return cls(ppm_m, std, allowed, clear, quality.astype(np.uint8), grid, figures)

    def left_out(self) -> str:
        """How many pixels have no result, and why."""
        counts = {quality.label: int((self.quality == quality).sum()) for quality in Quality}
        counts.pop(Quality.CLEAR.label)
        counts["dead or without signal"] = int((self.quality == 0).sum())
        named = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        return f"{sum(counts.values()):,} pixels without a result{': ' if named else ''}{named}"


def fill_from_neighbours(ppm_m: Values, std: Values, trusted: Mask) -> tuple[Values, Values, Mask]:
    """Maps whose unsure pixels (deep shadow, above all) take the precision-weighted mean around them.

    Their own values lean towards the middle of the prior, which would look like plumes; without them, plumes
    would have holes. Returns enhancement and standard deviation [ppm m] and where both can be believed.
    """
    sure = trusted & (std < UNSURE * np.median(std[trusted])) if trusted.any() else trusted
    weight = sure / np.where(sure, std, 1.0).astype(np.float64) ** 2
    filled = ~sure & (_around(sure.astype(np.float32)) > FEWEST_SURE)
    scale = _around(weight)[filled]
    mean = _around(weight * ppm_m)[filled] / scale
    variance = np.maximum(_around(weight * ppm_m**2)[filled] / scale - mean**2, 1.0 / scale)
    ppm_m, std = ppm_m.copy(), std.copy()
    ppm_m[filled], std[filled] = mean, np.sqrt(variance)
    return ppm_m, std, sure | filled


def _around(values: Values) -> Values:
    smooth: Values = ndimage.gaussian_filter(values, REACH_PIXELS)
    return smooth
