"""What the land-cover figures show of one trained model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from p3vae.models.landcover.model import LandCoverModel
from p3vae.models.landcover.types import Method, Prediction
from p3vae.models.metrics import reliability
from p3vae.paper.reproduce.landcover_scores import LETTERS
from p3vae.paper.reproduce.townscape import Spectra, Townscape

Arrays = dict[str, npt.NDArray[Any]]

_SHOWN = 150
"""Test spectra of each class."""
_STEPS = 9
"""Along a latent variable."""
_PURE = 0.1
"""A mixture with less than this of the other material counts as pure [1]."""


def figure_arrays(
    model: LandCoverModel, town: Townscape, test: Spectra, found: Mapping[Method, Prediction]
) -> Arrays:
    """Spectra, calibration and light of one model, from what it found in test spectra."""
    arrays: Arrays = {"wavelength_nm": town.bands.wavelength_nm}
    for index, spectra in enumerate(town.spectra):
        arrays[f"truth.{index}"] = spectra
    for index, latent in enumerate(model.latent_spectra() or []):
        arrays[f"latent.{index}"] = np.asarray(latent)
    for method, prediction in found.items():
        curve = reliability(prediction.confidence, prediction.class_id - 1 == test.y, bins=10)
        arrays[f"reliability.{LETTERS[method]}"] = np.stack([curve.confidence, curve.accuracy, curve.count])
    return arrays | _light(found[model.methods[0]], test) | _along_latents(model, town, test)


def _light(usual: Prediction, test: Spectra) -> Arrays:
    """Estimated and true light of some spectra of each class."""
    if usual.irradiance is None or usual.irradiance_std is None:
        return {}
    shown = np.concatenate([np.flatnonzero(test.y == k)[:_SHOWN] for k in np.unique(test.y)])
    light = {"truth": test.z, "mean": usual.irradiance, "std": usual.irradiance_std, "class": test.y}
    light["right"] = usual.class_id - 1 == test.y
    return {f"z.{name}": values[shown] for name, values in light.items()}


def _along_latents(model: LandCoverModel, town: Townscape, test: Spectra) -> Arrays:
    """Generated spectra of classes with several materials, when only one kind of code moves.

    `along.light`: the first code goes from its 5 % to its 95 % quantile, the others keep their mean.
    `along.mixing`: the other codes go from their mean over one pure material to that over the next one.
    """
    codes = model.codes(test.x, town.irradiance)
    arrays: Arrays = {}
    step = np.linspace(0.0, 1.0, _STEPS)[:, None]
    for index, spectra in enumerate(town.spectra):
        mine = test.y == index
        first, second = (
            mine & (test.eta == 0) & pure for pure in (test.alpha > 1 - _PURE, test.alpha < _PURE)
        )
        if codes is None or len(spectra) < 2 or not (first.any() and second.any()):
            continue
        lit = np.repeat(codes[mine].mean(axis=0)[None], _STEPS, axis=0)
        lit[:, :1] = np.quantile(codes[mine, 0], 0.05 + 0.9 * step)
        mixed = (1 - step) * codes[first].mean(axis=0) + step * codes[second].mean(axis=0)
        mixed[:, 0] = codes[mine, 0].mean()
        for name, path in (("light", lit), ("mixing", mixed)):
            made = model.generate(index, path.astype(np.float32), town.irradiance)
            if made is not None:
                arrays[f"along.{name}.{index}"] = made
    return arrays
