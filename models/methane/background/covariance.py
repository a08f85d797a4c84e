"""Covariances that can always be inverted: shrinkage towards the diagonal, chosen by likelihood."""

from __future__ import annotations

import torch
from torch import Tensor

MIN_SHRINKAGE = 1e-4
SHRINKAGES = (MIN_SHRINKAGE, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
VARIANCE_FLOOR = 1e-12


def shrunk_covariance(centred: Tensor) -> tuple[Tensor, float]:
    """Covariance (bands, bands) of centred spectra (pixels, bands), and the share of its diagonal.

    (1 - a) S + a diag(S), with the a of highest leave-one-out Gaussian likelihood (Theiler 2012,
    10.1117/12.918718: the likelihood without each pixel follows from its Mahalanobis distance with it).
    """
    pixels = len(centred)
    if pixels < 2:
        raise ValueError("a covariance needs at least two spectra")
    sample = centred.T @ centred / pixels
    floor = VARIANCE_FLOOR * sample.diagonal().mean().clamp(min=torch.finfo(sample.dtype).tiny)
    diagonal = torch.diag(sample.diagonal().clamp(min=float(floor)))
    best = min(SHRINKAGES, key=lambda share: _leave_one_out_cost(centred, sample, diagonal, share))
    return (1.0 - best) * sample + best * diagonal, best


def _leave_one_out_cost(centred: Tensor, sample: Tensor, diagonal: Tensor, share: float) -> float:
    pixels = len(centred)
    beta = (1.0 - share) / (pixels - 1)
    factor, failed = torch.linalg.cholesky_ex(pixels * beta * sample + share * diagonal)
    if int(failed):
        return float("inf")
    distance = torch.linalg.solve_triangular(factor, centred.T, upper=False).square().sum(0)
    left = (1.0 - beta * distance).clamp(min=1e-9)
    log_det = 2.0 * torch.log(factor.diagonal()).sum()
    return float(log_det + (torch.log(left) + distance / left).mean())
