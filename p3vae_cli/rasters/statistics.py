"""Exact statistics of a map, gathered while it is written."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Statistics:
    """Statistics of the pixels of one band that hold a value."""

    count: int = 0
    minimum: float = math.nan
    maximum: float = math.nan
    mean: float = math.nan
    std: float = math.nan
    """Standard deviation of the population."""

    @classmethod
    def from_values(cls, values: npt.NDArray[Any]) -> Statistics:
        """Statistics of an array that holds valid values only."""
        if values.size == 0:
            return cls()
        mean = float(values.mean(dtype=np.float64))
        return cls(
            count=values.size,
            minimum=float(values.min()),
            maximum=float(values.max()),
            mean=mean,
            std=float(np.sqrt(np.mean(np.square(values.astype(np.float64) - mean)))),
        )

    def __add__(self, other: Statistics) -> Statistics:
        """Statistics of two sets of pixels together (pairwise update of mean and variance)."""
        if not other.count:
            return self
        if not self.count:
            return other
        count = self.count + other.count
        shift = other.mean - self.mean
        squares = self.count * self.std**2 + other.count * other.std**2
        squares += shift**2 * self.count * other.count / count
        return Statistics(
            count=count,
            minimum=min(self.minimum, other.minimum),
            maximum=max(self.maximum, other.maximum),
            mean=self.mean + shift * other.count / count,
            std=math.sqrt(squares / count),
        )

    def tags(self, pixels: int) -> dict[str, str]:
        """The numbers under GDAL's names, for a band of `pixels`; nine digits hide the order of summation."""
        if not self.count:
            return {}
        return {
            "STATISTICS_MINIMUM": f"{self.minimum:.9g}",
            "STATISTICS_MAXIMUM": f"{self.maximum:.9g}",
            "STATISTICS_MEAN": f"{self.mean:.9g}",
            "STATISTICS_STDDEV": f"{self.std:.9g}",
            "STATISTICS_VALID_PERCENT": f"{100.0 * self.count / pixels:.4g}",
        }

    def stretch(self) -> tuple[float, float]:
        """A display range that outliers do not spoil: mean ± two standard deviations, inside the data."""
        if not self.count:
            return 0.0, 1.0
        return max(self.minimum, self.mean - 2 * self.std), min(self.maximum, self.mean + 2 * self.std)
