"""What counts as a plume; read without torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlumeRule:
    """What counts as a plume."""

    threshold_sigma: float = 2.0
    """Mean around a pixel over its scatter in the scene, above which the pixel belongs to a cluster."""
    core_sigma: float = 3.0
    """3 x 3 median of enhancement over std, over its scatter, above which a pixel is surely in the plume."""
    min_pixels: int = 9
    """Smaller clusters are noise."""
    max_false_plumes: float = 0.05
    """Expected false clusters per scene of the same strength, up to which a cluster is a plume."""
    max_false_candidates: float = 1.0
    """The same, up to which a cluster with the spectrum of methane is one."""
