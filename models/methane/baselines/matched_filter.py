"""The matched filter family: classic, on log radiance, and iterated with albedo and sparsity (mag1c).

Per detector column (or group of columns): mu, C mean and covariance of the background, t the change of
radiance per ppm m:   alpha = (x - mu)' C^-1 t / (t' C^-1 t).

mag1c (Foote et al. 2020, 10.1109/TGRS.2020.2976888): with r = x'mu / mu'mu from the first mu,

    alpha <- max(0, [(x - mu)' C^-1 t - 1 / (r alpha)] / (r t' C^-1 t))

30 times, mu and C each time those of x - r alpha t. The statistics of all rounds are kept for other pixels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from p3vae.models.methane.background.covariance import MIN_SHRINKAGE, shrunk_covariance
from p3vae.models.methane.types import MethaneEstimate, PlumeOptics

Variant = Literal["classic", "log", "mag1c"]

WINDOW_NM = (1590.0, 2500.0)
"""Bands a filter looks at [nm]: those where methane absorbs, and their neighbours."""
ITERATIONS = 30
MAG1C_NM = (2122.0, 2488.0)
"""Bands of mag1c [nm]."""
MAG1C_PPM_M = (0.0, 500.0, 1000.0, 2000.0, 4000.0, 8000.0, 16_000.0)
"""Enhancements [ppm m] over which the slope of ln L is fitted, so that it is that of a usual plume."""
MAG1C_SCALE_PPM_M = 1e5
"""Its unit [ppm m], in which the two constants that follow are."""
MAG1C_FLOOR, MAG1C_LEAST_POWER = 1e-9, 1.0
"""What keeps 1 / alpha finite, and the least t' C^-1 t."""
DARKEST_SHARE = 1e-3
"""Of the mean radiance: darker pixels are raised to it before their logarithm is taken."""
MIN_PIXELS_PER_BAND = 2.0
"""Columns with fewer pixels share their statistics with their neighbours."""


@dataclass(frozen=True, eq=False)
class _ColumnGroup:
    """Of one group of detector columns."""

    mean: Tensor
    target: Tensor
    """t, change of the spectrum per ppm m, (bands,)."""
    filter: Tensor
    """C^-1 t, (bands,)."""
    power: Tensor
    """t' C^-1 t."""
    clutter: Tensor
    """Scatter of the filter's output over the background [ppm m]."""
    rounds: tuple[_ColumnGroup, ...] = ()
    """mag1c: the statistics of every round after this first one."""


@dataclass(frozen=True, eq=False)
class MatchedFilter:
    """A fitted filter: statistics per group of detector columns."""

    variant: Variant
    bands: Tensor
    """Indices of the bands in use."""
    slope: Tensor
    """d ln L / d ppm m of these bands."""
    floor: Tensor
    """Least radiance (bands,) whose logarithm is taken; from the fitted pixels, so that tiles agree."""
    statistics: tuple[_ColumnGroup, ...]
    group_of_column: Tensor | None
    """Group of each detector column; None when all columns are one."""

    @classmethod
    def fit(
        cls,
        radiance: Tensor,
        optics: PlumeOptics,
        *,
        variant: Variant = "classic",
        detector_column: Tensor | None = None,
    ) -> MatchedFilter:
        """From background radiance (pixels, bands); `mag1c` also takes pixels with rare plumes."""
        low, high = MAG1C_NM if variant == "mag1c" else WINDOW_NM
        inside = (optics.wavelength_nm >= low) & (optics.wavelength_nm <= high)
        stuck = radiance.amax(0) == radiance.amin(0)
        bands = torch.where(inside & ~stuck)[0]
        if not optics.absorbing[bands].any():
            raise ValueError(f"a matched filter needs bands between {low:g} and {high:g} nm")
        slope = _usual_slope(optics)[bands] if variant == "mag1c" else -optics.slope[bands]
        floor = DARKEST_SHARE * radiance[:, bands].double().abs().mean(0)
        spectra = _domain(radiance[:, bands].double(), variant, floor)
        if detector_column is None:
            return cls(variant, bands, slope, floor, (_statistics(spectra, slope, variant),), None)
        columns = optics.detector_columns or int(detector_column.max()) + 1
        group = _column_groups(detector_column, columns, MIN_PIXELS_PER_BAND * len(bands))
        statistics = tuple(
            _statistics(spectra[group[detector_column] == g], slope, variant)
            for g in range(int(group.max()) + 1)
        )
        return cls(variant, bands, slope, floor, statistics, group)

    def invert(self, radiance: Tensor, detector_column: Tensor | None = None) -> MethaneEstimate:
        """Enhancements of radiance (pixels, bands)."""
        spectra = _domain(radiance[:, self.bands].double(), self.variant, self.floor)
        if self.group_of_column is None:
            return self._invert_group(spectra, self.statistics[0])
        if detector_column is None:
            raise ValueError("this filter was fitted per detector column: the pixels' columns are needed")
        group = self.group_of_column[detector_column]
        out = torch.empty(3, len(spectra), dtype=torch.float64, device=spectra.device)
        for g in sorted(set(group.tolist())):
            rows = torch.where(group == g)[0]
            part = self._invert_group(spectra[rows], self.statistics[g])
            out[:, rows] = torch.stack([part.ppm_m, part.std, part.sensitivity])
        return MethaneEstimate(*out)

    def _invert_group(self, spectra: Tensor, s: _ColumnGroup) -> MethaneEstimate:
        clutter = s.clutter
        response = (spectra - s.mean) @ s.filter
        if self.variant == "log":
            ones = torch.ones_like(response)
            return MethaneEstimate(response / s.power, clutter * ones, ones)
        sensitivity = (spectra * self.slope) @ s.filter / s.power
        if self.variant == "classic":
            return MethaneEstimate(response / s.power, clutter.expand(len(spectra)), sensitivity)
        albedo = _albedo(spectra, s.mean)
        alpha = (response / (albedo * s.power)).clamp(min=0.0)
        for current in s.rounds:
            alpha = _penalised((spectra - current.mean) @ current.filter, albedo, current.power, alpha)
        return MethaneEstimate(alpha, clutter / albedo, sensitivity / albedo)


