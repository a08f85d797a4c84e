"""How clearly one latent variable, and only one, carries a factor of variation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import mutual_info_score

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
