"""Sensor noise: how much of a radiance is chance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SHOT_SHARE = 0.7
"""Share of photon noise in the noise at mean radiance, where only its total is known."""
DIAGONAL_JITTER = 1e-6


@dataclass(frozen=True, eq=False)
class SensorNoise:
    """Variance of band radiance, read + shot * L [(W m-2 sr-1 um-1)^2]: read-out and photon noise."""

    read: Tensor
    """(bands,)"""
    shot: Tensor
    """(bands,)"""

    def variance(self, radiance: Tensor) -> Tensor:
        """Variance at `radiance` (..., bands)."""
        return self.read + self.shot * radiance.clamp(min=0.0)

    def select(self, bands: Tensor) -> SensorNoise:
        """The noise of some bands (indices or mask)."""
        return SensorNoise(self.read[bands], self.shot[bands])

    @classmethod
    def from_snr(cls, radiance: Tensor, snr: Tensor, shot_share: float = SHOT_SHARE) -> SensorNoise:
        """Noise with signal-to-noise ratio `snr` (bands,) at `radiance` (bands,)."""
        return cls._from_variance((radiance / snr) ** 2, radiance, shot_share)

    @classmethod
    def _from_variance(cls, total: Tensor, radiance: Tensor, shot_share: float) -> SensorNoise:
        """A band without light has no photon noise."""
        lit = radiance > 0
        shot = torch.where(lit, shot_share * total / torch.where(lit, radiance, 1.0), 0.0)
        return cls(total - shot * radiance.clamp(min=0.0), shot)

    @classmethod
    def estimate(cls, radiance: Tensor, shot_share: float = SHOT_SHARE) -> SensorNoise:
        """Noise of a scene from plume-free radiance (pixels, bands).

        A band's noise is what linear regression on all other bands leaves unexplained (Roger and Arnold
        1996): 1 / (C^-1)_bb with C the covariance, corrected for the degrees of freedom.
        """
        pixels, bands = radiance.shape
        if pixels < 2 * bands:
            raise ValueError(f"{2 * bands} plume-free pixels are needed to estimate noise, got {pixels}")
        x = radiance.double()
        mean = x.mean(0)
        scale = x.std(0).clamp(min=torch.finfo(torch.float64).tiny)
        correlation = torch.cov(((x - mean) / scale).T)
        correlation.diagonal().add_(DIAGONAL_JITTER)
        unexplained = scale**2 / torch.linalg.inv(correlation).diagonal() * pixels / (pixels - bands)
        return cls._from_variance(unexplained, mean, shot_share)
