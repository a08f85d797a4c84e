"""The exact low-rank posterior of the land-cover model: class, direct light z and skylight w of a spectrum.

For a class with latent reflectance spectra ρ_k the decoder is linear once the direction θ of (z, w) is fixed:

    x = Σ_k u_k·m_k(θ) + residual,   m_k(θ) = (cosθ·a + sinθ·b)⊙ρ_k,   u ≥ 0,   z = Σu·cosθ,   w = Σu·sinθ

θ is integrated by quadrature, u is solved exactly: the non-negative optimum lies on one of the faces of the
orthant, and each face has a closed form. The residual is Gaussian, white plus a part that is smooth along the
spectrum and proportional to the signal, plus light reflected by the surroundings; the last two are a few
extra columns with a Gaussian prior, so their integral is closed too. Spectra are projected once on the few
columns of each class and the number of bands plays no further part. Classes whose unconstrained fit is
already hopeless are never solved.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.interpolate import CubicSpline
from torch import Tensor

FloatArray = npt.NDArray[np.float64]

_NODES = 13
_REFINEMENT = 5
_SMALLEST_ANGLE_DEG = 6.0
_LEVELS = np.geomspace(0.02, 40.0, 17)
_BLOCK = 4096
_HOPELESS = 14.0
"""A class this far behind in log probability cannot change any product."""
_BRIGHTEST_SUN, _BRIGHTEST_SKY, _DARKEST_SKY = 1.0, 1.05, 0.2
_SKY_SOFTNESS = 0.1


@dataclass(frozen=True)
class NoiseModel:
    """What the residual of a spectrum looks like, and how far the posterior may be trusted."""

    floor: float = 0.001
    """Standard deviation of white noise whatever the signal [reflectance]."""
    relative: float = 0.03
    """White noise as a share of the root mean square of the spectrum [1]."""
    smooth: float = 0.02
    """Spectrally smooth deviation as a share of the signal [1]."""
    reflected: float = 0.0
    """Light sent by the surroundings, as a share of their mean reflectance [1]."""
    level: float = 0.085
    """How well the level of a latent spectrum is known [1]: slopes of the labelled ground are not."""
    temperature: float = 1.0
    """Divides the log-likelihood, so that confidences mean what they say."""


SMOOTH_TERMS = 4


@dataclass(frozen=True, eq=False)
class Library:
    """Latent reflectance spectra of every class."""

    spectra: tuple[FloatArray, ...]
    """Per class, (spectra of the class, bands) [reflectance]."""
    surroundings: FloatArray
    """Mean reflectance of the scene, (bands,): the colour of light sent by neighbours."""


class PixelPosterior(NamedTuple):
    """Posterior summaries; every tensor (pixels,) unless said."""

    log_evidence: Tensor
    """log p(x | y) up to a constant, (pixels, classes); -inf for classes never solved."""
    sun: Tensor
    """Mean of z."""
    sun_std: Tensor
    sky: Tensor
    """Mean of w."""
    misfit: Tensor
    """Squared whitened residual of the best class, per band."""


class _Faces(NamedTuple):
    """Faces of one size: which coefficients they keep, and the variance of their sum at each node."""

    members: Tensor
    sum_variance: Tensor


class _ClassTables(NamedTuple):
    """One class at one brightness: linear maps from the projected spectrum."""

    bound: Tensor
    """(columns, nodes * (K + nuisances)): whitened full-face coordinates and nuisance coordinates."""
    moments: Tensor
    """(columns, nodes * K): Φᵀ Σ⁻¹ x."""
    solutions: tuple[Tensor, ...]
    """Per face size, (columns, nodes * faces * size)."""
    faces: tuple[_Faces, ...]
    log_det: Tensor
    """log |Σ|, (nodes,)."""
    white: float
    """White variance of the normalised spectrum."""
    size: int


def smooth_basis(wavelength: FloatArray, terms: int = SMOOTH_TERMS) -> FloatArray:
    """Legendre polynomials 1..terms in log wavelength, (bands, terms): slowly varying deviations."""
    position = np.log(wavelength)
    position = 2 * (position - position[0]) / max(position[-1] - position[0], 1e-9) - 1
    return np.stack([np.polynomial.Legendre.basis(k)(position) for k in range(1, terms + 1)], axis=1)


class PosteriorSolver:
    """Tables for one library under one illumination, and the solver that uses them."""

    def __init__(
        self,
        library: Library,
        noise: NoiseModel,
        direct_ratio: FloatArray,
        diffuse_ratio: FloatArray,
        wavelength: FloatArray,
        device: str = "cpu",
    ) -> None:
        self.library, self.noise = library, noise
        self._light = np.stack([direct_ratio, diffuse_ratio])
        self._smooth = smooth_basis(wavelength)
        self._device = torch.device(device)
        self.angles = np.radians(np.linspace(_SMALLEST_ANGLE_DEG, 90.0, _NODES))
        fine = np.linspace(self.angles[0], self.angles[-1], (_NODES - 1) * _REFINEMENT + 1)
        self._refine = self._tensor(CubicSpline(self.angles, np.eye(_NODES))(fine).T)
        self._fine_cos, self._fine_sin = self._tensor(np.cos(fine)), self._tensor(np.sin(fine))
        self._cos, self._sin = self._tensor(np.cos(self.angles)), self._tensor(np.sin(self.angles))
        self._columns = [np.linalg.qr(self._raw_columns(spectra))[0] for spectra in library.spectra]
        self._projection = self._tensor(np.concatenate(self._columns, axis=1))
        self._offsets = np.cumsum([0, *(basis.shape[1] for basis in self._columns)])
        self._tables: dict[tuple[int, int], _ClassTables] = {}

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self._columns)

    def solve(self, spectra: Tensor) -> PixelPosterior:
        """Posterior of spectra (pixels, bands), float32, all finite and with some signal."""
        blocks = [self._solve_block(block) for block in spectra.to(self._device).split(_BLOCK)]
        return PixelPosterior(*(torch.cat(parts) for parts in zip(*blocks, strict=True)))

    def _tensor(self, values: FloatArray) -> Tensor:
        return torch.as_tensor(np.ascontiguousarray(values), dtype=torch.float32, device=self._device)

    def _raw_columns(self, spectra: FloatArray) -> FloatArray:
        """Everything a spectrum of the class can be made of at any θ, (bands, columns)."""
        mean = spectra.mean(0)
        lit = [light * row for light in self._light for row in spectra]
        deviations = [light * mean * term for light in self._light for term in self._smooth.T]
        return np.stack([*lit, *deviations, mean * self.library.surroundings], axis=1)

    def _class_tables(self, index: int, level: int) -> _ClassTables:
        if (index, level) not in self._tables:
            self._tables[index, level] = self._build_tables(index, float(_LEVELS[level]))
        return self._tables[index, level]

    def _nuisances(self, spectra: FloatArray, light: FloatArray, norm: float) -> FloatArray:
        """Deviation columns of the unit-norm spectrum, scaled to unit prior variance, (bands, nuisances)."""
        signal = light * spectra.mean(0)
        damping = self.noise.smooth / np.sqrt(1.0 + np.arange(self._smooth.shape[1]))
        smooth = self._smooth * (signal / np.linalg.norm(signal))[:, None] * damping
        neighbours = spectra.mean(0) * self.library.surroundings * (self.noise.reflected / norm)
        return np.concatenate([smooth, neighbours[:, None]], axis=1)

    def _build_tables(self, index: int, norm: float) -> _ClassTables:
        spectra, basis = self.library.spectra[index], self._columns[index]
        size, bands = spectra.shape
        white = (self.noise.floor / norm) ** 2 + self.noise.relative**2 / bands
        subsets = [list(itertools.combinations(range(size), count)) for count in range(1, size + 1)]
        bound, moments, log_det = [], [], []
        solutions: list[list[FloatArray]] = [[] for _ in subsets]
        variances: list[list[list[float]]] = [[] for _ in subsets]
        for angle in self.angles:
            light = np.cos(angle) * self._light[0] + np.sin(angle) * self._light[1]
            lit = (light * spectra).T
            odd = self._nuisances(spectra, light, norm)
            inner = np.eye(odd.shape[1]) + odd.T @ odd / white
            whitened = (lit - odd @ np.linalg.solve(inner, odd.T @ lit) / white) / white
            gram = lit.T @ whitened + 1e-9 * np.eye(size) * np.trace(lit.T @ whitened) / size
            moment = basis.T @ whitened
            full = np.linalg.solve(np.linalg.cholesky(gram), moment.T)
            nuisance = np.linalg.solve(np.linalg.cholesky(inner), (basis.T @ odd).T) / white
            bound.append(np.concatenate([full, nuisance]).T)
            moments.append(moment)
            log_det.append(bands * np.log(white) + np.linalg.slogdet(inner)[1])
            for count, faces in enumerate(subsets):
                inverses = [np.linalg.inv(gram[np.ix_(face, face)]) for face in faces]
                columns = [moment[:, face] @ inv for face, inv in zip(faces, inverses, strict=True)]
                solutions[count].append(np.concatenate(columns, axis=1))
                variances[count].append([float(inv.sum()) for inv in inverses])
        return _ClassTables(
            bound=self._tensor(np.concatenate(bound, axis=1)),
            moments=self._tensor(np.concatenate(moments, axis=1)),
            solutions=tuple(self._tensor(np.concatenate(parts, axis=1)) for parts in solutions),
            faces=tuple(
                _Faces(torch.as_tensor(faces, device=self._device), self._tensor(np.asarray(variance)))
                for faces, variance in zip(subsets, variances, strict=True)
            ),
            log_det=self._tensor(np.asarray(log_det)),
            white=white,
            size=size,
        )

    def _solve_block(self, spectra: Tensor) -> PixelPosterior:
        norm = spectra.norm(dim=1)
        level = (norm.log()[:, None] - self._tensor(np.log(_LEVELS))).abs().argmin(1)
        order = level.argsort(stable=True)
        projected = (spectra[order] / norm[order, None]) @ self._projection
        levels, counts = level[order].unique_consecutive(return_counts=True)
        parts = []
        for value, rows in zip(levels.tolist(), projected.split(counts.tolist()), strict=True):
            start = sum(len(part.sun) for part in parts)
            parts.append(self._solve_level(rows, norm[order[start : start + len(rows)]], value))
        joined = [torch.cat(values) for values in zip(*parts, strict=True)]
        back = order.argsort()
        return PixelPosterior(*(values[back] for values in joined))

    def _solve_level(self, projected: Tensor, norm: Tensor, level: int) -> PixelPosterior:
        """Solve pixels of about one brightness: the best-bounded class first, then all that may beat it."""
        pixels, classes = len(projected), self.classes
        views = [projected[:, self._offsets[k] : self._offsets[k + 1]] for k in range(classes)]
        tables = [self._class_tables(k, level) for k in range(classes)]
        residuals = [self._free_residual(view, table) for view, table in zip(views, tables, strict=True)]
        ceiling = torch.stack(
            [
                self._weight(chi, table.log_det).amax(1)
                for (chi, _), table in zip(residuals, tables, strict=True)
            ],
            1,
        )
        evidence = torch.full((pixels, classes), -torch.inf, device=self._device)
        moments = torch.zeros((4, pixels, classes), device=self._device)
        first = ceiling.argmax(1)
        for chosen in (torch.nn.functional.one_hot(first, classes).bool(), None):
            if chosen is None:
                best = evidence.gather(1, first[:, None])
                chosen = (ceiling > best - _HOPELESS) & torch.isinf(evidence)
            for k in range(classes):
                rows = chosen[:, k].nonzero().squeeze(1)
                if len(rows):
                    chi0 = residuals[k][1][rows]
                    evidence[rows, k], moments[:, rows, k] = self._solve_class(
                        views[k][rows], chi0, norm[rows], tables[k]
                    )
        return _mix(evidence, moments, self.noise.level, len(self._light[0]))

    def _weight(self, chi: Tensor, log_det: Tensor) -> Tensor:
        return -0.5 * (chi + log_det) / self.noise.temperature

    def _free_residual(self, projected: Tensor, table: _ClassTables) -> tuple[Tensor, Tensor]:
        """Squared residuals (pixels, nodes): with free coefficients (a lower bound), and with none."""
        coordinates = (projected @ table.bound).unflatten(1, (_NODES, -1)).square()
        nothing = 1.0 / table.white - coordinates[..., table.size :].sum(-1)
        return nothing - coordinates[..., : table.size].sum(-1), nothing

    def _solve_class(
        self, projected: Tensor, chi0: Tensor, norm: Tensor, table: _ClassTables
    ) -> tuple[Tensor, Tensor]:
        """Log evidence (pixels,) and mean z, mean z², mean w, best residual (4, pixels) of one class."""
        moments = (projected @ table.moments).unflatten(1, (_NODES, -1))
        gain = torch.zeros_like(chi0)
        total = torch.zeros_like(chi0)
        variance = torch.zeros_like(chi0)
        for solution, faces in zip(table.solutions, table.faces, strict=True):
            count, size = faces.members.shape
            u = (projected @ solution).unflatten(1, (_NODES, count, size))
            energy = (u * moments[..., faces.members]).sum(-1)
            energy, which = torch.where(u.amin(-1) >= 0, energy, -1.0).max(-1)
            better = energy > gain
            gain = torch.where(better, energy, gain)
            chosen = u.sum(-1).gather(-1, which[..., None]).squeeze(-1)
            total = torch.where(better, chosen, total)
            spread = faces.sum_variance.expand(len(u), -1, -1).gather(-1, which[..., None]).squeeze(-1)
            variance = torch.where(better, spread, variance)
        chi = chi0 - gain
        total = total * norm[:, None]
        log_density = self._weight(chi, table.log_det) + self._log_prior(total)
        return self._integrate(log_density, total, variance * norm[:, None] ** 2, chi)

    def _log_prior(self, total: Tensor) -> Tensor:
        """Flat over possible light, with soft edges; the last term is the Jacobian of (z, w)."""
        z, w = total * self._cos, total * self._sin
        glare = ((z - _BRIGHTEST_SUN).clamp(min=0) / self.noise.level).square()
        glow = ((w - _BRIGHTEST_SKY).clamp(min=0) / _SKY_SOFTNESS).square()
        gloom = ((_DARKEST_SKY - w).clamp(min=0) / _SKY_SOFTNESS).square()
        return -0.5 * (glare + glow + gloom) + total.clamp(min=1e-6).log()

    def _integrate(
        self, log_density: Tensor, total: Tensor, variance: Tensor, chi: Tensor
    ) -> tuple[Tensor, Tensor]:
        top = log_density.amax(1, keepdim=True)
        fine = (log_density - top).clamp(min=-60.0) @ self._refine
        peak = fine.amax(1, keepdim=True)
        weight = (fine - peak).exp()
        mass = weight.sum(1)
        weight = weight / mass[:, None]
        light = total @ self._refine
        z = light * self._fine_cos
        spread = (variance @ self._refine).clamp(min=0) * self._fine_cos.square() * self.noise.temperature
        mean_square = (weight * (z.square() + spread)).sum(1)
        mean_sky = (weight * light * self._fine_sin).sum(1)
        evidence = (top + peak).squeeze(1) + mass.log()
        return evidence, torch.stack([(weight * z).sum(1), mean_square, mean_sky, chi.amin(1)])


def _mix(evidence: Tensor, moments: Tensor, level: float, bands: int) -> PixelPosterior:
    """Sum the classes' posteriors, each with its probability."""
    probability = evidence.softmax(1)
    mean, square, sky = (moments[:3] * probability).sum(2)
    variance = (square - mean.square()).clamp(min=0) + (level * mean).square() + 1e-8
    best = moments[3].gather(1, evidence.argmax(1, keepdim=True)).squeeze(1)
    return PixelPosterior(evidence, mean, variance.sqrt(), sky, best / bands)
