"""The ground without plume: a mixture of full-covariance Gaussians, learned from the scene's own pixels.

b = [continuum code, absorbing bands] of a pixel (see `Features`), z_I its component and its code:

    p(b) = sum_k pi_k N(b; mu_k, Sigma_k)
    p(x | b, z) = N(x; T(z) b, noise)          T = 1 on the continuum code

`EvidenceTables` integrate b exactly and z on a grid; `expectation` gives the `Moments` from which pi, mu
and Sigma are learned again, with plume pixels whose z is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sklearn.mixture import GaussianMixture
from torch import Tensor

from p3vae.models.methane.features import PixelFeatures

PRIOR_PIXELS = 30.0
"""Weight, in pixels, of the prior of each component's covariance."""
PRIOR_SHARE = 0.1
"""That prior, as a share of the pooled covariance: ground of one kind varies less than all kinds together."""
EIGENVALUE_FLOOR = 1e-3
"""Of the noise variance: no direction of the background is known better than this."""
GMM_FEATURES = 12


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
    """Share (pixels, components) of each pixel in clusters of the continuum code, which no plume alters."""
    lead = continuum[:, :GMM_FEATURES]
    scaled = ((lead - lead.mean(0)) / lead.std(0)).numpy()
    mixture = GaussianMixture(components, reg_covar=1e-2, random_state=seed, max_iter=100)
    return torch.as_tensor(mixture.fit(scaled).predict_proba(scaled))


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
