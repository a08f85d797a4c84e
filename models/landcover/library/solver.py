"""The exact posterior of class and light, given a spectral library and a prior of light.

Given a component j of the light prior, with mean (z_j, w_j) and standard deviations (s_j, t_j), let
L_j = z_j·a + w_j·b. The product of light and intrinsic variability is linearised there, and everything is
Gaussian:

    x | y, j  ~  N( L_j ⊙ ρ_y ,  C_j + R Λ⁻¹ Rᵀ ),      C_j = diag(L_j) FᵀF diag(L_j) + noise
    R = [ L_j ⊙ V_y , τ·ρ̄ ⊙ ρ_y , b ⊙ ρ_y , a ⊙ ρ_y ],  Λ⁻¹ = diag(1, …, 1, 1, t_j², s_j²)

where τ is the standard deviation of the light from neighbouring ground, whose mean reflectance is ρ̄.
With r = x − L_j ⊙ ρ_y, P = Λ + Rᵀ C_j⁻¹ R = ℓ ℓᵀ and u = ℓ⁻¹ Rᵀ C_j⁻¹ r, the Woodbury identity gives

    log p(x | y, j) = −½ rᵀC_j⁻¹r + ½ |u|² − ½ log|C_j| − ½ log|P Λ⁻¹| − ½ B log 2π

and the posterior of z has mean z_j + u_z / ℓ_zz and variance 1 / ℓ_zz², since z comes last in R. All of this
is one matrix product with x and sums of squares. With flat light, s = t = 0 and V = 0, the classes are those
of linear discriminant analysis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from p3vae.models.landcover.library.chunks import fixed_chunks, with_observed
from p3vae.models.landcover.library.decoder import FloatArray, LightPrior, SpectralLibrary
from p3vae.models.landcover.library.observed_light import SOFTENING, LightGivenSpectra, ObservedLight, observe

_LEAST_STD = 1e-6
"""Of light [1], instead of zero."""


class PixelPosterior(NamedTuple):
    """Posterior of spectra, (pixels,) unless said."""

    logits: Tensor
    """log p(x, y) up to a constant, (pixels, classes)."""
    sun: Tensor
    """Mean of z."""
    sun_std: Tensor
    sky: Tensor
    """Mean of w."""
    distance: Tensor
    """Squared Mahalanobis distance from the likeliest class in the likeliest light; its expectation is the
    number of bands."""
    surprise: Tensor
    """Observed direct light less what spectra let expect [std]; zero where nothing was observed."""


class _Evidence(NamedTuple):
    """Of spectra under every component and class, (pixels, components · classes) unless said."""

    quadratic: Tensor
    """−½ Mahalanobis distance, without its part that is common to all, `common`."""
    rows: Tensor
    """u, (pixels, rows, components · classes)."""
    common: Tensor
    """(pixels,)."""


@dataclass(frozen=True, eq=False)
class PosteriorSolver:
    """Constants of the posterior under one illumination, on one device."""

    centre: Tensor
    """Subtracted from spectra first, for precision, (bands,)."""
    precision: Tensor
    """Inverse variance of the noise, (bands,)."""
    weights: Tensor
    """Matrix to multiply spectra with, (bands, columns): factors, then linear terms, then u row by row."""
    bias: Tensor
    """Of the last columns, u, (rows, components · classes)."""
    constant: Tensor
    """−½ μᵀC⁻¹μ, (components · classes,)."""
    log_norm: Tensor
    """−½ log|C_j| − ½ log|P Λ⁻¹|, (components · classes,)."""
    log_prior: Tensor
    """Of component and class together, (components, classes)."""
    light: Tensor
    """z_j and w_j, (2, components · classes)."""
    lower: Tensor
    """ℓ, (components · classes, rows, rows)."""
    level: float
    light_rows: int
    """Rows of u that are light, the last ones: that of neighbours if there is any, w and z."""

    @classmethod
    def build(
        cls,
        library: SpectralLibrary,
        prior: LightPrior,
        light: FloatArray,
        *,
        class_prior: FloatArray | None = None,
        level: float = 0.0,
    ) -> Self:
        """Constants under `light`, which is a and b, (2, bands).

        `level` is the relative standard deviation of z that the brightness of a class mean leaves open.
        """
        classes = len(library.mean)
        centre = library.mean.mean(0)
        tables = [
            _component(library, centre, light, mean, std, prior.adjacency_std)
            for mean, std in zip(prior.mean, prior.std, strict=True)
        ]
        weights = [torch.cat([table.factors for table in tables], 1)]
        weights.append(torch.cat([table.linear for table in tables], 1))
        weights.append(torch.cat([table.rows for table in tables], 2).flatten(1))
        chances = np.full(classes, 1 / classes) if class_prior is None else class_prior
        log_prior = np.log(prior.weight)[:, None] + np.log(chances)

        def stored(values: Tensor | FloatArray) -> Tensor:
            return torch.as_tensor(values).to(torch.float32).contiguous()

        return cls(
            stored(centre),
            stored(1 / library.noise),
            stored(torch.cat(weights, 1)),
            stored(torch.cat([table.bias for table in tables], 1)),
            stored(torch.cat([table.constant for table in tables])),
            stored(torch.cat([table.log_norm for table in tables])),
            stored(log_prior),
            stored(np.repeat(prior.mean.T, classes, axis=1)),
            stored(torch.cat([table.lower for table in tables])),
            level,
            3 if prior.adjacency_std else 2,
        )

    def to(self, device: str) -> Self:
        """The same constants on another device."""
        moved: dict[str, Any] = {n: v.to(device) for n, v in vars(self).items() if isinstance(v, Tensor)}
        return replace(self, **moved)

    def solve(self, spectra: Tensor, observed: Tensor | None = None) -> PixelPosterior:
        """Posterior of spectra (pixels, bands), the same to the bit however they are split over calls.

        `observed` (pixels, 5) has the columns of `ObservedLight`.
        """
        pieces = with_observed(fixed_chunks(spectra, self.columns), observed, self.columns)
        parts = [self.solve_chunk(*both) for both in pieces]
        return PixelPosterior(*(torch.cat(values)[: len(spectra)] for values in zip(*parts, strict=True)))

    @property
    def columns(self) -> int:
        """Of the largest product, which decides how many pixels a piece of spectra holds."""
        return self.weights.shape[1]

    def solve_chunk(self, piece: Tensor, observed: Tensor | None = None) -> PixelPosterior:
        """Posterior of a piece of `fixed_chunks`, which is overwritten."""
        return self._posterior(self._evidence(piece), observed)

    def log_likelihood(self, spectra: Tensor) -> Tensor:
        """log p(x | y, j) up to a constant, (pixels, components, classes)."""
        parts = [
            self._evidence(piece).quadratic + self.log_norm for piece in fixed_chunks(spectra, self.columns)
        ]
        return torch.cat(parts)[: len(spectra)].reshape(-1, *self.log_prior.shape)

    def codes(self, spectra: Tensor) -> Tensor:
        """z, w and c of the likeliest class in the likeliest light, (pixels, 2 + directions)."""
        parts = [self._codes(self._evidence(piece)) for piece in fixed_chunks(spectra, self.columns)]
        return torch.cat(parts)[: len(spectra)]

    def _evidence(self, piece: Tensor) -> _Evidence:
        x = piece.sub_(self.centre)
        product = self._product(x)
        pairs, of_rows = len(self.constant), self.bias.numel()
        widths = [product.shape[1] - pairs - of_rows, pairs, of_rows]
        factors, linear, rows = torch.split_with_sizes(product, widths, 1)
        rows = rows.reshape(len(x), *self.bias.shape) + self.bias
        of_light = factors.reshape(len(x), len(self.log_prior), -1).square().sum(2)
        quadratic = _squares(rows.unbind(1)).mul_(0.5).add_(linear).add_(self.constant)
        quadratic.view(len(x), *self.log_prior.shape).add_(of_light[:, :, None], alpha=0.5)
        # A product with a vector would round by the place of a pixel in its piece; a sum of a row does not.
        return _Evidence(quadratic, rows, x.square_().mul_(self.precision).sum(1))

    def _product(self, centred: Tensor) -> Tensor:
        return centred @ self.weights

    def _light(self, evidence: _Evidence) -> LightGivenSpectra:
        """Over pairs of component and class: z = z_j + u_z / ℓ_zz, and w as far as z leaves it open."""
        last, before, both = (self.lower[:, i, k] for i, k in ((-1, -1), (-2, -2), (-1, -2)))
        step = evidence.rows[:, -1] * (1 / last)
        other = evidence.rows[:, -2] - both * step
        variance, slope = (1 / last).square(), -both / before
        return LightGivenSpectra(
            self.light[0] + step,
            self.light[1] + other / before,
            variance,
            slope * variance,
            (1 / before).square() + slope.square() * variance,
        )

    def _posterior(self, evidence: _Evidence, observed: Tensor | None) -> PixelPosterior:
        joint = evidence.quadratic + self.log_norm + self.log_prior.flatten()
        light, level = self._light(evidence), joint.new_tensor(self.level)
        sun, sky, variances, open_level, surprise = light.sun, light.sky, light.sun_variance, light.sun, None
        weight = None
        if observed is not None:
            seen = ObservedLight(*observed.unbind(1))
            there = seen.direct_precision > 0
            level = torch.where(there, seen.spread, self.level)
            both = observe(light, seen, level[:, None])
            softened = joint / torch.where(there, SOFTENING, 1.0)[:, None] + both.log_factor
            weight = softened.softmax(1)
            joint += both.log_factor
            sun, sky, surprise = both.sun, both.sky, both.surprise
            variances, open_level = variances * both.kept, open_level * both.kept.sqrt()
        largest, best = joint.max(1, keepdim=True)
        joint -= largest  # which may be millions: single precision is kept for differences
        logits = _log_sum(joint.view(len(joint), *self.log_prior.shape))
        weight = joint.softmax(1) if weight is None else weight
        mean, brightness = ((weight * values).sum(1) for values in (sun, open_level))
        second = (weight * (sun.square() + variances)).sum(1)
        variance = (second - mean.square()).clamp(min=0) + (level * brightness).square()
        return PixelPosterior(
            logits,
            mean.clamp(min=0),
            variance.sqrt(),
            (weight * sky).sum(1),
            evidence.common - 2 * evidence.quadratic.gather(1, best)[:, 0],
            torch.zeros_like(mean) if surprise is None else (weight * surprise).sum(1),
        )

    def _codes(self, evidence: _Evidence) -> Tensor:
        joint = evidence.quadratic + self.log_norm + self.log_prior.flatten()
        best = joint.argmax(1)
        u = evidence.rows[torch.arange(len(best), device=best.device), :, best]
        found = torch.linalg.solve_triangular(self.lower[best].mT, u[:, :, None], upper=True)[:, :, 0]
        return torch.cat([self.light[:, best].T + found[:, [-1, -2]], found[:, : -self.light_rows]], 1)


def _squares(rows: tuple[Tensor, ...]) -> Tensor:
    """Sum of the squares of tensors, with one temporary."""
    total = rows[0].square()
    for row in rows[1:]:
        total.addcmul_(row, row)
    return total


def _log_sum(values: Tensor) -> Tensor:
    """`logsumexp` over the second axis, which is short."""
    largest = reduce(torch.maximum, values.unbind(1))
    return (values - largest[:, None]).exp_().sum(1).log_().add_(largest)


class _Component(NamedTuple):
    """Constants of one component of the light prior, float64."""

    factors: Tensor
    """(bands, factors)."""
    linear: Tensor
    """C⁻¹μ, (bands, classes)."""
    rows: Tensor
    """C⁻¹Rℓ⁻ᵀ, (bands, rows, classes)."""
    bias: Tensor
    """(rows, classes)."""
    constant: Tensor
    log_norm: Tensor
    lower: Tensor


def _component(
    library: SpectralLibrary,
    centre: FloatArray,
    light: FloatArray,
    mean: FloatArray,
    std: FloatArray,
    adjacency_std: float,
) -> _Component:
    """Constants for light about `mean` (z_j, w_j) with standard deviations `std` (s_j, t_j)."""
    direct, diffuse = torch.as_tensor(light)
    level = mean[0] * direct + mean[1] * diffuse
    reflectance, noise = torch.as_tensor(library.mean), torch.as_tensor(library.noise)
    ordered = torch.cat(
        [
            level * torch.as_tensor(library.directions),
            *([(adjacency_std * reflectance.mean(0) * reflectance)[:, None]] if adjacency_std else []),
            (diffuse * reflectance)[:, None],
            (direct * reflectance)[:, None],
        ],
        1,
    )  # Rᵀ, (classes, rows, bands)
    mu = level * reflectance - torch.as_tensor(centre)
    whitened = torch.as_tensor(library.factors) * level / noise.sqrt()
    root = torch.linalg.cholesky(torch.eye(len(whitened), dtype=torch.float64) + whitened @ whitened.T)
    factors = torch.linalg.solve_triangular(root, whitened, upper=False) / noise.sqrt()

    def solved(values: Tensor) -> Tensor:
        """C⁻¹ applied to spectra, (..., bands)."""
        found: Tensor = values / noise - (values @ factors.T) @ factors
        return found

    variances = torch.ones(ordered.shape[1], dtype=torch.float64)
    variances[-2:] = torch.as_tensor(np.maximum(std[::-1].copy(), _LEAST_STD)).square()
    gram = ordered @ solved(ordered).mT
    lower = torch.linalg.cholesky(gram + torch.diag(1 / variances))
    rows = torch.linalg.solve_triangular(lower, solved(ordered), upper=False)  # ℓ⁻¹RᵀC⁻¹
    diagonal = lower.diagonal(dim1=1, dim2=2)
    log_det = 2 * root.diagonal().log().sum() + noise.log().sum()
    return _Component(
        factors.T,
        solved(mu).T,
        rows.permute(2, 1, 0),
        -(rows @ mu[:, :, None])[:, :, 0].T,
        -0.5 * (solved(mu) * mu).sum(1),
        -0.5 * (log_det + 2 * diagonal.log().sum(1) + variances.log().sum()),
        lower,
    )
