"""The ground without plume: a mixture of full-covariance Gaussians, learned from the scene's own pixels.

b = [continuum code, absorbing bands] of a pixel (see `Features`), z_I its component and its code:

    p(b) = sum_k pi_k N(b; mu_k, Sigma_k)
    p(x | b, z) = N(x; T(z) b, noise)          T = 1 on the continuum code

`EvidenceTables` integrate b exactly and z on a grid; `expectation` gives the `Moments` from which pi, mu
and Sigma are learned again, with plume pixels whose z is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.cluster.vq import kmeans2
from torch import Tensor, nn

from p3vae.models.methane.background.features import PixelFeatures

PRIOR_PIXELS = 30.0
"""Weight, in pixels, of the prior of each component's covariance."""
PRIOR_SHARE = 0.1
"""That prior, as a share of the pooled covariance: ground of one kind varies less than all kinds together."""
EIGENVALUE_FLOOR = 1e-3
"""Of the noise variance: no direction of the background is known better than this."""
CLUSTER_ROUNDS, CLUSTER_VARIANCE = 50, 1e-2
"""Of expectation-maximisation, and the least variance of a cluster, over that of all pixels."""
LEADING = 12
"""Elements of the continuum code by which pixels are clustered to begin with."""


@dataclass(frozen=True, eq=False)
class Background:
    """pi (K,), mu (K, D), Sigma (K, D, D) over [continuum code (q), absorbing bands]."""

    weight: Tensor
    mean: Tensor
    covariance: Tensor
    continuum_size: int

    @property
    def components(self) -> int:
        """K."""
        return len(self.weight)


def joint(spectra: PixelFeatures) -> Tensor:
    """[continuum code, absorbing bands], (pixels, D)."""
    return torch.cat([spectra.continuum, spectra.absorbing], 1)


def single_gaussian(spectra: PixelFeatures) -> Background:
    """One component from plume-free pixels, their noise removed."""
    b = joint(spectra)
    values, vectors = torch.linalg.eigh(torch.cov(b.T))
    # features are in units of noise, so signal is what exceeds one
    signal = (vectors * (values - 1.0).clamp(min=EIGENVALUE_FLOOR)) @ vectors.T
    one = torch.ones(1, dtype=torch.float64)
    return Background(one, b.mean(0, keepdim=True), signal[None], spectra.continuum.shape[1])


def continuum_clusters(continuum: Tensor, components: int, seed: int) -> Tensor:
    """Share (pixels, components) of each pixel in clusters of the continuum code, which no plume alters.

    A Gaussian mixture of the leading elements by expectation-maximisation, from k-means.
    """
    lead = continuum[:, :LEADING]
    scaled = ((lead - lead.mean(0)) / lead.std(0)).double()
    _, cluster = kmeans2(scaled.numpy(), components, minit="++", rng=np.random.default_rng(seed))
    share = nn.functional.one_hot(torch.as_tensor(cluster, dtype=torch.long), components).double()
    narrowest = CLUSTER_VARIANCE * torch.eye(scaled.shape[1], dtype=torch.float64)
    for _ in range(CLUSTER_ROUNDS):
        density = []
        for weight in share.T:
            count = weight.sum().clamp(min=1.0)
            centred = scaled - weight @ scaled / count
            factor = torch.linalg.cholesky((weight * centred.T) @ centred / count + narrowest)
            distance = torch.linalg.solve_triangular(factor, centred.T, upper=False).square().sum(0)
            density.append(torch.log(count) - torch.log(factor.diagonal()).sum() - 0.5 * distance)
        share = torch.stack(density, 1).softmax(1)
    return share


@dataclass(frozen=True, eq=False)
class Moments:
    """Weighted sums of E[b] and E[b b'] over pixels, per component."""

    count: Tensor
    first: Tensor
    second: Tensor

    @classmethod
    def zero(cls, components: int, size: int) -> Moments:
        """No pixel seen yet."""
        f64 = torch.float64
        return cls(
            torch.zeros(components, dtype=f64),
            torch.zeros(components, size, dtype=f64),
            torch.zeros(components, size, size, dtype=f64),
        )

    def add(self, component: int, weight: Tensor, mean: Tensor, left: Tensor) -> None:
        """Count pixels (n,) with posterior means (n, D) and their common posterior covariance (D, D)."""
        self.count[component] += weight.sum()
        self.first[component] += weight @ mean
        self.second[component] += (weight[:, None] * mean).T @ mean + weight.sum() * left

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.count + other.count, self.first + other.first, self.second + other.second)

    def background(self, continuum_size: int) -> Background:
        """The mixture that explains these moments best, its covariances shrunk (see `PRIOR_SHARE`)."""
        count = self.count.clamp(min=1.0)[:, None, None]
        mean = self.first / count[:, 0]
        covariance = self.second / count - mean[:, :, None] * mean[:, None, :]
        pooled = (count * covariance).sum(0) / count.sum()
        shrunk = (count * covariance + PRIOR_PIXELS * PRIOR_SHARE * pooled) / (count + PRIOR_PIXELS)
        return Background(self.count / self.count.sum(), mean, shrunk, continuum_size)
