"""The exact low-rank posterior of the land-cover model: class, direct light z and skylight w of a spectrum.

For a class with latent reflectance spectra ρ_k the decoder is linear once the direction θ of (z, w) is fixed:

    x = Σ_k u_k·m_k(θ) + residual,   m_k(θ) = (cosθ·a + sinθ·b)⊙ρ_k,   u ≥ 0,   z = Σu·cosθ,   w = Σu·sinθ

θ is integrated by quadrature (`light_grid`), u is solved exactly: the non-negative optimum lies on one of
the faces of the orthant, and each face has a closed form. The residual is Gaussian: white, or scattered as
learned, plus a part that is smooth along the spectrum and proportional to the signal or to its skylit part,
plus light reflected by the surroundings. Those parts are a few extra columns with a Gaussian prior, so their
integral is closed too. Spectra are projected once on the few columns of each class and the number of bands
plays no further part. Classes whose columns leave too much unexplained are never solved.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from p3vae.models.decoder_parts import Library, NoiseModel, smooth_basis
from p3vae.models.light_grid import NODES, LightGrid

FloatArray = npt.NDArray[np.float64]

_SHARP = 1.0
"""Curvature of the log density per squared step from which on steps are too long for a sum."""
_LEVELS = np.geomspace(0.03, 30.0, 11)
_LANES = 32
_HOPELESS = 8.0
"""A class this far behind in log probability would change confidences by less than a thousandth."""
_NEGLIGIBLE = -80.0
"""Log of a weight that adds nothing; smaller ones would be slow denormal numbers."""
_BRIGHTEST_SUN, _BRIGHTEST_SKY, _DARKEST_SKY = 1.0, 1.05, 0.2
_SKY_SOFTNESS = 0.1


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


class _ClassTables(NamedTuple):
    """One class at one brightness: linear maps from the projected spectrum, rows ordered (…, node)."""

    nuisances: Tensor
    """(nuisances * nodes, columns): coordinates that deviations take away."""
    moments: Tensor
    """(K * nodes, columns): Φᵀ Σ⁻¹ x."""
    faces: tuple[tuple[int, ...], ...]
    solutions: tuple[Tensor, ...]
    """(members * nodes, columns) of every face: its coefficients."""
    sum_variance: Tensor
    """Variance of the sum of coefficients, (faces, nodes, 1)."""
    log_det: Tensor
    """log |Σ|, (nodes, 1)."""
    strength: Tensor
    """Whitened square of the class's mean spectrum in unit light, (nodes, 1)."""
    fine_strength: Tensor
    """The same at the angles between nodes too, (fine, 1)."""
    best_case: float
    """The highest log likelihood of a pixel without residual."""


