"""What a land-cover posterior says of pixels kept aside, and how good that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from p3vae.models.landcover.library.decoder import HOPELESS, Library, NoiseModel, usual_misfit
from p3vae.models.landcover.library.illumination import Optics
from p3vae.models.metrics import average_f1

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.integer[Any]]
BoolArray = npt.NDArray[np.bool_]

_TEMPERATURES = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 30.0, 50.0)
_LEAST = -20.0


class Kept(NamedTuple):
    """Pixels that a library never saw."""

    library: Library
    truth: IntArray
    """Classes of `plain`."""
    plain: FloatArray
    """In the light as it was."""
    relit: FloatArray
    """Copies in other light, one whole set after the other."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Evidence (pixels, classes) of pixels kept aside; fold by fold, `plain` ones before relit ones."""

    truth: IntArray
    evidence: FloatArray
    misfit: FloatArray
    plain: BoolArray

    @classmethod
    def of(cls, trials: Sequence[Kept], noise: NoiseModel, optics: Optics) -> Outcome:
        """As the posterior with this noise has it."""
        truths, evidences, misfits, plains = [], [], [], []
        for kept in trials:
            solver = optics.solver(kept.library, noise)
            for spectra, is_plain in ((kept.plain, True), (kept.relit, False)):
                found = solver.solve(torch.as_tensor(spectra, dtype=torch.float32))
                truths.append(np.tile(kept.truth, len(spectra) // len(kept.truth)))
                evidences.append(found.log_evidence.double().numpy())
                misfits.append(found.misfit.numpy())
                plains.append(np.full(len(spectra), is_plain))
        parts = [np.concatenate(part) for part in (truths, evidences, misfits, plains)]
        return cls(parts[0], parts[1], parts[2], parts[3])

    def where(self, rows: BoolArray) -> Outcome:
        """The outcome of some pixels."""
        return Outcome(self.truth[rows], self.evidence[rows], self.misfit[rows], self.plain[rows])

    def rescued(self, spare: Outcome, largest: float, temperature: float) -> Outcome:
        """The same, but of what fits no better than `largest`, another outcome tells by the share of the
        residual that is not seen on known ground; this one has that temperature, the other its own."""
        explained = 1 / np.maximum(self.misfit / usual_misfit(largest), 1.0)[:, None]
        both = explained * self._behind(temperature) + (1 - explained) * spare._behind(spare.temperature())
        return replace(self, evidence=np.where(self.misfit[:, None] > largest, both, self.evidence))

    def _behind(self, temperature: float) -> FloatArray:
        """How far classes are behind the best, no further than hopeless, (pixels, classes)."""
        behind = (self.evidence - self.evidence.max(1, keepdims=True)) / temperature
        return np.asarray(np.maximum(behind, -HOPELESS))

    def score(self, classes: int) -> float:
        """Average F1, in the light as it was and in other light alike."""
        predicted = self.evidence.argmax(1)
        halves = (self.plain, ~self.plain)
        return float(np.mean([average_f1(self.truth[h], predicted[h], classes) for h in halves]))

    def surprise(self, temperature: float) -> float:
        """Mean of -log p(y|x) of the true classes [nat]."""
        logits = np.maximum(self.evidence - self.evidence.max(1, keepdims=True), _LEAST) / temperature
        own = np.take_along_axis(logits, self.truth[:, None].astype(np.intp), axis=1)
        return float(np.mean(np.logaddexp.reduce(logits, axis=1, keepdims=True) - own))

    def temperature(self) -> float:
        """The temperature under which the probabilities of the true classes are highest."""
        return min(_TEMPERATURES, key=self.surprise)
