"""The exact posterior of a plume over a Gaussian-mixture background, on a grid of concentrations.

For component k the absorbing bands given the continuum code c are Gaussian with a mean linear in c (the
encoder of z_I and decoder f_I in one) and a fixed covariance S_k, so for concentration z

    p(a | c, k, z) = N(a; T(z) m_k(c), T(z) S_k T(z) + noise(z))

All matrices depend on (k, z, brightness bin) only: they are factorised once, pixels are matrix products.
The absorbing bands are first projected on the few directions in which background and plume exceed the noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from scipy.interpolate import CubicSpline
from torch import Tensor

from p3vae.models.methane.background.features import DARKEST, Features, PixelFeatures
from p3vae.models.methane.background.gaussian import Background

UPSAMPLING = 6
"""Log-posteriors are smooth: computed on the nodes, integrated on a grid this many times finer."""
LEARNING_BINS, BINS = 6, 7
"""Brightness values with noise tables of their own; for learning, a few will do."""
DARKER = (1 / 18, 1 / 6, 1 / 2)
"""Further bins, over the lowest of the training pixels: other pixels may lie in deep shadow."""
CHUNK = 2048
SIGNAL_FLOOR = 10.0
"""Directions of the absorbing bands in which the variance of the signal is less than this many times that of
the noise, on the brightest ground, are left out: the results stay, the time is halved."""
NEGLIGIBLE_LOG_SHARE = 5.0
"""Components whose continuum bands fit worse than the best by this in log-likelihood are left out."""


class Tables:
    """Dataclasses of tensors."""

    def to(self, device: str) -> Self:
        """The same numbers on another device, in single precision: not every one has double."""
        moved = {name: tensor.float().to(device) for name, tensor in vars(self).items()}
        return type(self)(**moved)


@dataclass(frozen=True, eq=False)
class ConcentrationGrid(Tables):
    """Concentrations [ppm m] at which the posterior is evaluated and those on which it is integrated."""

    nodes: Tensor
    fine: Tensor
    upsample: Tensor
    """(nodes, fine): cubic-spline interpolation as a matrix."""

    @classmethod
    def uniform(cls, low_ppm_m: float, high_ppm_m: float, nodes: int) -> ConcentrationGrid:
        """Equal steps from `low_ppm_m` to `high_ppm_m`."""
        coarse = np.linspace(low_ppm_m, high_ppm_m, nodes)
        fine = np.linspace(low_ppm_m, high_ppm_m, (nodes - 1) * UPSAMPLING + 1)
        matrix = CubicSpline(coarse, np.eye(nodes))(fine).T
        return cls(torch.as_tensor(coarse), torch.as_tensor(fine), torch.as_tensor(matrix))

    def summarise(self, log_posterior: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation [ppm m] of ln p(z | x) given on the nodes, (pixels, nodes)."""
        fine = log_posterior @ self.upsample.to(log_posterior.dtype)
        middle, half = float(self.fine.mean()), float(self.fine[-1] - self.fine[0]) / 2.0
        z = ((self.fine - middle) / half).to(fine.dtype)
        mean, square = (fine.softmax(1) @ torch.stack([z, z**2], 1)).unbind(1)
        variance = (square - mean**2).clamp(min=torch.finfo(mean.dtype).eps)
        return middle + half * mean, half * variance.sqrt()


def choose_brightness_bins(brightness: Tensor) -> tuple[Tensor, Tensor]:
    """Representative brightness values for which noise is tabulated: to learn with, and to invert with."""
    inner = torch.quantile(brightness.double(), torch.tensor([0.005, 0.99], dtype=torch.float64))
    low, high = torch.log10(inner.clamp(min=DARKEST)).tolist()
    few, usual = (torch.logspace(low, high, n, dtype=torch.float64) for n in (LEARNING_BINS, BINS))
    return few, torch.cat([usual[0] * torch.tensor(DARKER, dtype=torch.float64), usual])


def bin_of(brightness: Tensor, brightness_bins: Tensor) -> Tensor:
    """Index of the nearest tabulated brightness, (pixels,)."""
    middle = (brightness_bins[1:] * brightness_bins[:-1]).sqrt().to(brightness.dtype)
    return torch.bucketize(brightness, middle)


