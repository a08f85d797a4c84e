"""How a scene saw its ground: smooth gain, haze and excess noise, three latents that all its pixels share.

    x = g ⊙ x_home + o + e,     g = 1 + Σ gᵢ φᵢ,     o = Σ oⱼ ψⱼ,     e ~ N(0, excess noise)

φ are cosines along the spectrum, ψ light scattered into the path: two decays from the blue, and a constant.
All coefficients are Gaussian. They are estimated by EM under the classes of a model, from a few pixels of the
scene, and counted from those of the scene that the model was trained on, its home: what labels do not cover
cancels. Noise is the variance of second differences along the spectrum, in excess of that at home.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

FloatArray = npt.NDArray[np.floating[Any]]

_COSINES = 7
_DECAYS_NM = (150.0, 400.0)
_BLUE_NM = 400.0
_CONSTANT = 0.3
"""Of the constant offset, so that one prior serves all offsets [1]."""
_PRIOR_STD = np.array([0.02, *(0.03 / (1 + k / 2) for k in range(_COSINES - 1)), 0.015, 0.015, 0.015])
"""Of the coefficients of φ [1] and of ψ [reflectance]. Mixing and season change brightness too: the constant
gain has a narrow prior."""
_STEPS = 6
_SOFT = 4.0
"""Divisor of log-odds in responsibilities."""
_ONE_DRAW = 20.0
"""Pixels from which on a class counts fully: what it looks like in a scene is about one draw."""
_FEWEST = 5.0
"""Expected pixels of a class below which it says nothing."""
_FLATTENED = 0.05
"""Share of the pixels that are spread evenly over the classes in the frequencies of classes."""
_LEAST_GAIN = 0.3
_TO_STD = 1.4826
"""Standard deviation of a Gaussian over its median absolute deviation."""
_AT_EDGE = 5.0
"""Prior standard deviations from which on a fit says that the scene cannot be reconciled."""


class Classes(NamedTuple):
    """Gaussian classes with one covariance."""

    mean: FloatArray
    """(classes, bands) [reflectance]."""
    covariance: FloatArray
    """(bands, bands) [reflectance²]."""


@dataclass(frozen=True, eq=False)
class Basis:
    """φ and ψ at the bands of a model."""

    gains: FloatArray
    """(cosines, bands)."""
    offsets: FloatArray
    """(offsets, bands)."""

    @classmethod
    def at(cls, wavelength_nm: FloatArray) -> Self:
        """At these wavelengths."""
        span = max(float(np.ptp(wavelength_nm)), 1.0)
        position = (wavelength_nm - wavelength_nm.min()) / span
        decays = [np.exp(-(wavelength_nm - _BLUE_NM) / length) for length in _DECAYS_NM]
        constant = np.full(len(wavelength_nm), _CONSTANT)
        return cls(np.cos(np.pi * np.arange(_COSINES)[:, None] * position), np.stack([*decays, constant]))

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return len(self.gains) + len(self.offsets)

    def select(self, columns: npt.NDArray[np.integer[Any]]) -> Basis:
        """At some of the bands."""
        return Basis(self.gains[:, columns], self.offsets[:, columns])

    def gain(self, coefficients: FloatArray) -> FloatArray:
        """g, (bands,)."""
        return np.maximum(1 + coefficients[:_COSINES] @ self.gains, _LEAST_GAIN)

    def offset(self, coefficients: FloatArray) -> FloatArray:
        """o, (bands,) [reflectance]."""
        return np.asarray(coefficients[_COSINES:] @ self.offsets)

    def undone(self, spectra: FloatArray, coefficients: FloatArray) -> FloatArray:
        """Spectra (pixels, bands) as their home would have seen them."""
        return np.asarray((spectra - self.offset(coefficients)) / self.gain(coefficients))


def fitted_coefficients(spectra: FloatArray, classes: Classes, basis: Basis) -> FloatArray:
    """Coefficients of φ and ψ, by EM, from pixels of a scene (pixels, bands)."""
    precision = np.linalg.inv(classes.covariance)
    weights = precision @ classes.mean.T
    bias = -0.5 * (classes.mean.T * weights).sum(0)
    found: FloatArray = np.zeros(len(_PRIOR_STD))
    count_of = len(classes.mean)
    frequency = np.full(count_of, 1 / count_of)
    for _ in range(_STEPS):
        seen = basis.undone(spectra, found)
        logits = seen @ weights + bias
        distance = np.maximum(((seen @ precision) * seen).sum(1) - 2 * logits.max(1), 0)
        share = _softmax(logits / _SOFT + np.log(frequency))
        share /= np.maximum(distance / max(float(np.median(distance)), 1e-12), 1)[:, None]
        count, spread = share.sum(0), _FLATTENED * len(spectra)
        frequency = (count + spread / count_of) / (count.sum() + spread)
        left, right = np.diag(1 / _PRIOR_STD**2), np.zeros(len(_PRIOR_STD))
        for k in np.flatnonzero(count > _FEWEST):
            jacobian = np.concatenate([classes.mean[k] * basis.gains, basis.offsets])
            weight = count[k] / (count[k] + _ONE_DRAW)
            left += weight * jacobian @ precision @ jacobian.T
            right += weight * jacobian @ precision @ (share[:, k] @ spectra / count[k] - classes.mean[k])
        found = np.linalg.solve(left, right)
    return found


def _softmax(logits: FloatArray) -> FloatArray:
    share = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(share / share.sum(1, keepdims=True))


def noise_variance(spectra: FloatArray) -> FloatArray:
    """Of each band, (bands,) [reflectance²]: two thirds of the robust variance of second differences."""
    if spectra.shape[1] < 3:
        return np.zeros(spectra.shape[1])
    second = spectra[:, 1:-1] - (spectra[:, :-2] + spectra[:, 2:]) / 2
    spread = np.square(_TO_STD * np.median(np.abs(second - np.median(second, 0)), 0)) / 1.5
    return np.concatenate([spread[:1], spread, spread[-1:]])


@dataclass(frozen=True, eq=False)
class Home:
    """The scenes a model was trained on."""

    coefficients: FloatArray
    """(scenes, coefficients)."""
    noise: FloatArray
    """(scenes, bands) [reflectance²]."""
    digests: tuple[str, ...]
    """SHA-256 of the pixels that each was judged by: a scene with the same is the scene itself."""

    @classmethod
    def of(cls, samples: Sequence[FloatArray], classes: Classes, basis: Basis) -> Self:
        """From pixels (pixels, bands) of each scene."""
        found = [fitted_coefficients(one.astype(np.float64), classes, basis) for one in samples]
        noise = [noise_variance(one.astype(np.float64)) for one in samples]
        return cls(np.stack(found), np.stack(noise), tuple(digest_of(one) for one in samples))

    def tensors(self) -> dict[str, Tensor]:
        """For storage; the digests belong to the card."""
        return {"coefficients": torch.as_tensor(self.coefficients), "noise": torch.as_tensor(self.noise)}

    @classmethod
    def restore(cls, tensors: Mapping[str, Tensor], digests: Sequence[str]) -> Self:
        """The home of these tensors."""
        return cls(tensors["coefficients"].numpy(), tensors["noise"].numpy(), tuple(digests))


@dataclass(frozen=True, eq=False)
class SceneState:
    """How a scene differs from the home of a model."""

    gain: FloatArray
    """(bands,) [1]."""
    offset: FloatArray
    """(bands,) [reflectance]."""
    excess_noise: FloatArray
    """Variance, (bands,) [reflectance²]."""
    noise_ratio: float
    """Standard deviation of the noise over that at home, median of the bands [1]."""
    reconciled: bool
    """False where the fit is at the edge of its prior: then nothing is corrected."""

    @classmethod
    def found(cls, spectra: FloatArray, home: Home, classes: Classes, basis: Basis) -> Self | None:
        """From pixels (pixels, bands) of the scene; None where it is the training scene itself."""
        if digest_of(spectra) in home.digests:
            return None
        pixels = spectra.astype(np.float64)
        fitted = fitted_coefficients(pixels, classes, basis)
        away = (fitted - home.coefficients) / _PRIOR_STD
        nearest = int(np.square(away).sum(1).argmin())
        difference = fitted - home.coefficients[nearest]
        if np.abs(away[nearest]).max() >= _AT_EDGE:
            flat = np.ones(spectra.shape[1])
            return cls(flat, 0 * flat, 0 * flat, 1.0, reconciled=False)
        noise, at_home = noise_variance(basis.undone(pixels, difference)), home.noise[nearest]
        ratio = np.sqrt(noise / np.maximum(at_home, np.finfo(np.float64).tiny))
        return cls(
            basis.gain(difference),
            basis.offset(difference),
            np.maximum(noise - at_home, 0),
            float(np.median(ratio)),
            reconciled=True,
        )


def digest_of(spectra: FloatArray) -> str:
    """SHA-256 of pixels, in hexadecimal."""
    return hashlib.sha256(np.ascontiguousarray(spectra, dtype=np.float32).tobytes()).hexdigest()
