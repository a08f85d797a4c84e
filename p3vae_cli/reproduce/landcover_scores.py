"""What a land-cover model says of test spectra, and what that is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.reproduce import toulouse
from p3vae.models.disentanglement import information_gap
from p3vae.models.landcover import LandCoverModel, Method
from p3vae.models.metrics import (
    average_f1,
    class_scores,
    overall_accuracy,
    regression_score,
    reliability,
)
from p3vae.physics.illumination import SpectralIrradiance

FloatArray = npt.NDArray[np.floating[Any]]
Float32Array = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.integer[Any]]

Told = Callable[[Method], tuple[IntArray, Float32Array]]
"""Class index and confidence of every test pixel, by a method of the model."""

LETTERS = {"classifier": "q", "posterior": "p"}
_BINS = 20


def spectra_told(model: LandCoverModel, x: Float32Array, light: SpectralIrradiance) -> Told:
    """What the model says of spectra (pixels, bands)."""

    def told(method: Method) -> tuple[IntArray, Float32Array]:
        found = model.predict(x, light, method=method)
        return found.class_id.astype(int) - 1, found.confidence

    return told


def chips_told(model: LandCoverModel, x: Float32Array, split: toulouse.Split) -> Told:
    """What it says of the test spectra, or of relit copies of each, seen as images of their polygons."""
    copies = len(x) // len(split.test)

    def told(method: Method) -> tuple[IntArray, Float32Array]:
        index, confidence = np.zeros(len(x), dtype=int), np.zeros(len(x), dtype=np.float32)
        for copy in range(copies):
            for chip in toulouse.chips(x[copy::copies], split.test_polygon, split.test_place):
                found = model.predict_image(chip.cube, split.irradiance, method=method)
                inside = chip.samples.ravel() >= 0
                place = chip.samples.ravel()[inside] * copies + copy
                index[place] = found.class_id[inside].astype(int) - 1
                confidence[place] = found.confidence[inside]
        return index, confidence

    return told


@dataclass(frozen=True, eq=False)
class Examiner:
    """Scores one model under one light."""

    model: LandCoverModel
    irradiance: SpectralIrradiance

    def classes(self, name: str, told: Told, truth: IntArray) -> dict[str, float]:
        """F1, accuracy and calibration by each way the model can tell classes."""
        scores: dict[str, float] = {}
        for method in self.model.methods:
            index, confidence = told(method)
            prefix, classes = f"{name}.{LETTERS[method]}", len(self.model.legend)
            scores[f"{prefix}.f1"] = average_f1(truth, index, classes)
            scores[f"{prefix}.accuracy"] = overall_accuracy(truth, index)
            scores[f"{prefix}.ece"] = reliability(confidence, index == truth).expected_calibration_error
            f1 = class_scores(truth, index, classes)[2]
            scores |= {f"{prefix}.f1.{k}": float(value) for k, value in enumerate(f1)}
        return scores

    def image_classes(
        self, name: str, cube: Float32Array, chosen: npt.NDArray[np.bool_], truth: IntArray
    ) -> dict[str, float]:
        """The same of the chosen pixels (rows, cols) of an image, which a model may look at as a whole."""

        def told(method: Method) -> tuple[IntArray, Float32Array]:
            found = self.model.predict_image(cube, self.irradiance, method=method)
            return found.class_id[chosen.ravel()].astype(int) - 1, found.confidence[chosen.ravel()]

        return self.classes(name, told, truth)

    def light(self, name: str, x: Float32Array, z: FloatArray) -> dict[str, float]:
        """z_E against the true δ·cosΘ; nothing from models that do not tell light."""
        found = self.model.predict(x, self.irradiance)
        if found.irradiance is None or found.irradiance_std is None:
            return {}
        score = regression_score(z, found.irradiance, found.irradiance_std)
        return {f"{name}.z.{key}": value for key, value in asdict(score).items()}

    def gaps(self, x: Float32Array, factors: Mapping[str, npt.NDArray[Any]]) -> dict[str, float]:
        """Mutual information gaps of the factors; the codes are the class and the latent variables."""
        latents = self.model.codes(x, self.irradiance)
        if latents is None:
            return {}
        class_code = self.model.predict(x, self.irradiance).class_id
        codes = np.column_stack((class_code, latents)).astype(np.float64)
        gaps = {name: information_gap(codes, factor, bins=_BINS) for name, factor in factors.items()}
        scores = {f"gap.{name}": gap.bits for name, gap in gaps.items()}
        return scores | {f"mig.{name}": gap.normalised for name, gap in gaps.items()}