@dataclass(frozen=True, eq=False)
class PixelNoise:
    """What noise adds to the features of a pixel of some brightness; a plume of each node's concentration."""

    common: Tensor
    """(components, D, D): a pixel is divided by its own noisy brightness, which moves all bands together."""
    continuum: Tensor
    """(q, q)"""
    absorbing: Tensor
    """Variance, (components, nodes, absorbing bands)."""

    @classmethod
    def at(
        cls,
        brightness: float,
        background: Background,
        features: Features,
        transmittance: Tensor,
    ) -> PixelNoise:
        """`transmittance`: (nodes, absorbing bands)."""
        q, typical = background.continuum_size, _typical_spectrum(background, features)
        mean_continuum, mean_absorbing = background.mean[:, :q], background.mean[:, q:]
        whole = torch.cat([(features.centre @ features.basis).double() + mean_continuum, mean_absorbing], 1)
        common = features.brightness_variance(brightness, typical) * whole[:, :, None] * whole[:, None, :]
        seen = transmittance * mean_absorbing[:, None]
        absorbing = features.absorbing_noise(brightness, seen)
        return cls(common, features.continuum_noise(brightness, typical), absorbing)


@dataclass(frozen=True, eq=False)
class EvidenceTables(Tables):
    """Constants of ln p(x, k | z) for one background, one set of transmittances and one sun; float32.

    The first axes are brightness bins and components.
    """

    brightness_bins: Tensor
    """(bins,)"""
    continuum_constant: Tensor
    """Of ln p(continuum code, k), (bins, K)."""
    continuum_whitening: Tensor
    """(bins, K, q, q)"""
    continuum_mean: Tensor
    """(K, q)"""
    projection: Tensor
    """(absorbing bands, r): directions in which background or plume exceed the noise."""
    half_log_det: Tensor
    """(bins, K, nodes)"""
    misfit: Tensor
    """M (bins, K, r + q + 1, nodes * r): ln p of the absorbing bands is -|[a, c - mu, 1] M|²/2."""

    @classmethod
    def tabulate(
        cls,
        background: Background,
        features: Features,
        transmittance: Tensor,
        brightness_bins: Tensor,
    ) -> EvidenceTables:
        """`transmittance`: (nodes, absorbing bands)."""
        noises = [
            PixelNoise.at(float(value), background, features, transmittance) for value in brightness_bins
        ]
        rest = _regression(background, noises[-1])[2]
        projection = _signal_directions(background, transmittance, rest, noises[-1].absorbing)
        seen = transmittance[..., None] * projection
        parts = [_of_one_brightness(background, noise, seen, projection) for noise in noises]
        constant, whitening, half_log_det, misfit = (torch.stack(part) for part in zip(*parts, strict=True))
        mean = background.mean[:, : background.continuum_size].float()
        return cls(
            brightness_bins.float(), constant, whitening, mean, projection.float(), half_log_det, misfit
        )

    @property
    def nodes(self) -> int:
        """Number of concentrations."""
        return self.half_log_det.shape[2]

    def log_likelihood(self, spectra: PixelFeatures) -> Tensor:
        """ln p(x, k | z), (pixels, components, nodes), float32 relative to each pixel's maximum."""
        out = self._nothing(len(spectra), len(self.continuum_mean), self.nodes)
        for k, pixels, values in self._likely(spectra):
            out[pixels, k] = values
        return out - out.amax((1, 2), keepdim=True)

    def log_evidence(self, spectra: PixelFeatures) -> Tensor:
        """ln p(x | z), (pixels, nodes), marginal over components, up to a constant per pixel; float32."""
        out = self._nothing(len(spectra), self.nodes)
        for _, pixels, values in self._likely(spectra):
            out[pixels] = torch.logaddexp(out[pixels], values)
        return out - out.amax(1, keepdim=True)

    def _nothing(self, *shape: int) -> Tensor:
        return torch.full(shape, -torch.inf, device=self.misfit.device)

    def _likely(self, spectra: PixelFeatures) -> Iterator[tuple[int, Tensor, Tensor]]:
        """(component, pixels that may belong to it, ln p(x, k | z) on the nodes), a few at a time."""
        for brightness_bin, rows in groups(bin_of(spectra.brightness, self.brightness_bins)):
            for part in torch.split(rows, CHUNK):
                mine = spectra.at(part)
                log_continuum = self._log_continuum(brightness_bin, mine.continuum.float())
                likely = log_continuum > log_continuum.amax(0) - NEGLIGIBLE_LOG_SHARE
                for k in range(len(self.continuum_mean)):
                    near = torch.where(likely[k])[0]
                    if len(near):
                        fit = self._log_absorbing(brightness_bin, k, mine.at(near))
                        yield k, part[near], log_continuum[k, near][:, None] + fit

    def _log_continuum(self, brightness_bin: int, continuum: Tensor) -> Tensor:
        """ln p(continuum code, k), (components, pixels), up to a constant."""
        centred = continuum - self.continuum_mean[:, None]
        distance = torch.bmm(centred, self.continuum_whitening[brightness_bin].mT).square().sum(2)
        return self.continuum_constant[brightness_bin][:, None] - 0.5 * distance

    def _log_absorbing(self, brightness_bin: int, k: int, spectra: PixelFeatures) -> Tensor:
        """ln p(absorbing bands | continuum code, k, z), (pixels, nodes)."""
        continuum = spectra.continuum.float() - self.continuum_mean[k]
        absorbing = spectra.absorbing.float() @ self.projection
        seen = torch.cat([absorbing, continuum, torch.ones_like(continuum[:, :1])], 1)
        whitened = (seen @ self.misfit[brightness_bin, k]).view(len(seen), self.nodes, -1)
        misfit: Tensor = torch.linalg.vecdot(whitened, whitened)
        return -self.half_log_det[brightness_bin, k] - 0.5 * misfit


