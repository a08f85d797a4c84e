"""Synthetic methane plumes of known concentration and mass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from p3vae.physics.emission import KG_M2_PER_PPM_M

FAINTEST = 1e-4
"""Share of the peak below which there is no plume [1]."""


@dataclass(frozen=True)
class SimulatedPlume:
    """A Gaussian plume seen from above: round at its source, it widens downwind and fades out at its end.

    With x downwind and y across [pixels], s = width + spread·x:
    ppm_m = peak · width/s · exp(-y²/2s²) · (1 - x/length) for 0 ≤ x ≤ length,
    ppm_m = peak · exp(-(x² + y²)/2 width²) upwind, x < 0.
    """

    row: float
    """Row of the source, in pixels from the top edge."""
    col: float
    wind_azimuth_deg: float
    """Where the plume goes to, clockwise from the top of the grid [degree]."""
    peak_ppm_m: float
    """Enhancement over the source [ppm m]."""
    width: float
    """Standard deviation across at the source [pixels]."""
    length: float
    """[pixels]"""
    spread: float = 0.12
    """Growth of the width per pixel downwind [1]."""

    def enhancement(self, rows: int, cols: int) -> npt.NDArray[np.float32]:
        """Path-integrated enhancement at the pixel centres [ppm m], (rows, cols)."""
        south, east = np.mgrid[0:rows, 0:cols] + 0.5
        south, east = south - self.row, east - self.col
        azimuth = np.radians(self.wind_azimuth_deg)
        along = east * np.sin(azimuth) - south * np.cos(azimuth)
        across = east * np.cos(azimuth) + south * np.sin(azimuth)
        downwind = np.clip(along, 0.0, self.length)
        width = self.width + self.spread * downwind
        upwind = np.minimum(along, 0.0)
        shape = np.exp(-0.5 * ((across / width) ** 2 + (upwind / self.width) ** 2))
        shape *= self.width / width * (1 - downwind / self.length)
        return np.where(shape > FAINTEST, self.peak_ppm_m * shape, 0.0).astype(np.float32)

    def mass_kg(self, pixel_size_m: float) -> float:
        """Methane in the whole plume [kg].

        The integral of the enhancement is peak · √(2π) width · (length/2 + √(π/2) width).
        """
        effective_length = self.length / 2 + np.sqrt(np.pi / 2) * self.width
        integral = self.peak_ppm_m * np.sqrt(2 * np.pi) * self.width * effective_length
        return float(integral * pixel_size_m**2 * KG_M2_PER_PPM_M)


def random_plumes(
    count: int, peak_ppm_m: float, rows: int, cols: int, rng: np.random.Generator
) -> tuple[SimulatedPlume, ...]:
    """Plumes in one wind, from sources inside the grid; the first has the peak, others 30 to 100 % of it."""
    size = float(np.sqrt(rows * cols))
    wind = float(rng.uniform(0, 360))
    return tuple(
        SimulatedPlume(
            row=float(rng.uniform(0.3, 0.7) * rows),
            col=float(rng.uniform(0.3, 0.7) * cols),
            wind_azimuth_deg=wind,
            peak_ppm_m=peak_ppm_m * (1.0 if index == 0 else float(rng.uniform(0.3, 1.0))),
            width=max(0.02 * size, 0.8),
            length=0.4 * size,
        )
        for index in range(count)
    )
