"""Decoder of the default land-cover model: latent spectra from the labels, noise from polygons kept aside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import nnls
from scipy.stats import median_abs_deviation
from sklearn.covariance import ledoit_wolf

from p3vae.models.decoder_parts import STRANGE, Library, NoiseModel
from p3vae.models.landcover_light import Optics, relit_copies, sensor_noise
from p3vae.models.landcover_types import TrainingSet, TrainingSettings
from p3vae.models.library import anchored_spectra, explain, levelled_spectra, refined_spectra
from p3vae.models.metrics import average_f1
from p3vae.models.unlabelled import a_few, adopted, is_usual, noisiness, sure_pixels

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.integer[Any]]
_Kept = tuple[Library, IntArray, FloatArray, FloatArray]
"""A library, and the classes, spectra and relit copies of pixels that it never saw."""

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
_TEMPERATURES = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 30.0, 50.0)
_MOST_PER_CLASS = 150
_MOST_LEVELLING = 400
_HOPELESS = -20.0
_UNFAMILIAR = 10.0
"""Residual variance, in units of the noise, of a material that was never seen."""
_UNKNOWN_QUANTILE, _UNKNOWN_MARGIN = 0.99, 3.0


@dataclass(frozen=True, eq=False)
class Validation:
    """Pixels kept aside, and what the model that never saw them said."""

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
    """Of one spectrum per class and their scatter, if that tells what is unlike every class; None else."""
    sensor_noise: FloatArray | float = 0.0
    """Standard deviation of noise whatever the signal, per band or of all [reflectance]."""
    libraries: tuple[Library, ...] = ()
    """Per fold, of the kind that told classes best, from the other polygons alone."""


def fit_library(data: TrainingSet, classes: int, optics: Optics, settings: TrainingSettings) -> Library:
    """Latent spectra of every class as labels show them; unlabelled pixels set their level, and nothing else
    unless the stop-gradient is off."""
    light, seed = optics.light, settings.seed
    labelled = [data.spectra[data.class_index == k].astype(np.float64) for k in range(classes)]
    everything = np.concatenate([data.spectra, data.unlabelled])
    surroundings = everything.mean(0).astype(np.float64)
    spectra = [anchored_spectra(pixels, light, settings.spectra_per_class, seed) for pixels in labelled]
    spectra = [
        refined_spectra(start, pixels, np.ones(len(pixels)), light)
        for start, pixels in zip(spectra, labelled, strict=True)
    ]
    if not optics.physics:
        return Library(tuple(spectra), surroundings)
    start, rough = Library(tuple(spectra), surroundings), NoiseModel()
    found = sure_pixels(data.unlabelled, start, rough, optics, seed)
    for k, (pixels, extra) in enumerate(zip(labelled, found, strict=True)):
        own = a_few(pixels, _MOST_LEVELLING, seed)
        usual = is_usual(extra, own, spectra[k], rough, optics)
        both = np.concatenate([own, extra[usual]])
        if not settings.stop_gradient and len(extra):
            spectra[k] = refined_spectra(spectra[k], both, np.ones(len(both)), light, rounds=4)
        spectra[k] = levelled_spectra(spectra[k], both, light, optics.cos_zenith)
    return Library(tuple(spectra), surroundings)


def fit_scattered_library(data: TrainingSet, classes: int, optics: Optics) -> Library:
    """One spectrum per class and how labelled pixels scatter about it.

    For scenes where every pixel is a mixture of its own and few pure materials explain none. The covariance
    of pixels divided by the root of their norm is shrunk by Ledoit and Wolf (2004).
    """
    spectra, residuals = [], []
    for k in range(classes):
        pixels = data.spectra[data.class_index == k].astype(np.float64)
        root = np.sqrt(np.linalg.norm(pixels, axis=1, keepdims=True))
        centre = (pixels / root).mean(0)
        residuals.append(pixels / root - centre)
        mean = centre[None] * root.mean()
        spectra.append(levelled_spectra(mean, pixels, optics.light, optics.cos_zenith))
    scatter = ledoit_wolf(np.concatenate(residuals), assume_centered=True)[0]
    return Library(
        tuple(spectra), np.concatenate([data.spectra, data.unlabelled]).mean(0, np.float64), scatter
    )


def validate(
    folds: Sequence[tuple[TrainingSet, TrainingSet]], classes: int, optics: Optics, settings: TrainingSettings
) -> Validation:
    """Choose the noise model on polygons kept aside, as they are and in other light.

    First whether scatter must be learned, by the physics alone: where every pixel is a mixture of its own,
    residuals do not tell noise. Else what to forgive and how loud the noise is, in light as scenes have it;
    and then, by all the pixels, as it is those of new materials that may gain, whether classes adopt spectra
    and whether scatter tells what is unlike all of them.
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

    def trial(pixels: list[_Kept], noise: NoiseModel) -> _Trial:
        outcome = _Outcome.of(pixels, noise, optics)
        return _Trial(noise, outcome, outcome.where(familiar).score(classes))

    def forgiving(pixels: list[_Kept]) -> _Trial:
        tried = [trial(pixels, replace(base, **tolerance)) for tolerance in _TOLERANCES]
        enough = max(entry.score for entry in tried) - _PRICE_OF_FORGIVING
        return next(entry for entry in tried[::-1] if entry.score >= enough)

    scattered = [fit_scattered_library(train, classes, optics) for train, _ in folds]
    loose = trial(
        _seen_by(scattered, pure),
        NoiseModel(_LOWEST_FLOOR, relative=0.0, smooth=0.0, level=base.level),
    )
    is_scattered = loose.score > forgiving(pure).score + _WORTH_OF_SCATTER
    if is_scattered:
        best, noise = loose, np.full(len(optics.wavelength), loose.noise.floor)
    else:
        noise = sensor_noise(residuals, optics)
        real = _relit(libraries, aside, optics, settings.seed, noise)
        mild = forgiving(real)
        loud = [trial(real, replace(mild.noise, floor=mild.noise.floor * factor)) for factor in _LOUDER]
        enough = max(entry.score for entry in (mild, *loud)) - _WORTH_OF_LOUDNESS
        best = next(entry for entry in (mild, *loud) if entry.score >= enough)
    judged, largest = best.settled(familiar)
    adopting = settings.adoption and not is_scattered
    if adopting:
        grown = [
            adopted(library, train, judged, largest, optics, settings)
            for library, (train, _) in zip(libraries, folds, strict=True)
        ]
        more = trial(_seen_by(grown, real), best.noise)
        surprise, before = (entry.outcome.surprise(judged.temperature) for entry in (more, best))
        adopting = surprise <= before + _PRICE_OF_ADOPTION
        if adopting:
            libraries, best = grown, more
            judged, largest = best.settled(familiar)
    outcome, spare_noise = best.outcome, None
    if not is_scattered:
        spare = trial(_seen_by(scattered, real), loose.noise).outcome
        both = outcome.rescued(spare, STRANGE * largest)
        if both.score(classes) >= outcome.score(classes) - _PRICE_OF_FORGIVING:
            outcome, spare_noise = both, replace(loose.noise, temperature=spare.temperature())
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
) -> list[_Kept]:
    """The pixels kept aside in every fold, with copies in other light as `relit_copies` makes them."""
    found = []
    for library, kept in zip(libraries, aside, strict=True):
        plain, truth = kept.spectra.astype(np.float64), kept.class_index
        rng = np.random.default_rng(seed)
        copies = [relit_copies(plain, truth, library, optics, rng, noise) for _ in range(_RELIT_COPIES)]
        found.append((library, truth, plain, np.concatenate(copies)))
    return found


