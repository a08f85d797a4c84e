"""One pendulum model, trained and scored on the published kind of swings."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from p3vae.paper.pendulum.model import (
    Name,
    PendulumModel,
    PendulumPrediction,
    PendulumSettings,
    train_pendulum,
)
from p3vae.paper.pendulum.physics import FORECAST_STEPS, OBSERVED_STEPS, Pendulums, simulate_pendulums
from p3vae.paper.pendulum.scores import score_pendulum, score_prediction
from p3vae.paper.reproduce.runs import RunResult, RunSpec

ZERO = "zero"
"""Resting pendulums, which no model may lose to."""
_TRAINING_XI, _TEST_XI = 0.5, 2.0
"""Largest damping [s-1]: the test has to extrapolate."""
_SHOWN = 4
_WIDE_RAD = 1.0


def pendulum_run(spec: RunSpec) -> RunResult:
    """Errors over the seen and the following steps, and the gaps of ω and ξ."""
    train, validation, test = pendulum_data(spec.quick)
    if spec.model == ZERO:
        rest = np.zeros(test.angle.shape, dtype=np.float32)
        still = PendulumPrediction(rest, rest[:, :2], ("none", "none"))
        scores = score_prediction(still, test.angle, test.omega, test.xi)
        return RunResult({"in_mae": scores.in_mae, "out_mae": scores.out_mae})
    settings = PendulumSettings(cast(Name, spec.model), _epochs(spec), spec.seed)
    model = train_pendulum(train.angle, train.omega, validation.angle, validation.omega, settings)
    scores = score_pendulum(model, test.angle, test.omega, test.xi)
    reported = {
        "in_mae": scores.in_mae,
        "out_mae": scores.out_mae,
        "gap.omega": scores.omega.bits,
        "gap.xi": scores.xi.bits,
        "mig.omega": scores.omega.normalised,
        "mig.xi": scores.xi.normalised,
    }
    return RunResult(reported, _swings(model, test) if spec.seed == 0 else {})


def pendulum_data(quick: bool) -> tuple[Pendulums, Pendulums, Pendulums]:
    """Training, validation and test swings, the same for every model and seed."""
    sizes = (300, 100, 300) if quick else (1000, 500, 1000)
    steps, damping = (
        (OBSERVED_STEPS, OBSERVED_STEPS, FORECAST_STEPS),
        (_TRAINING_XI, _TRAINING_XI, _TEST_XI),
    )
    made = [
        simulate_pendulums(count, steps=length, max_xi=most, rng=np.random.default_rng(seed))
        for seed, count, length, most in zip((1234, 1235, 1236), sizes, steps, damping, strict=True)
    ]
    return made[0], made[1], made[2]


def _epochs(spec: RunSpec) -> int | None:
    return None if not spec.quick else 8 if spec.model == "p3vae" else 25


def _swings(model: PendulumModel, test: Pendulums) -> dict[str, Any]:
    """A few wide test swings of different damping, observed and predicted."""
    wide = np.flatnonzero(np.abs(test.start) > _WIDE_RAD)
    rows = wide[np.argsort(test.xi[wide])[np.linspace(0, len(wide) - 1, _SHOWN).astype(int)]]
    predicted = model.predict(test.angle[rows], FORECAST_STEPS).angle
    truth = {"observed": test.angle[rows], "clean": test.clean[rows]}
    return truth | {"predicted": predicted, "omega": test.omega[rows], "xi": test.xi[rows]}
