"""What held-out polygons tell: how far to trust each half, what is unlike labels, whether neighbours help.

Every polygon is held out once, and judged by a mixture that was fitted without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from p3vae.models.landcover.estimator import Frame
from p3vae.models.landcover.job import polygon_folds
from p3vae.models.landcover.library.mixture import Hypotheses, Mixture
from p3vae.models.landcover.neighbours import mean_of_neighbours
from p3vae.models.landcover.types import DoubtfulPolygon, TrainingSet

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]

_FOLDS = 5
_TEMPERATURES = tuple(float(t) for t in np.geomspace(1.0, 30.0, 18))
_ON_NEW_GROUND = 0.65
"""Power of the best temperature on held-out polygons: a map rests on more polygons than they did."""
_POLYGON_POWER = -0.5
"""Weight of a held-out pixel, as a power of the number of pixels of its polygon: between every pixel and
every polygon counting the same."""
_IN_DISTRIBUTION = 0.99
"""Share of held-out pixels that are not out-of-distribution."""
_LEAST_GAIN = 0.005
"""Of accuracy on held-out polygons, from which on neighbours count."""
_LEAST_PROBABILITY = 1e-3
"""Log loss is clipped here, so no pixel decides alone."""
_MOST_DOUBTFUL = 50


class Calibration(NamedTuple):
    """What was found."""

    temperatures: tuple[float, float]
    """Of the classifier and of the decoder."""
    ood_threshold: float
    """Squared Mahalanobis distance above which a spectrum is out-of-distribution."""
    averages_neighbours: bool
    doubtful: tuple[DoubtfulPolygon, ...]


@dataclass(frozen=True, eq=False)
class _Scored:
    """Labels of held-out samples, (samples,)."""

    truth: IntArray
    weight: FloatArray

    def log_loss(self, probability: FloatArray) -> float:
        """Weighted mean of −log p of the true class [nat]."""
        own = np.take_along_axis(probability, self.truth[:, None], axis=1)[:, 0]
        return float(np.average(-np.log(np.maximum(own, _LEAST_PROBABILITY)), weights=self.weight))

    def error(self, probability: FloatArray) -> float:
        """Weighted share of wrong samples [1]."""
        return float(np.average(probability.argmax(1) != self.truth, weights=self.weight))


def calibrate(data: TrainingSet, frame: Frame, on_step: Callable[[str], None]) -> Calibration:
    """Judge every polygon by the others."""
    fold = polygon_folds(data, len(frame.legend), _FOLDS, frame.settings.seed)
    order, own, around = [], [], []
    for number in range(_FOLDS):
        held = fold == number
        if not held.any():
            continue
        on_step(f"validating on held-out polygons, part {number + 1} of {_FOLDS}")
        mixture = Mixture.fit(data.subset(~held), frame)
        order.append(np.flatnonzero(held))
        own.append(mixture.hypotheses(torch.from_numpy(data.spectra[held]), frame.irradiance))
        if data.around is not None:
            around.append(_neighbours(mixture, data.subset(held), frame))
    if not order:
        return Calibration((1.0, 1.0), float(data.spectra.shape[1]), False, ())
    rows = np.concatenate(order)
    found = Hypotheses(*(torch.cat(part) for part in zip(*own, strict=True)))
    group, inverse, size = np.unique(data.group[rows], return_inverse=True, return_counts=True)
    scored = _Scored(data.class_index[rows], size[inverse].astype(np.float64) ** _POLYGON_POWER)
    temperatures = (_temperature(found.classifier, scored), _temperature(found.decoder, scored))
    probability = found.pooled(temperatures).double().numpy()
    averages = bool(around) and _neighbours_help(around, temperatures, probability, scored)
    threshold = float(np.quantile(found.distance.double().numpy(), _IN_DISTRIBUTION))
    doubtful = _doubtful(probability, scored.truth, group, inverse, frame.legend.names)
    return Calibration(temperatures, threshold, averages, doubtful)


def _temperature(logits: torch.Tensor, scored: _Scored) -> float:
    """Of the least log loss, for a map that rests on all polygons."""
    double = logits.double()
    best = min(_TEMPERATURES, key=lambda t: scored.log_loss((double / t).softmax(1).numpy()))
    return float(best**_ON_NEW_GROUND)


class _Around(NamedTuple):
    """The neighbours of held-out samples under a mixture that did not see these samples."""

    hypotheses: Hypotheses
    """Of the distinct pixels."""
    rows: npt.NDArray[np.int64]
    """(samples, 9): of `hypotheses`."""
    valid: npt.NDArray[np.bool_]
    """(samples, 9)."""


def _neighbours(mixture: Mixture, held: TrainingSet, frame: Frame) -> _Around:
    assert held.around is not None
    index = held.around.index
    rows, inverse = np.unique(np.maximum(index, 0), return_inverse=True)
    spectra = torch.from_numpy(held.around.spectra[rows])
    return _Around(mixture.hypotheses(spectra, frame.irradiance), inverse.reshape(index.shape), index >= 0)


def _neighbours_help(
    around: list[_Around], temperatures: tuple[float, float], alone: FloatArray, scored: _Scored
) -> bool:
    """Whether the mean over neighbours lowers both the log loss and, by `_LEAST_GAIN`, the error."""
    means, known = [], []
    for part in around:
        log = part.hypotheses.pooled(temperatures).log().numpy()
        mean, any_valid = mean_of_neighbours(log[part.rows], part.valid)
        means.append(mean)
        known.append(any_valid)
    shown = np.concatenate(known)
    if not shown.any():
        return False
    mean = np.exp(np.concatenate(means)[shown].astype(np.float64))
    mean /= mean.sum(1, keepdims=True)
    subset = _Scored(scored.truth[shown], scored.weight[shown])
    pixels = alone[shown]
    gain = subset.error(pixels) - subset.error(mean)
    return subset.log_loss(mean) < subset.log_loss(pixels) and gain > _LEAST_GAIN


def _doubtful(
    probability: FloatArray, truth: IntArray, group: IntArray, inverse: IntArray, names: tuple[str, ...]
) -> tuple[DoubtfulPolygon, ...]:
    """Polygons that are likelier of another class than of their own, by the mean over their pixels."""
    size = np.bincount(inverse)
    mean = np.stack([np.bincount(inverse, weights=p) for p in probability.T], 1) / size[:, None]
    label = np.empty(len(group), np.int64)
    label[inverse] = truth
    own, best = mean[np.arange(len(group)), label], mean.argmax(1)
    ranked = [k for k in np.argsort(own, kind="stable") if best[k] != label[k]][:_MOST_DOUBTFUL]
    return tuple(
        DoubtfulPolygon(int(group[k]), names[label[k]], names[best[k]], float(own[k]), int(size[k]))
        for k in ranked
    )