class _Level(NamedTuple):
    """All classes at one brightness."""

    whitening: Tensor | None
    """(bands, bands): makes the residual of a unit-norm spectrum white; None where it is already."""
    energy: float
    """Whitened square of any unit-norm spectrum, where `whitening` is None."""
    projection: Tensor
    """(columns of all classes, bands): from the spectrum to whitened coordinates."""
    widths: list[int]
    classes: list[_ClassTables]


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
        self.grid = LightGrid.about(self._light * np.concatenate(library.spectra).mean(0))
        fine = self.grid.fine
        self._cos, self._sin = (self._tensor(f(fine)[:, None]) for f in (np.cos, np.sin))
        self._log_width = self._tensor(np.log(np.gradient(fine))[:, None])
        # The trapezoidal rule: the ends count half.
        self._share = self._tensor(np.where(np.arange(len(fine)) % (len(fine) - 1), 1.0, 0.5)[:, None])
        self._squares, self._lines = self._tensor(self.grid.squares), self._tensor(self.grid.lines)
        self._log_levels = self._tensor(np.log(_LEVELS))
        self._scatter = None if library.scatter is None else np.linalg.eigh(library.scatter)
        self._levels: dict[int, _Level] = {}

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.library.spectra)

    def _tensor(self, values: FloatArray) -> Tensor:
        return torch.as_tensor(np.ascontiguousarray(values), dtype=torch.float32, device=self._device)

    def _level(self, index: int) -> _Level:
        if index not in self._levels:
            self._levels[index] = self._build_level(float(_LEVELS[index]))
        return self._levels[index]

    def _build_level(self, norm: float) -> _Level:
        bands = self._light.shape[1]
        white = (self.noise.floor / norm) ** 2 + self.noise.relative**2 / bands
        if self._scatter is None:
            variance, whitening = np.full(bands, white), np.eye(bands) / np.sqrt(white)
        else:
            variance = white + np.maximum(self._scatter[0], 0) / norm
            whitening = (self._scatter[1] / np.sqrt(variance)).T
        built = [
            self._build_class(spectra, whitening, norm, float(np.log(variance).sum()))
            for spectra in self.library.spectra
        ]
        return _Level(
            None if self._scatter is None else self._tensor(whitening),
            1.0 / white,
            self._tensor(np.concatenate([basis.T @ whitening for basis, _ in built])),
            [basis.shape[1] for basis, _ in built],
            [tables for _, tables in built],
        )

    def _raw_columns(self, spectra: FloatArray) -> FloatArray:
        """Everything a spectrum of the class can be made of at any θ, (bands, columns)."""
        mean = spectra.mean(0)
        columns = [light * row for light in self._light for row in spectra]
        if self.noise.smooth or self.noise.sky:
            columns += [light * mean * term for light in self._light for term in self._smooth.T]
        if self.noise.reflected:
            columns.append(mean * self.library.surroundings)
        return np.stack(columns, axis=1)

    def _nuisances(self, spectra: FloatArray, light: FloatArray, norm: float) -> FloatArray:
        """Deviation columns of the unit-norm spectrum, scaled to unit prior variance, (bands, nuisances)."""
        mean, parts = spectra.mean(0), []
        if self.noise.smooth or self.noise.sky:
            signal = (light[0] + light[1]) * mean
            varying = (signal * self.noise.smooth + light[1] * mean * self.noise.sky) / np.linalg.norm(signal)
            damping = 1.0 / np.sqrt(1.0 + np.arange(self._smooth.shape[1]))
            parts.append(self._smooth * varying[:, None] * damping)
        if self.noise.reflected:
            parts.append((mean * self.library.surroundings * (self.noise.reflected / norm))[:, None])
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(mean), 0))

    def _build_class(
        self, spectra: FloatArray, whitening: FloatArray, norm: float, log_det: float
    ) -> tuple[FloatArray, _ClassTables]:
        """An orthonormal basis (bands, columns) of all that is whitened, and the tables for it."""
        basis = np.linalg.qr(whitening @ self._raw_columns(spectra))[0]
        size, columns = len(spectra), basis.shape[1]
        faces = [f for count in range(1, size + 1) for f in itertools.combinations(range(size), count)]
        nuisances, moments, solutions, variances, log_dets = [], [], [], [], []
        for angle in self.grid.nodes:
            parts = self._light * np.array([[np.cos(angle)], [np.sin(angle)]])
            lit = basis.T @ whitening @ (parts.sum(0) * spectra).T
            odd = basis.T @ whitening @ self._nuisances(spectra, parts, norm)
            inner = np.eye(odd.shape[1]) + odd.T @ odd
            moment = (lit - odd @ np.linalg.solve(inner, odd.T @ lit)).T
            gram = moment @ lit
            gram += 1e-9 * np.eye(size) * np.trace(gram) / size
            inverses = [np.linalg.inv(gram[np.ix_(face, face)]) for face in faces]
            nuisances.append(np.linalg.solve(np.linalg.cholesky(inner), odd.T))
            moments.append(moment)
            solutions.append([inv @ moment[list(face)] for face, inv in zip(faces, inverses, strict=True)])
            variances.append([inv.sum() for inv in inverses])
            log_dets.append([log_det + np.linalg.slogdet(inner)[1]])
        mean = basis.T @ whitening @ (self._light * spectra.mean(0)).T
        return basis, _ClassTables(
            nuisances=self._tensor(np.stack(nuisances, 1).reshape(-1, columns)),
            moments=self._tensor(np.stack(moments, 1).reshape(-1, columns)),
            faces=tuple(faces),
            solutions=tuple(
                self._tensor(np.stack(face, 1).reshape(-1, columns)) for face in zip(*solutions, strict=True)
            ),
            sum_variance=self._tensor(np.asarray(variances).T[..., None]),
            log_det=self._tensor(np.asarray(log_dets)),
            strength=self._tensor(_strength(mean, self.grid.nodes)),
            fine_strength=self._tensor(_strength(mean, self.grid.fine)),
            best_case=-0.5 * float(np.min(log_dets)),
        )

    def solve(self, spectra: Tensor) -> PixelPosterior:
        """Posterior of spectra (pixels, bands), float32, all finite and with some signal.

        Tens of thousands of pixels at once keep the share of the interpreter small.
        """
        spectra = spectra.to(self._device)
        norm = spectra.norm(dim=1)
        level = (norm.log()[:, None] - self._log_levels).abs().argmin(1)
        groups = [(level == value).nonzero().squeeze(1) for value in range(len(_LEVELS))]
        groups = [rows for rows in groups if len(rows)]
        parts = []
        for rows in groups:
            lanes = _padded(rows)
            unit = spectra[lanes].div_(norm[lanes, None]).T
            found = self._solve_level(unit, norm[lanes], self._level(int(level[rows[0]])))
            parts.append([values[: len(rows)] for values in found])
        back = torch.cat(groups).argsort()
        return PixelPosterior(*(torch.cat(values)[back] for values in zip(*parts, strict=True)))

    def _solve_level(self, unit: Tensor, norm: Tensor, level: _Level) -> PixelPosterior:
        """Solve pixels of about one brightness: the best-bounded class first, then all that may beat it.

        `unit` holds their spectra at unit norm, (bands, pixels).
        """
        tables = level.classes
        views = torch.split(level.projection @ unit, level.widths)
        energy = torch.full_like(norm, level.energy)
        if level.whitening is not None:
            energy = (level.whitening @ unit).square().sum(0)
        ceiling = torch.stack(
            [
                table.best_case + 0.5 * (view.square().sum(0) - energy)
                for view, table in zip(views, tables, strict=True)
            ]
        )
        evidence = torch.full_like(ceiling, -torch.inf)
        moments = ceiling.new_zeros((4, *ceiling.shape))

        def solve(chosen: Tensor) -> None:
            for k in range(self.classes):
                rows = chosen[k].nonzero().squeeze(1)
                if len(rows):
                    rows = _padded(rows)
                    evidence[k, rows], moments[:, k, rows] = self._solve_class(
                        views[k][:, rows], energy[rows], norm[rows], tables[k]
                    )

        first = ceiling.max(0, keepdim=True).indices
        leading = torch.zeros_like(ceiling, dtype=torch.bool).scatter_(0, first, True)
        solve(leading)
        bar = (evidence.gather(0, first) - _HOPELESS) * self.noise.temperature
        solve(~leading & (ceiling > bar))
        return _mix(evidence, moments, self.noise.level, self._light.shape[1])

    def _solve_class(
        self, projected: Tensor, energy: Tensor, norm: Tensor, table: _ClassTables
    ) -> tuple[Tensor, Tensor]:
        """Log evidence (pixels,) and mean z, mean z², mean w, best residual (4, pixels) of one class."""
        pixels = projected.shape[1]
        chi0 = energy - (table.nuisances @ projected).square_().view(-1, NODES, pixels).sum(0)
        moments = (table.moments @ projected).view(-1, NODES, pixels)
        gain, total, variance = torch.zeros_like(chi0), torch.zeros_like(chi0), torch.zeros_like(chi0)
        for face, solution, spread in zip(table.faces, table.solutions, table.sum_variance, strict=True):
            u = (solution @ projected).view(-1, NODES, pixels)
            explained = u[0] * moments[face[0]]
            for own, member in enumerate(face[1:], start=1):
                explained = torch.addcmul(explained, u[own], moments[member])
            amount = u.sum(0) if len(face) > 1 else u[0]
            better = (explained > gain) & (u.amin(0) >= 0)
            gain = torch.where(better, explained, gain)
            total = torch.where(better, amount, total)
            variance = torch.where(better, spread, variance)
        return self._integrate(chi0, gain, total * norm, variance * norm.square(), table)

    def _integrate(
        self, chi0: Tensor, gain: Tensor, total: Tensor, variance: Tensor, table: _ClassTables
    ) -> tuple[Tensor, Tensor]:
        """Quadrature over θ of what was found at the nodes; all tensors (nodes, pixels).

        The temperature comes last: it widens probabilities, and light but for narrow peaks, and never changes
        which class is best.
        """
        heat = self.noise.temperature
        light = self._lines @ (total * table.strength) / table.fine_strength
        z, w = light * self._cos, light * self._sin
        explained = self._squares @ ((gain - chi0) * table.strength) / table.fine_strength
        likelihood = 0.5 * (explained - self._lines @ table.log_det)
        density = likelihood + self._log_width + _log_prior(z, w, self.noise.level)
        spread = (self._lines @ variance).clamp(min=0) * self._cos.square()
        peak = density.amax(0)
        relative = (density - peak).clamp(min=_NEGLIGIBLE)
        weight = (relative / heat).exp() * self._share
        weight = weight / weight.sum(0)
        mean_square = (weight * (z.square() + spread * heat)).sum(0)
        mass = peak + (relative.exp() * self._share).sum(0).log()
        moments = [mass, (weight * z).sum(0), mean_square, (weight * w).sum(0), -explained.amax(0)]
        evidence, *rest = _sharpened(torch.stack(moments), density, z, w, explained)
        return evidence / heat, torch.stack(rest)


