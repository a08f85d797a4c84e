"""The exact low-rank posterior of the land-cover model: class, direct light z and skylight w of a spectrum.

For a class with latent reflectance spectra ρ_k the decoder is linear once the direction θ of (z, w) is fixed:

    x = Σ_k u_k·m_k(θ) + residual,   m_k(θ) = (cosθ·a + sinθ·b)⊙ρ_k,   u ≥ 0,   z = Σu·cosθ,   w = Σu·sinθ

θ is integrated by quadrature (`light_grid`), narrow peaks by Laplace's method (`light_peak`), u is solved
exactly: the non-negative optimum lies on one of the faces of the orthant, and each face has a closed form.
The residual is Gaussian: white, plus a part that is smooth along the spectrum and proportional to the signal
or to its skylit part, plus light reflected by the surroundings. Those parts are a few extra columns with a
Gaussian prior, so their integral is closed too (`posterior_tables`). Spectra are projected once on the few
columns of each class and the number of bands plays no further part. Classes whose columns leave too much
unexplained are never solved. Where the ground scatters as learned, the residual has many directions and the
colour of the light: that takes them all at every θ.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from p3vae.models.landcover.library.batching import LANES, norms_of, padded, picked
from p3vae.models.landcover.library.decoder import HOPELESS, Library, NoiseModel
from p3vae.models.landcover.library.peak import NARROW, at_peak, averaged, fitted_peak, parabola
from p3vae.models.landcover.library.quadrature import NODES
from p3vae.models.landcover.library.tables import ClassTables, LevelTables, TableBuilder

FloatArray = npt.NDArray[np.float64]

_LEVELS = np.geomspace(0.03, 30.0, 11)
_AT_ONCE = 8192
"""Pixels that are solved together at most: more would not stay in a core's cache."""
_NEGLIGIBLE = -80.0
"""Log of a weight that adds nothing; smaller ones would be slow denormal numbers."""
_BRIGHTEST_SUN, _BRIGHTEST_SKY, _DARKEST_SKY = 1.0, 1.05, 0.2
_SKY_SOFTNESS = 0.1
_LEAST_LIGHT = 1e-6


class PixelPosterior(NamedTuple):
    """Posterior summaries; every tensor (pixels,) unless said."""

    log_evidence: Tensor
    """log p(x | y) over the pixel's temperature, up to a constant, (pixels, classes); -inf for classes never
    solved."""
    sun: Tensor
    """Mean of z."""
    sun_std: Tensor
    sky: Tensor
    """Mean of w."""
    misfit: Tensor
    """Squared whitened residual of the best class in its likeliest light, per band."""


