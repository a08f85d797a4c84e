"""One methane method, fitted and scored on plume pixels of known concentration."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor

from p3vae.models.methane.baselines.matched_filter import MatchedFilter
from p3vae.models.methane.baselines.optimal_estimation import OptimalEstimation
from p3vae.models.methane.model import MethaneP3VAE
from p3vae.models.methane.types import MethaneEstimate, MethaneSettings
from p3vae.models.metrics import regression_score
from p3vae.paper.methane import PaperSettings, fit_paper
from p3vae.paper.reproduce.plume_pixels import (
    PUBLISHED_STRENGTH,
    GroundAndSensor,
    PlumePixels,
    Setting,
    ground_from_files,
    make_pixels,
    simulated_ground,
)
from p3vae.paper.reproduce.runs import RunResult, RunSpec

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


def methane_run(spec: RunSpec) -> RunResult:
    """Errors of the test pixels [ppm m] in every setting; the published network in its own setting only."""
    ground = _ground(spec)
    scores: dict[str, float] = {}
    arrays: dict[str, np.ndarray] = {}
    for setting in SETTINGS[: 1 if spec.quick or spec.model == "p3vae-paper" else None]:
        pixels = make_pixels(ground, setting, spec.seed, most=2500 if spec.quick else None)
        estimate = _fitted(spec, pixels)(pixels.test)
        mean, std = estimate.ppm_m.double().numpy(), estimate.std.double().numpy()
        score = regression_score(pixels.ppm_m, mean, std)
        scores |= {
            f"{setting.name}.mae": score.mae,
            f"{setting.name}.bias": score.bias,
            f"{setting.name}.slope": score.slope,
            f"{setting.name}.rmse": float(np.sqrt(np.mean((mean - pixels.ppm_m) ** 2))),
            f"{setting.name}.within_95": score.within_95,
        }
        if spec.seed == 0 and setting == AS_PUBLISHED:
            arrays = {"truth": pixels.ppm_m[:_SHOWN], "mean": mean[:_SHOWN], "std": std[:_SHOWN]}
    return RunResult(scores, arrays)


def _ground(spec: RunSpec) -> GroundAndSensor:
    return simulated_ground() if spec.data is None else ground_from_files(spec.data)


def _fitted(spec: RunSpec, pixels: PlumePixels) -> Invert:
    low, high = pixels.range_ppm_m
    free, optics = pixels.plume_free, pixels.optics
    match spec.model:
        case "p3vae":
            settings = MethaneSettings(min_ppm_m=low, max_ppm_m=high, seed=spec.seed)
            # As in a scene, pixels under plumes take part, without their truth.
            return MethaneP3VAE.fit(
                free, optics, settings=settings, unlabelled=_with_test(pixels), noise=pixels.noise
            ).invert
        case "p3vae-paper":
            how = PaperSettings(seed=spec.seed, epochs=3 if spec.quick else PaperSettings.epochs)
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
    raise ValueError(f"no methane method {spec.model!r}")


def _with_test(pixels: PlumePixels) -> Tensor:
    import torch

    return torch.cat([pixels.under_plume, pixels.test])
