"""A land-cover model brought to a scene: to its bands, and to how it saw its ground."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from p3vae.cli.console import note
from p3vae.cli.labels.scene_pixels import scene_pixels
from p3vae.cli.rasters.files import gdal_environment
from p3vae.cli.run.fitness import fit_bands, require_covered, require_usable
from p3vae.cli.scenes.base import Scene

if TYPE_CHECKING:
    from p3vae.models.landcover.library.scene import SceneState
    from p3vae.models.landcover.model import LandCoverModel

FEWEST_PIXELS = 100
"""From fewer, nothing can be said of a scene."""
_HAZE, _GAIN, _NOISE = 0.01, 0.05, 1.5
"""Offset [reflectance], departure of the gain from one, ratio of noise [1]: what is smaller is not said."""


def at_bands(scene: Scene, model: LandCoverModel, name: str) -> LandCoverModel:
    """The model at the bands of a scene; what it goes without is said."""
    from p3vae.models.landcover.estimator import SceneEstimator
    from p3vae.models.landcover.sensors import fit_sensor, is_flexible

    if is_flexible(model):
        require_usable(scene, model.bands, name)
        found = fit_sensor(model, scene.bands)
        for text in found.notes:
            note(f"warning: {scene.path}: {text}")
        return found.model
    if not isinstance(model.estimator, SceneEstimator):
        return model
    covered = require_covered(scene, model.bands, name)
    if covered.all():
        return model
    count = f"{covered.sum()} of the {len(covered)} bands of the model {name}"
    note(f"warning: {scene.path}: it covers {count}, which goes without the others")
    return model.at_bands(np.flatnonzero(covered))


def in_scene(
    scene: Scene, model: LandCoverModel, name: str, *, scene_gain: bool
) -> tuple[LandCoverModel, dict[str, Any]]:
    """The model for how a scene saw its ground, and for the manifest what the scene differs by.

    `model` is at the bands of the scene. `scene_gain` False leaves gain, haze and noise as they are.
    """
    from p3vae.models.landcover.estimator import SceneEstimator
    from p3vae.models.landcover.sensors import is_flexible

    if not isinstance(model.estimator, SceneEstimator):
        return model, {}
    if not scene_gain:
        return model, {"scene": None}
    with gdal_environment():
        pixels = scene_pixels(scene, fit_bands(scene, model.bands, name))
    if len(pixels) < FEWEST_PIXELS:
        return model, {"scene": None}
    model, state = model.in_scene(pixels)
    if state is None:
        return model, {"scene": None}
    _say(scene, model, f"the libraries of {name}" if is_flexible(model) else f"the scene of {name}", state)
    return model, {
        "scene": {
            "gain": [round(float(value), 4) for value in (state.gain.min(), state.gain.max())],
            "haze": round(float(state.offset[0]), 4),
            "noise_ratio": round(state.noise_ratio, 3),
            "reconciled": state.reconciled,
        }
    }


def _say(scene: Scene, model: LandCoverModel, home: str, state: SceneState) -> None:
    """One line where the scene differs by more than a little, another where it differs too much."""
    wave, found = model.bands.wavelength_nm, []
    haze = float(state.offset[0])
    if abs(haze) >= _HAZE:
        found.append(f"{'hazier' if haze > 0 else 'clearer'} by {abs(haze):.3f} at {wave[0]:.0f} nm")
    most = int(np.abs(state.gain - 1).argmax())
    if abs(state.gain[most] - 1) >= _GAIN:
        kind = "brighter" if state.gain[most] > 1 else "darker"
        found.append(f"{abs(state.gain[most] - 1):.0%} {kind} at {wave[most]:.0f} nm")
    if state.noise_ratio >= _NOISE:
        found.append(f"its noise is {state.noise_ratio:.1f} times as large")
    if not state.reconciled:
        note(
            f"warning: {scene.path}: differs so much from {home} that the model may not know "
            "its ground; check scale and correction"
        )
    elif found:
        note(
            f"{scene.path}: compared with {home}: {', '.join(found)}; corrected "
            "(--no-scene-gain leaves it; is the atmospheric correction right?)"
        )
