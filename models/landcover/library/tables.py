"""What the land-cover posterior knows before it sees a pixel: linear maps, per class and brightness."""

from __future__ import annotations

import itertools
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from p3vae.models.landcover.library.decoder import Library, NoiseModel, smooth_basis
from p3vae.models.landcover.library.quadrature import LightGrid

FloatArray = npt.NDArray[np.float64]


class ClassTables(NamedTuple):
    """One class at one brightness."""

    maps: Tensor
    """(rows, columns), rows ordered (…, node): from the projected spectrum to coordinates that deviations
    take away, then Φᵀ Σ⁻¹ x, then the coefficients of all faces."""
    nuisances: int
    """How many coordinates deviations take away."""
    size: int
    """How many spectra."""
    faces: tuple[tuple[int, ...], ...]
    """Of the non-negative orthant, by their members; those with one come first."""
    sum_variance: Tensor
    """Variance of the sum of coefficients, (faces, nodes, 1)."""
    carry_light: Tensor
    """(fine, nodes): amounts of light, from nodes to the angles between them."""
    carry_fit: Tensor
    """(fine, nodes): half of what is explained, likewise."""
    log_norm: Tensor
    """-½ log |Σ|, (fine, 1)."""
    best_case: float
    """The highest log likelihood of a pixel without residual."""
    bound: Tensor | None
    """(columns, columns): the square of what it makes of the projected spectrum is never less than what the
    class explains of it at any θ; None where that is the spectrum itself."""


class LevelTables(NamedTuple):
    """All classes at one brightness."""

    precision: float
    """Inverse variance of the residual of a unit-norm spectrum, or of its white part, if ground scatters."""
    whitening: Tensor | None
    """(nodes, columns, columns): makes its projection white where the ground scatters; None where it is."""
    classes: tuple[ClassTables, ...]


