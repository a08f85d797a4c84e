"""What held-out polygons choose, and what unlabelled pixels tell: the few numbers a library leaves open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from p3vae.models.landcover.job import polygon_folds
from p3vae.models.landcover.library.decoder import FloatArray, LightPrior, SpectralLibrary
from p3vae.models.landcover.library.endmembers import Variability, fit_library
from p3vae.models.landcover.library.solver import PosteriorSolver
from p3vae.models.landcover.types import TrainingSet

CANDIDATES = (Variability(1, 0.0), Variability(4, 0.005), Variability(8, 0.005))
"""To choose from, the simplest first."""
_TOLERANCE = 0.5
"""Standard errors by which the loss of a simpler choice may exceed the least."""
_TEMPERATURES = tuple(float(t) for t in np.geomspace(1.0, 30.0, 16))
_REPEATS = 6
"""Random folds of held-out polygons."""
_KNOWN_GROUND, _NEW_GROUND = 3, 2
"""Polygons of a class from which on whole ones are held out: to choose what classes vary by, each material
of a class must be learned from; to choose how confident to be, the held-out ground must be new."""
_IN_DISTRIBUTION = 0.99
"""Share of held-out pixels that are not out-of-distribution."""
_LEAST_PROBABILITY = 1e-3
"""Log loss is clipped here, so no pixel decides alone."""
_UNLABELLED = 2000
_EM_STEPS = 30
_LEAST_WEIGHT = 1e-3


@dataclass(frozen=True, eq=False)
class Calibration:
    """What was chosen."""

    variability: Variability
    temperature: float
    ood_threshold: float
    """Squared Mahalanobis distance above which a spectrum is out-of-distribution."""


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """Held-out pixels under libraries that were fitted without them."""

    log_likelihood: FloatArray
    """(pixels, components, classes)."""
    distance: FloatArray
    truth: npt.NDArray[np.integer[Any]]
    polygon: npt.NDArray[np.integer[Any]]
    """Numbered from 0."""

    def losses(self, weight: FloatArray, temperature: float, ood_threshold: float = np.inf) -> FloatArray:
        """Log loss of each pixel [nat], given weights of the components."""
        logits = np.logaddexp.reduce(self.log_likelihood + np.log(weight)[:, None], axis=1) / temperature
        own = np.take_along_axis(logits, self.truth[:, None], axis=1)[:, 0]
        known = 1 / np.maximum(self.distance / ood_threshold, 1)
        probability = (
            known * np.exp(own - np.logaddexp.reduce(logits, axis=1)) + (1 - known) / logits.shape[1]
        )
        return np.asarray(-np.log(np.maximum(probability, _LEAST_PROBABILITY)))

    def polygon_sums(self, loss: FloatArray) -> FloatArray:
        """Sums of a loss (pixels,) over each polygon, (polygons,)."""
        return np.asarray(np.bincount(self.polygon, weights=loss), dtype=np.float64)

    def polygon_means(self, loss: FloatArray) -> FloatArray:
        """Means of a loss (pixels,) over each polygon, (polygons,)."""
        return self.polygon_sums(loss) / np.bincount(self.polygon)


def _simplest(losses: Sequence[FloatArray]) -> int:
    """The first of some losses, (polygons,) each, that is close to the least.

    The standard error of a difference is over polygons: pixels of one are not independent.
    """
    least = min(losses, key=np.mean)
    excesses = (loss - least for loss in losses)
    close = (e.mean() <= _TOLERANCE * e.std() / np.sqrt(len(e)) for e in excesses)
    return next(number for number, is_close in enumerate(close) if is_close)


def scene_weights(
    log_likelihood: FloatArray, *, class_prior: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Weights of light components and classes of pixels, (components,) and (classes,), by EM.

    `log_likelihood` is (pixels, components, classes). Given `class_prior`, classes keep it.
    """
    _, components, classes = log_likelihood.shape
    weight = np.full(components, 1 / components)
    chance = np.full(classes, 1 / classes) if class_prior is None else class_prior
    for _ in range(_EM_STEPS):
        joint = log_likelihood + np.log(weight)[:, None] + np.log(chance)
        share = np.exp(joint - joint.max((1, 2), keepdims=True))
        share /= share.sum((1, 2), keepdims=True)
        weight = _normalised(share.sum(2).mean(0))
        if class_prior is None:
            chance = _normalised(share.sum(1).mean(0))
    return weight, chance


def _normalised(weight: FloatArray) -> FloatArray:
    weight = np.maximum(weight, _LEAST_WEIGHT)
    return np.asarray(weight / weight.sum())


