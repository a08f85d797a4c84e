"""The damped pendulum: ϑ'' + ξ ϑ' + ω² sin ϑ = 0, released from rest.

ϑ is the angle [rad], ω the angular frequency of small swings [rad s-1], ξ the damping of the surrounding
fluid [s-1], t the time [s]. The damping is known physics and has no trainable part. It can act in two
places: on the swing itself (`drag`, exact), or on the finished undamped swing (`damp`, an approximation).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

TIME_STEP_S = 0.05
"""Time between two observed angles [s]."""
NOISE_STD_RAD = 0.05
"""Standard deviation of the noise on observed angles [rad]."""
OBSERVED_STEPS = 50
"""Angles from which the latent variables are inferred."""
FORECAST_STEPS = 400
"""Angles of a test trajectory, the observed ones included."""

Solver = Literal["euler", "rk4", "dopri5"]
FloatArray = npt.NDArray[np.float64]
Acceleration = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(time [s], angle [rad], velocity [rad s-1]) to acceleration [rad s-2]; angle and velocity (...)."""


def observation_times(steps: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """Times of the observed angles [s], (steps,)."""
    return torch.arange(steps, dtype=torch.float64).mul(TIME_STEP_S).to(dtype)


def damp(angle: Tensor, xi: Tensor, time: Tensor) -> Tensor:
    """f_E as published: x exp(-ξ t), on an undamped swing `angle` (..., steps) with ξ (...) [s-1].

    For small angles the exact envelope of ϑ'' + ξ ϑ' + ω² ϑ = 0 is exp(-ξ t / 2), and the frequency falls
    to √(ω² - ξ²/4): a latent variable read through this layer is half the true damping at best.
    """
    return angle * torch.exp(-xi[..., None] * time)


def drag(velocity: Tensor, xi: Tensor) -> Tensor:
    """Acceleration [rad s-2] by the linear drag of the fluid, -ξ ϑ': f_E at the place where it acts."""
    return -xi * velocity


def pendulum_acceleration(omega: Tensor, xi: Tensor) -> Acceleration:
    """The exact right-hand side -ω² sin ϑ - ξ ϑ' for pendulums of `omega` [rad s-1] and `xi` [s-1], (...)."""

    def acceleration(time: Tensor, angle: Tensor, velocity: Tensor) -> Tensor:
        return -(omega**2) * torch.sin(angle) + drag(velocity, xi)

    return acceleration


def swing(
    acceleration: Acceleration,
    start: Tensor,
    time: Tensor,
    *,
    solver: Solver = "rk4",
    tolerance: float = 1e-8,
) -> Tensor:
    """Angles (..., steps) [rad] at `time` (steps,) [s] of pendulums let go at `start` (...) [rad].

    Euler and RK4 take one step per interval of `time`; `dopri5` adapts its steps to `tolerance`.
    Differentiable with respect to `start` and everything `acceleration` depends on.
    """
    from torchdiffeq import odeint  # of the extra `reproduce`

    def derivative(now: Tensor, state: Tensor) -> Tensor:
        return torch.stack((state[1], acceleration(now, state[0], state[1])))

    state = torch.stack((start, torch.zeros_like(start)))
    states: Tensor = odeint(derivative, state, time, method=solver, rtol=tolerance, atol=tolerance)
    return states[:, 0].movedim(0, -1)


@dataclass(frozen=True, eq=False)
class Pendulums:
    """Observed swings and the truth behind them."""

    angle: FloatArray
    """With noise [rad], (pendulums, steps)."""
    clean: FloatArray
    """Without noise [rad], (pendulums, steps)."""
    start: FloatArray
    """ϑ(0) [rad], (pendulums,)."""
    omega: FloatArray
    """[rad s-1], (pendulums,)."""
    xi: FloatArray
    """[s-1], (pendulums,)."""

    def __len__(self) -> int:
        return len(self.angle)


def simulate_pendulums(count: int, *, steps: int, max_xi: float, rng: np.random.Generator) -> Pendulums:
    """Random pendulums, uniform: ϑ(0) in ±1.57 rad, ω in 0.1 to 6.28 rad s-1, ξ in 0 to `max_xi` [s-1]."""
    start, omega = rng.uniform(-1.57, 1.57, count), rng.uniform(0.1, 6.28, count)
    xi = rng.uniform(0.0, max_xi, count)
    time = observation_times(steps, dtype=torch.float64)
    right_side = pendulum_acceleration(torch.from_numpy(omega), torch.from_numpy(xi))
    clean: npt.NDArray[Any] = swing(right_side, torch.from_numpy(start), time, solver="dopri5").numpy()
    return Pendulums(clean + rng.normal(0.0, NOISE_STD_RAD, clean.shape), clean, start, omega, xi)
