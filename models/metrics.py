"""Scores of classifications and of posterior intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import precision_recall_fscore_support

IntArray = npt.NDArray[np.integer[Any]]
FloatArray = npt.NDArray[np.floating[Any]]


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


@dataclass(frozen=True)
class RegressionScore:
    """How an estimate with a standard deviation compares with the truth."""

    mae: float
    bias: float
    correlation: float
    within_one_std: float
    """Share of truths within ±1 standard deviation."""
    within_95: float
    """Share of truths within ±1.96 standard deviations."""


def regression_score(truth: FloatArray, mean: FloatArray, std: FloatArray) -> RegressionScore:
    """Score estimates of one quantity, (samples,) each."""
    error = mean - truth
    return RegressionScore(
        mae=float(np.abs(error).mean()),
        bias=float(error.mean()),
        correlation=float(np.corrcoef(truth, mean)[0, 1]),
        within_one_std=float((np.abs(error) <= std).mean()),
        within_95=float((np.abs(error) <= 1.96 * std).mean()),
    )