def _regression(background: Background, noise: PixelNoise) -> tuple[Tensor, Tensor, Tensor]:
    """Covariance of the continuum code, gain of the absorbing bands given it, what that leaves."""
    q, cov = background.continuum_size, background.covariance + noise.common
    continuum = cov[:, :q, :q] + noise.continuum
    gain = torch.linalg.solve(continuum, cov[:, :q, q:])
    return continuum, gain, cov[:, q:, q:] - cov[:, q:, :q] @ gain


def _of_one_brightness(
    background: Background, noise: PixelNoise, seen: Tensor, projection: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Constant and whitening of the continuum code, half log-determinants and matrices M, float32."""
    continuum, gain, rest = _regression(background, noise)
    whitening, log_det = _whitening(continuum)
    constant = torch.log(background.weight.clamp(min=1e-12)) - log_det
    total = torch.einsum("nbr,kbc,ncs->knrs", seen, rest, seen)
    total += torch.einsum("br,knb,bs->knrs", projection, noise.absorbing, projection)
    inverse, half_log_det = _whitening(total)
    mean = background.mean[:, None, background.continuum_size :]
    from_continuum = -torch.einsum("kqb,nbr,knsr->kqns", torch.cat([gain, mean], 1), seen, inverse)
    misfit = torch.cat([torch.einsum("knsr->krns", inverse), from_continuum], 1).flatten(2)
    return constant.float(), whitening.float(), half_log_det.float(), misfit.float()


def _signal_directions(background: Background, transmittance: Tensor, rest: Tensor, noise: Tensor) -> Tensor:
    """(absorbing bands, r): where background or plume exceed the noise of the brightest ground."""
    mean = background.mean[:, background.continuum_size :]
    second = rest + mean[:, :, None] * mean[:, None, :]
    light = transmittance.T @ transmittance / len(transmittance)
    signal = (background.weight[:, None, None] * second).sum(0) * light
    scale = noise.amin((0, 1)).sqrt()
    values, vectors = torch.linalg.eigh(signal / (scale[:, None] * scale))
    directions: Tensor = vectors[:, values > SIGNAL_FLOOR] / scale[:, None]
    return directions


def _whitening(covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Inverse Cholesky factor and half log-determinant."""
    factor = torch.linalg.cholesky(covariance)
    eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype).expand_as(covariance)
    inverse = torch.linalg.solve_triangular(factor, eye, upper=False)
    return inverse, torch.log(factor.diagonal(dim1=-2, dim2=-1)).sum(-1)


def groups(keys: Tensor) -> list[tuple[int, Tensor]]:
    """(key, rows) of every distinct key."""
    order = torch.argsort(keys)
    values, counts = torch.unique_consecutive(keys[order], return_counts=True)
    return list(zip(values.tolist(), torch.split(order, counts.tolist()), strict=True))


def _typical_spectrum(background: Background, features: Features) -> Tensor:
    """Mean radiance over brightness in all bands, for the size of photon noise, (bands,)."""
    out = torch.ones(len(features.noise.read), dtype=torch.float64)
    out[features.continuum_bands] = features.centre.double()
    mean = (background.weight[:, None] * background.mean[:, background.continuum_size :]).sum(0)
    out[features.absorbing_bands] = mean * features.unit
    return out
