"""Which commands a scene is fit for, and what it lacks for the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from p3vae.cli.scenes.base import Scene

METHANE_NM = (2100.0, 2450.0)
"""The methane absorption that a retrieval needs [nm]."""
_FEWEST_METHANE_BANDS = 10
_LAND_COVER = ("classify", "irradiance-map", "train", "explain", "suggest")


def fit_commands(scene: Scene) -> list[dict[str, Any]]:
    """Per command: whether the scene is fit for it, and if not, why."""
    land_cover, methane = _land_cover_problem(scene), _methane_problem(scene)
    rows = [*((name, land_cover) for name in _LAND_COVER), ("invert-methane", methane), ("brightness", "")]
    return [{"command": name, "fit": not problem, "reason": problem} for name, problem in rows]


def fit_line(commands: list[dict[str, Any]]) -> str:
    """The commands that a scene is fit for, in one line."""
    return ", ".join(entry["command"] for entry in commands if entry["fit"])


def unfit_lines(commands: list[dict[str, Any]]) -> list[str]:
    """Why it is not fit for the others, one line per reason."""
    reasons: dict[str, list[str]] = {}
    for entry in commands:
        if not entry["fit"]:
            reasons.setdefault(entry["reason"], []).append(entry["command"])
    return [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]


def _land_cover_problem(scene: Scene) -> str:
    if scene.quantity != "reflectance":
        return f"needs reflectance (a level-2 product), and the scene holds {scene.quantity}"
    return _sun_problem(scene)


def _methane_problem(scene: Scene) -> str:
    if scene.quantity != "radiance":
        return f"needs radiance (a level-1 product), and the scene holds {scene.quantity}"
    centres = scene.bands.wavelength_nm[scene.bands.good]
    if np.count_nonzero((centres > METHANE_NM[0]) & (centres < METHANE_NM[1])) < _FEWEST_METHANE_BANDS:
        return f"needs good bands from {METHANE_NM[0]:.0f} to {METHANE_NM[1]:.0f} nm"
    return _sun_problem(scene)


def _sun_problem(scene: Scene) -> str:
    return "" if scene.acquisition.sun_zenith_deg is not None else "needs the sun: give --sun-zenith DEG"
