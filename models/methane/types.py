"""Settings and plume optics of the methane methods, and the estimate they return."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from p3vae.physics.methane import BandTransmittance


@dataclass(frozen=True)
class MethaneSettings:
    """How the background is learned and the posterior evaluated."""

    components: int = 6
    """Kinds of ground, as the short-wave infrared separates them."""
    rounds: int = 24
    """Rounds of expectation-maximisation."""
    nodes: int = 40
    min_ppm_m: float = 0.0
    """Lower end of the flat prior [ppm m]; below zero, noise over plume-free ground averages out."""
    max_ppm_m: float = 1.2e5
    max_pixels: int = 12_000
    """Plume-free pixels to learn from, drawn at random."""
    max_under_plume: int = 4000
    """Pixels under plumes to learn from: they say less about the ground, and should stay fewer."""
    seed: int = 0


@dataclass(frozen=True, eq=False)
class PlumeOptics:
    """How a plume alters radiance in the sensor's bands under the scene's sun and view."""

    curves: BandTransmittance
    """T_b(u), float64."""
    air_mass_factor: float
    wavelength_nm: Tensor
    """(bands,), centres [nm]."""
    max_ppm_m: float
    """Largest enhancement in question [ppm m]."""

    @property
    def absorbing(self) -> Tensor:
        """Mask (bands,) of the bands that see the largest enhancement."""
        return self.curves.absorbing(self.max_ppm_m * self.air_mass_factor)

    @property
    def slope(self) -> Tensor:
        """Decrease of ln L per ppm m for a vanishing plume, (bands,); mean over detector columns."""
        absorption = self.curves.absorption
        return self.air_mass_factor * absorption.reshape(-1, absorption.shape[-1]).mean(0)

    @property
    def detector_columns(self) -> int | None:
        """Number of detector columns with curves of their own; None when all share theirs."""
        return self.curves.slope.shape[0] if self.curves.slope.ndim == 3 else None

    def of_columns(self, start: int, stop: int) -> PlumeOptics:
        """Optics shared by the detector columns `start` to `stop` (not included): their mean curves."""
        return replace(self, curves=self.curves.of_columns(start, stop))

    def transmittance(self, ppm_m: Tensor, detector_column: Tensor | None = None) -> Tensor:
        """T_b of enhancements (...) [ppm m], (..., bands)."""
        light: Tensor = self.curves(ppm_m * self.air_mass_factor, detector_column)
        return light


@dataclass(frozen=True, eq=False)
class MethaneEstimate:
    """Per pixel, (pixels,) each."""

    ppm_m: Tensor
    """Enhancement [ppm m]."""
    std: Tensor
    """Its standard deviation [ppm m]."""
    sensitivity: Tensor
    """Change of the estimate per change of the truth [1]: 1 = the data decide, 0 = the prior does."""

    @classmethod
    def concatenate(cls, parts: list[MethaneEstimate]) -> MethaneEstimate:
        """Pixels of several estimates, one after the other."""
        return cls(
            torch.cat([p.ppm_m for p in parts]),
            torch.cat([p.std for p in parts]),
            torch.cat([p.sensitivity for p in parts]),
        )
