"""Methane absorption, the transmittance of a plume in a sensor's bands, and the plume layer f_E.

A column `u` is the path-integrated enhancement times the air mass factor [ppm m]: what the light crosses.
Inside a band, lines saturate: -ln T grows slower than u. Hence curves T_b(u) instead of one coefficient.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import integrate
from torch import Tensor, nn

from p3vae.physics.spectral_response import FWHM_PER_SIGMA, Bands

Float64Array = npt.NDArray[np.float64]
FloatArray = npt.NDArray[np.floating[Any]]

BLIND_DEPTH = 0.003
"""Bands with a smaller optical depth [1] at the largest column in question are blind to methane."""
RESPONSE_REACH_SIGMA = 4.0
LINE_WIDTH_NM = 0.03
"""Half-width at half maximum of methane's lines at 2300 nm in air at the ground, about 0.055 cm-1 [nm]: a
table with larger steps does not show them."""
LARGEST_RATIO = 10.0
"""Of a user's absorption to ours: beyond it one of them is not methane's."""
CURVE_NODES = 64


def air_mass_factor(sun_zenith_deg: float, view_zenith_deg: float = 0.0) -> float:
    """Length of the sun-ground-sensor path through a plume over its vertical extent [1].

    1/cos(SZA) + 1/cos(VZA), plane-parallel. Raises ValueError for zeniths of 85 degrees and more, where the
    plane-parallel path is no longer right.
    """
    for name, angle in (("sun", sun_zenith_deg), ("view", view_zenith_deg)):
        if not 0.0 <= angle < 85.0:
            raise ValueError(f"{name} zenith must lie in [0, 85) degrees, not {angle:g}")
    return float(1.0 / np.cos(np.deg2rad(sun_zenith_deg)) + 1.0 / np.cos(np.deg2rad(view_zenith_deg)))


@dataclass(frozen=True, eq=False)
class MethaneAbsorption:
    """Methane absorption on a fine wavelength grid.

    tau(u) = 2 k u / (1 + sqrt(1 + s u)) per wavelength: Beer-Lambert where s = 0; s > 0 is the saturation of
    lines that the grid itself does not resolve (Malkmus' shape).
    """

    wavelength_nm: Float64Array
    """Ascending grid [nm], (n,)."""
    absorption: Float64Array
    """One-way absorption k of a vanishing column [ppm-1 m-1], (n,)."""
    saturation: Float64Array
    """s [ppm-1 m-1], (n,)."""
    background: Float64Array
    """Relative radiance without plume, the weight of each wavelength within a band, (n,)."""
    source: str
    """Where the numbers come from."""
    borrowed_lines: bool = False
    """Whether a coarse table gives the strength, and the shipped one the lines."""

    @classmethod
    def load(cls) -> MethaneAbsorption:
        """The table shipped with the package, 1400-2522 nm (see `data/README.md`)."""
        with resources.files("p3vae.physics").joinpath("data/methane.npz").open("rb") as stream:
            table = np.load(stream, allow_pickle=False)
            columns = {
                name: table[name].astype(np.float64)
                for name in ("wavelength_nm", "absorption", "saturation", "background")
            }
            return cls(**columns, source=str(table["source"]))

    @classmethod
    def from_table(
        cls,
        wavelength_nm: FloatArray,
        absorption: FloatArray,
        *,
        background: FloatArray | None = None,
        source: str = "user table",
    ) -> MethaneAbsorption:
        """A table of one-way absorption [ppm-1 m-1] from elsewhere, Beer-Lambert on its own grid [nm]."""
        wavelength, k = np.asarray(wavelength_nm, np.float64), np.asarray(absorption, np.float64)
        if wavelength.ndim != 1 or wavelength.shape != k.shape or len(k) < 2:
            raise ValueError("an absorption table needs a wavelength [nm] and an absorption per row")
        if not (np.isfinite(wavelength).all() and np.isfinite(k).all() and (np.diff(wavelength) > 0).all()):
            raise ValueError("an absorption table needs finite values and ascending wavelengths")
        if (k < 0).any():
            raise ValueError("absorption cannot be negative")
        weight = np.ones_like(k) if background is None else np.asarray(background, np.float64)
        return cls(wavelength, k, np.zeros_like(k), weight, source)

    def scaled(self, factor: float) -> MethaneAbsorption:
        """The same gas, `factor` times as absorbing per ppm m."""
        return replace(self, absorption=self.absorption * factor, saturation=self.saturation * factor)

    @classmethod
    def from_user(
        cls, wavelength_nm: FloatArray, absorption: FloatArray, *, source: str
    ) -> MethaneAbsorption:
        """A user's table: Beer-Lambert where its steps resolve lines; otherwise our lines with its strength.

        Coarser steps hide how lines saturate. Then our table is scaled so that its means over the user's
        steps are the user's. Either way bands are averaged with the light of our table.
        """
        given, own = cls.from_table(wavelength_nm, absorption, source=source), cls.load()
        if given.resolves_lines:
            light = np.interp(given.wavelength_nm, own.wavelength_nm, own.background)
            return replace(given, background=light)
        nm = given.wavelength_nm
        middle = (nm[1:] + nm[:-1]) / 2.0
        edges = np.concatenate([[2.0 * nm[0] - middle[0]], middle, [2.0 * nm[-1] - middle[-1]]])
        total = integrate.cumulative_trapezoid(own.absorption, own.wavelength_nm, initial=0.0)
        mean = np.diff(np.interp(edges, own.wavelength_nm, total)) / np.diff(edges)
        ratio = np.divide(given.absorption, mean, out=np.zeros_like(mean), where=mean > 0.0)
        strength = np.interp(own.wavelength_nm, nm, ratio.clip(max=LARGEST_RATIO), left=0.0, right=0.0)
        scaled = {name: getattr(own, name) * strength for name in ("absorption", "saturation")}
        return replace(own, **scaled, source=source, borrowed_lines=True)

    @property
    def resolves_lines(self) -> bool:
        """Whether the steps of the grid are as small as methane's lines are wide."""
        return bool(np.median(np.diff(self.wavelength_nm)) <= LINE_WIDTH_NM)

    def shifted(self, shift_nm: float) -> MethaneAbsorption:
        """The same gas with its lines moved by `shift_nm` [nm]: a spectral calibration error."""
        return replace(self, wavelength_nm=self.wavelength_nm + shift_nm)

    def optical_depth(self, column_ppm_m: float) -> Float64Array:
        """tau [1] per wavelength for one column u [ppm m], (n,)."""
        return 2.0 * self.absorption * column_ppm_m / (1.0 + np.sqrt(1.0 + self.saturation * column_ppm_m))

    def covers(self, bands: Bands) -> npt.NDArray[np.bool_]:
        """True where a band's centre lies on the grid, (bands,)."""
        centre = bands.wavelength_nm
        inside: npt.NDArray[np.bool_] = (centre >= self.wavelength_nm[0]) & (centre <= self.wavelength_nm[-1])
        return inside

    def band_transmittance(
        self, bands: Bands, *, centres_nm: FloatArray | None = None, max_column_ppm_m: float = 5e5
    ) -> BandTransmittance:
        """Transmittance curves of Gaussian bands; bands outside the grid do not absorb.

        `centres_nm` (columns, bands) replaces the nominal centres for a sensor whose centres change across
        the detector (smile): the result then holds one curve per detector column and band.
        `max_column_ppm_m` [ppm m]: beyond it the optical depth goes on with its last slope.
        """
        centres = np.asarray(bands.wavelength_nm if centres_nm is None else centres_nm, np.float64)
        flat = np.atleast_2d(centres)
        peak = self._band_average(flat, bands.fwhm_nm, self.absorption[:, None]).max()
        if peak <= 0.0:
            raise ValueError("no band of the sensor absorbs methane: bands within 1600-2500 nm are needed")
        unit = 2e-3 / peak
        nodes = unit * np.expm1(np.linspace(0.0, np.log1p(max_column_ppm_m / unit), CURVE_NODES))
        fine_depth = np.stack([self.optical_depth(u) for u in nodes], axis=1)
        fine_slope = self.absorption[:, None] / np.sqrt(1.0 + self.saturation[:, None] * nodes)
        light = np.exp(-fine_depth)
        transmitted = self._band_average(flat, bands.fwhm_nm, light)
        slope = self._band_average(flat, bands.fwhm_nm, light * fine_slope)
        on_grid = transmitted[..., :1] > 0.0
        transmitted = np.where(on_grid, np.clip(transmitted, np.finfo(np.float64).tiny, 1.0), 1.0)
        shape = (*centres.shape[:-1], CURVE_NODES, centres.shape[-1])
        depth_table, slope_table = (
            torch.as_tensor(np.moveaxis(table, -1, -2).reshape(shape).copy())
            for table in (-np.log(transmitted), slope / transmitted)
        )
        return BandTransmittance(unit, depth_table, slope_table, torch.as_tensor(nodes))

    def _band_average(self, centres: Float64Array, fwhm: FloatArray, quantity: Float64Array) -> Float64Array:
        """Mean of `quantity` (n, m) by response and radiance, (columns, bands, m); 0 off the grid."""
        step = np.gradient(self.wavelength_nm)
        out = np.zeros((*centres.shape, quantity.shape[1]))
        for band, width in enumerate(np.asarray(fwhm, np.float64)):
            sigma, centre = width / FWHM_PER_SIGMA, centres[:, band]
            reach = RESPONSE_REACH_SIGMA * sigma
            start, stop = np.searchsorted(self.wavelength_nm, [centre.min() - reach, centre.max() + reach])
            on_grid = (centre >= self.wavelength_nm[0]) & (centre <= self.wavelength_nm[-1])
            if start == stop or not on_grid.any():
                continue
            near = slice(start, stop)
            distance = (self.wavelength_nm[near] - centre[:, None]) / sigma
            weight = np.exp(-0.5 * distance**2) * step[near] * self.background[near] * on_grid[:, None]
            total = weight.sum(1, keepdims=True)
            out[:, band] = (weight @ quantity[near]) / np.where(total > 0.0, total, 1.0)
        return out


class BandTransmittance(nn.Module):
    """T_b(u) of every band b, differentiable in the column u [ppm m].

    -ln T_b is interpolated by cubic Hermite pieces between tabulated depths and their exact slopes, so the
    derivative is continuous. Columns below zero and beyond the last node follow the tangent there.
    Curves are shared by all pixels (tables: nodes x bands) or differ by detector column (tables: columns x
    nodes x bands).
    """

    depth: Tensor
    slope: Tensor
    nodes_ppm_m: Tensor

    def __init__(self, unit_ppm_m: float, depth: Tensor, slope: Tensor, nodes_ppm_m: Tensor) -> None:
        """Node i lies at unit * (exp(i * step) - 1), so the piece of a column is found without a search."""
        super().__init__()
        self.unit_ppm_m = unit_ppm_m
        self._pieces_per_log = (len(nodes_ppm_m) - 1) / float(np.log1p(float(nodes_ppm_m[-1]) / unit_ppm_m))
        self.register_buffer("depth", depth)
        self.register_buffer("slope", slope)
        self.register_buffer("nodes_ppm_m", nodes_ppm_m)

    @classmethod
    def constant(cls, absorption: FloatArray) -> BandTransmittance:
        """Beer-Lambert with one coefficient per band [ppm-1 m-1], as published."""
        slope = torch.as_tensor(np.asarray(absorption, np.float64)).unsqueeze(-2)
        nodes = torch.tensor([0.0, 1.0], dtype=torch.float64)
        return cls(1.0, slope * nodes[:, None], slope.repeat_interleave(2, dim=-2), nodes)

    @property
    def absorption(self) -> Tensor:
        """Small-signal absorption A_b [ppm-1 m-1], (..., bands)."""
        return self.slope[..., 0, :]

    def of_columns(self, start: int, stop: int) -> BandTransmittance:
        """Mean curves of the detector columns `start` to `stop` (not included)."""
        depth, slope = self.depth[start:stop].mean(0), self.slope[start:stop].mean(0)
        return BandTransmittance(self.unit_ppm_m, depth, slope, self.nodes_ppm_m)

    def absorbing(self, max_column_ppm_m: float) -> Tensor:
        """True for the bands that lose a noticeable share of light to a column [ppm m], (bands,)."""
        depth = self.slope.reshape(-1, *self.slope.shape[-2:])[:, 0] * max_column_ppm_m
        return depth.amax(0) > BLIND_DEPTH

    def optical_depth(self, column_ppm_m: Tensor, detector_column: Tensor | None = None) -> Tensor:
        """-ln T_b(u): (..., bands) for columns (...) [ppm m]; `detector_column` (...) picks the curves."""
        return self.depth_and_slope(column_ppm_m, detector_column)[0]

    def depth_and_slope(
        self, column_ppm_m: Tensor, detector_column: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """tau_b(u) = -ln T_b(u) and d tau_b / d u [ppm-1 m-1], (..., bands) each."""
        u = column_ppm_m.clamp(0.0, float(self.nodes_ppm_m[-1]))
        position = torch.log1p(u.detach() / self.unit_ppm_m) * self._pieces_per_log
        piece = position.nan_to_num().long().clamp(max=len(self.nodes_ppm_m) - 2)
        row = (piece,) if detector_column is None else (detector_column, piece)
        next_row = (*row[:-1], piece + 1)
        start = self.nodes_ppm_m[piece]
        width = (self.nodes_ppm_m[piece + 1] - start).unsqueeze(-1)
        f = (u - start).unsqueeze(-1) / width
        rise = self.depth[next_row] - self.depth[row]
        before, after = self.slope[row] * width, self.slope[next_row] * width
        square, cube = 3.0 * rise - 2.0 * before - after, before + after - 2.0 * rise
        inside = self.depth[row] + f * (before + f * (square + f * cube))
        slope = (before + f * (2.0 * square + 3.0 * f * cube)) / width
        return inside + (column_ppm_m - u).unsqueeze(-1) * slope, slope

    def forward(self, column_ppm_m: Tensor, detector_column: Tensor | None = None) -> Tensor:
        """T_b(u) [1]: (..., bands) for columns (...) [ppm m]."""
        return torch.exp(-self.optical_depth(column_ppm_m, detector_column))
