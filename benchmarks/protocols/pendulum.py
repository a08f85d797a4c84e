"""Damped pendulum protocol: theta'' + xi theta' + omega^2 sin(theta) = 0, theta'(0) = 0.

    d = make(split)            split: "train" | "valid" | "test"
    d["x"]        noisy angles, (n, 50) for train/valid, (n, 400) for test  [rad]
    d["clean"]    noise-free angles
    d["theta0"], d["omega"], d["xi"]

Latents are inferred from the first 50 points. Metrics, per trajectory, then averaged:
    in-MAE  = sum over steps 0..49   of |prediction - x|
    out-MAE = sum over steps 50..399 of |prediction - x|
Damping is drawn from [0, 0.5] for train and valid and from [0, 2] for test: extrapolation is the point.
"""

import numpy as np
from scipy.integrate import solve_ivp

DT, NOISE, N_IN, N_OUT = 0.05, 0.05, 50, 400
SPLITS = {"train": (1234, 1000, 0.5, N_IN), "valid": (1235, 500, 0.5, N_IN), "test": (1236, 1000, 2.0, N_OUT)}


def make(split, seed=None):
    default_seed, n, xi_max, steps = SPLITS[split]
    rng = np.random.default_rng(default_seed if seed is None else seed)
    theta0, omega, xi = rng.uniform(-1.57, 1.57, n), rng.uniform(0.1, 6.28, n), rng.uniform(0.0, xi_max, n)
    rng.uniform(0.0, 0.0, n), rng.uniform(3.14, 6.28, n)  # unused draws keep the published random order
    t = np.linspace(0.0, DT * (steps - 1), steps)
    clean = np.empty((n, steps))
    for k in range(n):

        def f(_, s, k=k):
            return (s[1], -xi[k] * s[1] - omega[k] ** 2 * np.sin(s[0]))

        clean[k] = solve_ivp(f, (0.0, t[-1]), (theta0[k], 0.0), method="DOP853", dense_output=True).sol(t)[0]
    x = clean + rng.normal(0.0, NOISE, clean.shape)
    return {"x": x, "clean": clean, "theta0": theta0, "omega": omega, "xi": xi, "t": t}


def score(prediction, x):
    e = np.abs(prediction - x)
    return {"in_mae": float(e[:, :N_IN].sum(1).mean()), "out_mae": float(e[:, N_IN:].sum(1).mean())}


if __name__ == "__main__":
    d = make("test")
    print("predict zero", score(np.zeros_like(d["x"]), d["x"]))
    print("noise floor ", score(d["clean"], d["x"]))
