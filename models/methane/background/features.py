"""Radiance as the methane model sees it: brightness, a continuum code, and absorbing bands."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from p3vae.models.methane.background.noise import SensorNoise

DARKEST = 1e-4
"""Brightness floor [W m-2 sr-1 um-1]: deep shadow and clear water send about ten times as much."""
FEWEST_CONTINUUM = 12
"""Where a feature set has fewer continuum bands than this, it takes all there are."""
BRIGHTNESS_NM = (1450.0, 2200.0)
"""Continuum bands in this range [nm] measure how bright the ground is in the short-wave infrared."""


@dataclass(frozen=True, eq=False)
class PixelFeatures:
    """Continuum bands, which methane does not absorb in, and absorbing bands of pixels."""

    brightness: Tensor
    """(pixels,) mean radiance of the continuum SWIR bands."""
    continuum: Tensor
    """(pixels, q) noise-whitened principal components of the continuum bands over brightness."""
    absorbing: Tensor
    """(pixels, absorbing bands) radiance over brightness, in units of `Features.unit`."""

    def __len__(self) -> int:
        return len(self.brightness)

    def joined(self, other: PixelFeatures) -> PixelFeatures:
        """These pixels, then those."""
        return PixelFeatures(
            torch.cat([self.brightness, other.brightness]),
            torch.cat([self.continuum, other.continuum]),
            torch.cat([self.absorbing, other.absorbing]),
        )

    def at(self, rows: Tensor) -> PixelFeatures:
        """Some of the pixels."""
        return PixelFeatures(self.brightness[rows], self.continuum[rows], self.absorbing[rows])


@dataclass(frozen=True, eq=False)
class Features:
    """A fixed linear map of spectra, chosen on plume-free pixels.

    Dividing by brightness makes the background of dark and bright ground alike, as reflectance multiplies;
    the noise then depends on brightness, which the posterior takes into account.
    """

    absorbing_bands: Tensor
    """Indices of the bands that see methane."""
    continuum_bands: Tensor
    brightness_bands: Tensor
    centre: Tensor
    """Mean of the continuum bands over brightness."""
    basis: Tensor
    """(continuum bands, q), noise whitening included."""
    unit: Tensor
    """(absorbing bands,) noise standard deviation over brightness at mean brightness."""
    noise: SensorNoise

    @classmethod
    def choose(
        cls,
        radiance: Tensor,
        noise: SensorNoise,
        absorbing: Tensor,
        wavelength_nm: Tensor,
        *,
        continuum_from_nm: float = 0.0,
        code_size: int = 24,
    ) -> Features:
        """From plume-free radiance (pixels, bands), the absorbing bands (mask) and their centres [nm].

        Continuum bands start at `continuum_from_nm`; `code_size` is the number of principal components.
        """
        continuum = torch.where(~absorbing & (wavelength_nm >= continuum_from_nm))[0]
        if len(continuum) < FEWEST_CONTINUUM:
            continuum = torch.where(~absorbing)[0]
        if len(continuum) < 3:
            raise ValueError("at least three bands without methane absorption are needed")
        swir = (wavelength_nm[continuum] >= BRIGHTNESS_NM[0]) & (wavelength_nm[continuum] <= BRIGHTNESS_NM[1])
        brightness_bands = continuum[swir] if swir.any() else continuum
        brightness = radiance[:, brightness_bands].mean(1)
        typical = radiance.mean(0)
        noise_std = noise.variance(typical).sqrt() / brightness.mean()
        shape = radiance / brightness[:, None]
        whitened = (shape[:, continuum] - shape[:, continuum].mean(0)) / noise_std[continuum]
        _, vectors = torch.linalg.eigh(whitened.T @ whitened / len(whitened))
        basis = vectors.flip(1)[:, :code_size] / noise_std[continuum][:, None]
        chosen = torch.where(absorbing)[0]
        return cls(
            chosen, continuum, brightness_bands, shape[:, continuum].mean(0), basis, noise_std[chosen], noise
        )

    def __call__(self, radiance: Tensor) -> PixelFeatures:
        """Split radiance (pixels, bands)."""
        brightness = radiance[:, self.brightness_bands].mean(1).clamp(min=DARKEST)
        inverse = 1.0 / brightness[:, None]
        continuum = (radiance[:, self.continuum_bands] * inverse - self.centre) @ self.basis
        return PixelFeatures(brightness, continuum, radiance[:, self.absorbing_bands] * inverse / self.unit)

    def continuum_noise(self, brightness: float, typical: Tensor) -> Tensor:
        """Covariance (q, q) of the continuum code; `typical` (bands,): radiance over brightness."""
        bands = self.continuum_bands
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

    def to(self, device: str | None = None, dtype: torch.dtype | None = None) -> Features:
        """The same map on another device, or in another floating-point type."""

        def moved(tensor: Tensor) -> Tensor:
            return tensor.to(device=device, dtype=dtype if tensor.is_floating_point() else None)

        noise = SensorNoise(moved(self.noise.read), moved(self.noise.shot))
        own = {name: moved(each) for name, each in vars(self).items() if isinstance(each, Tensor)}
        return replace(self, **own, noise=noise)
