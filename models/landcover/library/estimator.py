"""The default land-cover estimator: classifier and decoder, and what held-out polygons say of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from p3vae.models.landcover.estimator import Frame, OutdatedModelError, PixelPrediction, SpectraArray, part
from p3vae.models.landcover.job import Job, refitted
from p3vae.models.landcover.library.calibration import Calibration, calibrate
from p3vae.models.landcover.library.decoder import FloatArray
from p3vae.models.landcover.library.mixture import IntArray, Mixture, light_of
from p3vae.models.landcover.library.scene import Basis, Home, SceneState
from p3vae.models.landcover.library.transfer import LibraryPosterior
from p3vae.models.landcover.types import Method, TrainingSet, TrainingSummary
from p3vae.physics.illumination import SpectralIrradiance

_UNLABELLED = 2000
"""Pixels of the scene from which the frequencies of classes are estimated."""
_EM_STEPS = 30
_LEAST_WEIGHT = 1e-3


@dataclass(frozen=True, eq=False)
class LibraryEstimator:
    """A mixture, its calibration, and a prior of the classes."""

    supported_options: ClassVar[frozenset[str]] = frozenset({"physics", "class_prior", "prior"})
    gives_irradiance: ClassVar[bool] = True
    gives_misfit: ClassVar[bool] = True
    takes_terrain: ClassVar[bool] = True
    methods: ClassVar[tuple[Method, ...]] = ("posterior", "classifier")
    coupling: ClassVar[float | None] = None

    mixture: Mixture
    class_prior: FloatArray
    """(classes,), sums to one."""
    temperatures: tuple[float, float]
    """Log-odds of classifier and decoder are divided by them."""
    ood_threshold: float
    """Squared Mahalanobis distance above which a spectrum is out-of-distribution."""
    averages_neighbours: bool = False
    """Whether maps show the mean over neighbours."""
    transfer: LibraryPosterior | None = None
    """What a model of materials says of the classes, where one is their prior."""
    basis: Basis | None = None
    """Of what scenes differ by, at the model's bands."""
    home: Home | None = None
    """The scenes of training; None where they were not kept."""

    @classmethod
    def fit(cls, job: Job) -> tuple[Self, TrainingSummary]:
        """Fitted to all labels; the scores are those of one that never saw the held-out polygons."""
        calibrations: list[Calibration] = []

        def fitted(data: TrainingSet) -> LibraryEstimator:
            calibrations.append(calibrate(data, job.frame, job.on_step))
            return cls._fitted(job, data, calibrations[-1])

        estimator, summary = refitted(job, fitted)
        assert isinstance(estimator, cls)
        return estimator, replace(summary, doubtful=calibrations[-1].doubtful)

    @classmethod
    def _fitted(cls, job: Job, data: TrainingSet, calibration: Calibration) -> Self:
        job.on_step("fitting classifier and decoder")
        classes = len(job.legend)
        uniform = np.full(classes, 1 / classes)
        mixture = Mixture.fit(data, job.frame)
        basis = Basis.at(job.bands.wavelength_nm)
        home = Home.of(data.scenes, mixture.classifier.classes, basis) if data.scenes else None
        found = cls(mixture, uniform, *calibration[:3], basis=basis, home=home)
        if job.settings.class_prior == "labels":
            counts = np.bincount(data.class_index, minlength=classes)
            found = replace(found, class_prior=counts / counts.sum())
        elif job.settings.class_prior == "scene":
            found = replace(found, class_prior=found._frequencies(job, data))
        if job.prior is None:
            return found
        transfer = LibraryPosterior.fit(job.prior, job.bands, job.irradiance, job.legend.names, data)
        return replace(found, transfer=transfer)

    def _frequencies(self, job: Job, data: TrainingSet) -> FloatArray:
        """Frequencies of classes in the scene, (classes,), by EM from posteriors (Saerens et al. 2002)."""
        pool = data.unlabelled if len(data.unlabelled) else data.spectra
        rows = np.random.default_rng(job.settings.seed).permutation(len(pool))[:_UNLABELLED]
        found = self.mixture.hypotheses(torch.from_numpy(pool[rows]), job.irradiance)
        posterior = found.pooled(self.temperatures).double().numpy()
        weight = np.full(posterior.shape[1], 1 / posterior.shape[1])
        for _ in range(_EM_STEPS):
            joint = posterior * weight
            weight = np.maximum((joint / joint.sum(1, keepdims=True)).mean(0), _LEAST_WEIGHT)
            weight /= weight.sum()
        return weight

    def predict_logits(
        self,
        spectra: Tensor,
        irradiance: SpectralIrradiance,
        method: Method,
        observed: Tensor | None = None,
    ) -> PixelPrediction:
        """Classes by both hypotheses about light, or by q(y|x) alone; light by the decoder.

        An out-of-distribution spectrum is of a known class with a probability that falls with its distance;
        the rest is shared evenly among the classes, or left to a library that is their prior.
        """
        found = self.mixture.hypotheses(spectra, irradiance, observed)
        misfit = found.distance / self.ood_threshold
        if method == "classifier":
            probability = (found.classifier / self.temperatures[0]).softmax(1)
        else:
            probability = found.pooled(self.temperatures)
        probability = probability * probability.new_tensor(self.class_prior)
        probability = probability / probability.sum(1, keepdim=True)
        known = 1 / misfit.clamp(min=1)[:, None]
        if self.transfer is not None:
            seen = self._at_home(spectra)
            logits = self.transfer.pooled(known * _log(probability), seen, irradiance)
        else:
            logits = _log(known * probability + (1 - known) / probability.shape[1])
        return PixelPrediction(
            logits, found.sun, found.sun_std, found.sky, misfit, found.known_light, found.surprise
        )

    def codes(self, spectra: Tensor, irradiance: SpectralIrradiance) -> Tensor:
        """z, w, and the posterior mean of c under the likeliest class, (pixels, 2 + directions)."""
        return self.mixture.solver(irradiance).codes(self._at_home(spectra))

    def generate(self, index: int, codes: Tensor, irradiance: SpectralIrradiance) -> Tensor:
        """(z·a + w·b) ⊙ (ρ_y + V_y c); codes as `codes` gives them."""
        light = codes[:, :2] @ codes.new_tensor(light_of(irradiance, self.mixture.physics))
        library = self.mixture.library
        reflectance = codes.new_tensor(library.mean[index])
        made = light * (reflectance + codes[:, 2:] @ codes.new_tensor(library.directions[index]))
        scene = self.mixture.scene
        if scene is None:
            return made
        return made * codes.new_tensor(scene.gain) + codes.new_tensor(scene.offset)

    def _at_home(self, spectra: Tensor) -> Tensor:
        """Spectra as the scene of training would have seen them."""
        scene = self.mixture.scene
        if scene is None:
            return spectra
        return (spectra - spectra.new_tensor(scene.offset)) / spectra.new_tensor(scene.gain)

    def in_scene(self, spectra: npt.NDArray[np.float32]) -> tuple[Self, SceneState | None]:
        """The estimator for a scene with such pixels (pixels, bands), and how it differs from home."""
        if self.home is None or self.basis is None:
            return self, None
        state = SceneState.found(spectra, self.home, self.mixture.classifier.classes, self.basis)
        return (self, None) if state is None else (replace(self, mixture=self.mixture.in_scene(state)), state)

    def at_bands(self, columns: IntArray) -> Self:
        """The estimator for spectra that lack the other bands: they are integrated out."""
        share = len(columns) / self.mixture.library.mean.shape[1]
        return replace(
            self,
            mixture=self.mixture.at_bands(columns),
            ood_threshold=self.ood_threshold * share,
            transfer=self.transfer and self.transfer.at_bands(columns),
            basis=self.basis and self.basis.select(columns),
            home=self.home and replace(self.home, noise=self.home.noise[:, columns]),
        )

    def latent_spectra(self) -> list[SpectraArray]:
        """The mean of each class, and one standard deviation along each direction."""
        library = self.mixture.library
        means = library.mean[:, None]
        return list(np.concatenate([means, means + library.directions], 1))

    def metadata(self) -> dict[str, Any]:
        """What held-out polygons chose, and the light that labels show."""
        known = self.mixture.known_light
        found: dict[str, Any] = {
            "temperatures": list(self.temperatures),
            "ood_threshold": self.ood_threshold,
            "averages_neighbours": self.averages_neighbours,
            "labels_light": {
                "direct": np.quantile(known.light[:, 0], (0.05, 0.5, 0.95)).round(3).tolist(),
                "sky": np.quantile(known.light[:, 1], (0.05, 0.5, 0.95)).round(3).tolist(),
            },
        }
        if self.home is not None:
            found["home"] = list(self.home.digests)
        return found if self.transfer is None else found | {"prior": self.transfer.metadata()}

    def tensors(self) -> dict[str, Tensor]:
        """Mixture and priors."""
        found = {"class_prior": torch.as_tensor(self.class_prior), **self.mixture.tensors()}
        if self.home is not None:
            found |= {f"home.{name}": values for name, values in self.home.tensors().items()}
        if self.transfer is not None:
            found |= {f"prior.{name}": values for name, values in self.transfer.tensors().items()}
        return found

    def to(self, device: str) -> Self:
        """The same estimator on another device."""
        return replace(
            self, mixture=self.mixture.to(device), transfer=self.transfer and self.transfer.to(device)
        )

    @classmethod
    def restore(cls, frame: Frame, card: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The estimator that gave this metadata and these tensors."""
        if not {"known_light.light", "classifier.covariance"} <= tensors.keys():
            raise OutdatedModelError("it has no classifier for known light")
        transfer = None
        if known := part(tensors, "prior."):
            transfer = LibraryPosterior.restore(frame, card["prior"], known)
        home = part(tensors, "home.")
        classifier, decoder = card["temperatures"]
        return cls(
            Mixture.restore(frame, tensors),
            tensors["class_prior"].numpy(),
            (float(classifier), float(decoder)),
            float(card["ood_threshold"]),
            bool(card["averages_neighbours"]),
            transfer,
            Basis.at(frame.bands.wavelength_nm),
            Home.restore(home, card["home"]) if home else None,
        )


def _log(probability: Tensor) -> Tensor:
    return probability.clamp(min=1e-30).log()


ESTIMATOR = LibraryEstimator
