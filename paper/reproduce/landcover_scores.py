"""What a land-cover model says of test spectra, and what that is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from p3vae.models.landcover.model import LandCoverModel
from p3vae.models.landcover.types import Method, Prediction
from p3vae.models.metrics import (
    average_f1,
    class_scores,
    overall_accuracy,
    regression_score,
    reliability,
)
from p3vae.paper.metrics import information_gap
from p3vae.paper.reproduce import toulouse
from p3vae.physics.illumination import SpectralIrradiance

FloatArray = npt.NDArray[np.floating[Any]]
Float32Array = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.integer[Any]]
Scores = dict[str, float]

LETTERS = {"classifier": "q", "posterior": "p"}
_BINS = 20


@dataclass(frozen=True, eq=False)
class Examiner:
    """Asks one model under one light, by each of its methods."""

    model: LandCoverModel
    irradiance: SpectralIrradiance

    def spectra(self, x: Float32Array) -> dict[Method, Prediction]:
        """What it says of spectra (pixels, bands); the usual way comes first."""
        return {
            method: self.model.predict(x, self.irradiance, method=method) for method in self.model.methods
        }

    def image(self, cube: Float32Array, chosen: npt.NDArray[np.bool_]) -> dict[Method, Prediction]:
        """What it says of the chosen pixels (rows, cols) of an image, which it may look at as a whole."""
        inside = chosen.ravel()
        found = {}
        for method in self.model.methods:
            whole = self.model.predict_image(cube, self.irradiance, method=method)
            found[method] = Prediction(whole.class_id[inside], whole.confidence[inside])
        return found

    def chips(self, x: Float32Array, split: toulouse.Split) -> dict[Method, Prediction]:
        """What it says of test spectra, or of relit copies of each, seen as images of their polygons."""
        copies = len(x) // len(split.test)
        found = {method: Prediction(np.zeros(len(x), np.uint8), np.zeros(len(x), np.float32)) for method in
                 self.model.methods}  # fmt: skip
        for copy in range(copies):
            for chip in toulouse.chips(x[copy::copies], split.test_polygon, split.test_place):
                inside = chip.samples >= 0
                place = chip.samples[inside] * copies + copy
                for method, part in self.image(chip.cube, inside).items():
                    found[method].class_id[place] = part.class_id
                    found[method].confidence[place] = part.confidence
        return found

    def gaps(self, x: Float32Array, usual: Prediction, factors: Mapping[str, npt.NDArray[Any]]) -> Scores:
        """Mutual information gaps of the factors; the codes are the class and the latent variables."""
        latents = self.model.codes(x, self.irradiance)
        if latents is None:
            return {}
        codes = np.column_stack((usual.class_id, latents)).astype(np.float64)
        gaps = {name: information_gap(codes, factor, bins=_BINS) for name, factor in factors.items()}
        scores = {f"gap.{name}": gap.bits for name, gap in gaps.items()}
        return scores | {f"mig.{name}": gap.normalised for name, gap in gaps.items()}


def judged(name: str, found: Mapping[Method, Prediction], truth: IntArray, classes: int) -> Scores:
    """F1, accuracy and calibration of each method."""
    scores: Scores = {}
    for method, prediction in found.items():
        index, prefix = prediction.class_id.astype(int) - 1, f"{name}.{LETTERS[method]}"
        scores[f"{prefix}.f1"] = average_f1(truth, index, classes)
        scores[f"{prefix}.accuracy"] = overall_accuracy(truth, index)
        curve = reliability(prediction.confidence, index == truth)
        scores[f"{prefix}.ece"] = curve.expected_calibration_error
        f1 = class_scores(truth, index, classes)[2]
        scores |= {f"{prefix}.f1.{k}": float(value) for k, value in enumerate(f1)}
    return scores


def light_scores(name: str, usual: Prediction, z: FloatArray) -> Scores:
    """z_E against the true δ·cosΘ; nothing from models that do not estimate light."""
    if usual.irradiance is None or usual.irradiance_std is None:
        return {}
    score = regression_score(z, usual.irradiance, usual.irradiance_std)
    return {f"{name}.z.{key}": value for key, value in asdict(score).items()}
