"""One view of the ground: which clear bands speak for it, and the background learned through them.

Visible light tells kinds of ground apart that look alike in the short-wave infrared, but what it says about
2300 nm does not carry over to ground seen only under plumes. So there are two views, and both are heard: the
methane posterior is their geometric mean, on new ground mostly the first's. Each has errors of its own, which
partly cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from p3vae.models.methane.background import Background, clear_clusters, clear_code, single_gaussian
from p3vae.models.methane.features import Features
from p3vae.models.methane.noise import NoiseModel
from p3vae.models.methane.posterior import Grid, GridPosterior, brightness_levels
from p3vae.models.methane.types import MethaneSettings, PlumeOptics

COLUMN_GROUPS = 8
"""Detector columns are treated in this many groups of neighbours: a smile changes slowly across them."""
OVER_RELAXATION = 0.8
FIRST_ROUND_WEIGHT = 0.05
"""At first the background under plumes is only known through the pooled Gaussian: it should not dominate."""


@dataclass(frozen=True)
class ViewRecipe:
    """What a view looks at."""

    clear_from_nm: float
    """Clear bands below [nm] are left out where there are enough above."""
    code_size: int
    """Principal components kept of the clear bands."""
    kinds: int
    """Components of the background, as a multiple of those in the settings."""


RECIPES = (ViewRecipe(1450.0, 24, 1), ViewRecipe(0.0, 32, 2))
"""The short-wave infrared, and all bands."""


@dataclass(frozen=True, eq=False)
class View:
    """A learned background with the posteriors of one scene."""

    features: Features
    background: Background
    levels: Tensor
    """Brightness values with noise tables of their own."""
    posteriors: tuple[GridPosterior, ...]
    """One per group of detector columns."""

    @classmethod
    def under(
        cls,
        optics: PlumeOptics,
        features: Features,
        background: Background,
        levels: Tensor,
        grid: Grid,
        model_error: float,
    ) -> View:
        """Tabulate the posterior for the optics of a scene."""
        posteriors = tuple(
            GridPosterior(
                background,
                features,
                group.transmittance(grid.nodes)[:, features.absorbing_bands],
                levels,
                model_error=model_error,
            )
            for group in _column_optics(optics)
        )
        return cls(features.to(torch.float32), background, levels, posteriors)

    def judge(self, radiance: Tensor, group: int) -> tuple[Tensor, Tensor]:
        """What `GridPosterior.judge` says of radiance (pixels, bands)."""
        return self.posteriors[group].judge(self.features(radiance))

    def tensors(self) -> dict[str, Tensor]:
        """All but the posteriors, which belong to a scene's optics."""
        features, background = self.features, self.background
        known = background.plume_free or clear_code(background)
        return {
            "absorbing_bands": features.absorbing_bands,
            "clear_bands": features.clear_bands,
            "brightness_bands": features.brightness_bands,
            "centre": features.centre,
            "basis": features.basis,
            "unit": features.unit,
            "noise_read": features.noise.read,
            "noise_shot": features.noise.shot,
            "weight": background.weight,
            "mean": background.mean,
            "covariance": background.covariance,
            "levels": self.levels,
            # a copy: without plumes it is `weight` itself, and tensors of a file share no memory
            "free_weight": known.weight.clone(),
            "free_mean": known.mean,
            "free_covariance": known.covariance,
        }

    @classmethod
    def of_tensors(cls, t: dict[str, Tensor], optics: PlumeOptics, grid: Grid, model_error: float) -> View:
        """From stored tensors, under the optics of another scene."""
        features = Features(
            t["absorbing_bands"],
            t["clear_bands"],
            t["brightness_bands"],
            t["centre"],
            t["basis"],
            t["unit"],
            NoiseModel(t["noise_read"], t["noise_shot"]),
        )
        clear_size = int(features.basis.shape[1])
        known = Background(t["free_weight"], t["free_mean"], t["free_covariance"], clear_size)
        background = Background(t["weight"], t["mean"], t["covariance"], clear_size, known)
        return cls.under(optics, features, background, t["levels"], grid, model_error)


def choose_features(
    free: Tensor, noise: NoiseModel, optics: PlumeOptics
) -> list[tuple[ViewRecipe, Features]]:
    """The views that a sensor's bands allow: one only where they would look at the same bands."""
    chosen: list[tuple[ViewRecipe, Features]] = []
    for recipe in RECIPES:
        features = Features.choose(
            free,
            noise,
            optics.absorbing,
            optics.wavelength_nm,
            clear_from_nm=recipe.clear_from_nm,
            code_size=recipe.code_size,
        )
        if all(len(features.clear_bands) != len(other.clear_bands) for _, other in chosen):
            chosen.append((recipe, features))
    return chosen


def learn(
    free: Tensor,
    scene: Tensor | None,
    features: Features,
    optics: PlumeOptics,
    settings: MethaneSettings,
    kinds: int,
    generator: torch.Generator,
    progress: Callable[[int, int], None],
) -> tuple[Background, Tensor]:
    """Expectation-maximisation from clusters of the clear bands; returns the brightness levels too."""
    spectra = features(free)
    under_plume = None if scene is None else features(scene)
    both = spectra if under_plume is None else spectra.joined(under_plume)
    few, levels = brightness_levels(both.brightness)
    components = max(1, min(kinds * settings.components, len(both) // (2 * features.basis.shape[1] + 40)))
    share = clear_clusters(both.clear, components, settings.seed)
    nodes = Grid.uniform(max(settings.min_ppm_m, 0.0), settings.max_ppm_m, settings.nodes).nodes
    light = _column_mean(optics).transmittance(nodes)[:, features.absorbing_bands]
    background = single_gaussian(spectra)
    for round_ in range(settings.rounds + 1):
        first = round_ == 0
        moments = GridPosterior(background, features, torch.ones_like(light[:1]), few).expectation(
            spectra, generator, share[: len(spectra)] if first else None
        )
        known = None
        if under_plume is not None:
            known = clear_code(moments.background(background.clear_size))
            posterior = GridPosterior(background, features, light, few, model_error=settings.model_error)
            hidden = posterior.expectation(under_plume, generator, share[len(spectra) :] if first else None)
            moments = moments + hidden.weighted(FIRST_ROUND_WEIGHT if first else settings.unlabelled_weight)
        background = replace(_ahead(background, moments.background(background.clear_size)), plume_free=known)
        progress(round_ + 1, settings.rounds + 1)
    return background, levels


def _ahead(before: Background, after: Background) -> Background:
    """Means a longer step on: under plumes, expectation-maximisation moves them slowly but steadily."""
    if before.components != after.components:
        return after
    return replace(after, mean=after.mean + OVER_RELAXATION * (after.mean - before.mean))


def _column_mean(optics: PlumeOptics) -> PlumeOptics:
    columns = optics.detector_columns
    return optics if columns is None else optics.of_columns(0, columns)


def _column_optics(optics: PlumeOptics) -> list[PlumeOptics]:
    """Optics per group of neighbouring detector columns."""
    columns = optics.detector_columns
    if columns is None:
        return [optics]
    groups = min(COLUMN_GROUPS, columns)
    edges = [-(-g * columns // groups) for g in range(groups + 1)]
    return [optics.of_columns(start, stop) for start, stop in pairwise(edges)]
