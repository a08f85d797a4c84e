"""What teaches the classifier of the default model: relit labels, and the judgement of the posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from p3vae.models.landcover.job import Job
from p3vae.models.landcover.library.calibration import Validation
from p3vae.models.landcover.library.decoder import Library, smooth_basis
from p3vae.models.landcover.library.illumination import (
    NEIGHBOURS,
    Optics,
    own_light,
    random_light,
    scene_optics,
)
from p3vae.models.landcover.library.pseudo_labels import WELL_LIT

FloatArray = npt.NDArray[np.float64]

_MOST_TAUGHT = 8000
_TEACHER_SMOOTH = 0.04
_AS_IS = 0.25
"""Share of the examples that stay in their own light."""


@dataclass(frozen=True, eq=False)
class Teacher:
    """Spectra that teach the classifier: labelled ones relit, unlabelled ones as p(y|x) sees them."""

    spectra: FloatArray
    light: FloatArray
    by_class: list[npt.NDArray[np.intp]]
    unlabelled: npt.NDArray[np.float32]
    judged: npt.NDArray[np.float32]
    unlabelled_light: FloatArray
    """(z, w) as p(y|x) has them; zeros where every pixel is a mixture, whose light no one can tell."""
    optics: Optics
    surroundings: FloatArray
    sensor_noise: FloatArray | float

    @classmethod
    def prepare(cls, job: Job, library: Library, validation: Validation) -> Teacher:
        """Own light of every labelled sample, and p(y|x) of unlabelled ones."""
        data, optics = job.data, scene_optics(job)
        spectra = data.spectra.astype(np.float64)
        rng = np.random.default_rng(job.settings.seed)
        unlabelled = data.unlabelled[rng.permutation(len(data.unlabelled))[:_MOST_TAUGHT]]
        judged, seen_light = np.zeros((0, len(job.legend)), np.float32), np.zeros((len(unlabelled), 2))
        if len(unlabelled):
            found = optics.solver(library, validation.noise).solve(torch.from_numpy(unlabelled))
            judged = found.log_evidence.softmax(1).numpy()
            if not validation.scattered:
                seen_light = torch.stack([found.sun, found.sky], 1).double().numpy()
        return cls(
            spectra,
            own_light(spectra, data.class_index, library, optics),
            [np.flatnonzero(data.class_index == k) for k in range(len(job.legend))],
            unlabelled,
            judged,
            seen_light,
            optics,
            library.surroundings,
            validation.sensor_noise,
        )

    def examples(
        self, count: int, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Labelled spectra, classes in equal shares, in random light with every deviation a scene brings."""
        classes = rng.integers(0, len(self.by_class), count)
        sizes = np.array([len(rows) for rows in self.by_class])
        starts = np.cumsum(sizes) - sizes
        rows = np.concatenate(self.by_class)[starts[classes] + rng.integers(0, sizes[classes])]
        as_is = rng.random(count) < _AS_IS
        relit = self._relit(self.spectra[rows], self.light[rows], as_is, rng)
        terms = smooth_basis(self.optics.wavelength)
        relit *= np.exp(rng.standard_normal((count, terms.shape[1])) * (_TEACHER_SMOOTH / 2) @ terms.T)
        relit += self.sensor_noise * rng.standard_normal(relit.shape)
        return np.maximum(relit, 1e-4).astype(np.float32), np.eye(len(self.by_class), dtype=np.float32)[
            classes
        ]

    def _relit(
        self,
        spectra: FloatArray,
        light: FloatArray,
        as_is: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> FloatArray:
        """Spectra (samples, bands) seen in `light` (samples, 2) in random light, but for those left as is."""
        new = random_light(len(spectra), rng) @ self.optics.light
        if self.optics.physics:
            new += rng.uniform(0, NEIGHBOURS, (len(spectra), 1)) * self.surroundings
        relit = spectra * new / np.maximum(light @ self.optics.light, 0.02)
        relit[as_is] = spectra[as_is]
        return relit

    def batch(
        self, size: int, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """`size` unlabelled and three times as many labelled examples, with their target probabilities.

        Unlabelled ground is relit too where it has enough light to be known in less.
        """
        spectra, target = self.examples(3 * size, rng)
        if not len(self.unlabelled):
            return spectra, target
        rows = rng.integers(0, len(self.unlabelled), size)
        light = self.unlabelled_light[rows]
        as_is = (light.sum(1) < WELL_LIT) | (rng.random(size) < _AS_IS)
        relit = self._relit(self.unlabelled[rows].astype(np.float64), light, as_is, rng).astype(np.float32)
        return np.concatenate([spectra, relit]), np.concatenate([target, self.judged[rows]])
