"""Scores of classifications and of posterior intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import precision_recall_fscore_support

IntArray = npt.NDArray[np.integer[Any]]
FloatArray = npt.NDArray[np.floating[Any]]

_LEAST_PROBABILITY = 1e-12


def class_scores(
    truth: IntArray, predicted: IntArray, classes: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Precision, recall and F1 of each class index, (classes,); zero for classes never met."""
    precision, recall, f1, _ = precision_recall_fscore_support(
        truth, predicted, labels=np.arange(classes), average=None, zero_division=0.0
    )
    return precision, recall, f1


def average_f1(truth: IntArray, predicted: IntArray, classes: int) -> float:
    """Mean F1 over the classes present in the truth; nan without samples."""
    present = np.unique(truth)
    return float(class_scores(truth, predicted, classes)[2][present].mean()) if len(present) else float("nan")


def overall_accuracy(truth: IntArray, predicted: IntArray) -> float:
    """Share of samples whose class is right; nan without samples."""
    return float((truth == predicted).mean()) if len(truth) else float("nan")


def log_loss(truth: IntArray, probability: FloatArray) -> float:
    """Mean of −log p of the true classes [nat], by probabilities (samples, classes); nan without samples."""
    own = np.take_along_axis(probability, truth[:, None].astype(np.intp), axis=1)
    return float(-np.log(np.maximum(own, _LEAST_PROBABILITY)).mean()) if len(truth) else float("nan")


def calibration_error(truth: IntArray, probability: FloatArray, bins: int = 10) -> float:
    """Expected calibration error of class probabilities (samples, classes) [1]; see `Reliability`."""
    if not len(truth):
        return float("nan")
    curve = reliability(probability.max(1), probability.argmax(1) == truth, bins=bins)
    return curve.expected_calibration_error


@dataclass(frozen=True)
class RegressionScore:
    """How an estimate with a standard deviation compares with the truth."""

    mae: float
    bias: float
    correlation: float
    slope: float
    """Of the least-squares line of the estimate over the truth [1]: below 1, extremes are pulled inwards."""
    within_one_std: float
    """Share of truths within ±1 standard deviation."""
    within_95: float
    """Share of truths within ±1.96 standard deviations."""


def regression_score(truth: FloatArray, mean: FloatArray, std: FloatArray) -> RegressionScore:
    """Score estimates of one quantity, (samples,) each; correlation and slope are nan where undefined."""
    error = mean - truth
    covariance = np.cov(truth, mean) if len(truth) > 1 else np.full((2, 2), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
        slope = covariance[0, 1] / covariance[0, 0]
    return RegressionScore(
        mae=float(np.abs(error).mean()),
        bias=float(error.mean()),
        correlation=float(correlation),
        slope=float(slope),
        within_one_std=coverage(error, std, 1.0),
        within_95=coverage(error, std, 1.96),
    )


def coverage(error: FloatArray, std: FloatArray, deviations: float) -> float:
    """Share of errors (samples,) within ± `deviations` of their own standard deviation (samples,)."""
    return float((np.abs(error) <= deviations * std).mean())


@dataclass(frozen=True, eq=False)
class Reliability:
    """How often predictions of a given confidence are right; every array (bins,), nan in empty bins."""

    confidence: FloatArray
    """Mean confidence in each bin."""
    accuracy: FloatArray
    """Share of right predictions in each bin."""
    count: IntArray

    @property
    def expected_calibration_error(self) -> float:
        """ECE: |accuracy - confidence| averaged over the samples; nan without any.

        Guo et al. (2017), On calibration of modern neural networks, eq. 3. doi:10.48550/arXiv.1706.04599
        """
        met = self.count > 0
        if not met.any():
            return float("nan")
        gap = np.abs(self.accuracy - self.confidence)[met]
        return float(np.average(gap, weights=self.count[met]))


def reliability(confidence: FloatArray, correct: npt.NDArray[np.bool_], *, bins: int = 15) -> Reliability:
    """The reliability curve of confidences (samples,) from 0 to 1, in `bins` bins of equal width."""
    index = np.minimum((np.asarray(confidence, dtype=np.float64) * bins).astype(np.intp), bins - 1)
    count = np.bincount(index, minlength=bins)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_confidence = np.bincount(index, weights=confidence, minlength=bins) / count
        accuracy = np.bincount(index, weights=correct, minlength=bins) / count
    return Reliability(mean_confidence, accuracy, count)
