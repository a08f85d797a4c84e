"""Optimal estimation with an in-scene background (Rodgers 2000).

F(z) = b T(z), b the plume-free pixel nearest in the bands without absorption, scaled to the same brightness.
K = dF/dz = -AMF tau'(u) F;  z <- z + (K'Se^-1 K + Sa^-1)^-1 [K'Se^-1 (y - F) - Sa^-1 (z - za)], and the
posterior variance is that inverse. Se: covariance of plume-free pixels around their own nearest neighbour.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from p3vae.models.methane.background.covariance import shrunk_covariance
from p3vae.models.methane.types import MethaneEstimate, PlumeOptics

ITERATIONS = 12
LIBRARY_PIXELS = 4000
CHUNK = 2048


@dataclass(frozen=True, eq=False)
class OptimalEstimation:
    """A library of plume-free pixels and the error covariance they imply."""

    optics: PlumeOptics
    library: Tensor
    """(pixels, bands) plume-free radiance."""
    whitening: Tensor
    """Inverse Cholesky factor of Se of the absorbing bands, relative to brightness."""
    prior_mean: float
    prior_std: float

    @classmethod
    def fit(
        cls, radiance: Tensor, optics: PlumeOptics, *, prior_mean: float, prior_std: float
    ) -> OptimalEstimation:
        """From plume-free radiance (pixels, bands); prior of the enhancement [ppm m]."""
        step = max(1, len(radiance) // LIBRARY_PIXELS)
        library = radiance.double()[::step]
        absorbing = optics.absorbing
        code, brightness = _code(library, absorbing)
        nearest = _nearest(code, code, skip_self=True)
        scale = (brightness / brightness[nearest])[:, None]
        error = (library - library[nearest] * scale)[:, absorbing] / brightness[:, None]
        covariance, _ = shrunk_covariance(error - error.mean(0))
        factor = torch.linalg.cholesky(covariance)
        eye = torch.eye(len(factor), dtype=torch.float64)
        whitening = torch.linalg.solve_triangular(factor, eye, upper=False)
        return cls(optics, library, whitening, prior_mean, prior_std)

    def invert(self, radiance: Tensor, detector_column: Tensor | None = None) -> MethaneEstimate:
        """Enhancements of radiance (pixels, bands)."""
        parts = torch.split(radiance.double(), CHUNK)
        columns = [None] * len(parts) if detector_column is None else torch.split(detector_column, CHUNK)
        return MethaneEstimate.concatenate(
            [self._invert_chunk(part, column) for part, column in zip(parts, columns, strict=True)]
        )

    def forward_model(
        self, background: Tensor, ppm_m: Tensor, detector_column: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """F and K = dF/dz [radiance per ppm m], (pixels, bands), of a background (pixels, bands)."""
        column = ppm_m * self.optics.air_mass_factor
        depth, slope = self.optics.curves.depth_and_slope(column, detector_column)
        radiance = background * torch.exp(-depth)
        return radiance, -self.optics.air_mass_factor * slope * radiance

    def _invert_chunk(self, radiance: Tensor, detector_column: Tensor | None) -> MethaneEstimate:
        absorbing = self.optics.absorbing
        code, brightness = _code(radiance, absorbing)
        library_code, library_brightness = _code(self.library, absorbing)
        nearest = _nearest(code, library_code)
        background = self.library[nearest] / library_brightness[nearest][:, None]
        observed = (radiance / brightness[:, None])[:, absorbing] @ self.whitening.T
        precision = 1.0 / self.prior_std**2
        z = torch.full_like(brightness, self.prior_mean)
        information = torch.zeros_like(z)
        for _ in range(ITERATIONS):
            f, k = self.forward_model(background, z, detector_column)
            f, k = f[:, absorbing] @ self.whitening.T, k[:, absorbing] @ self.whitening.T
            information = (k * k).sum(1)
            gradient = (k * (observed - f)).sum(1) - precision * (z - self.prior_mean)
            z = (z + gradient / (information + precision)).clamp(
                -self.optics.max_ppm_m, 2.0 * self.optics.max_ppm_m
            )
        variance = 1.0 / (information + precision)
        return MethaneEstimate(z, variance.sqrt(), information * variance)


def _code(radiance: Tensor, absorbing: Tensor) -> tuple[Tensor, Tensor]:
    """Shape of the continuum bands, and their mean radiance."""
    clear = radiance[:, ~absorbing]
    brightness = clear.mean(1)
    return clear / brightness[:, None], brightness


def _nearest(code: Tensor, library: Tensor, *, skip_self: bool = False) -> Tensor:
    """Index of the nearest library row, Euclidean."""
    distance = torch.cdist(code, library)
    if skip_self:
        distance.fill_diagonal_(torch.inf)
    return distance.argmin(1)
