"""The exact posterior of a plume over a Gaussian-mixture background, on a grid of concentrations.

For component k the absorbing bands given the clear code c are Gaussian with a mean linear in c (the encoder
of z_I and the decoder f_I in one) and a fixed covariance S_k, so for concentration z

    p(a | c, k, z) = N(a; T(z) m_k(c), T(z) S_k T(z) + noise(z))

All matrices depend on (k, z, brightness level) only: they are factorised once, pixels are matrix products.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from scipy.interpolate import CubicSpline
from torch import Tensor

from p3vae.models.methane_background import Background, Moments, joint
from p3vae.models.methane_features import Features, Spectra

UPSAMPLING = 3
"""Log-posteriors are smooth: computed on the nodes, integrated on a grid this many times finer."""
LEVELS = 4
CHUNK = 512
NEGLIGIBLE_LOG_SHARE = 7.0
"""Components whose clear bands fit worse than the best by this in log-likelihood are left out."""


@dataclass(frozen=True, eq=False)
class Grid:
    """Concentrations [ppm m] at which the posterior is evaluated and those on which it is integrated."""

    nodes: Tensor
    fine: Tensor
    upsample: Tensor
    """(nodes, fine): cubic-spline interpolation as a matrix."""

    @classmethod
    def uniform(cls, low_ppm_m: float, high_ppm_m: float, nodes: int) -> Grid:
        """Equal steps from `low_ppm_m` to `high_ppm_m`."""
        coarse = np.linspace(low_ppm_m, high_ppm_m, nodes)
        fine = np.linspace(low_ppm_m, high_ppm_m, (nodes - 1) * UPSAMPLING + 1)
        matrix = CubicSpline(coarse, np.eye(nodes))(fine).T
        return cls(torch.as_tensor(coarse), torch.as_tensor(fine), torch.as_tensor(matrix))

    @classmethod
    def plume_free(cls) -> Grid:
        """Zero, and nothing else."""
        zero = torch.zeros(1, dtype=torch.float64)
        return cls(zero, zero, torch.ones(1, 1, dtype=torch.float64))


def brightness_levels(brightness: Tensor) -> Tensor:
    """Representative brightness values for which noise is tabulated, (levels,)."""
    inner = torch.quantile(brightness, torch.tensor([0.01, 0.99], dtype=brightness.dtype)).clamp(min=1e-6)
    low, high = torch.log10(inner).tolist()
    return torch.logspace(low, high, LEVELS, dtype=torch.float64)


class GridPosterior:
    """Tables for one background, one set of band transmittances and one sun."""

    def __init__(
        self,
        background: Background,
        features: Features,
        transmittance: Tensor,
        levels: Tensor,
        *,
        model_error: float = 0.0,
        predictive: bool = False,
    ) -> None:
        """`transmittance` (nodes, absorbing bands); `model_error`: relative error of each optical depth.

        `predictive` widens components that few plume-free pixels support (for results, not for learning).
        """
        self.background, self.transmittance, self.levels = background, transmittance, levels
        q = background.clear_size
        typical = _typical_spectrum(background, features)
        clear_noise = torch.stack([features.clear_noise(float(level), typical) for level in levels])
        cov = background.covariance
        mean_clear, mean_absorbing = background.mean[:, :q], background.mean[:, q:]
        clear = cov[None, :, :q, :q] + clear_noise[:, None]
        gain = torch.linalg.solve(clear, cov[None, :, :q, q:].expand(len(levels), -1, -1, -1))
        rest = cov[None, :, q:, q:] - cov[None, :, q:, :q] @ gain
        if predictive:
            rest = rest * background.widening[:, None, None]
        mean = transmittance * mean_absorbing[:, None]
        depth = -torch.log(transmittance.clamp(min=1e-30))
        noise = torch.stack([features.absorbing_noise(float(level), mean) for level in levels])
        self.noise = noise + (model_error * depth * mean) ** 2
        self.clear_noise = clear_noise
        light = transmittance[:, :, None] * transmittance[:, None, :]
        total = rest[:, :, None] * light + torch.diag_embed(self.noise)
        clear_whitening, clear_logdet = _whitening(clear)
        whitening, logdet = _whitening(total)
        clear_constant = torch.log(background.weight.clamp(min=1e-12)) - clear_logdet
        constant = clear_constant[..., None] - logdet
        self.clear_constant = clear_constant.float()
        self.tables = tuple(
            t.float()
            for t in (clear_whitening, gain, mean_clear, mean_absorbing, whitening, transmittance, constant)
        )

    def level_of(self, brightness: Tensor) -> Tensor:
        """Index of the nearest tabulated brightness, (pixels,)."""
        middle = (self.levels[1:] * self.levels[:-1]).sqrt().to(brightness.dtype)
        return torch.bucketize(brightness, middle)

    def log_likelihood(self, spectra: Spectra) -> Tensor:
        """ln p(x, k | z), (pixels, components, nodes), float32 relative to each pixel's maximum."""
        out = torch.full((len(spectra), self.background.components, len(self.transmittance)), -torch.inf)
        for part, k, rows, values in self._pieces(spectra):
            out[part[rows], k] = values
        return out - out.amax((1, 2), keepdim=True)

    def log_evidence(self, spectra: Spectra) -> Tensor:
        """ln p(x | z) with the components summed, (pixels, nodes), float32 up to a constant per pixel."""
        out = torch.full((len(spectra), len(self.transmittance)), -torch.inf)
        for part, _, rows, values in self._pieces(spectra):
            pixels = part[rows]
            out[pixels] = torch.logaddexp(out[pixels], values)
        return out - out.amax(1, keepdim=True)

    def _pieces(self, spectra: Spectra) -> Iterator[tuple[Tensor, int, Tensor, Tensor]]:
        """(pixels of a chunk, component, rows of the chunk, ln p(x, k | z) of these rows on the nodes)."""
        for level, rows in _groups(self.level_of(spectra.brightness)):
            for part in torch.split(rows, CHUNK):
                for k, used, values in self._at_level(level, spectra.at(part)):
                    yield part, k, used, values

    def _at_level(self, level: int, spectra: Spectra) -> Iterator[tuple[int, Tensor, Tensor]]:
        clear_whitening, gain, mean_clear, mean_absorbing, whitening, light, constant = self.tables
        clear, absorbing = spectra.clear.float(), spectra.absorbing.float()
        centred = clear - mean_clear[:, None]
        distance = torch.bmm(centred, clear_whitening[level].transpose(1, 2)).square().sum(2)
        log_clear = self.clear_constant[level][:, None] - 0.5 * distance
        likely = log_clear > log_clear.amax(0) - NEGLIGIBLE_LOG_SHARE
        for k in range(len(distance)):
            rows = torch.where(likely[k])[0]
            if len(rows) == 0:
                continue
            predicted = mean_absorbing[k] + centred[k, rows] @ gain[level, k]
            residual = absorbing[rows] - light[:, None] * predicted
            misfit = torch.bmm(residual, whitening[level, k].transpose(1, 2)).square().sum(2)
            yield k, rows, constant[level, k] - 0.5 * (distance[k, rows][:, None] + misfit.T)

    def expectation(
        self, spectra: Spectra, generator: torch.Generator, share: Tensor | None = None
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
        key = self.level_of(spectra.brightness)[:, None] * len(self.transmittance) + node
        x = joint(spectra).double()
        weights = own if share is None else share
        moments = Moments.zero(weights.shape[1], x.shape[1])
        for target in range(weights.shape[1]):
            k = target if share is None else 0
            used = torch.where(weights[:, target] > 1e-3)[0]
            groups = _groups(key[used, k])
            if not groups:
                continue
            gains, lefts, means = self._gains(k, torch.tensor([group for group, _ in groups]))
            for i, (_, rows) in enumerate(groups):
                pixels = used[rows]
                b = self.background.mean[k] + (x[pixels] - means[i]) @ gains[i]
                moments.add(target, weights[pixels, target], b, lefts[i])
        return moments

    def _gains(self, k: int, keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Regression of b on x, what it leaves unexplained, and the mean of x, per (level, node) key."""
        level, node = keys // len(self.transmittance), keys % len(self.transmittance)
        q, mu, cov = self.background.clear_size, self.background.mean[k], self.background.covariance[k]
        light = torch.cat([torch.ones(len(keys), q, dtype=torch.float64), self.transmittance[node]], 1)
        shared = light[:, :, None] * cov
        total = shared * light[:, None, :]
        total[:, :q, :q] += self.clear_noise[level]
        total.diagonal(dim1=1, dim2=2)[:, q:] += self.noise[level, k, node]
        gain = torch.linalg.solve(total, shared)
        return gain, cov - shared.transpose(1, 2) @ gain, light * mu


def summarise(log_posterior: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation [ppm m] of ln p(z | x) given on the nodes, (pixels, nodes)."""
    fine = (log_posterior @ grid.upsample.to(log_posterior.dtype)).softmax(1)
    middle, half = float(grid.fine.mean()), float(grid.fine[-1] - grid.fine[0]) / 2.0
    z = ((grid.fine - middle) / half).to(log_posterior.dtype)
    mean, square = (fine @ torch.stack([z, z**2], 1)).unbind(1)
    variance = (square - mean**2).clamp(min=torch.finfo(mean.dtype).eps)
    return middle + half * mean, half * variance.sqrt()


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
    """Mean radiance over brightness in all bands, for the level of photon noise, (bands,)."""
    out = torch.ones(len(features.noise.read), dtype=torch.float64)
    out[features.clear_bands] = features.centre.double()
    mean = (background.weight[:, None] * background.mean[:, background.clear_size :]).sum(0)
    out[features.absorbing_bands] = mean * features.unit
    return out
