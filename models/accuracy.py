"""Accuracy of class maps from reference samples: error matrix, area-adjusted estimates, paired comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

FloatArray = npt.NDArray[np.float64]
Counts = npt.NDArray[np.integer[Any]]

Z_95 = 1.96
"""Standard errors on each side of a 95 % interval."""


@dataclass(frozen=True, eq=False)
class ErrorMatrixScore:
    """What the samples show as they are, whatever the areas of the classes; arrays are (classes,)."""

    users: FloatArray
    """Share of the samples of a map class that are right (precision); nan without samples."""
    producers: FloatArray
    """Share of the samples of a reference class that the map finds (recall); nan without samples."""
    f1: FloatArray
    """Harmonic mean of both."""
    overall: float
    kappa: float
    """Cohen (1960): agreement beyond that of independent labels [1]."""


def error_matrix(mapped: Counts, reference: Counts, classes: int) -> Counts:
    """Samples by map class (rows) and reference class (columns), from class indices (samples,)."""
    pairs = mapped.astype(np.intp) * classes + reference
    return np.bincount(pairs, minlength=classes * classes).reshape(classes, classes)


def score_error_matrix(counts: Counts) -> ErrorMatrixScore:
    """Accuracies of an error matrix, map classes in rows; nan where a class has no samples."""
    total, right = counts.sum(), np.diag(counts)
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        overall = right.sum() / total
        chance = float((rows * columns).sum()) / float(total) ** 2 if total else np.nan
        kappa = (overall - chance) / (1 - chance)
        return ErrorMatrixScore(
            users=right / rows,
            producers=right / columns,
            f1=2 * right / (rows + columns),
            overall=float(overall),
            kappa=float(kappa),
        )


@dataclass(frozen=True, eq=False)
class AreaAdjusted:
    """Estimates for the whole map from a sample stratified by map class; arrays are (classes,).

    Standard errors are nan where a stratum has a single sample.
    """

    share: FloatArray
    """Of the mapped area that each reference class covers [1]."""
    share_se: FloatArray
    users: FloatArray
    users_se: FloatArray
    producers: FloatArray
    producers_se: FloatArray
    overall: float
    overall_se: float


def area_adjusted(counts: Counts, mapped_area: FloatArray) -> AreaAdjusted:
    """The stratified estimator of Olofsson et al. (2014), eqs. 1 to 11.

    `counts`: error matrix, strata (map classes) in rows. `mapped_area`: of every map class, any unit. Every
    map class with an area needs a sample; classes without an area are no strata.

    Olofsson, P. et al. (2014), Good practices for estimating area and assessing accuracy of land change.
    Remote Sensing of Environment 148, 42-57. doi:10.1016/j.rse.2014.02.015
    """
    samples = counts.sum(axis=1)
    if np.any((mapped_area > 0) & (samples == 0)):
        raise ValueError("a map class with an area has no sample")
    weight = np.where(samples > 0, mapped_area, 0.0) / mapped_area.sum()
    within = counts / np.maximum(samples, 1)[:, None]  # n_ij / n_i.
    with np.errstate(invalid="ignore", divide="ignore"):
        # Variance of n_ij / n_i.; a stratum without area adds nothing, however few its samples.
        variance = within * (1 - within) / (samples - 1.0)[:, None]
        variance[weight == 0] = 0.0
        joint = weight[:, None] * within
        share, right = joint.sum(axis=0), np.diag(joint)
        users = np.where(samples > 0, np.diag(within), np.nan)
        producers = right / share
        users_var = np.diag(within) * (1 - np.diag(within)) / (samples - 1.0)
        spread = weight[:, None] ** 2 * variance
        own = np.diag(spread)
        producers_var = ((1 - producers) ** 2 * own + producers**2 * (spread.sum(axis=0) - own)) / share**2
    return AreaAdjusted(
        share=share,
        share_se=np.sqrt(spread.sum(axis=0)),
        users=users,
        users_se=np.sqrt(np.where(samples > 1, users_var, np.nan)),
        producers=producers,
        producers_se=np.sqrt(producers_var),
        overall=float(right.sum()),
        overall_se=float(np.sqrt(own.sum())),
    )


@dataclass(frozen=True)
class PairedComparison:
    """Two maps judged on the same samples."""

    only_first: int
    """Samples that the first map alone has right."""
    only_second: int
    p_value: float
    """Two-sided exact McNemar test: of such a difference between maps that are equally good."""


def compare_paired(
    first_right: npt.NDArray[np.bool_], second_right: npt.NDArray[np.bool_]
) -> PairedComparison:
    """McNemar's test (1947) in its exact, binomial form, on (samples,) each."""
    first = int((first_right & ~second_right).sum())
    second = int((second_right & ~first_right).sum())
    p_value = stats.binomtest(first, first + second).pvalue if first + second else 1.0
    return PairedComparison(first, second, float(p_value))
