"""p3VAE for methane: background z_I from continuum bands, enhancement z_E from absorbing bands and z_I.

The shape is the paper's; the parts are exact where the paper's are approximate. f_I is a mixture of
full-covariance Gaussians learned from the scene's own pixels by expectation-maximisation, q(z_I | x) its
posterior given the continuum bands, f_E the band transmittance curves, and q(z_E | x, z_I) the posterior on a
grid, with sensor noise and the spread of the background in it. Two feature sets are averaged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor

from p3vae.models.checkpoint import ModelFile
from p3vae.models.methane.background.feature_sets import FeatureSet, choose_features, learn
from p3vae.models.methane.background.noise import SensorNoise
from p3vae.models.methane.background.posterior import ConcentrationGrid
from p3vae.models.methane.bands import SAME_BAND_NM
from p3vae.models.methane.types import MethaneEstimate, MethaneSettings, PlumeOptics

KIND = "methane"
INVERT_CHUNK = 32768
TEMPERATURE = 1.5
"""Of the posterior: bands err together, and a background is never as certain as its covariances say."""


@dataclass(frozen=True, eq=False)
class MethaneP3VAE:
    """Learned feature sets with the optics of one scene."""

    settings: MethaneSettings
    optics: PlumeOptics
    feature_sets: tuple[FeatureSet, ...]
    grid: ConcentrationGrid

    @classmethod
    def fit(
        cls,
        plume_free: Tensor,
        optics: PlumeOptics,
        *,
        settings: MethaneSettings | None = None,
        unlabelled: Tensor | None = None,
        noise: SensorNoise | None = None,
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
        scene = None if unlabelled is None else _draw(unlabelled, chosen.max_under_plume, generator).double()
        grid = _grid(chosen)
        feature_sets: list[FeatureSet] = []
        offered = choose_features(free, noise or SensorNoise.estimate(free), optics)
        for index, (recipe, features) in enumerate(offered):

            def report(done: int, total: int, before: int = index) -> None:
                progress(before * total + done, len(offered) * total)

            background, brightness_bins = learn(
                free, scene, features, optics, chosen, recipe.kinds, generator, report
            )
            feature_sets.append(FeatureSet.under(optics, features, background, brightness_bins, grid))
        return cls(chosen, optics, tuple(feature_sets), grid)

    def invert(self, radiance: Tensor, detector_column: Tensor | None = None) -> MethaneEstimate:
        """Posterior mean and standard deviation for radiance (pixels, bands)."""
        groups = len(self.feature_sets[0].tables)
        if groups == 1:
            parts = [self._invert_group(part, 0) for part in torch.split(radiance, INVERT_CHUNK)]
            return MethaneEstimate.concatenate(parts)
        if detector_column is None:
            raise ValueError("this model knows a smile: the pixels' detector columns are needed")
        columns = self.optics.detector_columns or 1
        group = detector_column * groups // columns
        out = torch.empty(3, len(radiance), device=radiance.device)
        for index in sorted(set(group.tolist())):
            for rows in torch.split(torch.where(group == index)[0], INVERT_CHUNK):
                part = self._invert_group(radiance[rows], index)
                out[:, rows] = torch.stack([part.ppm_m, part.std, part.sensitivity])
        return MethaneEstimate(*out)

    def to(self, device: str) -> MethaneP3VAE:
        """The same model inverting on another device; settings and optics stay where they are."""
        return replace(
            self,
            feature_sets=tuple(each.to(device) for each in self.feature_sets),
            grid=self.grid.to(device),
        )

    def _invert_group(self, radiance: Tensor, group: int) -> MethaneEstimate:
        evidence = torch.stack([each.log_evidence(radiance.float(), group) for each in self.feature_sets])
        mean, std = self.grid.summarise(evidence.mean(0) / TEMPERATURE)
        return MethaneEstimate(mean, std, self._sensitivity(std))

    def _sensitivity(self, std: Tensor) -> Tensor:
        """1 where the data decide, 0 where the prior does."""
        prior_variance = (self.settings.max_ppm_m - self.settings.min_ppm_m) ** 2 / 12.0
        return (1.0 - std**2 / prior_variance).clamp(min=0.0)

    def to_file(self) -> ModelFile:
        """Backgrounds and settings; the optics belong to the scene and are given again on reading."""
        tensors: dict[str, Tensor] = {}
        for index, feature_set in enumerate(self.feature_sets):
            tensors |= {f"{index}.{name}": tensor for name, tensor in feature_set.tensors().items()}
        card = {
            "settings": asdict(self.settings),
            "views": len(self.feature_sets),
            "wavelength_nm": self.optics.wavelength_nm.tolist(),
        }
        return ModelFile(KIND, card, tensors)

    @classmethod
    def from_file(cls, file: ModelFile, optics: PlumeOptics) -> MethaneP3VAE:
        """A saved background under the optics of another scene of the same sensor."""
        t = {name: _floating64(tensor) for name, tensor in file.tensors.items()}
        own = torch.tensor(file.card["wavelength_nm"], dtype=torch.float64)
        if own.shape != optics.wavelength_nm.shape or (own - optics.wavelength_nm).abs().max() > SAME_BAND_NM:
            raise ValueError("the model was learned on other bands than the scene's")
        settings = MethaneSettings(**file.card["settings"])
        grid = _grid(settings)
        feature_sets = []
        for index in range(int(file.card["views"])):
            own_tensors = {name.partition(".")[2]: x for name, x in t.items() if name.startswith(f"{index}.")}
            feature_sets.append(FeatureSet.from_tensors(own_tensors, optics, grid))
        return cls(settings, optics, tuple(feature_sets), grid)


def pixels_needed(optics: PlumeOptics) -> int:
    """Plume-free pixels without which no background can be learned."""
    return 3 * len(optics.wavelength_nm)


def _require_pixels(plume_free: Tensor, optics: PlumeOptics) -> None:
    needed = pixels_needed(optics)
    if len(plume_free) < needed:
        raise ValueError(
            f"{needed} plume-free pixels are needed to learn the background, got {len(plume_free)}"
        )


def _grid(settings: MethaneSettings) -> ConcentrationGrid:
    return ConcentrationGrid.uniform(settings.min_ppm_m, settings.max_ppm_m, settings.nodes)


def _draw(radiance: Tensor, count: int, generator: torch.Generator) -> Tensor:
    return radiance[torch.randperm(len(radiance), generator=generator)[:count]]


def _floating64(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor
