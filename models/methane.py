"""p3VAE for methane: background z_I from clear bands, enhancement z_E from absorbing bands and z_I.

The shape is the paper's; the parts are exact where the paper's are approximate. f_I is a mixture of
full-covariance Gaussians learned from the scene's own pixels by expectation-maximisation, q(z_I | x) its
posterior given the clear bands, f_E the band transmittance curves, and q(z_E | x, z_I) the posterior on a
grid, with sensor noise and the spread of the background in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from p3vae.models.checkpoint import ModelFile
from p3vae.models.methane_background import Background, clear_clusters, clear_code, single_gaussian
from p3vae.models.methane_features import Features
from p3vae.models.methane_noise import NoiseModel
from p3vae.models.methane_posterior import Grid, GridPosterior, brightness_levels, summarise
from p3vae.models.methane_types import MethaneEstimate, PlumeOptics

KIND = "methane"
COLUMN_GROUPS = 8
"""Detector columns are treated in this many groups of neighbours: a smile changes slowly across them."""
INVERT_CHUNK = 8192
KNOWN_GROUND, NEW_GROUND = 1.1, 1.3
"""Temperature of the posterior on ground known from plume-free pixels, and what is added on ground that was
mostly seen under plumes, whose background is less certain than its covariances say."""


@dataclass(frozen=True)
class MethaneSettings:
    """How the background is learned and the posterior evaluated."""

    components: int = 8
    rounds: int = 7
    """Rounds of expectation-maximisation."""
    nodes: int = 64
    min_ppm_m: float = 0.0
    """Lower end of the flat prior [ppm m]; below zero, noise over plume-free ground averages out."""
    max_ppm_m: float = 1.2e5
    unlabelled_weight: float = 0.25
    """A pixel under a plume tells less about the ground than one without."""
    model_error: float = 0.005
    """Relative error of band optical depths, independent between bands."""
    max_pixels: int = 4000
    """Pixels of each kind to learn from, drawn at random."""
    seed: int = 0


@dataclass(frozen=True, eq=False)
class MethaneP3VAE:
    """A learned background with the optics of one scene."""

    settings: MethaneSettings
    optics: PlumeOptics
    features: Features
    background: Background
    levels: Tensor
    """Brightness values with noise tables of their own."""
    posteriors: tuple[GridPosterior, ...]
    """One per group of detector columns."""
    grid: Grid

    @classmethod
    def fit(
        cls,
        plume_free: Tensor,
        optics: PlumeOptics,
        *,
        settings: MethaneSettings | None = None,
        unlabelled: Tensor | None = None,
        noise: NoiseModel | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> MethaneP3VAE:
        """Learn from plume-free radiance (pixels, bands) and, if any, from pixels under plumes.

        `noise` is estimated from the plume-free pixels when the sensor's is not known. Raises ValueError when
        there are too few of them.
        """
        chosen = settings or MethaneSettings()
        _require_pixels(plume_free, optics)
        generator = torch.Generator().manual_seed(chosen.seed)
        free = _draw(plume_free, chosen.max_pixels, generator).double()
        features = Features.choose(
            free, noise or NoiseModel.estimate(free), optics.absorbing, optics.wavelength_nm
        )
        scene = None if unlabelled is None else _draw(unlabelled, chosen.max_pixels, generator).double()
        background, levels = _learn(free, scene, features, optics, chosen, generator, progress)
        return cls._assemble(chosen, optics, features, background, levels)

    @classmethod
    def _assemble(
        cls,
        settings: MethaneSettings,
        optics: PlumeOptics,
        features: Features,
        background: Background,
        levels: Tensor,
    ) -> MethaneP3VAE:
        grid = Grid.uniform(settings.min_ppm_m, settings.max_ppm_m, settings.nodes)
        posteriors = tuple(
            GridPosterior(
                background,
                features,
                group.transmittance(grid.nodes)[:, features.absorbing_bands],
                levels,
                model_error=settings.model_error,
            )
            for group in _column_optics(optics)
        )
        return cls(settings, optics, features.to(torch.float32), background, levels, posteriors, grid)

    def invert(self, radiance: Tensor, detector_column: Tensor | None = None) -> MethaneEstimate:
        """Posterior mean and standard deviation for radiance (pixels, bands)."""
        if len(self.posteriors) == 1:
            parts = [
                self._invert_group(part, self.posteriors[0]) for part in torch.split(radiance, INVERT_CHUNK)
            ]
            return MethaneEstimate.concatenate(parts)
        if detector_column is None:
            raise ValueError("this model knows a smile: the pixels' detector columns are needed")
        columns = self.optics.detector_columns or 1
        group = detector_column * len(self.posteriors) // columns
        out = torch.empty(3, len(radiance))
        for index in sorted(set(group.tolist())):
            for rows in torch.split(torch.where(group == index)[0], INVERT_CHUNK):
                part = self._invert_group(radiance[rows], self.posteriors[index])
                out[:, rows] = torch.stack([part.ppm_m, part.std, part.sensitivity])
        return MethaneEstimate(*out)

    def _invert_group(self, radiance: Tensor, posterior: GridPosterior) -> MethaneEstimate:
        spectra = self.features(radiance.float())
        temperature = KNOWN_GROUND + NEW_GROUND * posterior.novelty(spectra).clamp(0.0, 1.0)
        mean, std = summarise(posterior.log_evidence(spectra) / temperature[:, None], self.grid)
        prior_variance = (self.settings.max_ppm_m - self.settings.min_ppm_m) ** 2 / 12.0
        return MethaneEstimate(mean, std, (1.0 - std**2 / prior_variance).clamp(min=0.0))

    def to_file(self) -> ModelFile:
        """Background, view and settings; the optics belong to the scene and are given again on reading."""
        features, background = self.features, self.background
        known = background.plume_free or clear_code(background)
        tensors = {
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
            "free_weight": known.weight,
            "free_mean": known.mean,
            "free_covariance": known.covariance,
            "wavelength_nm": self.optics.wavelength_nm,
        }
        return ModelFile(KIND, {"settings": asdict(self.settings)}, tensors)

    @classmethod
    def from_file(cls, file: ModelFile, optics: PlumeOptics) -> MethaneP3VAE:
        """A saved background under the optics of another scene of the same sensor."""
        t = {name: _floating64(tensor) for name, tensor in file.tensors.items()}
        own = t["wavelength_nm"]
        if own.shape != optics.wavelength_nm.shape or (own - optics.wavelength_nm).abs().max() > 1.0:
            raise ValueError("the model was learned on other bands than the scene's")
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
        settings = MethaneSettings(**file.card["settings"])
        return cls._assemble(settings, optics, features, background, t["levels"])


def pixels_needed(optics: PlumeOptics) -> int:
    """Plume-free pixels without which no background can be learned."""
    return 3 * len(optics.wavelength_nm)


def _require_pixels(plume_free: Tensor, optics: PlumeOptics) -> None:
    needed = pixels_needed(optics)
    if len(plume_free) < needed:
        raise ValueError(
            f"{needed} plume-free pixels are needed to learn the background, got {len(plume_free)}"
        )


def _learn(
    free: Tensor,
    scene: Tensor | None,
    features: Features,
    optics: PlumeOptics,
    settings: MethaneSettings,
    generator: torch.Generator,
    progress: Callable[[int, int], None],
) -> tuple[Background, Tensor]:
    """Expectation-maximisation from clusters of the clear bands; returns the brightness levels too."""
    spectra = features(free)
    under_plume = None if scene is None else features(scene)
    both = spectra if under_plume is None else spectra.joined(under_plume)
    levels = brightness_levels(both.brightness)
    components = max(1, min(settings.components, len(both) // (2 * features.basis.shape[1] + 40)))
    share = clear_clusters(both.clear, components, settings.seed)
    nodes = Grid.uniform(max(settings.min_ppm_m, 0.0), settings.max_ppm_m, settings.nodes).nodes
    light = _column_mean(optics).transmittance(nodes)[:, features.absorbing_bands]
    background = single_gaussian(spectra)
    for round_ in range(settings.rounds + 1):
        first = round_ == 0
        moments = GridPosterior(background, features, torch.ones_like(light[:1]), levels).expectation(
            spectra, generator, share[: len(spectra)] if first else None
        )
        known = None
        if under_plume is not None:
            known = clear_code(moments.background(background.clear_size))
            posterior = GridPosterior(background, features, light, levels, model_error=settings.model_error)
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


OVER_RELAXATION = 0.8
FIRST_ROUND_WEIGHT = 0.05
"""At first the background under plumes is only known through the pooled Gaussian: it should not dominate."""


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


def _draw(radiance: Tensor, count: int, generator: torch.Generator) -> Tensor:
    return radiance[torch.randperm(len(radiance), generator=generator)[:count]]


def _floating64(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor
