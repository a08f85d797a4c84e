"""What the exact land-cover decoder is made of: latent spectra, and what its residuals look like."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

UNKNOWN = 3.0
"""A spectrum counts as unknown from this many times the largest misfit of known ground on."""

STRANGE = 3.0
"""Misfit, in that of a spectrum that just counts as unknown, from which on its light is not that of any known
material either; less may still be one in light that the physics leaves out."""

_SPARE_DIRECTIONS = 64
"""Of three hundred bands, these tell the same of such spectra as all directions."""

HOPELESS = 7.0
"""A class this far behind in log probability has less than a thousandth of it: it is left out, and nobody's
word of it counts for more."""


@dataclass(frozen=True)
class NoiseModel:
    """What the residual of a spectrum looks like, and how far the posterior may be trusted."""

    floor: float = 0.001
    """Standard deviation of white noise whatever the signal [reflectance]."""
    relative: float = 0.03
    """White noise as a share of the root mean square of the spectrum [1]."""
    smooth: float = 0.02
    """Spectrally smooth deviation as a share of the signal [1]."""
    sky: float = 0.0
    """Deviation of the colour of skylight from the assumed one, as a share of the skylight [1]."""
    reflected: float = 0.0
    """Light sent by the surroundings, as a share of their mean reflectance [1]."""
    level: float = 0.065
    """How well the level of a latent spectrum is known [1]: slopes of the labelled ground are not."""
    temperature: float = 1.0
    """Divides log probabilities, so that confidences mean what they say; more for pixels that fit badly."""


@dataclass(frozen=True, eq=False)
class Library:
    """Latent reflectance spectra of every class."""

    spectra: tuple[FloatArray, ...]
    """Per class, (spectra of the class, bands) [reflectance]."""
    surroundings: FloatArray
    """Mean reflectance of the scene, (bands,): the colour of light sent by neighbours."""
    scatter: FloatArray | None = None
    """Covariance of ground about its class's spectrum, both divided by the root of their norm [reflectance],
    in the light that makes reflectance, (bands, bands); None where white noise and the tolerances say all."""
    directions: int | None = None
    """In so many beside those of the classes scatter is known one by one, in all others as white; None: in
    all. It is much faster with fewer than there are bands."""

    def as_spare(self) -> Library:
        """The same for spectra that are unlike every class or in dispute: few, and told by few directions."""
        return replace(self, directions=_SPARE_DIRECTIONS)


def smooth_basis(wavelength: FloatArray, terms: int = 4) -> FloatArray:
    """Legendre polynomials 1..terms in log wavelength, (bands, terms): slowly varying deviations."""
    position = np.log(wavelength)
    position = 2 * (position - position[0]) / max(position[-1] - position[0], 1e-9) - 1
    return np.stack([np.polynomial.Legendre.basis(k)(position) for k in range(1, terms + 1)], axis=1)


def usual_misfit(unknown_misfit: float) -> float:
    """The largest misfit of known ground, or what noise explains if that is less."""
    return min(unknown_misfit / UNKNOWN, 1.0)
