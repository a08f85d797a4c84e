"""What only the published tables score: latent spectra, disentanglement, and whether two models differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats
from sklearn.metrics import mutual_info_score

FloatArray = npt.NDArray[np.floating[Any]]


def spectral_angle(first: FloatArray, second: FloatArray) -> FloatArray:
    """Angles [rad] between spectra (n, bands) and (m, bands), (n, m); blind to brightness."""
    unit_first, unit_second = (
        x.astype(np.float64) / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        for x in (first, second)
    )
    # The chord keeps small angles, which the arc cosine of a rounded product would lose.
    chord = np.linalg.norm(unit_first[:, None] - unit_second[None], axis=2)
    return np.asarray(2.0 * np.arcsin(np.clip(chord / 2.0, 0.0, 1.0)))


@dataclass(frozen=True)
class LatentSpectraScore:
    """How latent reflectance spectra compare with the true materials, as mean spectral angles [degree]."""

    material_angle_deg: float
    """From each true material to the nearest latent spectrum of its class: is every material there?"""
    latent_angle_deg: float
    """From each latent spectrum to the nearest true material of its class: is every spectrum a material?"""


def latent_spectra_score(latent: Sequence[FloatArray], truth: Sequence[FloatArray]) -> LatentSpectraScore:
    """Compare per class latent spectra (K, bands) with materials (M, bands); nearest matches, not exclusive.

    K and M differ between classes, hence no one-to-one assignment; both directions are needed because many
    latent spectra always cover the materials and few are always plausible.
    """
    angles = [np.degrees(spectral_angle(t, s)) for t, s in zip(truth, latent, strict=True)]
    return LatentSpectraScore(
        float(np.concatenate([a.min(axis=1) for a in angles]).mean()),
        float(np.concatenate([a.min(axis=0) for a in angles]).mean()),
    )


def paired_p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """p-value of the hypothesis that two systems have equal mean scores, run on the same seeds.

    Student's paired t-test, two-sided; nan for fewer than two pairs. Equal scores everywhere give 1.
    """
    difference = np.subtract(first, second)
    if len(difference) < 2:
        return float("nan")
    if np.ptp(difference) == 0.0:
        return 1.0 if difference[0] == 0.0 else 0.0
    return float(stats.ttest_rel(first, second).pvalue)


_NAT_TO_BIT = 1.0 / np.log(2.0)


@dataclass(frozen=True)
class InformationGap:
    """How far the most informative latent variable about a factor is ahead of the second."""

    bits: float
    """Difference of the two mutual informations [bit]: what the published tables call MIG."""
    normalised: float
    """The mutual information gap proper: `bits` over the entropy of the factor, 0 to 1; nan if constant."""
    latent: int
    """Column of the most informative latent variable."""


def information_gap(
    codes: npt.NDArray[np.floating[Any]], factor: npt.NDArray[Any], *, bins: int = 10
) -> InformationGap:
    """The gap of one `factor` (samples,) over latent codes (samples, latents), e.g. posterior means.

    Codes, and factors that are not whole numbers, are cut into `bins` equal intervals between their
    smallest and largest value; whole numbers are classes already.

    Chen et al. (2018), Isolating sources of disentanglement in VAEs, eq. 6. doi:10.48550/arXiv.1802.04942
    """
    if codes.ndim != 2 or codes.shape[1] < 2:
        raise ValueError(f"a gap needs codes of at least two latent variables, got shape {codes.shape}")
    if len(codes) != len(factor) or not (np.isfinite(codes).all() and np.isfinite(factor).all()):
        raise ValueError("codes and factor must be finite and of one length")
    classes = factor if np.issubdtype(factor.dtype, np.integer) else _equal_bins(factor, bins)
    information = [_NAT_TO_BIT * mutual_info_score(_equal_bins(code, bins), classes) for code in codes.T]
    second, first = np.sort(information)[-2:]
    gap, entropy = float(first - second), float(_NAT_TO_BIT * mutual_info_score(classes, classes))
    return InformationGap(gap, gap / entropy if entropy > 0 else float("nan"), int(np.argmax(information)))


def _equal_bins(values: npt.NDArray[np.floating[Any]], bins: int) -> npt.NDArray[np.intp]:
    low, high = float(values.min()), float(values.max())
    if low == high:
        return np.zeros(len(values), dtype=np.intp)
    scaled = (values - low) / (high - low) * bins
    return np.minimum(scaled.astype(np.intp), bins - 1)
