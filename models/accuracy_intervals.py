"""95 % intervals for the stratified estimators of map accuracy and area that also hold for rare classes.

The normal interval of Olofsson et al. (2014) takes a confusion that no sample shows for impossible, and is
too narrow where few are expected. Here every share of a stratum has the equal-tailed Jeffreys interval of a
binomial (Brown, Cai and DasGupta 2001), and intervals of sums and ratios are recovered from these (MOVER):

    sum    θ = Σ w p:   θ - √(Σ w² (p - l)²),  θ + √(Σ w² (u - p)²)      Zou, Huang and Zhang (2009)
    ratio  t = a / b:   see `_lower_ratio`                               Donner and Zou (2012), eq. 9

Brown, L. D., Cai, T. T., DasGupta, A. (2001), Statistical Science 16, 101-133. doi:10.1214/ss/1009213286
Zou, G. Y., Huang, W., Zhang, X. (2009), Computational Statistics & Data Analysis 53, 1080-1085.
Donner, A., Zou, G. Y. (2012), Statistical Methods in Medical Research 21, 347-359.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

FloatArray = npt.NDArray[np.float64]

_TAIL = 0.025


@dataclass(frozen=True, eq=False)
class Interval:
    """Limits of 95 % intervals [1]; nan where there is no estimate."""

    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class AreaAdjustedIntervals:
    """Of the estimates of the same names in `AreaAdjusted`; (classes,), and () for `overall`."""

    share: Interval
    users: Interval
    producers: Interval
    overall: Interval


def area_adjusted_intervals(
    counts: npt.NDArray[np.integer[Any]], mapped_area: FloatArray
) -> AreaAdjustedIntervals:
    """Of an error matrix, strata (map classes) in rows, and the area of every map class in any unit."""
    samples = counts.sum(axis=1, keepdims=True)
    weight = (mapped_area / mapped_area.sum())[:, None]
    joint = weight * counts / np.maximum(samples, 1)
    low, high = (weight * limit for limit in _jeffreys(counts, samples))
    right, right_low, right_high = np.diag(joint), np.diag(low), np.diag(high)
    apart = ~np.eye(len(counts), dtype=bool)
    omitted, omitted_limits = (joint * apart).sum(axis=0), _sum_limits(joint, low, high, apart)
    # Producer's accuracy is right / (right + omitted); both come from different strata, so are independent.
    odds = _lower_ratio(right, right_low, omitted, omitted_limits.high)
    inverse = _lower_ratio(omitted, omitted_limits.low, right, right_high)
    seen = joint.sum(axis=0) > 0
    users = [np.where(samples > 0, limit, np.nan).diagonal() for limit in _jeffreys(counts, samples)]
    everything = np.ones_like(apart)
    return AreaAdjustedIntervals(
        share=_sum_limits(joint, low, high, everything),
        users=Interval(*users),
        producers=Interval(
            np.where(seen, odds / (1 + odds), np.nan), np.where(seen, 1 / (1 + inverse), np.nan)
        ),
        overall=_sum_limits(right, right_low, right_high, np.ones(len(counts), dtype=bool)),
    )


def _jeffreys(
    counts: npt.NDArray[np.integer[Any]], samples: npt.NDArray[np.integer[Any]]
) -> tuple[FloatArray, FloatArray]:
    """Limits of n / N = `counts` / `samples`: quantiles of Beta(n + ½, N - n + ½); a seen 0 or 1 is kept."""
    posterior = stats.beta(counts + 0.5, samples - counts + 0.5)
    low = np.where(counts == 0, 0.0, posterior.ppf(_TAIL))
    return low, np.where(counts == samples, 1.0, posterior.ppf(1 - _TAIL))


def _sum_limits(
    parts: FloatArray, low: FloatArray, high: FloatArray, used: npt.NDArray[np.bool_]
) -> Interval:
    """Of the sum of independent `parts` along the first axis, where `used`."""
    total = (parts * used).sum(axis=0)
    below = np.sqrt(((parts - low) ** 2 * used).sum(axis=0))
    above = np.sqrt(((high - parts) ** 2 * used).sum(axis=0))
    return Interval(np.maximum(total - below, 0.0), np.minimum(total + above, 1.0))


def _lower_ratio(
    over: FloatArray, over_low: FloatArray, under: FloatArray, under_high: FloatArray
) -> FloatArray:
    """Lower limit of a / b = `over` / `under`, independent, from the limits a_l and b_u:

    (ab - √((ab)² - a_l (2a - a_l) b_u (2b - b_u))) / (b_u (2b - b_u)),

    with the fraction expanded by the conjugate, so that b = 0 is no special case.
    """
    product, near = over * under, over_low * (2 * over - over_low)
    root = np.sqrt(np.maximum(product**2 - near * under_high * (2 * under - under_high), 0.0))
    return np.divide(near, product + root, out=np.zeros_like(near), where=near > 0)