class _Pixels(NamedTuple):
    """Spectra as the tables of their level want them."""

    projected: tuple[Tensor, ...]
    """Per class, whitened coordinates at unit norm on its columns, (columns, pixels); where the ground
    scatters, coordinates that are not white."""
    energy: Tensor
    """Whitened square at unit norm, (pixels,); at every node, (nodes, pixels), where the ground scatters."""
    norm: Tensor
    level: Tensor
    """Index of the nearest tabulated brightness, (pixels,)."""


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
        light = np.stack([direct_ratio, diffuse_ratio])
        self._bands = light.shape[1]
        self._tables = TableBuilder(library, noise, light, wavelength, torch.device(device))
        self._device = torch.device(device)
        tensor, fine = self._tables.tensor, self._tables.grid.fine
        self._cos, self._sin, self._log_width = (
            tensor(values[:, None]) for values in (np.cos(fine), np.sin(fine), np.log(np.gradient(fine)))
        )
        # The trapezoidal rule: the ends count half. Rows sum to the whole, z, w, and z² over light².
        share = np.where(np.arange(len(fine)) % (len(fine) - 1), 1.0, 0.5)
        self._sums = tensor(
            share * np.stack([np.ones_like(fine), np.cos(fine), np.sin(fine), np.cos(fine) ** 2])
        )
        self._steps = torch.arange(-1, 2, device=self._device)[:, None]
        self._levels: dict[int, LevelTables] = {}

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.library.spectra)

    def _level(self, index: int) -> LevelTables:
        if index not in self._levels:
            self._levels[index] = self._tables.level(float(_LEVELS[index]))
        return self._levels[index]

    def solve(self, spectra: Tensor) -> PixelPosterior:
        """Posterior of spectra (pixels, bands), float32, all finite and with some signal.

        The best-bounded class of every pixel first, then all that may matter beside it, then those that
        matter beside the best of them, which may be hotter. Tens of thousands of pixels at once keep the
        share of the interpreter small, but where the ground scatters, each takes all its bands along.
        """
        if self.library.scatter is None:
            return self._solve(spectra)
        parts = [self._solve(part) for part in torch.split(spectra, _AT_ONCE)]
        return PixelPosterior(*(torch.cat(values) for values in zip(*parts, strict=True)))

    def _solve(self, spectra: Tensor) -> PixelPosterior:
        pixels = self._projected(spectra.to(self._device))
        ceiling, count = self._ceiling(pixels), len(pixels.norm)
        found = ceiling.new_zeros((5, self.classes, count + -count % LANES))
        found[0, :, :count] = -torch.inf
        first = _highest(ceiling)
        leading = self._solve_pairs(pixels, torch.arange(count, device=self._device), first.squeeze(0))
        found.scatter_(1, first.expand(len(leading), 1, -1), leading[:, None])
        for _ in range(2):
            bar = leading[0] - HOPELESS * self._heat(leading[4])
            classes, rows = ((ceiling > bar) & found[0, :, :count].isneginf()).nonzero(as_tuple=True)
            if not len(rows):
                break
            found[:, classes, rows] = self._solve_pairs(pixels, rows, classes)
            leading = _of_best(found)[:, :count]
        return PixelPosterior(*(values[:count] for values in self._mixed(found)))

    def _heat(self, residual: Tensor) -> Tensor:
        """Temperature of pixels with a squared whitened residual, (pixels,).

        What fits worse than the noise allows has as much more noise.
        """
        excess: Tensor = residual / self._bands
        return self.noise.temperature * excess.clamp(min=1.0)

    def _projected(self, spectra: Tensor) -> _Pixels:
        norm = norms_of(spectra)
        first, last = np.log(_LEVELS[[0, -1]])
        place = (norm.log() - first) * ((len(_LEVELS) - 1) / (last - first))
        level = place.round().clamp(0, len(_LEVELS) - 1).long()
        used = [k for k, count in enumerate(torch.bincount(level).tolist()) if count]
        if self.library.scatter is not None:
            return self._scattered(spectra, norm, level, used)
        precision = norm.new_zeros(len(_LEVELS))
        precision[used] = norm.new_tensor([self._level(k).precision for k in used])
        precision = precision[level]
        basis, whole = self._tables.basis, len(spectra) - len(spectra) % LANES
        projected = norm.new_empty((len(basis), len(spectra)))
        torch.matmul(basis, spectra[:whole].T, out=projected[:, :whole])
        if whole < len(spectra):
            rest = padded(torch.arange(whole, len(spectra), device=self._device))
            projected[:, whole:] = (basis @ picked(spectra, rest).T)[:, : len(spectra) - whole]
        projected *= precision.sqrt() / norm
        return _Pixels(torch.split(projected, self._tables.widths), precision, norm, level)

    def _scattered(self, spectra: Tensor, norm: Tensor, level: Tensor, used: list[int]) -> _Pixels:
        """The same where the ground scatters, which takes other coordinates in every light."""
        lanes, basis = padded(torch.arange(len(spectra), device=self._device)), self._tables.basis
        unit = picked(spectra, lanes).div_(norm[lanes, None]).T
        projected = basis @ unit
        # Not one less what is inside: that difference of squares would be mostly rounding.
        outside = (unit - basis.T @ projected).square().sum(0)
        energy = norm.new_empty((NODES, len(norm)))
        for k in used:
            rows, tables = (level == k).nonzero().squeeze(1), self._level(k)
            seen = projected.index_select(1, padded(rows))
            assert tables.whitening is not None
            for node, white in zip(energy, tables.whitening, strict=True):
                node[rows] = (white @ seen).square().sum(0)[: len(rows)]
            energy[:, rows] += outside[rows] * tables.precision
        return _Pixels((projected[:, : len(norm)],) * self.classes, energy, norm, level)

    def _ceiling(self, pixels: _Pixels) -> Tensor:
        """No class can have a higher log likelihood than this, (classes, pixels)."""
        ceiling = pixels.norm.new_full((self.classes, len(pixels.norm)), torch.inf)
        if self.library.scatter is not None:
            return ceiling  # a bound would cost more than the solution
        groups = torch.split(pixels.level.argsort(), torch.bincount(pixels.level).tolist())
        for k, rows in enumerate(groups):
            if not len(rows):
                continue
            lanes = padded(rows)
            views = [view.index_select(1, lanes) for view in pixels.projected]
            best = [
                table.best_case + 0.5 * (view if table.bound is None else table.bound @ view).square().sum(0)
                for table, view in zip(self._level(k).classes, views, strict=True)
            ]
            ceiling.index_copy_(1, lanes, torch.stack(best) - 0.5 * pixels.energy[lanes])
        return ceiling

    def _solve_pairs(self, pixels: _Pixels, rows: Tensor, classes: Tensor) -> Tensor:
        """Log evidence, mean z, mean z², mean w and best residual of pixels in classes, (5, pairs).

        Light is as uncertain as the temperature has it, evidence is not divided by it yet.
        """
        code = pixels.level[rows] * self.classes + classes
        peaks, sums, broad, place, done = [], [], [], [], 0
        groups = torch.split(code.argsort(), [n for n in torch.bincount(code).tolist() if n])
        for group in itertools.chain.from_iterable(torch.split(group, _AT_ONCE) for group in groups):
            level, k = divmod(int(code[group[0]]), self.classes)
            lanes = padded(group)
            mine = rows[lanes]
            peak, blunt, total = self._solve_class(
                pixels.projected[k].index_select(1, mine),
                pixels.energy.index_select(-1, mine),
                pixels.norm[mine],
                self._level(level).classes[k],
            )
            peaks.append(peak)
            sums.append(total)
            broad.append(blunt + done)
            place.append(lanes)
            done += len(lanes)
        found = pixels.norm.new_empty((5, len(rows)))
        if done:
            summary = self._summary(torch.cat(peaks, 1), torch.cat(broad), torch.cat(sums, 1))
            found.index_copy_(1, torch.cat(place), summary)
        return found

    def _solve_class(
        self, projected: Tensor, energy: Tensor, norm: Tensor, table: ClassTables
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The posterior over θ in one class.

        Log density and amount of light at the three angles about the peak, the variance of the amount and the
        angle's index there, and the residual (9, pixels); which pixels have a broad peak, and `_summed` of
        those.
        """
        free, gain, amount, variance = _best_faces(projected, energy, table)
        light = table.carry_light @ (amount * norm)
        fit = table.carry_fit @ (gain - free)
        density = _log_prior(light, light * self._cos, light * self._sin, self.noise.level)
        density.add_(fit).add_(table.log_norm + self._log_width)
        variance = (table.carry_light @ variance).clamp_(min=0) * norm.square()
        centre = _highest(density).clamp_(1, len(density) - 2)
        about = centre + self._steps
        three = density.gather(0, about)
        residual = -2 * at_peak(fit.gather(0, about), three)[None]
        rows = [three, light.gather(0, about), variance.gather(0, centre), centre.to(norm.dtype), residual]
        peak = torch.cat(rows)
        broad = self._is_broad(three, self._heat(residual[0])).nonzero().squeeze(1)
        if not len(broad):
            return peak, broad, norm.new_zeros((4, 0))
        curves = (density, light, variance, residual)
        if 2 * len(broad) > len(norm):
            return peak, torch.arange(len(norm), device=norm.device), self._summed(*curves)
        broad = padded(broad)
        return peak, broad, self._summed(*(values.index_select(1, broad) for values in curves))

    @staticmethod
    def _is_broad(density: Tensor, heat: Tensor) -> Tensor:
        """Whether a sum may do better than Laplace's method, from the density at three angles."""
        return parabola(density)[2] <= NARROW * heat.clamp(min=1.0)

    def _summed(self, density: Tensor, light: Tensor, variance: Tensor, residual: Tensor) -> Tensor:
        """Log mass, mean z, mean z² and mean w, (4, pixels), by the trapezoidal rule over θ.

        The temperature widens light, and not the mass: it never changes which class is best.
        """
        best, heat = density.amax(0), self._heat(residual)
        relative = density - best
        weight = _cooled(relative, self._log_width - self._log_width.amax(), heat)
        weight = weight.clamp_(min=_NEGLIGIBLE).exp_()
        mass = self._sums[:1] @ relative.clamp_(min=_NEGLIGIBLE).exp_()
        lit = weight * light
        sun, sky = self._sums[1:3] @ lit
        square = self._sums[3] @ lit.mul_(light).add_(weight.mul(variance).mul_(heat))
        means = torch.stack([sun, square, sky]) / (self._sums[0] @ weight)
        return torch.cat([mass.log_() + best, means])

    def _summary(self, peaks: Tensor, broad: Tensor, sums: Tensor) -> Tensor:
        """Log evidence and moments from what `_solve_class` found, (5, pixels)."""
        density, light = peaks[:6].view(2, 3, -1)
        variance, centre, residual = peaks[6], peaks[7].long(), peaks[8]
        heat = self._heat(residual)
        about = centre + self._steps
        cos, sin, log_width = (values[:, 0][about] for values in (self._cos, self._sin, self._log_width))
        cut = (centre == len(self._cos) - 2).to(density.dtype) - (centre == 1).to(density.dtype)
        sharp, cooled = fitted_peak(density, cut), fitted_peak(_cooled(density, log_width, heat), cut)
        sun, spread = averaged(light * cos, cooled)
        spread += variance * cos[1].square() * heat
        sky = averaged(light * sin, cooled)[0]
        found = torch.stack([sharp.log_mass, sun, sun.square() + spread, sky, residual])
        fine = [sharp.is_narrow, cooled.is_narrow, cooled.is_narrow, cooled.is_narrow]
        summed = (~torch.stack(fine)).index_select(1, broad)
        summed &= self._is_broad(density.index_select(1, broad), heat[broad])
        found[:4].index_copy_(1, broad, torch.where(summed, sums, found[:4].index_select(1, broad)))
        return found

    def _mixed(self, found: Tensor) -> PixelPosterior:
        """Sum the classes' posteriors, each with its probability; (5, classes, pixels).

        The evidence of all classes of a pixel has the temperature of the best.
        """
        residual = _of_best(found)[4]
        evidence = found[0] / self._heat(residual)
        mean, square, sky = (found[1:4] * evidence.softmax(0)).sum(1)
        variance = (square - mean.square()).clamp(min=0) + (self.noise.level * mean).square() + 1e-8
        # More than full sun is a material brighter than the library's, under as much less of both lights.
        excess = mean.clamp(min=_BRIGHTEST_SUN)
        return PixelPosterior(
            evidence.T, mean / excess, variance.sqrt(), sky / excess, residual.clamp(min=0) / self._bands
        )


def _cooled(density: Tensor, log_width: Tensor, heat: Tensor) -> Tensor:
    """Log density over the temperature, but for the width of steps, which is no probability."""
    return density / heat + (1 - 1 / heat) * log_width


def _best_faces(
    projected: Tensor, energy: Tensor, table: ClassTables
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The non-negative optimum at every node: residual without light, what the light explains of it, the sum
    of coefficients and its variance, (nodes, pixels) each."""
    maps = (table.maps @ projected).view(-1, NODES, projected.shape[1])
    odd, moments, rest = torch.split(
        maps, [table.nuisances, table.size, len(maps) - table.nuisances - table.size]
    )
    free = energy - odd.square_().sum(0) if len(odd) else energy
    gain, amount = torch.zeros_like(moments[0]), torch.zeros_like(moments[0])
    variance = table.sum_variance[0].repeat(1, gain.shape[1])
    start = 0
    for face, spread in zip(table.faces, table.sum_variance, strict=True):
        u = rest[start : start + len(face)]
        start += len(face)
        explained, least, total = u[0] * moments[face[0]], u[0], u[0]
        for own, member in enumerate(face[1:], start=1):
            explained.addcmul_(u[own], moments[member])
            least, total = torch.minimum(least, u[own]), total + u[own]
        # One or zero, and blended with that: `where` and comparisons to bools are many times slower.
        better = torch.minimum(least, explained - gain).gt_(0)
        gain.lerp_(explained, better)
        amount.lerp_(total, better)
        variance.lerp_(spread.expand_as(gain), better)
    return free, gain, amount, variance


def _of_best(found: Tensor) -> Tensor:
    """What was found of the likeliest class, (5, pixels) of (5, classes, pixels)."""
    best = _highest(found[0]).expand(len(found), 1, -1)
    return found.gather(1, best).squeeze(1)


def _highest(values: Tensor) -> Tensor:
    """Index of the highest value of each column, (1, columns); `argmax` over rows is many times slower."""
    numbers = torch.arange(len(values), dtype=values.dtype, device=values.device)[:, None]
    is_highest = torch.empty_like(values)
    torch.eq(values, values.amax(0), out=is_highest)
    return is_highest.mul_(numbers).amax(0, keepdim=True).long()


def _log_prior(light: Tensor, z: Tensor, w: Tensor, level: float) -> Tensor:
    """Flat over possible light, with soft edges; the amount of light is the Jacobian of (z, w)."""
    glare = (z - _BRIGHTEST_SUN).clamp_(min=0)
    beyond = w - w.clamp(_DARKEST_SKY, _BRIGHTEST_SKY)
    prior = light.clamp(min=_LEAST_LIGHT).log_()
    prior.addcmul_(glare, glare, value=-0.5 / level**2)
    return prior.addcmul_(beyond, beyond, value=-0.5 / _SKY_SOFTNESS**2)
