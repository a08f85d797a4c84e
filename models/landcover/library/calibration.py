"""Noise and tolerances of the default land-cover model, chosen on polygons kept aside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls
from scipy.stats import median_abs_deviation

from p3vae.models.landcover.library.decoder import UNKNOWN, Library, NoiseModel
from p3vae.models.landcover.library.endmembers import explain
from p3vae.models.landcover.library.fit import fit_library, fit_scattered_library
from p3vae.models.landcover.library.illumination import Optics, relit_copies, sensor_noise
from p3vae.models.landcover.library.outcome import BoolArray, FloatArray, IntArray, Kept, Outcome
from p3vae.models.landcover.library.pseudo_labels import a_few, adopted, noisiness
from p3vae.models.landcover.types import TrainingSet, TrainingSettings

_TOLERANCES = (
    {"smooth": 0.0, "sky": 0.0, "reflected": 0.0},
    {"smooth": 0.003, "sky": 0.0, "reflected": 0.0},
    {"smooth": 0.0, "sky": 0.1, "reflected": 0.0},
    {"smooth": 0.003, "sky": 0.1, "reflected": 0.02},
)
"""Deviations to allow for, from none to the most forgiving."""
_WORTH_OF_SCATTER = 0.01
"""F1 on validation that a learned scatter must gain over a few exact spectra per class."""
_PRICE_OF_FORGIVING = 0.001
"""F1 on validation that forgiving more may cost: it blurs classes that differ only smoothly."""
_LOUDER = (2.0, 4.0)
"""Factors of the noise floor to try: noise is not as white as the model has it."""
_WORTH_OF_LOUDNESS = 0.001
"""F1 on validation that a higher floor must gain: it blurs classes in shadow."""
_PRICE_OF_ADOPTION = 0.01
"""Surprise on validation that adopted spectra may cost [nat]: there are few polygons, and most show no more
than the others do."""
_RELIT_COPIES = 3
_LOWEST_FLOOR = 5e-4
_MOST_PER_CLASS = 150
_UNFAMILIAR = 10.0
"""Residual variance, in units of the noise, of a material that was never seen."""
_LARGEST_QUANTILE = 0.99


@dataclass(frozen=True, eq=False)
class Validation:
    """Pixels kept aside, and what the posterior of a model that never saw them said, without a classifier."""

    truth: IntArray
    predicted: IntArray
    noise: NoiseModel
    unknown_misfit: float
    unfamiliar: float
    """Share of the pixels whose material no training polygon of their class shows."""
    scattered: bool = False
    """True when one spectrum per class and their scatter told classes best."""
    adopting: bool = False
    """True when spectra adopted from unlabelled pixels did no harm."""
    spare_noise: NoiseModel | None = None
    """Of one spectrum per class and their scatter, which tell what is unlike every class or in dispute; None
    where they tell everything."""
    sensor_noise: FloatArray | float = 0.0
    """Standard deviation of noise whatever the signal, per band or of all [reflectance]."""
    libraries: tuple[Library, ...] = ()
    """Per fold, of the kind that told classes best, from the other polygons alone."""


def validate(
    folds: Sequence[tuple[TrainingSet, TrainingSet]], classes: int, optics: Optics, settings: TrainingSettings
) -> Validation:
    """Choose the noise model on polygons kept aside, as they are and in other light.

    First whether scatter must be learned, by the physics alone: where every pixel is a mixture of its own,
    residuals do not tell noise. Else what to forgive and how loud the noise is, in light as scenes have it;
    and then, by all the pixels, as it is those of new materials that may gain, whether classes adopt spectra.
    Scatter still tells what is unlike all of them, with noise as loud as it needs in little light.
    """
    libraries = [fit_library(train, classes, optics, settings) for train, _ in folds]
    thinned = [[_thin(part, classes, settings.seed) for part in fold] for fold in folds]
    residuals = [
        (library, train.class_index, train.spectra.astype(np.float64))
        for library, (train, _) in zip(libraries, thinned, strict=True)
    ]
    base = replace(_white_noise(residuals, optics), level=_level_uncertainty(folds[0]))

    aside = [kept for _, kept in thinned]
    pure = _relit(libraries, aside, optics, settings.seed)
    flags = [_is_familiar(*kept[:3], base, optics) for kept in pure]
    familiar = np.concatenate([np.tile(flag, 1 + _RELIT_COPIES) for flag in flags])

    exam = _Exam(classes, optics, familiar)
    scattered = [fit_scattered_library(train, classes, optics) for train, _ in folds]
    loose = exam.trial(
        _seen_by(scattered, pure),
        NoiseModel(_LOWEST_FLOOR, relative=0.0, smooth=0.0, level=base.level),
    )
    is_scattered = loose.score > exam.forgiving(pure, base).score + _WORTH_OF_SCATTER
    if is_scattered:
        best, noise = loose, np.full(len(optics.wavelength), loose.noise.floor)
    else:
        noise = sensor_noise(residuals, optics)
        real = _relit(libraries, aside, optics, settings.seed, noise)
        best = exam.loud_enough(real, exam.forgiving(real, base))
    judged, largest = best.settled(familiar)
    adopting = settings.adoption and not is_scattered
    if adopting:
        grown = [
            adopted(library, train, judged, largest, optics, settings)
            for library, (train, _) in zip(libraries, folds, strict=True)
        ]
        more = exam.trial(_seen_by(grown, real), best.noise)
        surprise, before = (entry.outcome.surprise(judged.temperature) for entry in (more, best))
        adopting = surprise <= before + _PRICE_OF_ADOPTION
        if adopting:
            libraries, best = grown, more
            judged, largest = best.settled(familiar)
    outcome, spare_noise = best.outcome, None
    if not is_scattered:
        seen = _seen_by([library.as_spare() for library in scattered], real)
        spare = exam.loud_enough(seen, exam.trial(seen, loose.noise))
        outcome = outcome.rescued(spare.outcome, largest, judged.temperature)
        spare_noise = replace(spare.noise, temperature=spare.outcome.temperature())
    return Validation(
        truth=outcome.truth[outcome.plain],
        predicted=outcome.evidence[outcome.plain].argmax(1),
        noise=judged,
        scattered=is_scattered,
        adopting=adopting,
        spare_noise=spare_noise,
        sensor_noise=noise,
        unknown_misfit=largest,
        unfamiliar=float(1 - familiar.mean()),
        libraries=tuple(scattered if is_scattered else libraries),
    )


def _relit(
    libraries: Sequence[Library],
    aside: Sequence[TrainingSet],
    optics: Optics,
    seed: int,
    noise: FloatArray | None = None,
) -> list[Kept]:
    """The pixels kept aside in every fold, with copies in other light as `relit_copies` makes them."""
    found = []
    for library, kept in zip(libraries, aside, strict=True):
        plain, truth = kept.spectra.astype(np.float64), kept.class_index
        rng = np.random.default_rng(seed)
        copies = [relit_copies(plain, truth, library, optics, rng, noise) for _ in range(_RELIT_COPIES)]
        found.append(Kept(library, truth, plain, np.concatenate(copies)))
    return found


def _seen_by(libraries: Sequence[Library], pixels: Sequence[Kept]) -> list[Kept]:
    """The same pixels of every fold with other libraries."""
    return [kept._replace(library=library) for library, kept in zip(libraries, pixels, strict=True)]


class _Trial(NamedTuple):
    """One noise model on the pixels kept aside."""

    noise: NoiseModel
    outcome: Outcome
    score: float

    def settled(self, familiar: BoolArray) -> tuple[NoiseModel, float]:
        """The noise with its temperature, and the misfit beyond which a spectrum is unknown."""
        known = self.outcome.where(familiar)
        largest = float(np.quantile(known.misfit[known.plain], _LARGEST_QUANTILE)) * UNKNOWN
        return replace(self.noise, temperature=known.temperature()), largest


@dataclass(frozen=True, eq=False)
class _Exam:
    """Tries noise models; scores are of the pixels whose material is familiar."""

    classes: int
    optics: Optics
    familiar: BoolArray

    def trial(self, pixels: list[Kept], noise: NoiseModel) -> _Trial:
        outcome = Outcome.of(pixels, noise, self.optics)
        return _Trial(noise, outcome, outcome.where(self.familiar).score(self.classes))

    def forgiving(self, pixels: list[Kept], base: NoiseModel) -> _Trial:
        """The most forgiving of those that tell classes well enough."""
        tried = [self.trial(pixels, replace(base, **tolerance)) for tolerance in _TOLERANCES]
        enough = max(entry.score for entry in tried) - _PRICE_OF_FORGIVING
        return next(entry for entry in tried[::-1] if entry.score >= enough)

    def loud_enough(self, pixels: list[Kept], mild: _Trial) -> _Trial:
        """The quietest of those that tell classes well enough."""
        floors = [mild.noise.floor * factor for factor in _LOUDER]
        tried = [mild, *(self.trial(pixels, replace(mild.noise, floor=floor)) for floor in floors)]
        enough = max(entry.score for entry in tried) - _WORTH_OF_LOUDNESS
        return next(entry for entry in tried if entry.score >= enough)


def _is_familiar(
    library: Library, truth: IntArray, spectra: FloatArray, noise: NoiseModel, optics: Optics
) -> BoolArray:
    """False for pixels of a material that no training polygon shows: nothing can be calibrated on them."""
    familiar = np.ones(len(truth), dtype=np.bool_)
    for k in np.unique(truth):
        rows = truth == k
        familiar[rows] = noisiness(spectra[rows], library.spectra[int(k)], noise, optics) < _UNFAMILIAR
    return familiar if familiar.mean() > 0.1 else np.ones_like(familiar)


def _white_noise(trials: Sequence[tuple[Library, IntArray, FloatArray]], optics: Optics) -> NoiseModel:
    """Floor and relative white noise from the residuals of the own class, one equation per class."""
    rows, values = [], []
    for library, truth, spectra in trials:
        for k in np.unique(truth):
            pixels = spectra[truth == k]
            square = np.square(pixels).mean(1)
            residual = explain(pixels, library.spectra[int(k)], optics.light).misfit * square
            rows.append([1.0, float(np.median(square))])
            values.append(max(float(np.median(residual)), 1e-12))
    weight = 1.0 / np.asarray(values)
    solution, _ = nnls(np.asarray(rows) * weight[:, None], np.asarray(values) * weight)
    floor, relative = np.sqrt(solution)
    return NoiseModel(
        floor=float(np.clip(floor, _LOWEST_FLOOR, 0.02)), relative=float(np.clip(relative, 0.02, 0.2))
    )


def _level_uncertainty(parts: Sequence[TrainingSet]) -> float:
    """How well a pixel's brightness tells its light: the slope of labels is unknown, and ground has texture.

    Brightness varies within a polygon, which mostly lies on one slope, by texture alone.
    """
    spread = []
    for part in parts:
        brightness = np.log(np.linalg.norm(part.spectra, axis=1))
        polygons = [brightness[part.group == group] for group in np.unique(part.group)]
        spread += [float(median_abs_deviation(own, scale="normal")) for own in polygons if len(own) >= 5]
    return float(np.hypot(NoiseModel.level, np.median(spread) if spread else 0.0))


def _thin(data: TrainingSet, classes: int, seed: int) -> TrainingSet:
    rows = [a_few(np.flatnonzero(data.class_index == k), _MOST_PER_CLASS, seed) for k in range(classes)]
    keep = np.concatenate(rows)
    return replace(
        data, spectra=data.spectra[keep], class_index=data.class_index[keep], group=data.group[keep]
    )
