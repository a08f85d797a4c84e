"""Two hypotheses about the light of a pixel, and the posterior of its class under both.

    p(y | x) = r·q(y | x) + (1 − r)·p(y | x)

q(y|x) is the classifier, which knows the light of its labels. p(y|x) is the posterior of the decoder, whose
physics knows any light. r is the probability that the pixel is lit as the labels are; it is a function of
the light of the pixel, z and w, that the decoder finds. So the light decides, not the spectrum: see
`known_light`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from p3vae.models.landcover.estimator import Frame, part
from p3vae.models.landcover.library.chunks import fixed_chunks, with_observed
from p3vae.models.landcover.library.classifier import Classifier
from p3vae.models.landcover.library.decoder import LightPrior, SpectralLibrary
from p3vae.models.landcover.library.endmembers import fit_library
from p3vae.models.landcover.library.known_light import KnownLight, interpolated
from p3vae.models.landcover.library.scene import SceneState
from p3vae.models.landcover.library.solver import PosteriorSolver
from p3vae.models.landcover.types import TrainingSet
from p3vae.physics.illumination import SpectralIrradiance

IntArray = npt.NDArray[np.integer[Any]]

_LEVEL = 0.13
"""Relative standard deviation of z [1]: a class mean is of labelled pixels whose own light is not known."""


class Hypotheses(NamedTuple):
    """What both halves say of spectra, (pixels,) unless said."""

    classifier: Tensor
    """log q(y|x), (pixels, classes)."""
    decoder: Tensor
    """log p(x, y) under any light up to a constant, (pixels, classes)."""
    known_light: Tensor
    """r."""
    sun: Tensor
    """Mean of z."""
    sun_std: Tensor
    sky: Tensor
    """Mean of w."""
    distance: Tensor
    """Squared Mahalanobis distance from the likeliest class in the likeliest light."""
    surprise: Tensor
    """Observed direct light less what spectra let expect [std]."""

    def pooled(self, temperatures: tuple[float, float]) -> Tensor:
        """p(y|x), (pixels, classes); log-odds of a half are divided by its temperature (Guo et al. 2017)."""
        q, p = (
            (logits / temperature).softmax(1)
            for logits, temperature in zip((self.classifier, self.decoder), temperatures, strict=True)
        )
        return torch.lerp(p, q, self.known_light[:, None])


@dataclass(frozen=True, eq=False)
class Mixture:
    """Classifier, decoder, and the light of the labels."""

    classifier: Classifier
    library: SpectralLibrary
    prior: LightPrior
    known_light: KnownLight
    physics: bool
    """False: light is a brightness alone, the same in all bands."""
    scene: SceneState | None = None
    """How the scene differs from the one of training; None for that scene."""
    device: str = "cpu"
    _solvers: dict[bytes, tuple[PosteriorSolver, Tensor]] = field(
        default_factory=dict, init=False, repr=False
    )

    @classmethod
    def fit(cls, data: TrainingSet, frame: Frame) -> Self:
        """From labelled spectra and the irradiance they were seen under."""
        classes, seed = len(frame.legend), frame.settings.seed
        library, prior = fit_library(data, classes, seed), LightPrior.broad(frame.cos_zenith)
        light = light_of(frame.irradiance, frame.settings.physics)
        found = PosteriorSolver.build(library, prior, light).solve(torch.from_numpy(data.spectra))
        own = torch.stack([found.sun, found.sky], 1).double().numpy()
        known = KnownLight.fit(own, len(np.unique(data.group)), frame.cos_zenith, seed)
        return cls(Classifier.fit(data, classes), library, prior, known, frame.settings.physics)

    def hypotheses(
        self, spectra: Tensor, irradiance: SpectralIrradiance, observed: Tensor | None = None
    ) -> Hypotheses:
        """Both halves on spectra (pixels, bands), the same to the bit however they are split over calls.

        `observed` (pixels, 5) is what terrain says of the light, in the columns of `ObservedLight`.
        """
        solver, table = self._under(irradiance)
        parts = []
        pieces = with_observed(fixed_chunks(spectra, solver.columns), observed, solver.columns)
        for piece, seen in pieces:
            if self.scene is not None:
                piece.sub_(piece.new_tensor(self.scene.offset)).div_(piece.new_tensor(self.scene.gain))
            q = self.classifier.log_posterior(piece)
            found = solver.solve_chunk(piece, seen)
            parts.append(Hypotheses(q, found.logits, interpolated(table, found.sun, found.sky), *found[1:]))
        return Hypotheses(*(torch.cat(values)[: len(spectra)] for values in zip(*parts, strict=True)))

    def in_scene(self, scene: SceneState) -> Self:
        """The same for spectra of a scene that differs from the one of training."""
        noise = self.library.noise + scene.excess_noise
        return replace(
            self,
            classifier=self.classifier.widened(scene.excess_noise),
            library=replace(self.library, noise=noise),
            scene=scene,
        )

    def at_bands(self, columns: IntArray) -> Self:
        """The same for spectra that lack the other bands."""
        return replace(
            self, classifier=self.classifier.at_bands(columns), library=self.library.at_bands(columns)
        )

    def solver(self, irradiance: SpectralIrradiance) -> PosteriorSolver:
        """The posterior of the decoder under one illumination."""
        return self._under(irradiance)[0]

    def _under(self, irradiance: SpectralIrradiance) -> tuple[PosteriorSolver, Tensor]:
        light = light_of(irradiance, self.physics)
        if light.shape[1] != self.library.mean.shape[1]:
            raise ValueError(f"irradiance has {light.shape[1]} bands, the model {self.library.mean.shape[1]}")
        cos_zenith = float(np.cos(np.radians(irradiance.sun_zenith_deg)))
        key = light.tobytes() + np.float64(cos_zenith).tobytes()
        if key not in self._solvers:
            solver = PosteriorSolver.build(self.library, self.prior.under(cos_zenith), light, level=_LEVEL)
            table = self.known_light.table(self.prior, cos_zenith)
            self._solvers[key] = solver.to(self.device), table.to(self.device)
        return self._solvers[key]

    def tensors(self) -> dict[str, Tensor]:
        """For storage."""
        parts = {
            "classifier": self.classifier.tensors(),
            "library": self.library.tensors(),
            "light": self.prior.tensors(),
            "known_light": self.known_light.tensors(),
        }
        return {f"{name}.{key}": values for name, found in parts.items() for key, values in found.items()}

    def to(self, device: str) -> Self:
        """The same on another device."""
        return replace(self, classifier=self.classifier.to(device), device=device)

    @classmethod
    def restore(cls, frame: Frame, tensors: Mapping[str, Tensor]) -> Self:
        """The mixture of these tensors."""
        return cls(
            Classifier.restore(part(tensors, "classifier.")),
            SpectralLibrary.restore(part(tensors, "library.")),
            LightPrior.restore(part(tensors, "light.")),
            KnownLight.restore(part(tensors, "known_light.")),
            frame.settings.physics,
        )


def light_of(irradiance: SpectralIrradiance, physics: bool) -> npt.NDArray[np.float64]:
    """a and b, (2, bands); without physics, the same constant: z·a + w·b is 1 on flat sunlit ground."""
    if physics:
        return np.stack([irradiance.direct_ratio, irradiance.diffuse_ratio]).astype(np.float64)
    flat = 1 / (1 + np.cos(np.radians(irradiance.sun_zenith_deg)))
    return np.full((2, len(irradiance.direct_ratio)), flat)