class TableBuilder:
    """Tables for one library under one illumination."""

    def __init__(
        self,
        library: Library,
        noise: NoiseModel,
        light: FloatArray,
        wavelength: FloatArray,
        device: torch.device,
    ) -> None:
        """`light` is a and b, (2, bands)."""
        self._library, self._noise, self._light, self._device = library, noise, light, device
        self._smooth = smooth_basis(wavelength)
        self.grid = LightGrid.about(light * np.concatenate(library.spectra).mean(0))
        columns = [self._raw_columns(spectra) for spectra in library.spectra]
        self._scatter: _SeenScatter | None = None
        if library.scatter is None:
            self._bases = [np.linalg.qr(each)[0] for each in columns]
        else:
            self._scatter = _SeenScatter.of(
                library.scatter, light, self.grid.nodes, np.hstack(columns), library.directions
            )
            self._bases = [self._scatter.frame]
        self.basis = self.tensor(np.concatenate([basis.T for basis in self._bases]))
        """(columns of all classes, bands): projection at any brightness but for a factor; where the ground
        scatters, (columns, bands), the same for every class."""
        self.widths = [basis.shape[1] for basis in self._bases]

    def tensor(self, values: FloatArray) -> Tensor:
        """Single precision, on the device."""
        return torch.as_tensor(np.ascontiguousarray(values), dtype=torch.float32, device=self._device)

    def level(self, norm: float) -> LevelTables:
        """Tables for spectra of about this norm."""
        bands = self._light.shape[1]
        white = (self._noise.floor / norm) ** 2 + self._noise.relative**2 / bands
        if self._scatter is not None:
            return self._scattered_level(self._scatter, white, norm)
        log_det = np.full(len(self.grid.nodes), bands * np.log(white))
        classes = [
            self._class(spectra, basis.T / np.sqrt(white), None, norm, log_det)
            for spectra, basis in zip(self._library.spectra, self._bases, strict=True)
        ]
        return LevelTables(float(1.0 / white), None, tuple(classes))

    def _scattered_level(self, scatter: _SeenScatter, white: float, norm: float) -> LevelTables:
        variance, rest = white + scatter.variance / norm, white + scatter.grain / norm
        whitening = (scatter.axes / np.sqrt(variance)[:, None]).mT
        log_det = np.log(variance).sum(1) + scatter.left_out * np.log(rest)
        projection = whitening @ scatter.frame.T
        classes = [
            self._class(spectra, projection, whitening, norm, log_det) for spectra in self._library.spectra
        ]
        return LevelTables(float(1.0 / rest), self.tensor(whitening), tuple(classes))

    def _raw_columns(self, spectra: FloatArray) -> FloatArray:
        """Everything a spectrum of the class can be made of at any θ, (bands, columns)."""
        mean = spectra.mean(0)
        columns = [light * row for light in self._light for row in spectra]
        if self._noise.smooth or self._noise.sky:
            columns += [light * mean * term for light in self._light for term in self._smooth.T]
        if self._noise.reflected:
            columns.append(mean * self._library.surroundings)
        return np.stack(columns, axis=1)

    def _nuisances(
        self, spectra: FloatArray, projection: FloatArray, norm: float
    ) -> tuple[FloatArray, FloatArray]:
        """Deviations of the unit-norm spectrum, of unit prior variance, (nodes, columns, nuisances).

        And columns of unit prior variance that allow for at least as much at any θ, (columns, more).
        `projection` is as in `_class`.
        """
        mean, noise = spectra.mean(0), self._noise
        shape = (len(self.grid.nodes), projection.shape[-2])
        parts, bounds = [np.zeros((*shape, 0))], [projection[..., :0]]
        cos, sin = np.cos(self.grid.nodes)[:, None], np.sin(self.grid.nodes)[:, None]
        if noise.smooth or noise.sky:
            seen = np.linalg.norm((cos * self._light[0] + sin * self._light[1]) * mean, axis=1)[:, None]
            damping = 1.0 / np.sqrt(1.0 + np.arange(self._smooth.shape[1]))
            sun, sky = (
                projection @ ((light * mean)[:, None] * self._smooth * damping) for light in self._light
            )
            shares = (cos * noise.smooth / seen, sin * (noise.smooth + noise.sky) / seen)
            parts.append(shares[0][..., None] * sun + shares[1][..., None] * sky)
            # One deviation moves both; let apart, each costs no more than half of it.
            bounds += [np.sqrt(2) * shares[0].max() * sun, np.sqrt(2) * shares[1].max() * sky]
        if noise.reflected:
            sent = projection @ (mean * self._library.surroundings) * (noise.reflected / norm)
            parts.append(np.broadcast_to(sent, shape)[..., None])
            bounds.append(sent[..., None])
        return np.concatenate(parts, axis=2), np.concatenate(bounds, axis=-1)

    def _class(
        self,
        spectra: FloatArray,
        projection: FloatArray,
        whitening: FloatArray | None,
        norm: float,
        log_det: FloatArray,
    ) -> ClassTables:
        """Tables of one class from what makes a residual white, (columns, bands) or (nodes, columns, bands).

        Given `whitening` (nodes, columns, columns), tables take what is projected and not yet white.
        """
        grid, size = self.grid, len(spectra)
        cos, sin = np.cos(grid.nodes)[:, None, None], np.sin(grid.nodes)[:, None, None]
        sun, sky = (projection @ (light * spectra).T for light in self._light)
        lit = cos * sun + sin * sky
        odd, most_odd = self._nuisances(spectra, projection, norm)
        inner = np.eye(odd.shape[2]) + odd.mT @ odd
        moments = (lit - odd @ np.linalg.solve(inner, odd.mT @ lit)).mT
        gram = moments @ lit
        gram += 1e-9 * np.eye(size) * np.trace(gram, axis1=1, axis2=2)[:, None, None] / size
        faces = [face for count in range(1, size + 1) for face in itertools.combinations(range(size), count)]
        inverses = [np.linalg.inv(gram[:, np.array(face)[:, None], face]) for face in faces]
        rows = [
            np.linalg.solve(np.linalg.cholesky(inner), odd.mT),
            moments,
            *(inverse @ moments[:, face] for face, inverse in zip(faces, inverses, strict=True)),
        ]
        maps = np.concatenate(rows, axis=1)
        maps = maps if whitening is None else maps @ whitening
        # Between nodes light and fit follow the strength of the signal.
        at_nodes = np.square(lit.mean(2)).sum(1)
        at_fine = _strength(sun, sky, grid.fine) if whitening is None else grid.squares @ at_nodes
        log_dets = log_det + np.linalg.slogdet(inner)[1]
        return ClassTables(
            maps=self.tensor(maps.swapaxes(0, 1).reshape(-1, maps.shape[2])),
            nuisances=odd.shape[2],
            size=size,
            faces=tuple(faces),
            sum_variance=self.tensor(np.stack([inverse.sum((1, 2)) for inverse in inverses])[..., None]),
            carry_light=self.tensor(grid.lines * at_nodes / at_fine[:, None]),
            carry_fit=self.tensor(0.5 * grid.squares * at_nodes / at_fine[:, None]),
            log_norm=self.tensor(-0.5 * grid.lines @ log_dets[:, None]),
            best_case=-0.5 * float(np.min(log_dets)),
            bound=self.tensor(_explaining(np.concatenate([sun, sky], axis=1), most_odd))
            if most_odd.size and whitening is None
            else None,
        )


