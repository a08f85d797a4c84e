"""Feature sets: which continuum bands describe the ground, and the background mixture learned from them.

Visible bands separate kinds of ground that look alike in the short-wave infrared, but their regression on
2300 nm does not carry over to ground seen only under plumes. So there are two feature sets. The methane
posterior is their geometric mean: their errors partly cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from p3vae.models.methane.background.expectation import expectation
from p3vae.models.methane.background.features import Features
from p3vae.models.methane.background.gaussian import Background, continuum_clusters, single_gaussian
from p3vae.models.methane.background.noise import SensorNoise
from p3vae.models.methane.background.posterior import (
    ConcentrationGrid,
    EvidenceTables,
    choose_brightness_bins,
)
from p3vae.models.methane.types import MethaneSettings, PlumeOptics

LEARNED_COLUMN_GROUPS = 4
"""Detector columns are treated in this many groups of neighbours: a smile changes slowly across them."""


@dataclass(frozen=True)
class FeatureSetRecipe:
    """What a feature set is made of."""

    continuum_from_nm: float
    """Continuum bands below [nm] are left out where there are enough above."""
    code_size: int
    """Principal components kept of the continuum bands."""
    kinds: int
    """Components of the background, as a multiple of those in the settings."""


RECIPES = (FeatureSetRecipe(1450.0, 24, 1), FeatureSetRecipe(0.0, 32, 2))
"""The short-wave infrared, and all bands."""


@dataclass(frozen=True, eq=False)
class FeatureSet:
    """A learned background with the posteriors of one scene."""

    features: Features
    background: Background
    brightness_bins: Tensor
    """Brightness values with noise tables of their own."""
    tables: tuple[EvidenceTables, ...]
    """One per group of detector columns."""

    @classmethod
    def under(
        cls,
        optics: PlumeOptics,
        features: Features,
        background: Background,
        brightness_bins: Tensor,
        grid: ConcentrationGrid,
    ) -> FeatureSet:
        """Tabulate the posterior for the optics of a scene."""
        tables = tuple(
            EvidenceTables.tabulate(
                background,
                features,
                group.transmittance(grid.nodes)[:, features.absorbing_bands],
                brightness_bins,
            )
            for group in _column_optics(optics)
        )
        return cls(features.to(dtype=torch.float32), background, brightness_bins, tables)

    def log_evidence(self, radiance: Tensor, group: int) -> Tensor:
        """`EvidenceTables.log_evidence` of radiance (pixels, bands)."""
        return self.tables[group].log_evidence(self.features(radiance))

    def to(self, device: str) -> FeatureSet:
        """The same on another device; the background, which is only stored, stays where it is."""
        return replace(
            self, features=self.features.to(device), tables=tuple(each.to(device) for each in self.tables)
        )

    def tensors(self) -> dict[str, Tensor]:
        """All but the posteriors, which belong to a scene's optics."""
        features, background = self.features, self.background
        return {
            "absorbing_bands": features.absorbing_bands,
            "clear_bands": features.continuum_bands,
            "brightness_bands": features.brightness_bands,
            "centre": features.centre,
            "basis": features.basis,
            "unit": features.unit,
            "noise_read": features.noise.read,
            "noise_shot": features.noise.shot,
            "weight": background.weight,
            "mean": background.mean,
            "covariance": background.covariance,
            "levels": self.brightness_bins,
        }

    @classmethod
    def from_tensors(cls, t: dict[str, Tensor], optics: PlumeOptics, grid: ConcentrationGrid) -> FeatureSet:
        """From stored tensors, under the optics of another scene."""
        features = Features(
            t["absorbing_bands"],
            t["clear_bands"],
            t["brightness_bands"],
            t["centre"],
            t["basis"],
            t["unit"],
            SensorNoise(t["noise_read"], t["noise_shot"]),
        )
        continuum_size = int(features.basis.shape[1])
        background = Background(t["weight"], t["mean"], t["covariance"], continuum_size)
        return cls.under(optics, features, background, t["levels"], grid)


def choose_features(
    free: Tensor, noise: SensorNoise, optics: PlumeOptics
) -> list[tuple[FeatureSetRecipe, Features]]:
    """The feature sets that a sensor's bands allow: one only where both would use the same bands."""
    chosen: list[tuple[FeatureSetRecipe, Features]] = []
    for recipe in RECIPES:
        features = Features.choose(
            free,
            noise,
            optics.absorbing,
            optics.wavelength_nm,
            continuum_from_nm=recipe.continuum_from_nm,
            code_size=recipe.code_size,
        )
        if all(len(features.continuum_bands) != len(other.continuum_bands) for _, other in chosen):
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
    """Expectation-maximisation from clusters of the continuum bands; returns the brightness bins too."""
    spectra = features(free)
    under_plume = None if scene is None else features(scene)
    both = spectra if under_plume is None else spectra.joined(under_plume)
    few, bins = choose_brightness_bins(both.brightness)
    components = max(1, min(kinds * settings.components, len(both) // (2 * features.basis.shape[1] + 40)))
    share = continuum_clusters(both.continuum, components, settings.seed)
    nodes = ConcentrationGrid.uniform(max(settings.min_ppm_m, 0.0), settings.max_ppm_m, settings.nodes).nodes
    light = _column_mean(optics).transmittance(nodes)[:, features.absorbing_bands]
    background = single_gaussian(spectra)
    for round_ in range(settings.rounds + 1):
        first = round_ == 0
        moments = expectation(
            background,
            features,
            torch.ones_like(light[:1]),
            few,
            spectra,
            generator,
            share=share[: len(spectra)] if first else None,
        )
        if under_plume is not None and not first:
            moments = moments + expectation(background, features, light, few, under_plume, generator)
        background = moments.background(background.continuum_size)
        progress(round_ + 1, settings.rounds + 1)
    return background, bins


def _column_mean(optics: PlumeOptics) -> PlumeOptics:
    columns = optics.detector_columns
    return optics if columns is None else optics.of_columns(0, columns)


def _column_optics(optics: PlumeOptics) -> list[PlumeOptics]:
    """Optics per group of neighbouring detector columns."""
    columns = optics.detector_columns
    if columns is None:
        return [optics]
    groups = min(LEARNED_COLUMN_GROUPS, columns)
    edges = [-(-g * columns // groups) for g in range(groups + 1)]
    return [optics.of_columns(start, stop) for start, stop in pairwise(edges)]
