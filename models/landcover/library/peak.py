"""Narrow peaks of a density that is known at equal steps, some of them cut by the end of the steps."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

NARROW = 1.0
"""Curvature of the log density per squared step from which on steps are too long for a sum."""
_FLATTEST = 1e-6
_FAR = 5.0
"""Standard deviations beyond the cut from which on asymptotic series beat differences of large numbers."""


class Peak(NamedTuple):
    """A Gaussian, maybe cut; every tensor (pixels,)."""

    log_mass: Tensor
    position: Tensor
    """Mean [steps from the middle one of three]."""
    variance: Tensor
    """[steps²]"""
    is_narrow: Tensor
    """False where a sum over steps does better."""


def fitted_peak(log_density: Tensor, cut: Tensor) -> Peak:
    """The Gaussian through log densities at three steps, (3, pixels).

    `cut` is 1 where nothing is beyond the third, -1 where nothing is before the first, else 0.
    """
    level, slope, curvature = parabola(log_density)
    curvature = curvature.clamp(min=_FLATTEST)
    centre, sigma = slope / curvature, curvature.rsqrt()
    inside = torch.where(cut == 0, 2 * _FAR, ((1 - cut * centre) / sigma).clamp(max=2 * _FAR))
    near, far = inside.clamp(min=-_FAR), -1 / inside.clamp(max=-_FAR)
    is_far = inside < -_FAR
    log_kept = torch.special.log_ndtr(near)
    hazard = (-0.5 * near.square() - 0.5 * math.log(2 * math.pi) - log_kept).exp()
    # Distance of the mean from the cut, and the variance, in units of sigma.
    away = torch.where(is_far, far * (1 - 2 * far.square()), near + hazard)
    share = torch.where(is_far, far.square() * (1 - 6 * far.square()), 1 - hazard * away)
    at_cut = torch.where(cut > 0, log_density[2], log_density[0])
    mass = torch.where(
        is_far,
        at_cut + (far * (1 - far.square())).log(),
        level + 0.5 * slope * centre + 0.5 * math.log(2 * math.pi) + log_kept,
    )
    return Peak(
        mass + sigma.log(),
        torch.where(cut == 0, centre, cut * (1 - sigma * away)),
        sigma.square() * share,
        (curvature > NARROW) | (is_far & (sigma * far < NARROW)),
    )


def parabola(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Value, slope and negative second difference at the middle of three steps, (3, pixels)."""
    before, here, after = values
    return here, 0.5 * (after - before), 2 * here - before - after


def at_peak(values: Tensor, log_density: Tensor) -> Tensor:
    """Values where the log density is highest, both known at the same three steps, (pixels,)."""
    _, slope, bend = parabola(log_density)
    place = (slope / bend.clamp(min=_FLATTEST)).clamp(-1, 1)
    here, rise, curve = parabola(values)
    return here + place * (rise - 0.5 * place * curve)


def averaged(values: Tensor, peak: Peak) -> tuple[Tensor, Tensor]:
    """Mean and variance, over a peak, of what is known at the same three steps, (3, pixels)."""
    here, rise, bend = parabola(values)
    place = peak.position.clamp(-1, 1)
    mean = here + place * (rise - 0.5 * place * bend) - 0.5 * bend * peak.variance
    return mean, (rise - place * bend).square() * peak.variance