def _domain(radiance: Tensor, variant: Variant, floor: Tensor) -> Tensor:
    return torch.log(torch.maximum(radiance, floor)) if variant == "log" else radiance


def _usual_slope(optics: PlumeOptics) -> Tensor:
    """Slope of ln L per ppm m, (bands,), by a straight line through the transmittance of usual plumes."""
    ppm_m = torch.tensor(MAG1C_PPM_M, dtype=torch.float64)
    columns = optics.detector_columns
    mean = optics if columns is None else optics.of_columns(0, columns)
    centred = ppm_m - ppm_m.mean()
    return centred @ torch.log(mean.transmittance(ppm_m)) / (centred @ centred)


def _statistics(spectra: Tensor, slope: Tensor, variant: Variant) -> _ColumnGroup:
    mean = spectra.mean(0)
    target = slope if variant == "log" else slope * mean
    if variant != "mag1c":
        return _matched(spectra, target, shrunk_covariance(spectra - mean)[1])
    # as published without shrinkage, which only keeps a covariance of too few pixels from failing
    shrinkage = 0.0 if len(spectra) > 2 * spectra.shape[1] else MIN_SHRINKAGE
    return _without_plumes(spectra, slope, _matched(spectra, target, shrinkage), shrinkage)


def _matched(spectra: Tensor, target: Tensor, shrinkage: float) -> _ColumnGroup:
    """The filter for `target` over the background `spectra`."""
    mean = spectra.mean(0)
    sample = (spectra - mean).T @ (spectra - mean) / len(spectra)
    diagonal = torch.diag(sample.diagonal())
    factor, failed = torch.linalg.cholesky_ex((1.0 - shrinkage) * sample + shrinkage * diagonal)
    if int(failed):  # radiance without noise
        factor = torch.linalg.cholesky((1.0 - MIN_SHRINKAGE) * sample + MIN_SHRINKAGE * diagonal)
    matched = torch.cholesky_solve(target[:, None], factor)[:, 0]
    power = target @ matched
    return _ColumnGroup(mean, target, matched, power, (matched @ sample @ matched).sqrt() / power)


def _without_plumes(spectra: Tensor, slope: Tensor, start: _ColumnGroup, shrinkage: float) -> _ColumnGroup:
    """Alternate enhancements and statistics of what is left without them."""
    albedo = _albedo(spectra, start.mean)
    alpha = ((spectra - start.mean) @ start.filter / (albedo * start.power)).clamp(min=0.0)
    current, rounds = start, []
    for _ in range(ITERATIONS):
        clean = spectra - (albedo * alpha)[:, None] * current.target
        current = _matched(clean, slope * clean.mean(0), shrinkage)
        alpha = _penalised((spectra - current.mean) @ current.filter, albedo, current.power, alpha)
        rounds.append(current)
    return replace(start, clutter=current.clutter, rounds=tuple(rounds))


def _albedo(spectra: Tensor, mean: Tensor) -> Tensor:
    """Brightness of each pixel relative to the mean spectrum."""
    return (spectra @ mean / (mean @ mean)).clamp(min=1e-3)


def _penalised(response: Tensor, albedo: Tensor, power: Tensor, before: Tensor) -> Tensor:
    """One step of reweighted-L1, non-negative estimation."""
    penalty = 1.0 / (albedo * (before + MAG1C_FLOOR * MAG1C_SCALE_PPM_M))
    least = MAG1C_LEAST_POWER / MAG1C_SCALE_PPM_M**2
    return ((response - penalty) / (albedo * power.clamp(min=least))).clamp(min=0.0)


def _column_groups(detector_column: Tensor, columns: int, needed: float) -> Tensor:
    """Group of each of `columns`: neighbours are joined until a group holds `needed` pixels."""
    counts = torch.bincount(detector_column, minlength=columns)
    group, filled = torch.zeros(len(counts), dtype=torch.long), 0.0
    for column, count in enumerate(counts.tolist()):
        if column and filled >= needed:
            group[column:] += 1
            filled = 0.0
        filled += count
    if filled < needed and int(group.max()) > 0:
        group[group == group.max()] -= 1
    return group
