"""The pendulum's equations against scipy's solver and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.special import ellipk

from p3vae.paper.pendulum.physics import (
    NOISE_STD_RAD,
    damp,
    drag,
    observation_times,
    pendulum_acceleration,
    simulate_pendulums,
    swing,
)

FLOAT = torch.float64


def released(omega: float, xi: float, start: float, steps: int, solver: str = "rk4") -> np.ndarray:
    right_side = pendulum_acceleration(torch.tensor([omega], dtype=FLOAT), torch.tensor([xi], dtype=FLOAT))
    time = observation_times(steps, dtype=FLOAT)
    return swing(right_side, torch.tensor([start], dtype=FLOAT), time, solver=solver)[0].numpy()


@pytest.mark.parametrize(("omega", "xi", "start"), [(0.5, 0.0, 1.5), (3.0, 0.4, -1.0), (6.28, 2.0, 1.57)])
def test_swings_match_scipy(omega: float, xi: float, start: float) -> None:
    time = np.arange(200) * 0.05
    truth = solve_ivp(
        lambda _, state: (state[1], -xi * state[1] - omega**2 * np.sin(state[0])),
        (0.0, time[-1]),
        (start, 0.0),
        t_eval=time,
        rtol=1e-10,
        atol=1e-12,
    ).y[0]
    assert np.abs(released(omega, xi, start, 200, "dopri5") - truth).max() < 1e-5
    assert np.abs(released(omega, xi, start, 200, "rk4") - truth).max() < 5e-3


@given(st.floats(0.5, 6.28), st.floats(0.0, 0.9))
@settings(max_examples=8, deadline=None)
def test_small_damped_swings_have_a_closed_form(omega: float, xi: float) -> None:
    """ϑ0 e^(-ξt/2) (cos νt + ξ/(2ν) sin νt), ν² = ω² - ξ²/4."""
    time, start = np.arange(50) * 0.05, 1e-3
    frequency = np.sqrt(omega**2 - xi**2 / 4)
    turning = np.cos(frequency * time) + xi / (2 * frequency) * np.sin(frequency * time)
    expected = start * np.exp(-xi * time / 2) * turning
    late = 50 * (omega * 0.05) ** 5 / 120  # the phase error of RK4: this much in every step
    assert np.abs(released(omega, xi, start, 50) - expected).max() < (1e-3 + late) * start


def test_large_swings_take_the_elliptic_period() -> None:
    """T = 4 K(sin²(ϑ0/2)) / ω without damping: after one period the pendulum is back where it started."""
    start, omega = 1.5, 3.0
    period = 4.0 * ellipk(np.sin(start / 2) ** 2) / omega
    right_side = pendulum_acceleration(torch.tensor(omega, dtype=FLOAT), torch.tensor(0.0, dtype=FLOAT))
    time = torch.tensor([0.0, period / 2, period], dtype=FLOAT)
    angle = swing(right_side, torch.tensor(start, dtype=FLOAT), time, solver="dopri5")
    assert angle.numpy() == pytest.approx([start, -start, start], abs=1e-5)


def test_rk4_is_far_closer_than_euler() -> None:
    exact = released(6.0, 0.3, 1.0, 50, "dopri5")
    euler, rk4 = (np.abs(released(6.0, 0.3, 1.0, 50, solver) - exact).max() for solver in ("euler", "rk4"))
    assert rk4 < 2e-3
    assert euler > 100 * rk4


def test_damping_layer() -> None:
    time = torch.tensor([0.0, 1.0, 2.0])
    damped = damp(torch.tensor([[2.0, 2.0, -4.0]]), torch.tensor([np.log(2.0)]), time)
    assert damped[0].tolist() == pytest.approx([2.0, 1.0, -1.0])
    assert torch.equal(damp(damped, torch.zeros(1), time), damped)


def test_drag_opposes_motion() -> None:
    assert drag(torch.tensor([-2.0, 3.0]), torch.tensor(0.5)).tolist() == [1.0, -1.5]


def test_swings_are_differentiable_in_every_parameter() -> None:
    time = observation_times(10, dtype=FLOAT)

    def last_angle(omega: torch.Tensor, xi: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        return swing(pendulum_acceleration(omega, xi), start, time)

    inputs = [torch.tensor([value], dtype=FLOAT, requires_grad=True) for value in (2.0, 0.3, 1.0)]
    assert torch.autograd.gradcheck(last_angle, inputs)


def test_simulated_pendulums_are_what_they_say() -> None:
    pendulums = simulate_pendulums(60, steps=50, max_xi=0.5, rng=np.random.default_rng(3))
    assert pendulums.angle.shape == (60, 50)
    assert len(pendulums) == 60
    assert pendulums.clean[:, 0] == pytest.approx(pendulums.start)
    assert pendulums.xi.min() >= 0.0
    assert pendulums.xi.max() <= 0.5
    assert (
        np.abs(
            pendulums.clean[7] - released(pendulums.omega[7], pendulums.xi[7], pendulums.start[7], 50)
        ).max()
        < 5e-3
    )
    assert (pendulums.angle - pendulums.clean).std() == pytest.approx(NOISE_STD_RAD, rel=0.05)
    again = simulate_pendulums(60, steps=50, max_xi=0.5, rng=np.random.default_rng(3))
    assert np.array_equal(pendulums.angle, again.angle)