def _seen_by(libraries: Sequence[Library], pixels: Sequence[_Kept]) -> list[_Kept]:
    """The same pixels of every fold with other libraries."""
    return [(library, *kept[1:]) for library, kept in zip(libraries, pixels, strict=True)]


class _Trial(NamedTuple):
    """One noise model on the pixels kept aside."""

    noise: NoiseModel
    outcome: _Outcome
    score: float

    def settled(self, familiar: npt.NDArray[np.bool_]) -> tuple[NoiseModel, float]:
        """The noise with its temperature, and the misfit beyond which a spectrum is unknown."""
        known = self.outcome.where(familiar)
        largest = float(np.quantile(known.misfit[known.plain], _UNKNOWN_QUANTILE)) * _UNKNOWN_MARGIN
        return replace(self.noise, temperature=known.temperature()), largest


def _is_familiar(
    library: Library, truth: IntArray, spectra: FloatArray, noise: NoiseModel, optics: Optics
) -> npt.NDArray[np.bool_]:
    """False for pixels of a material that no training polygon shows: nothing can be calibrated on them."""
    familiar = np.ones(len(truth), dtype=np.bool_)
    for k in np.unique(truth):
        rows = truth == k
        familiar[rows] = noisiness(spectra[rows], library.spectra[int(k)], noise, optics) < _UNFAMILIAR
    return familiar if familiar.mean() > 0.1 else np.ones_like(familiar)


@dataclass(frozen=True, eq=False)
class _Outcome:
    """Evidence (pixels, classes) of validation pixels, `plain` ones and relit ones."""

    truth: IntArray
    evidence: FloatArray
    misfit: FloatArray
    plain: npt.NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        trials: Sequence[_Kept],
        noise: NoiseModel,
        optics: Optics,
    ) -> _Outcome:
        truths, evidences, misfits, plains = [], [], [], []
        for library, truth, plain, relit in trials:
            solver = optics.solver(library, noise)
            for spectra, is_plain in ((plain, True), (relit, False)):
                found = solver.solve(torch.as_tensor(spectra, dtype=torch.float32))
                truths.append(np.tile(truth, len(spectra) // len(truth)))
                evidences.append(found.log_evidence.double().numpy())
                misfits.append(found.misfit.numpy())
                plains.append(np.full(len(spectra), is_plain))
        parts = [np.concatenate(part) for part in (truths, evidences, misfits, plains)]
        return cls(parts[0], parts[1], parts[2], parts[3])

    def where(self, rows: npt.NDArray[np.bool_]) -> _Outcome:
        """The outcome of some pixels."""
        return _Outcome(self.truth[rows], self.evidence[rows], self.misfit[rows], self.plain[rows])

    def rescued(self, spare: _Outcome, largest: float) -> _Outcome:
        """The same, but what fits no better than `largest` is told as another outcome has it."""
        strange = self.misfit > largest
        return replace(self, evidence=np.where(strange[:, None], spare.evidence, self.evidence))

    def score(self, classes: int) -> float:
        """Average F1, in the light as it was and in other light alike."""
        predicted = self.evidence.argmax(1)
        halves = (self.plain, ~self.plain)
        return float(np.mean([average_f1(self.truth[h], predicted[h], classes) for h in halves]))

    def temperature(self) -> float:
        """The temperature under which the probabilities of the true classes are highest."""
        return min(_TEMPERATURES, key=self.surprise)

    def surprise(self, temperature: float) -> float:
        """Mean of -log p(y|x) of the true classes [nat]."""
        logits = np.maximum(self.evidence - self.evidence.max(1, keepdims=True), _HOPELESS) / temperature
        own = np.take_along_axis(logits, self.truth[:, None].astype(np.intp), axis=1)
        return float(np.mean(np.log(np.exp(logits).sum(1, keepdims=True)) - own))


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