class _SeenScatter(NamedTuple):
    """Scatter of the ground at every node.

    Ground differs, light does not: what is seen of a difference has the colour of the light.
    """

    frame: FloatArray
    """(bands, columns), orthonormal: all that classes are made of, and where scatter is strongest."""
    variance: FloatArray
    """(nodes, columns)."""
    axes: FloatArray
    """Directions in the frame, (nodes, columns, columns)."""
    grain: float
    """Mean variance in every direction outside the frame."""
    left_out: int
    """How many those are."""

    @classmethod
    def of(
        cls,
        scatter: FloatArray,
        light: FloatArray,
        nodes: FloatArray,
        columns: FloatArray,
        directions: int | None,
    ) -> Self:
        """Of a covariance (bands, bands) in the light a and b, (2, bands)."""
        lit = np.cos(nodes)[:, None] * light[0] + np.sin(nodes)[:, None] * light[1]
        colour = lit / np.sqrt(np.square(lit).mean(1, keepdims=True))
        frame = _frame(scatter * (colour.T @ colour) / len(nodes), columns, directions)
        tinted = colour[..., None] * frame
        variance, axes = np.linalg.eigh(tinted.mT @ scatter @ tinted)
        left_out = len(scatter) - frame.shape[1]
        outside = (np.square(colour) @ np.diag(scatter)).mean() - variance.sum(1).mean()
        grain = max(float(outside), 0.0) / max(left_out, 1)
        return cls(frame, np.maximum(variance, 0), axes, grain, left_out)


def _frame(covariance: FloatArray, columns: FloatArray, directions: int | None) -> FloatArray:
    """Orthonormal directions of the columns (bands, …), and as many of the largest variance beside them."""
    bands = len(covariance)
    if directions is None or columns.shape[1] + directions >= bands:
        return np.eye(bands)
    known = np.linalg.qr(columns)[0]
    beside = np.eye(bands) - known @ known.T
    strongest = np.linalg.eigh(beside @ covariance @ beside)[1][:, -directions:]
    return np.linalg.qr(np.hstack([known, strongest]))[0]


def _strength(sun: FloatArray, sky: FloatArray, angles: FloatArray) -> FloatArray:
    """|cosθ·s + sinθ·d|² of the means of whitened sunlit and skylit spectra (columns, spectra), (angles,)."""
    lit = np.stack([sun.mean(1), sky.mean(1)])
    gram = lit @ lit.T
    cos, sin = np.cos(angles), np.sin(angles)
    return np.asarray(cos**2 * gram[0, 0] + 2 * cos * sin * gram[0, 1] + sin**2 * gram[1, 1])


def _explaining(free: FloatArray, odd: FloatArray) -> FloatArray:
    """M with |M p|² what free columns, and others at their price, explain of p; all (columns, …)."""
    both = np.concatenate([free, odd], axis=1)
    price = np.diag(np.repeat([0.0, 1.0], [free.shape[1], odd.shape[1]]))
    gram = both.T @ both
    gram += np.eye(len(gram)) * 1e-9 * np.trace(gram) / len(gram)
    share, axes = np.linalg.eigh(both @ np.linalg.solve(gram + price, both.T))
    return np.asarray(np.sqrt(np.maximum(share, 0))[:, None] * axes.T)
