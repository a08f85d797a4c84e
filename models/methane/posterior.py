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

import numpy as np
import torch
from scipy.interpolate import CubicSpline
from torch import Tensor

from p3vae.models.methane.background import Background, Moments, joint
from p3vae.models.methane.features import DARKEST, Features, PixelFeatures

UPSAMPLING = 6
"""Log-posteriors are smooth: computed on the nodes, integrated on a grid this many times finer."""
LEARNING_BINS, BINS = 6, 10
"""Brightness values with noise tables of their own; for learning, a few will do."""
DARKER = (1 / 18, 1 / 6, 1 / 2)
"""Further bins, over the lowest of the training pixels: other pixels may lie in deep shadow."""
CHUNK = 2048
SIGNAL_FLOOR = 10.0
"""Directions of the absorbing bands in which the variance of the signal is less than this many times that of
the noise, on the brightest ground, are left out: the results stay, the time is halved."""
NEGLIGIBLE_LOG_SHARE = 5.0
"""Components whose continuum bands fit worse than the best by this in log-likelihood are left out."""


@dataclass(frozen=True, eq=False)
class ConcentrationGrid:
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


def choose_brightness_bins(brightness: Tensor) -> tuple[Tensor, Tensor]:
    """Representative brightness values for which noise is tabulated: to learn with, and to invert with."""
    inner = torch.quantile(brightness.double(), torch.tensor([0.005, 0.99], dtype=torch.float64))
    low, high = torch.log10(inner.clamp(min=DARKEST)).tolist()
    few, usual = (torch.logspace(low, high, n, dtype=torch.float64) for n in (LEARNING_BINS, BINS))
    return few, torch.cat([usual[0] * torch.tensor(DARKER, dtype=torch.float64), usual])


@dataclass(frozen=True, eq=False)
class _ContinuumDensity:
    """p(continuum code), tabulated by brightness bin."""

    constant: Tensor
    """(bins, components)"""
    whitening: Tensor
    """(bins, components, q, q)"""
    mean: Tensor
    """(components, q)"""

    def log_components(self, brightness_bin: int, continuum: Tensor) -> Tensor:
        """ln p of codes (pixels, q) and each component up to a constant, (components, pixels)."""
        centred = continuum - self.mean[:, None]
        distance = torch.bmm(centred, self.whitening[brightness_bin].transpose(1, 2)).square().sum(2)
        return self.constant[brightness_bin][:, None] - 0.5 * distance


def _continuum_density(mixture: Background, noise: Tensor) -> _ContinuumDensity:
    """With noise (bins, components, q, q)."""
    q = mixture.continuum_size
    whitening, logdet = _whitening(mixture.covariance[:, :q, :q] + noise)
    constant = torch.log(mixture.weight.clamp(min=1e-12)) - logdet
    return _ContinuumDensity(constant.float(), whitening.float(), mixture.mean[:, :q].float())