def _sharpened(moments: Tensor, density: Tensor, z: Tensor, w: Tensor, explained: Tensor) -> Tensor:
    """Moments (5, pixels), where the density has a narrow peak by Laplace's method on three angles.

    The other arguments are (angles, pixels).
    """
    centre = density.max(0, keepdim=True).indices.clamp(1, len(density) - 2)

    def about(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        before, here, after = (values.gather(0, centre + step).squeeze(0) for step in (-1, 0, 1))
        return here, 0.5 * (after - before), 2 * here - before - after

    level, slope, curvature = about(density)
    curvature = curvature.clamp(min=1e-6)
    step = slope / curvature
    # Beyond the first and the last angle there is nothing: a peak there is cut.
    room = torch.where(centre == 1, 1 + step, torch.where(centre == len(density) - 2, 1 - step, torch.inf))
    kept = torch.special.log_ndtr(room.squeeze(0) * curvature.sqrt())
    mass = level + 0.5 * slope * step + 0.5 * (2 * math.pi / curvature).log() + kept
    step = step.clamp(-1, 1)

    def at_peak(values: Tensor) -> Tensor:
        here, rise, bend = about(values)
        return here + step * (rise - 0.5 * step * bend)

    light = at_peak(z)
    widening = about(z)[1].square() / curvature
    peaked = torch.stack([mass, light, light.square() + widening, at_peak(w), -at_peak(explained)])
    sharp = (curvature > _SHARP) & peaked.isfinite().all(0)
    return torch.where(sharp, peaked, moments)


def _log_prior(z: Tensor, w: Tensor, level: float) -> Tensor:
    """Flat over possible light, with soft edges; the last term is the Jacobian of (z, w)."""
    glare = ((z - _BRIGHTEST_SUN).clamp(min=0) / level).square()
    glow = ((w - _BRIGHTEST_SKY).clamp(min=0) / _SKY_SOFTNESS).square()
    gloom = ((_DARKEST_SKY - w).clamp(min=0) / _SKY_SOFTNESS).square()
    return -0.5 * (glare + glow + gloom) + 0.5 * (z.square() + w.square()).clamp(min=1e-12).log()


def _strength(lit: FloatArray, angles: FloatArray) -> FloatArray:
    """|cosθ·s + sinθ·d|² of whitened sunlit and skylit spectra (columns, 2), (angles, 1)."""
    gram = lit.T @ lit
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    return np.asarray(cos**2 * gram[0, 0] + 2 * cos * sin * gram[0, 1] + sin**2 * gram[1, 1])


def _padded(rows: Tensor) -> Tensor:
    """Rows with the last one repeated up to a whole number of lanes.

    Matrix products of other widths take other paths and round differently; with whole lanes a pixel's result
    does not depend on its company.
    """
    return torch.cat([rows, rows[-1:].expand(-len(rows) % _LANES)])


def _mix(evidence: Tensor, moments: Tensor, level: float, bands: int) -> PixelPosterior:
    """Sum the classes' posteriors, each with its probability; arguments (…, classes, pixels)."""
    probability = evidence.softmax(0)
    mean, square, sky = (moments[:3] * probability).sum(1)
    variance = (square - mean.square()).clamp(min=0) + (level * mean).square() + 1e-8
    best = moments[3].gather(0, evidence.argmax(0, keepdim=True)).squeeze(0)
    # More than full sun is a material brighter than the library's, under as much less of both lights.
    excess = mean.clamp(min=_BRIGHTEST_SUN)
    return PixelPosterior(evidence.T, mean / excess, variance.sqrt(), sky / excess, best / bands)
