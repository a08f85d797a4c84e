"""Screening of a scene: which pixels a robust matched filter finds free of methane."""

from __future__ import annotations

import torch
from torch import Tensor

from p3vae.models.methane.baselines.matched_filter import MatchedFilter
from p3vae.models.methane.types import PlumeOptics

MAD_TO_STD = 1.4826
CANDIDATE_SIGMA = 2.5
"""Pixels further above the centre, in robust standard deviations, leave the statistics."""
CLEANING_ROUNDS = 3


def background_mask(radiance: Tensor, optics: PlumeOptics, detector_column: Tensor | None = None) -> Tensor:
    """Mask (pixels,) of radiance (pixels, bands) that a robust matched filter finds free of methane.

    Pixels above 2.5 robust standard deviations leave the statistics, and the filter is fitted again.
    """
    keep = torch.ones(len(radiance), dtype=torch.bool)
    for _ in range(CLEANING_ROUNDS):
        columns = None if detector_column is None else detector_column[keep]
        found = MatchedFilter.fit(radiance[keep], optics, variant="log", detector_column=columns)
        alpha = found.invert(radiance, detector_column).ppm_m
        centre = alpha[keep].median()
        scatter = MAD_TO_STD * (alpha[keep] - centre).abs().median()
        keep = alpha < centre + CANDIDATE_SIGMA * scatter
    return keep
