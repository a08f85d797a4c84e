"""How well a pendulum model continues swings, and how clearly its codes name ω and ξ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from p3vae.paper.metrics import InformationGap, information_gap
from p3vae.paper.pendulum.model import PendulumModel, PendulumPrediction
from p3vae.paper.pendulum.physics import OBSERVED_STEPS

FloatArray = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class PendulumScores:
    """The columns of the published table."""

    in_mae: float
    """Sum of absolute errors over the observed steps, mean over swings [rad]."""
    out_mae: float
    """The same over the steps after them [rad]."""
    omega: InformationGap
    xi: InformationGap


def score_pendulum(
    model: PendulumModel, angle: FloatArray, omega: FloatArray, xi: FloatArray
) -> PendulumScores:
    """Scores on test swings (swings, steps) [rad], whose first 50 angles the model sees."""
    return score_prediction(model.predict(angle, angle.shape[1]), angle, omega, xi)


def score_prediction(
    prediction: PendulumPrediction, angle: FloatArray, omega: FloatArray, xi: FloatArray
) -> PendulumScores:
    """Scores of one prediction of test swings (swings, steps) [rad]; errors are those of noisy angles."""
    error = np.abs(prediction.angle.astype(np.float64) - angle)
    return PendulumScores(
        float(error[:, :OBSERVED_STEPS].sum(axis=1).mean()),
        float(error[:, OBSERVED_STEPS:].sum(axis=1).mean()),
        information_gap(prediction.codes, omega),
        information_gap(prediction.codes, xi),
    )
