"""The default land-cover estimator: exact posterior of class, intrinsic variability and light."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from p3vae.models.landcover.estimator import Frame, PixelPrediction, SpectraArray, part
from p3vae.models.landcover.job import Job, refitted
from p3vae.models.landcover.library.calibration import (
    calibrate,
    fitted_prior,
    scene_likelihood,
    scene_weights,
)
from p3vae.models.landcover.library.decoder import FloatArray, LightPrior, SpectralLibrary
from p3vae.models.landcover.library.endmembers import fit_library
from p3vae.models.landcover.library.solver import PosteriorSolver
from p3vae.models.landcover.library.transfer import LibraryPosterior
from p3vae.models.landcover.types import Method, TrainingSet, TrainingSummary
from p3vae.models.nn.classifiers import SpectralClassifier
from p3vae.physics.illumination import SpectralIrradiance

_LEVEL = 0.1
"""Relative standard deviation of z [1]: a class mean is of labelled pixels whose own light is not known."""


@dataclass(frozen=True, eq=False)
class LibraryEstimator:
    """A spectral library, a prior of light and of classes, and what held-out polygons chose."""

    supported_options: ClassVar[frozenset[str]] = frozenset(
        {"physics", "class_prior", "with_classifier", "prior"}
    )
    gives_irradiance: ClassVar[bool] = True
    gives_misfit: ClassVar[bool] = True

    library: SpectralLibrary
    prior: LightPrior
    class_prior: FloatArray
    """(classes,), sums to one."""
    temperature: float
    """Log-odds of classes are divided by it."""
    ood_threshold: float
    """Squared Mahalanobis distance above which a spectrum is out-of-distribution."""
    physics: bool = True
    """False: light is a brightness alone, the same in all bands."""
    classifier: SpectralClassifier | None = None
    """q(y|x), where it was trained."""
    transfer: LibraryPosterior | None = None
    """What a model of materials says of the classes, where one is their prior."""
    device: str = "cpu"
    _solvers: dict[bytes, PosteriorSolver] = field(default_factory=dict, init=False, repr=False)

    @property
    def methods(self) -> tuple[Method, ...]:
        """The posterior, and the classifier where there is one."""
        return ("posterior",) if self.classifier is None else ("posterior", "classifier")

    @classmethod
    def fit(cls, job: Job) -> tuple[Self, TrainingSummary]:
        """Fitted to all labels; the scores are those of one that never saw the held-out polygons."""
        estimator, summary = refitted(job, partial(cls._fitted, job))
        if not job.settings.with_classifier:
            return estimator, summary
        from p3vae.models.landcover.library.student import train_classifier

        return replace(estimator, classifier=train_classifier(estimator, job)), summary

    @classmethod
    def _fitted(cls, job: Job, data: TrainingSet) -> Self:
        classes, seed, physics = len(job.legend), job.settings.seed, job.settings.physics
        light = _light(job.irradiance, physics)
        cos_zenith = job.frame.cos_zenith
        fraction = job.settings.validation_fraction
        chosen = calibrate(data, classes, light, cos_zenith, fraction, seed, job.on_step)
        job.on_step(f"fitting {chosen.variability}")
        library = fit_library(data, classes, chosen.variability, seed)
        prior = fitted_prior(library, data, light, cos_zenith, seed)
        class_prior = np.full(classes, 1 / classes)
        if job.settings.class_prior == "labels":
            class_prior = np.bincount(data.class_index, minlength=classes) / len(data.class_index)
        elif job.settings.class_prior == "scene":
            log_likelihood = scene_likelihood(library, prior, data, light, seed)
            class_prior = scene_weights(log_likelihood)[1]
        found = cls(library, prior, class_prior, chosen.temperature, chosen.ood_threshold, physics)
        if job.prior is None:
            return found
        transfer = LibraryPosterior.fit(job.prior, job.bands, job.irradiance, job.legend.names, data)
        return replace(found, transfer=transfer)

    def predict_logits(
        self, spectra: Tensor, irradiance: SpectralIrradiance, method: Method
    ) -> PixelPrediction:
        """Classes by the posterior or by q(y|x), light by the posterior.

        An out-of-distribution spectrum is of a known class with a probability that falls with its distance;
        the rest is shared evenly among the classes, or left to a library that is their prior.
        """
        found = self.solver(irradiance).solve(spectra)
        misfit = found.distance / self.ood_threshold
        logits = found.logits
        if method == "classifier":
            if self.classifier is None:
                raise ValueError("the model was trained without a classifier")
            logits = self.classifier(spectra)
        known = 1 / misfit.clamp(min=1)[:, None]
        if self.transfer is not None:
            logits = self.transfer.pooled(known * logits, spectra, irradiance)
        else:
            logits = (known * logits.softmax(1) + (1 - known) / logits.shape[1]).log()
        return PixelPrediction(logits, found.sun, found.sun_std, found.sky, misfit)

    def codes(self, spectra: Tensor, irradiance: SpectralIrradiance) -> Tensor:
        """z, w, and the posterior mean of c under the likeliest class, (pixels, 2 + directions)."""
        return self.solver(irradiance).codes(spectra)

    def generate(self, index: int, codes: Tensor, irradiance: SpectralIrradiance) -> Tensor:
        """(z·a + w·b) ⊙ (ρ_y + V_y c); codes as `codes` gives them."""
        light = codes[:, :2] @ codes.new_tensor(_light(irradiance, self.physics))
        mean, directions = self.library.mean[index], self.library.directions[index]
        return light * (codes.new_tensor(mean) + codes[:, 2:] @ codes.new_tensor(directions))

    def latent_spectra(self) -> list[SpectraArray]:
        """The mean of each class, and one standard deviation along each direction."""
        means = self.library.mean[:, None]
        return list(np.concatenate([means, means + self.library.directions], 1))

    def solver(self, irradiance: SpectralIrradiance) -> PosteriorSolver:
        """The posterior under one illumination."""
        light = _light(irradiance, self.physics)
        if light.shape[1] != self.library.mean.shape[1]:
            raise ValueError(f"irradiance has {light.shape[1]} bands, the model {self.library.mean.shape[1]}")
        cos_zenith = float(np.cos(np.radians(irradiance.sun_zenith_deg)))
        key = light.tobytes() + np.float64(cos_zenith).tobytes()
        if key not in self._solvers:
            self._solvers[key] = PosteriorSolver.build(
                self.library,
                self.prior.under(cos_zenith),
                light,
                class_prior=self.class_prior,
                temperature=self.temperature,
                level=_LEVEL,
            ).to(self.device)
        return self._solvers[key]

    def metadata(self) -> dict[str, Any]:
        """What held-out polygons chose."""
        found = {
            "temperature": self.temperature,
            "ood_threshold": self.ood_threshold,
            "directions": self.library.directions.shape[1],
        }
        return found if self.transfer is None else found | {"prior": self.transfer.metadata()}

    def tensors(self) -> dict[str, Tensor]:
        """Library, priors and classifier."""
        found = {f"library.{name}": values for name, values in self.library.tensors().items()}
        found |= {f"light.{name}": values for name, values in self.prior.tensors().items()}
        found["class_prior"] = torch.as_tensor(self.class_prior)
        if self.classifier is not None:
            found |= {f"classifier.{name}": value for name, value in self.classifier.state_dict().items()}
        if self.transfer is not None:
            found |= {f"prior.{name}": values for name, values in self.transfer.tensors().items()}
        return found

    def to(self, device: str) -> Self:
        """The same estimator on another device."""
        return replace(
            self,
            classifier=self.classifier and self.classifier.to(device),
            transfer=self.transfer and self.transfer.to(device),
            device=device,
        )

    @classmethod
    def restore(cls, frame: Frame, card: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The estimator that gave this metadata and these tensors."""
        classifier = None
        if weights := part(tensors, "classifier."):
            classifier = SpectralClassifier(len(frame.bands), len(frame.legend))
            classifier.load_state_dict(weights)
            classifier.eval()
        transfer = None
        if known := part(tensors, "prior."):
            transfer = LibraryPosterior.restore(frame, card["prior"], known)
        return cls(
            SpectralLibrary.restore(part(tensors, "library.")),
            LightPrior.restore(part(tensors, "light.")),
            tensors["class_prior"].numpy(),
            float(card["temperature"]),
            float(card["ood_threshold"]),
            frame.settings.physics,
            classifier,
            transfer,
        )


def _light(irradiance: SpectralIrradiance, physics: bool) -> npt.NDArray[np.float64]:
    """a and b, (2, bands); without physics, the same constant: z·a + w·b is 1 on flat sunlit ground."""
    if physics:
        return np.stack([irradiance.direct_ratio, irradiance.diffuse_ratio]).astype(np.float64)
    flat = 1 / (1 + np.cos(np.radians(irradiance.sun_zenith_deg)))
    return np.full((2, len(irradiance.direct_ratio)), flat)


ESTIMATOR = LibraryEstimator