class GridPosterior:
    """Tables for one background, one set of band transmittances and one sun."""

    def __init__(
        self,
        background: Background,
        features: Features,
        transmittance: Tensor,
        brightness_bins: Tensor,
        *,
        model_error: float = 0.0,
    ) -> None:
        """`transmittance` (nodes, absorbing bands); `model_error`: relative error of each optical depth."""
        self.background, self.transmittance, self.brightness_bins = background, transmittance, brightness_bins
        self.features, self.model_error = features, model_error
        q = background.continuum_size
        typical = _typical_spectrum(background, features)
        continuum_noise = torch.stack(
            [features.continuum_noise(float(value), typical) for value in brightness_bins]
        )
        mean_continuum, mean_absorbing = background.mean[:, :q], background.mean[:, q:]
        # a pixel is divided by its own noisy brightness, which moves all its bands together
        brightness_variance = torch.stack(
            [features.brightness_variance(float(value), typical) for value in brightness_bins]
        )
        whole = torch.cat([(features.centre @ features.basis).double() + mean_continuum, mean_absorbing], 1)
        common = brightness_variance[:, None, None, None] * whole[:, :, None] * whole[:, None, :]
        cov = background.covariance + common
        continuum = cov[:, :, :q, :q] + continuum_noise[:, None]
        self.continuum_density = _continuum_density(
            background, common[:, :, :q, :q] + continuum_noise[:, None]
        )
        gain = torch.linalg.solve(continuum, cov[:, :, :q, q:])
        rest = cov[:, :, q:, q:] - cov[:, :, q:, :q] @ gain
        noise = self._absorbing_noise()
        self.continuum_noise = continuum_noise
        self.projection = _signal_directions(background, transmittance, rest, noise)
        seen = transmittance[..., None] * self.projection
        total = torch.einsum("nbr,lkbc,ncs->lknrs", seen, rest, seen)
        total += torch.einsum("br,lknb,bs->lknrs", self.projection, noise, self.projection)
        whitening, logdet = _whitening(total)
        self.half_log_det = logdet.float()
        # ln p is -|[a, c - mu, 1] M|²/2, with one matrix M per bin, component and node
        predicted = torch.cat([gain, mean_absorbing[:, None].expand(len(brightness_bins), -1, -1, -1)], 2)
        from_continuum = -torch.einsum("lkqb,nbr,lknsr->lkqns", predicted, seen, whitening)
        from_absorbing = torch.einsum("lknsr->lkrns", whitening)
        self.misfit_table = torch.cat([from_absorbing, from_continuum], 2).flatten(3).float()

    def _absorbing_noise(self) -> Tensor:
        """Variance of the absorbing bands (bins, components, nodes, bands): not kept, it is large."""
        mean = self.transmittance * self.background.mean[:, None, self.background.continuum_size :]
        depth = -torch.log(self.transmittance.clamp(min=1e-30))
        noise = [self.features.absorbing_noise(float(value), mean) for value in self.brightness_bins]
        return torch.stack(noise) + (self.model_error * depth * mean) ** 2

    def bin_of(self, brightness: Tensor) -> Tensor:
        """Index of the nearest tabulated brightness, (pixels,)."""
        middle = (self.brightness_bins[1:] * self.brightness_bins[:-1]).sqrt().to(brightness.dtype)
        return torch.bucketize(brightness, middle)

    def log_likelihood(self, spectra: PixelFeatures) -> Tensor:
        """ln p(x, k | z), (pixels, components, nodes), float32 relative to each pixel's maximum."""
        out = torch.full((len(spectra), self.background.components, len(self.transmittance)), -torch.inf)
        for part, brightness_bin in self._parts(spectra):
            mine = spectra.at(part)
            for k, rows, values in self._likely(
                brightness_bin, mine, self._log_continuum(brightness_bin, mine)
            ):
                out[part[rows], k] = values
        return out - out.amax((1, 2), keepdim=True)

    def log_evidence(self, spectra: PixelFeatures) -> Tensor:
        """ln p(x | z), (pixels, nodes), marginal over components, up to a constant per pixel; float32."""
        out = torch.full((len(spectra), len(self.transmittance)), -torch.inf)
        for part, brightness_bin in self._parts(spectra):
            mine = spectra.at(part)
            log_continuum = self._log_continuum(brightness_bin, mine)
            for _, rows, values in self._likely(brightness_bin, mine, log_continuum):
                pixels = part[rows]
                out[pixels] = torch.logaddexp(out[pixels], values)
        return out - out.amax(1, keepdim=True)

    def _parts(self, spectra: PixelFeatures) -> Iterator[tuple[Tensor, int]]:
        """Pixels of one brightness, a few at a time, and its bin."""
        for brightness_bin, rows in _groups(self.bin_of(spectra.brightness)):
            for part in torch.split(rows, CHUNK):
                yield part, brightness_bin

    def _log_continuum(self, brightness_bin: int, spectra: PixelFeatures) -> Tensor:
        """ln p(continuum code, k), (components, pixels)."""
        return self.continuum_density.log_components(brightness_bin, spectra.continuum.float())

    def _likely(
        self, brightness_bin: int, spectra: PixelFeatures, log_continuum: Tensor
    ) -> Iterator[tuple[int, Tensor, Tensor]]:
        """(component, rows that may belong to it, ln p(x, k | z) of these on the nodes)."""
        continuum = spectra.continuum.float()
        absorbing = (spectra.absorbing @ self.projection.to(spectra.absorbing.dtype)).float()
        likely = log_continuum > log_continuum.amax(0) - NEGLIGIBLE_LOG_SHARE
        for k, mean in enumerate(self.continuum_density.mean):
            rows = torch.where(likely[k])[0]
            if len(rows) == 0:
                continue
            seen = torch.cat([absorbing[rows], continuum[rows] - mean, torch.ones(len(rows), 1)], 1)
            whitened = (seen @ self.misfit_table[brightness_bin, k]).view(
                len(rows), len(self.transmittance), -1
            )
            misfit = torch.linalg.vecdot(whitened, whitened)
            yield (
                k,
                rows,
                log_continuum[k, rows][:, None] - self.half_log_det[brightness_bin, k] - 0.5 * misfit,
            )

    def expectation(
        self, spectra: PixelFeatures, generator: torch.Generator, share: Tensor | None = None
    ) -> Moments:
        """Posterior moments of the background of pixels whose concentration is unknown.

        Each pixel's concentration is drawn from its posterior: with its mode instead, the background would
        be credited with too little variance in the direction of a plume. `share` (pixels, K') deals the
        pixels of a one-component background out to K' new components.
        """
        log_joint = self.log_likelihood(spectra)
        own = torch.logsumexp(log_joint, 2).softmax(1).double()
        uniform = torch.rand(log_joint.shape, generator=generator).clamp(min=1e-20)
        node = (log_joint - torch.log(-torch.log(uniform))).argmax(2)
        key = self.bin_of(spectra.brightness)[:, None] * len(self.transmittance) + node
        x = joint(spectra).double()
        weights = own if share is None else share
        moments, noise = Moments.zero(weights.shape[1], x.shape[1]), self._absorbing_noise()
        for target in range(weights.shape[1]):
            k = target if share is None else 0
            used = torch.where(weights[:, target] > 1e-3)[0]
            groups = _groups(key[used, k])
            if not groups:
                continue
            gains, lefts, means = self._gains(k, torch.tensor([group for group, _ in groups]), noise[:, k])
            for i, (_, rows) in enumerate(groups):
                pixels = used[rows]
                b = self.background.mean[k] + (x[pixels] - means[i]) @ gains[i]
                moments.add(target, weights[pixels, target], b, lefts[i])
        return moments

    def _gains(self, k: int, keys: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Regression of b on x, what it leaves unexplained, and the mean of x, per (bin, node)."""
        brightness_bin, node = keys // len(self.transmittance), keys % len(self.transmittance)
        q, mu, cov = self.background.continuum_size, self.background.mean[k], self.background.covariance[k]
        light = torch.cat([torch.ones(len(keys), q, dtype=torch.float64), self.transmittance[node]], 1)
        shared = light[:, :, None] * cov
        total = shared * light[:, None, :]
        total[:, :q, :q] += self.continuum_noise[brightness_bin]
        total.diagonal(dim1=1, dim2=2)[:, q:] += noise[brightness_bin, node]
        gain = torch.linalg.solve(total, shared)
        return gain, cov - shared.transpose(1, 2) @ gain, light * mu


def summarise(log_posterior: Tensor, grid: ConcentrationGrid) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation [ppm m] of ln p(z | x) given on the nodes, (pixels, nodes)."""
    fine = log_posterior @ grid.upsample.to(log_posterior.dtype)
    middle, half = float(grid.fine.mean()), float(grid.fine[-1] - grid.fine[0]) / 2.0
    z = ((grid.fine - middle) / half).to(fine.dtype)
    mean, square = (fine.softmax(1) @ torch.stack([z, z**2], 1)).unbind(1)
    variance = (square - mean**2).clamp(min=torch.finfo(mean.dtype).eps)
    return middle + half * mean, half * variance.sqrt()


def _signal_directions(background: Background, transmittance: Tensor, rest: Tensor, noise: Tensor) -> Tensor:
    """(absorbing bands, r): where background or plume exceed the noise of the brightest ground."""
    mean = background.mean[:, background.continuum_size :]
    second = rest[-1] + mean[:, :, None] * mean[:, None, :]
    light = transmittance.T @ transmittance / len(transmittance)
    signal = (background.weight[:, None, None] * second).sum(0) * light
    scale = noise[-1].amin((0, 1)).sqrt()
    values, vectors = torch.linalg.eigh(signal / (scale[:, None] * scale))
    directions: Tensor = vectors[:, values > SIGNAL_FLOOR] / scale[:, None]
    return directions


def _whitening(covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Inverse Cholesky factor and half log-determinant."""
    factor = torch.linalg.cholesky(covariance)
    eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype).expand_as(covariance)
    inverse = torch.linalg.solve_triangular(factor, eye, upper=False)
    return inverse, torch.log(factor.diagonal(dim1=-2, dim2=-1)).sum(-1)


def _groups(keys: Tensor) -> list[tuple[int, Tensor]]:
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
