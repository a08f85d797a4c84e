"""Radiance as the methane model sees it: brightness, a code of the clear bands, and the absorbing bands."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from p3vae.models.methane.noise import NoiseModel

DARKEST = 1e-4
"""Brightness floor [W m-2 sr-1 um-1]: deep shadow and clear water send about ten times as much."""
FEWEST_CLEAR = 12
"""Where a view has fewer clear bands than this, it takes all there are."""
BRIGHTNESS_NM = (1450.0, 2200.0)
"""Clear bands in this range [nm] measure how bright the ground is in the short-wave infrared."""


@dataclass(frozen=True, eq=False)
class Spectra:
    """Pixels split into what methane cannot touch and what it can."""

    brightness: Tensor
    """(pixels,) mean radiance of the clear SWIR bands."""
    clear: Tensor
    """(pixels, q) noise-whitened principal components of the clear bands over brightness."""
    absorbing: Tensor
    """(pixels, absorbing bands) radiance over brightness, in units of `Features.unit`."""

    def __len__(self) -> int:
        return len(self.brightness)

    def joined(self, other: Spectra) -> Spectra:
        """These pixels, then those."""
        return Spectra(
            torch.cat([self.brightness, other.brightness]),
            torch.cat([self.clear, other.clear]),
            torch.cat([self.absorbing, other.absorbing]),
        )

    def at(self, rows: Tensor) -> Spectra:
        """Some of the pixels."""
        return Spectra(self.brightness[rows], self.clear[rows], self.absorbing[rows])


@dataclass(frozen=True, eq=False)
class Features:
    """A fixed linear view of spectra, chosen on plume-free pixels.

    Dividing by brightness makes the background of dark and bright ground alike, as reflectance multiplies;
    the noise then depends on brightness, which the posterior takes into account.
    """

    absorbing_bands: Tensor
    """Indices of the bands that see methane."""
    clear_bands: Tensor
    brightness_bands: Tensor
    centre: Tensor
    """Mean of the clear bands over brightness."""
    basis: Tensor
    """(clear bands, q), noise whitening included."""
    unit: Tensor
    """(absorbing bands,) noise standard deviation over brightness at mean brightness."""
    noise: NoiseModel

    @classmethod
    def choose(
        cls,
        radiance: Tensor,
        noise: NoiseModel,
        absorbing: Tensor,
        wavelength_nm: Tensor,
        *,
        clear_from_nm: float = 0.0,
        code_size: int = 24,
    ) -> Features:
        """From plume-free radiance (pixels, bands), the absorbing bands (mask) and their centres [nm].

        Clear bands from `clear_from_nm` on; beyond `code_size` principal components plain noise is left.
        """
        clear = torch.where(~absorbing & (wavelength_nm >= clear_from_nm))[0]
        if len(clear) < FEWEST_CLEAR:
            clear = torch.where(~absorbing)[0]
        if len(clear) < 3:
            raise ValueError("at least three bands without methane absorption are needed")
        swir = (wavelength_nm[clear] >= BRIGHTNESS_NM[0]) & (wavelength_nm[clear] <= BRIGHTNESS_NM[1])
        brightness_bands = clear[swir] if swir.any() else clear
        brightness = radiance[:, brightness_bands].mean(1)
        typical = radiance.mean(0)
        noise_std = noise.variance(typical).sqrt() / brightness.mean()
        shape = radiance / brightness[:, None]
        whitened = (shape[:, clear] - shape[:, clear].mean(0)) / noise_std[clear]
        _, vectors = torch.linalg.eigh(whitened.T @ whitened / len(whitened))
        basis = vectors.flip(1)[:, :code_size] / noise_std[clear][:, None]
        chosen = torch.where(absorbing)[0]
        return cls(chosen, clear, brightness_bands, shape[:, clear].mean(0), basis, noise_std[chosen], noise)

    def __call__(self, radiance: Tensor) -> Spectra:
        """Split radiance (pixels, bands)."""
        brightness = radiance[:, self.brightness_bands].mean(1).clamp(min=DARKEST)
        inverse = 1.0 / brightness[:, None]
        clear = (radiance[:, self.clear_bands] * inverse - self.centre) @ self.basis
        return Spectra(brightness, clear, radiance[:, self.absorbing_bands] * inverse / self.unit)

    def clear_noise(self, brightness: float, typical: Tensor) -> Tensor:
        """Covariance (q, q) of the clear code; `typical` (bands,): radiance over brightness."""
        bands = self.clear_bands
        variance = self.noise.variance(typical * brightness)[bands] / brightness**2
        return self.basis.T @ (variance[:, None] * self.basis)

    def brightness_variance(self, brightness: float, typical: Tensor) -> Tensor:
        """Relative variance of the measured brightness [1]; `typical` (bands,): radiance over brightness."""
        noise = self.noise.variance(typical * brightness)[self.brightness_bands]
        return noise.mean() / len(noise) / brightness**2

    def absorbing_noise(self, brightness: float, background: Tensor) -> Tensor:
        """Variance of a signal (..., absorbing bands) at a brightness, all in feature units."""
        scale = self.unit * brightness
        noise = self.noise.select(self.absorbing_bands)
        return noise.variance(background * scale) / scale**2

    def to(self, dtype: torch.dtype) -> Features:
        """The same view in another floating-point type."""
        return Features(
            self.absorbing_bands,
            self.clear_bands,
            self.brightness_bands,
            self.centre.to(dtype),
            self.basis.to(dtype),
            self.unit.to(dtype),
            NoiseModel(self.noise.read.to(dtype), self.noise.shot.to(dtype)),
        )