def fitted_prior(
    library: SpectralLibrary, data: TrainingSet, light: FloatArray, cos_zenith: float, seed: int
) -> LightPrior:
    """The light prior of a scene, from its unlabelled pixels; from labelled ones if there are no others."""
    prior = LightPrior.broad(cos_zenith)
    log_likelihood = scene_likelihood(library, prior, data, light, seed)
    classes = len(library.mean)
    return replace(prior, weight=scene_weights(log_likelihood, class_prior=np.full(classes, 1 / classes))[0])


def scene_likelihood(
    library: SpectralLibrary, prior: LightPrior, data: TrainingSet, light: FloatArray, seed: int
) -> FloatArray:
    """Log-likelihood of some of the scene's pixels, (pixels, components, classes)."""
    pool = data.unlabelled if len(data.unlabelled) else data.spectra
    rows = np.random.default_rng(seed).permutation(len(pool))[:_UNLABELLED]
    found = PosteriorSolver.build(library, prior, light).log_likelihood(torch.from_numpy(pool[rows]))
    return found.double().numpy()


@dataclass(frozen=True, eq=False)
class _Problem:
    """What to choose for."""

    data: TrainingSet
    classes: int
    light: FloatArray
    """a and b, (2, bands)."""
    cos_zenith: float
    fraction: float
    """Share of polygons to hold out."""
    seed: int

    def prior(self, variability: Variability) -> LightPrior:
        """The scene's light under the library of all labels."""
        library = fit_library(self.data, self.classes, variability, self.seed)
        return fitted_prior(library, self.data, self.light, self.cos_zenith, self.seed)

    def held_out(self, variability: Variability, prior: LightPrior, fewest: int) -> _HeldOut | None:
        """Held-out pixels as they are and relit; None if there are none."""
        data, rng = self.data, np.random.default_rng(self.seed)
        folds = polygon_folds(data, self.classes, self.fraction, _REPEATS, self.seed, fewest=fewest)
        likelihoods, distances = [], []
        for fold in folds:
            rest = replace(data, spectra=data.spectra[~fold], class_index=data.class_index[~fold])
            library = fit_library(rest, self.classes, variability, self.seed)
            solver = PosteriorSolver.build(library, prior, self.light)
            spectra = torch.from_numpy(data.spectra[fold])
            relit = spectra * torch.from_numpy(
                (prior.sample(len(spectra), rng) @ self.light).astype(np.float32)
            )
            for seen in (spectra, relit):
                likelihoods.append(solver.log_likelihood(seen).double().numpy())
                distances.append(solver.solve(seen).distance.double().numpy())
        if not folds:
            return None
        rows = np.concatenate([np.tile(np.flatnonzero(fold), 2) for fold in folds])
        return _HeldOut(
            np.concatenate(likelihoods),
            np.concatenate(distances),
            data.class_index[rows],
            np.unique(data.group[rows], return_inverse=True)[1],
        )


def calibrate(
    data: TrainingSet,
    classes: int,
    light: FloatArray,
    cos_zenith: float,
    fraction: float,
    seed: int,
    on_step: Callable[[str], None],
) -> Calibration:
    """Choose by the log loss of held-out polygons, as they are and relit.

    First what classes vary by: every polygon counts the same, and each candidate has its best temperature.
    Then the temperature: every pixel counts the same, as in a map. Of choices that are about as good, the
    simplest is taken, as in the one-standard-error rule of Breiman et al. (1984).
    """
    problem = _Problem(data, classes, light, cos_zenith, fraction, seed)
    priors, tried, losses = [], [], []
    for candidate in CANDIDATES:
        on_step(f"validating {candidate}")
        prior = problem.prior(candidate)
        known = problem.held_out(candidate, prior, _KNOWN_GROUND)
        if known is None:
            return Calibration(CANDIDATES[0], 1.0, float(data.spectra.shape[1]))
        of_polygons = (known.polygon_means(known.losses(prior.weight, t)) for t in _TEMPERATURES)
        priors.append(prior)
        tried.append(known)
        losses.append(min(of_polygons, key=np.mean))
    chosen = _simplest(losses)
    prior, variability = priors[chosen], CANDIDATES[chosen]
    threshold = float(np.quantile(tried[chosen].distance, _IN_DISTRIBUTION))
    on_step("validating confidence on new ground")
    new = problem.held_out(variability, prior, _NEW_GROUND)
    assert new is not None
    sums = [new.polygon_sums(new.losses(prior.weight, t, threshold)) for t in _TEMPERATURES]
    return Calibration(variability, _TEMPERATURES[_simplest(sums)], threshold)
