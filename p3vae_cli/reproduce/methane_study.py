"""One methane method, fitted and scored on plume pixels of known concentration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor

from p3vae.cli.reproduce.plume_pixels import (
    PUBLISHED_STRENGTH,
    Ground,
    PlumePixels,
    Setting,
    ground_from_files,
    make_pixels,
    simulated_ground,
)
from p3vae.cli.reproduce.runs import Outcome, Work
from p3vae.models.methane.matched_filter import MatchedFilter
from p3vae.models.methane.model import MethaneP3VAE
from p3vae.models.methane.optimal_estimation import OptimalEstimation
from p3vae.models.methane.published import PaperSettings, fit_paper
from p3vae.models.methane.types import MethaneEstimate, MethaneSettings
from p3vae.models.metrics import regression_score

Invert = Callable[[Tensor], MethaneEstimate]

AS_PUBLISHED = Setting("random", "high", PUBLISHED_STRENGTH)
SETTINGS = (
    AS_PUBLISHED,
    Setting("other", "high", PUBLISHED_STRENGTH),
    Setting("random", "low", PUBLISHED_STRENGTH),
    Setting("other", "low", PUBLISHED_STRENGTH),
    Setting("random", "high", 1.0),
    Setting("other", "high", 1.0),
)
_SHOWN = 600


def methane_run(work: Work) -> Outcome:
    """Errors of the test pixels [ppm m] in every setting; the published network in its own setting only."""
    ground = _ground(work)
    scores: dict[str, float] = {}
    arrays: dict[str, np.ndarray] = {}
    for setting in SETTINGS[: 1 if work.quick or work.model == "p3vae-paper" else None]:
        pixels = make_pixels(ground, setting, work.seed, most=2500 if work.quick else None)
        estimate = _fitted(work, pixels)(pixels.test)
        mean, std = estimate.ppm_m.double().numpy(), estimate.std.double().numpy()
        score = regression_score(pixels.ppm_m, mean, std)
        scores |= {
            f"{setting.name}.mae": score.mae,
            f"{setting.name}.bias": score.bias,
            f"{setting.name}.slope": score.slope,
            f"{setting.name}.rmse": float(np.sqrt(np.mean((mean - pixels.ppm_m) ** 2))),
            f"{setting.name}.within_95": score.within_95,
        }
        if work.seed == 0 and setting == AS_PUBLISHED:
            arrays = {"truth": pixels.ppm_m[:_SHOWN], "mean": mean[:_SHOWN], "std": std[:_SHOWN]}
    return Outcome(scores, arrays)


def _ground(work: Work) -> Ground:
    return simulated_ground() if work.data is None else ground_from_files(work.data)


def _fitted(work: Work, pixels: PlumePixels) -> Invert:
    low, high = pixels.range_ppm_m
    free, optics = pixels.plume_free, pixels.optics
    match work.model:
        case "p3vae":
            settings = MethaneSettings(min_ppm_m=low, max_ppm_m=high, seed=work.seed)
            # As in a scene, pixels under plumes take part, without their truth.
            return MethaneP3VAE.fit(
                free, optics, settings=settings, unlabelled=_with_test(pixels), noise=pixels.noise
            ).invert
        case "p3vae-paper":
            how = PaperSettings(seed=work.seed, epochs=3 if work.quick else PaperSettings.epochs)
            return fit_paper(free, pixels.under_plume, optics, how).invert
        case "optimal-estimation":
            spread = (high - low) / np.sqrt(12.0)
            return OptimalEstimation.fit(free, optics, prior_mean=(low + high) / 2, prior_std=spread).invert
        case "matched-filter":
            return MatchedFilter.fit(free, optics, variant="classic").invert
        case "log-matched-filter":
            return MatchedFilter.fit(free, optics, variant="log").invert
        case "mag1c":
            return MatchedFilter.fit(free, optics, variant="mag1c").invert
    raise ValueError(f"no methane method {work.model!r}")


def _with_test(pixels: PlumePixels) -> Tensor:
    import torch

    return torch.cat([pixels.under_plume, pixels.test])
