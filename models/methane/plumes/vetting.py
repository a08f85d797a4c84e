"""Whether the spectrum of a plume is that of methane, or that of ground unlike the rest.

The absorbing bands of plume-free pixels are regressed on their continuum bands (all ln L). What that leaves
of a plume's mean spectrum, r, is explained in two ways, by generalised least squares with the covariance of
plume-free pixels over their effective number:

    methane   r = a ln T(z) + line,                      a >= 0, z the enhancements found
    ground    r = up to two absorption or reflection features of free place, width, sign + line

The features stand for whatever a carbonate, clay, paint or plastic shows at a sensor's resolution. The score
is the difference of the log-likelihoods, each less its number of parameters times half of ln(bands) (Schwarz
1978, 10.1214/aos/1176344136); for ground, with the number of features that does best, none included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from p3vae.models.methane.background.covariance import shrunk_covariance
from p3vae.models.methane.plumes.prior import IntArray, error_correlation
from p3vae.models.methane.types import PlumeOptics

CONTINUUM_NM = 1000.0
"""Continuum bands below [nm] say little of the short-wave infrared."""
DARKEST_SHARE = 1e-3
"""Of the mean radiance: darker pixels are raised to it before their logarithm is taken."""
RIDGE = 1e-3
"""Of the variance of the continuum bands, added to it in the regression."""
CENTRE_STEP_NM = 10.0
WIDTHS_NM = (30.0, 45.0, 70.0, 100.0, 150.0)
"""Full widths at half maximum of the features of ground [nm]."""
FEATURES = 2
FEATURE_PARAMETERS = 3
"""Place, width, strength."""
SURE = 3.0
"""Log-likelihood ratio beyond which a spectrum is named: twenty to one."""


@dataclass(frozen=True)
class LogRatio:
    """ln of the likelihood of methane over that of ground."""

    found: float
    expected: float
    """Of a plume as strong whose spectrum is methane's without noise."""

    @property
    def name(self) -> str:
        """What the spectrum is that of."""
        return "methane" if self.found > SURE else "ground" if self.found < -SURE else "undecided"

    @property
    def speaks_against(self) -> bool:
        """Whether methane would have been recognised and was not."""
        return self.expected > SURE >= self.found


@dataclass(frozen=True, eq=False)
class SpectrumTest:
    """The regression and the alternatives of one scene."""

    optics: PlumeOptics
    absorbing: Tensor
    """Indices of the absorbing bands."""
    continuum: Tensor
    floor: Tensor
    """Least radiance (bands,) whose logarithm is taken."""
    gain: Tensor
    """(continuum bands + 1, absorbing bands)"""
    whitening: Tensor
    """Inverse Cholesky factor of C."""
    correlation: float
    """Of residuals of neighbours, in the direction of methane [1]."""

    @classmethod
    def learn(cls, plume_free: Tensor, optics: PlumeOptics, row: IntArray, col: IntArray) -> SpectrumTest:
        """From plume-free radiance (pixels, bands) and the pixels' places."""
        absorbing = torch.where(optics.absorbing)[0]
        continuum = torch.where(~optics.absorbing & (optics.wavelength_nm >= CONTINUUM_NM))[0]
        floor = DARKEST_SHARE * plume_free.double().mean(0)
        log = torch.log(torch.maximum(plume_free.double(), floor))
        known, seen = _with_one(log[:, continuum]), log[:, absorbing]
        square = known.T @ known
        variance = known[:, :-1].var(0).mean()
        square.diagonal()[:-1] += RIDGE * variance * len(known) / max(len(continuum), 1)
        gain = torch.linalg.solve(square, known.T @ seen)
        residual = seen - known @ gain
        covariance, _ = shrunk_covariance(residual)
        filtered = residual @ torch.linalg.solve(covariance, optics.slope[absorbing])
        correlation = error_correlation((filtered / filtered.std()).numpy(), row, col)
        factor = torch.linalg.cholesky(covariance)
        eye = torch.eye(len(factor), dtype=torch.float64)
        whitening = torch.linalg.solve_triangular(factor, eye, upper=False)
        return cls(optics, absorbing, continuum, floor, gain, whitening, correlation)

    def log_ratio(self, radiance: Tensor, ppm_m: Tensor) -> LogRatio:
        """From a plume's pixels: radiance (pixels, bands) and enhancement (pixels,)."""
        log = torch.log(torch.maximum(radiance.double(), self.floor))
        residual = log[:, self.absorbing] - _with_one(log[:, self.continuum]) @ self.gain
        effective = len(residual) / (1.0 + (len(residual) - 1) * self.correlation)
        seen = self._free(effective**0.5 * residual.mean(0))
        columns = self.optics.detector_columns
        optics = self.optics if columns is None else self.optics.of_columns(0, columns)
        light = optics.transmittance(ppm_m.double().clamp(min=1.0))[:, self.absorbing]
        methane = self._free(effective**0.5 * torch.log(light).mean(0))
        return LogRatio(self._compared(seen, methane), self._compared(methane, methane))

    def _compared(self, seen: Tensor, methane: Tensor) -> float:
        penalty = float(np.log(len(self.absorbing)))
        explained = float(_explained(seen, methane[None])[0]) - penalty
        return 0.5 * (explained - self._ground(seen, FEATURE_PARAMETERS * penalty))

    def _free(self, spectrum: Tensor) -> Tensor:
        """Whitened spectra (..., bands), without the straight line that either explanation may have."""
        nm = self.optics.wavelength_nm[self.absorbing]
        line = torch.stack([torch.ones_like(nm), (nm - nm.mean()) / 500.0]) @ self.whitening.T
        basis = torch.linalg.qr(line.T)[0]
        white = spectrum @ self.whitening.T
        left: Tensor = white - white @ basis @ basis.T
        return left

    def _ground(self, mean: Tensor, penalty: float) -> float:
        """Explained by none, one or more features, the best first, less `penalty` for each."""
        nm = self.optics.wavelength_nm[self.absorbing]
        centre = torch.arange(float(nm.min()), float(nm.max()), CENTRE_STEP_NM, dtype=torch.float64)
        sigma = torch.tensor(WIDTHS_NM, dtype=torch.float64)[:, None, None] / 2.35482
        shapes = self._free(torch.exp(-0.5 * ((nm - centre[:, None]) / sigma) ** 2).flatten(0, 1))
        totals = [0.0]
        for _ in range(FEATURES):
            gained = torch.maximum(_explained(mean, shapes), _explained(mean, -shapes))
            best = int(gained.argmax())
            totals.append(totals[-1] + float(gained[best]) - penalty)
            unit = shapes[best] / shapes[best].norm()
            mean, shapes = mean - (mean @ unit) * unit, shapes - (shapes @ unit)[:, None] * unit
        return max(totals)


def _with_one(log: Tensor) -> Tensor:
    return torch.cat([log, torch.ones_like(log[:, :1])], 1)


def _explained(mean: Tensor, shapes: Tensor) -> Tensor:
    """Squared length of `mean` along each of `shapes` (n, bands), if it points that way."""
    norm = torch.linalg.vector_norm(shapes, dim=1)
    along = torch.where(norm > 1e-6 * norm.amax(), (shapes @ mean) / norm.clamp(min=1e-30), 0.0)
    return along.clamp(min=0.0).square()
