"""Spectral bands as Gaussians, and resampling between two sets of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating[Any]]

FWHM_PER_SIGMA = 2.0 * np.sqrt(2.0 * np.log(2.0))

CENTRE_TOLERANCE_NM = 0.1
"""Centres closer than this [nm] are the same band: one hundredth of a typical width."""
FWHM_TOLERANCE_NM = 1.0
"""Widths closer than this [nm] are the same: products of one sensor differ by a few tenths."""

_NEGLIGIBLE_WEIGHT = 1e-7
_CHUNK = 128
"""Pixels resampled at a time: both spectra stay in the processor's cache."""


WATER_VAPOUR_NM = ((1340.0, 1450.0), (1790.0, 1960.0))
"""Where water vapour leaves next to nothing of the ground's signal [nm]."""
METHANE_NM = ((1620.0, 1820.0), (2130.0, 2490.0))
"""Where 100,000 ppm m of methane dim a band of 10 nm by .3 % or more [nm], by the table in `physics/data`."""


class BandCoverageError(ValueError):
    """Bands that are asked for where the source has no usable band."""

    def __init__(self, missing_nm: tuple[tuple[float, float], ...]) -> None:
        self.missing_nm = missing_nm
        """Uncovered ranges [nm], ascending."""
        ranges = ", ".join(f"{low:.0f}-{high:.0f}" for low, high in missing_nm)
        super().__init__(f"no usable band covers {ranges} nm")


@dataclass(frozen=True, eq=False)
class Bands:
    """The spectral bands of a sensor or of a model, in ascending order of wavelength."""

    wavelength_nm: npt.NDArray[np.float64]
    """Centres [nm], ascending, (bands,)."""
    fwhm_nm: npt.NDArray[np.float64]
    """Full widths at half maximum of the Gaussian responses [nm], (bands,)."""
    good: npt.NDArray[np.bool_]
    """False where a band carries no usable signal (deep absorption, dead detector), (bands,)."""

    def __post_init__(self) -> None:
        for name, dtype in (("wavelength_nm", np.float64), ("fwhm_nm", np.float64), ("good", np.bool_)):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=dtype))
        centres, widths = self.wavelength_nm, self.fwhm_nm
        if centres.ndim != 1 or not centres.shape == widths.shape == self.good.shape:
            raise ValueError(
                f"wavelengths, widths and flags must be lists of one length, "
                f"got {centres.shape}, {widths.shape} and {self.good.shape}"
            )
        if not np.all(np.isfinite(centres) & (centres > 0)) or np.any(np.diff(centres) <= 0):
            raise ValueError("wavelengths must be positive and strictly ascending")
        if not np.all(np.isfinite(widths) & (widths > 0)):
            raise ValueError("band widths must be positive")

    def __len__(self) -> int:
        return len(self.wavelength_nm)

    @classmethod
    def from_centres(
        cls,
        wavelength_nm: npt.ArrayLike,
        fwhm_nm: npt.ArrayLike | None = None,
        good: npt.ArrayLike | None = None,
    ) -> Bands:
        """Bands from centres [nm]; unknown widths become the local spacing, unknown flags True."""
        centres = np.asarray(wavelength_nm, dtype=np.float64)
        if fwhm_nm is None:
            fwhm_nm = np.abs(np.gradient(centres)) if centres.size > 1 else np.full(centres.shape, 10.0)
        flags = np.ones(centres.shape, dtype=np.bool_) if good is None else good
        return cls(centres, np.asarray(fwhm_nm, dtype=np.float64), np.asarray(flags, dtype=np.bool_))

    def select(self, mask: npt.ArrayLike) -> Bands:
        """The bands chosen by a boolean mask or an ascending list of indices."""
        chosen = np.asarray(mask)
        return Bands(self.wavelength_nm[chosen], self.fwhm_nm[chosen], self.good[chosen])


@dataclass(frozen=True, eq=False)
class BandAdapter:
    """Turns spectra on the source's bands into spectra on the target's."""

    source: Bands
    target: Bands
    columns: npt.NDArray[np.intp]
    """Source bands that are used, ascending; all others may hold NaN."""
    weights: npt.NDArray[np.float32] | None
    """(used source bands, target bands); None when the used bands are the target's bands."""

    @property
    def is_exact(self) -> bool:
        """True when no value is resampled."""
        return self.weights is None

    def __call__(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Spectra (..., source bands) to float32 spectra (..., target bands).

        A pixel's result does not depend on the pixels beside it, on their order in memory or on threads.
        """
        if values.shape[-1] != len(self.source):
            raise ValueError(f"expected spectra of {len(self.source)} bands, got {values.shape[-1]}")
        if self.weights is None:
            used = values if len(self.columns) == len(self.source) else values[..., self.columns]
            return used.astype(np.float32, copy=False)
        spectra = values.reshape(-1, len(self.source))
        out = np.empty((len(spectra), len(self.target)), np.float32)
        for start in range(0, len(spectra), _CHUNK):
            by_band = (
                spectra[start : start + _CHUNK].T[self.columns].astype(np.float32, order="C", copy=False)
            )
            out[start : start + _CHUNK] = (self._sums @ by_band).T
        return out.reshape(*values.shape[:-1], len(self.target))

    @cached_property
    def _sums(self) -> Any:
        """The weights that matter, (target bands, used source bands), sparse.

        A band is a sum over few neighbours, always in their order; a product of dense matrices sums in an
        order that depends on its shape, its layout and its threads, and takes twice as long.
        """
        from scipy.sparse import csr_array  # most calls resample nothing

        assert self.weights is not None
        return csr_array(np.where(np.abs(self.weights) > _NEGLIGIBLE_WEIGHT, self.weights, np.float32(0)).T)


def select_spectra(spectra: npt.NDArray[Any], keep: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """The spectra (pixels, bands) that are to be kept, in the same order of memory.

    Transposing costs more than most of what is done to a spectrum; files often hold band after band.
    """
    if keep.all():
        return spectra
    by_band = abs(spectra.strides[0]) < abs(spectra.strides[1])
    return np.compress(keep, spectra.T, axis=1).T if by_band else np.compress(keep, spectra, axis=0)


def outside(
    wavelength_nm: npt.NDArray[np.float64], ranges_nm: Iterable[tuple[float, float]]
) -> npt.NDArray[np.bool_]:
    """True for wavelengths [nm] that lie in none of the ranges, edges included."""
    free = np.ones(wavelength_nm.shape, dtype=np.bool_)
    for low, high in ranges_nm:
        free &= (wavelength_nm < low) | (wavelength_nm > high)
    return free


def adapt_bands(source: Bands, target: Bands) -> BandAdapter:
    """The adapter from `source` to `target`: the same bands if they are there, else Gaussian resampling.

    Only good source bands are used. Raises `BandCoverageError` when good target bands are not covered.
    """
    usable = np.flatnonzero(source.good)
    matched = _matching_columns(source.select(usable), target)
    if matched is not None:
        return BandAdapter(source, target, usable[matched], None)
    usable_bands = source.select(usable)
    require_coverage(usable_bands, target)
    weights = resampling_matrix(usable_bands, target)
    used = np.any(np.abs(weights) > _NEGLIGIBLE_WEIGHT, axis=1)
    return BandAdapter(source, target, usable[used], weights[used].astype(np.float32))


def resampling_matrix(source: Bands, target: Bands) -> npt.NDArray[np.float64]:
    """Weights (source bands, target bands) that resample spectra; each column sums to one.

    The spectrum is taken as piecewise linear between the source's centres and averaged by a Gaussian of
    FWHM² = target² - source² (what is left to blur, since the source has blurred already; zero, i.e.
    linear interpolation, when the target is the narrower one). Straight spectra are kept exactly.
    """
    source_fwhm = np.interp(target.wavelength_nm, source.wavelength_nm, source.fwhm_nm)
    remaining_fwhm = np.sqrt(np.maximum(target.fwhm_nm**2 - source_fwhm**2, 0.0))
    return gaussian_average_matrix(source.wavelength_nm, target.wavelength_nm, remaining_fwhm)


def gaussian_average_matrix(
    knots_nm: npt.NDArray[np.float64],
    centres_nm: npt.NDArray[np.float64],
    fwhm_nm: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Weights (knots, centres) of the Gaussian averages of a piecewise linear function of its knot values.

    The function is constant beyond its end knots. The integral of a ramp starting at knot k against a
    Gaussian of mean c and deviation s is (c - k) Φ((c - k)/s) + s φ((c - k)/s); hat functions are
    differences of ramps, so every weight is exact.
    """
    from scipy.special import ndtr  # most calls resample nothing

    if len(knots_nm) == 1:
        return np.ones((1, len(centres_nm)))
    distance = centres_nm[None, :] - knots_nm[:, None]
    sigma = np.maximum(fwhm_nm / FWHM_PER_SIGMA, 1e-9)[None, :]
    scaled = distance / sigma
    density = np.exp(-0.5 * np.minimum(np.abs(scaled), 40.0) ** 2) / np.sqrt(2.0 * np.pi)
    ramp = distance * ndtr(scaled) + sigma * density
    share_of_right_knot = (ramp[:-1] - ramp[1:]) / np.diff(knots_nm)[:, None]
    weights = np.zeros_like(distance)
    weights[0] = 1.0
    weights[1:] += share_of_right_knot
    weights[:-1] -= share_of_right_knot
    return weights


def require_coverage(source: Bands, target: Bands) -> None:
    """Raise `BandCoverageError` unless every good target band lies where the source has bands.

    A source band covers one FWHM on each side of its centre; a target band needs its whole half-maximum
    interval covered, so a gap left by removed bands is never bridged by a straight line.
    """
    needed = target.select(target.good)
    covered = covered_bands(source, needed)
    if not covered.all():
        low, high = needed.wavelength_nm - needed.fwhm_nm / 2, needed.wavelength_nm + needed.fwhm_nm / 2
        raise BandCoverageError(_merge(low, high, ~covered))


def covered_bands(source: Bands, target: Bands) -> npt.NDArray[np.bool_]:
    """Which target bands lie where the source has good bands, (target bands,); see `require_coverage`."""
    low, high = target.wavelength_nm - target.fwhm_nm / 2, target.wavelength_nm + target.fwhm_nm / 2
    covered = np.zeros(len(target), dtype=np.bool_)
    for start, stop in _covered_intervals(source.select(source.good)):
        covered |= (low >= start) & (high <= stop)
    return covered


def _covered_intervals(source: Bands) -> list[tuple[float, float]]:
    intervals: list[tuple[float, float]] = []
    for centre, width in zip(source.wavelength_nm, source.fwhm_nm, strict=True):
        start, stop = float(centre - width), float(centre + width)
        if intervals and start <= intervals[-1][1]:
            intervals[-1] = (intervals[-1][0], max(stop, intervals[-1][1]))
        else:
            intervals.append((start, stop))
    return intervals


def _merge(
    low: FloatArray, high: FloatArray, chosen: npt.NDArray[np.bool_]
) -> tuple[tuple[float, float], ...]:
    """Ranges of runs of neighbouring chosen bands."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], chosen.astype(np.int8), [0]))))
    return tuple(
        (float(low[first]), float(high[stop - 1]))
        for first, stop in zip(edges[::2], edges[1::2], strict=True)
    )


def _matching_columns(source: Bands, target: Bands) -> npt.NDArray[np.intp] | None:
    """For each target band the source band that is the same one, or None when any is missing."""
    if len(source) == 0 or len(target) == 0:
        return None
    right = np.clip(np.searchsorted(source.wavelength_nm, target.wavelength_nm), 1, max(len(source) - 1, 1))
    right = np.minimum(right, len(source) - 1)
    left = np.maximum(right - 1, 0)
    to_left = np.abs(source.wavelength_nm[left] - target.wavelength_nm)
    to_right = np.abs(source.wavelength_nm[right] - target.wavelength_nm)
    nearest = np.where(to_left <= to_right, left, right)
    same = (np.minimum(to_left, to_right) <= CENTRE_TOLERANCE_NM) & (
        np.abs(source.fwhm_nm[nearest] - target.fwhm_nm) <= FWHM_TOLERANCE_NM
    )
    return nearest if same.all() and np.all(np.diff(nearest) > 0) else None
