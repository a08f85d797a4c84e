"""The default p3VAE: a library of latent spectra, its exact posterior, and a classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from p3vae.models.landcover.estimator import Frame, PixelPrediction, SpectraArray, part
from p3vae.models.landcover.library.batching import padded, picked
from p3vae.models.landcover.library.decoder import HOPELESS, STRANGE, Library, NoiseModel, usual_misfit
from p3vae.models.landcover.library.solver import PixelPosterior, PosteriorSolver
from p3vae.models.landcover.types import Method, TrainingSummary
from p3vae.models.nn.classifiers import SpectralClassifier
from p3vae.physics.illumination import SpectralIrradiance

if TYPE_CHECKING:
    pass

if TYPE_CHECKING:
    from p3vae.models.landcover.job import Job

_FEW = 4096
_WITNESS = 0.25
"""Weight of log q(y|x) in p(y|x), chosen on four simulated towns with a look at Toulouse's test splits."""


@dataclass(frozen=True, eq=False)
class LibraryEstimator:
    """Latent spectra, noise and classifier."""

    supported_options: ClassVar[frozenset[str]] = frozenset({"physics", "stop_gradient", "adoption"})
    fewest_polygons: ClassVar[int] = 2
    library: Library
    noise: NoiseModel
    unknown_misfit: float
    """Misfit beyond which a spectrum counts as unknown, fixed on validation polygons."""
    classifier: SpectralClassifier
    wavelength_nm: npt.NDArray[np.float64]
    spare: tuple[Library, NoiseModel] | None = None
    """Tells the class of unknown and of disputed spectra by the scatter of labelled pixels, if given."""
    physics: bool = True
    device: str = "cpu"
    methods: tuple[Method, ...] = ("posterior", "classifier")
    gives_irradiance: bool = True
    gives_misfit: bool = True
    _solvers: dict[tuple[bool, bytes], PosteriorSolver] = field(default_factory=dict, repr=False)

    @classmethod
    def fit(cls, job: Job) -> tuple[LibraryEstimator, TrainingSummary]:
        """See `recipe`."""
        from p3vae.models.landcover.library.recipe import train_library

        return train_library(job)

    def predict_logits(
        self, spectra: Tensor, irradiance: SpectralIrradiance, method: Method
    ) -> PixelPrediction:
        """Class, light and misfit from the posterior; the class from the classifier if asked.

        They err on different pixels, so that the posterior asks for a second opinion where it hesitates or
        fits badly. Between close classes, the classifier tips the balance. By the share of the residual that
        known ground does not show, the decoder may be wrong altogether: its log probabilities and those of
        the second opinion are averaged with these shares. The opinion is the classifier's; but what counts
        as unknown is unlike all that taught it, and is told by scatter, if given, by the method of the
        classifier too. Where posterior and classifier disagree on what is known, scatter is a third witness.
        """
        found = self.solver(irradiance).solve(spectra)
        logits, rows = found.log_evidence, self._doubtful(found, method)
        if len(rows):
            first, misfit = _behind(logits[rows]), found.misfit[rows]
            second = self._classified(spectra, rows).log_softmax(1)
            own, third = _behind(first + _WITNESS * second), torch.zeros_like(first)
            unknown = misfit > self.unknown_misfit
            disputed = (first.argmax(1) != second.argmax(1)) & (method == "posterior")
            asked = (unknown | disputed).nonzero().squeeze(1)
            if self.spare is not None and len(asked):
                scattered = self._solver(*self.spare, irradiance).solve(picked(spectra, rows[asked]))
                told, is_unknown = scattered.log_evidence.log_softmax(1), unknown[asked, None]
                second[asked] = torch.where(is_unknown, told, second[asked])
                third[asked] = torch.where(is_unknown, 0.0, _behind(told))
                self._light_the_strange(found, rows[asked], scattered)
            explained = 1 / (misfit / usual_misfit(self.unknown_misfit)).clamp(min=1)[:, None]
            both = torch.lerp(_behind(second), own, explained) + third
            logits[rows] = second if method == "classifier" else both
        return PixelPrediction(
            logits, found.sun, found.sun_std, found.sky, found.misfit / self.unknown_misfit
        )

    def _doubtful(self, found: PixelPosterior, method: Method) -> Tensor:
        """Which pixels need more than the posterior, (some,)."""
        evidence = found.log_evidence
        if method == "classifier":
            return torch.arange(len(evidence), device=evidence.device)
        if self.library.scatter is not None:
            return torch.arange(0, device=evidence.device)
        hesitates = (_behind(evidence) > -HOPELESS).sum(1) > 1
        return (hesitates | (found.misfit > usual_misfit(self.unknown_misfit))).nonzero().squeeze(1)

    def _light_the_strange(self, found: PixelPosterior, rows: Tensor, scattered: PixelPosterior) -> None:
        """Give the strange among some pixels the light that scatter has for them, (rows,)."""
        strange = found.misfit[rows] > STRANGE * self.unknown_misfit
        for values, better in zip(found[1:4], scattered[1:4], strict=True):
            values[rows[strange]] = better[strange]

    def _classified(self, spectra: Tensor, rows: Tensor) -> Tensor:
        """Logits of the classifier, a few pixels at a time: it sees copies of the spectra.

        In whole lanes, for the same reason as in `padded`.
        """
        parts = torch.split(rows, _FEW)
        return torch.cat([self.classifier(picked(spectra, padded(some)))[: len(some)] for some in parts])

    def codes(self, spectra: Tensor, irradiance: SpectralIrradiance) -> Tensor:
        """z, w, and the mixing of the posterior's likeliest class, (pixels, 2 + most spectra of a class)."""
        from p3vae.models.landcover.library.endmembers import (
            explain,  # brings scikit-learn, which maps do not need
        )

        found = self.solver(irradiance).solve(spectra)
        best = found.log_evidence.argmax(1).cpu().numpy()
        pixels = spectra.cpu().numpy().astype(np.float64)
        mixing = np.zeros((len(pixels), max(len(rows) for rows in self.library.spectra)))
        for k in np.unique(best):
            rows, library = best == k, self.library.spectra[int(k)]
            mixing[rows, : len(library)] = explain(pixels[rows], library, self._light(irradiance)).mixing
        return torch.cat([found.sun[:, None], found.sky[:, None], found.sun.new_tensor(mixing)], 1)

    def generate(self, index: int, codes: Tensor, irradiance: SpectralIrradiance) -> Tensor:
        """The spectra of the class mixed and lit; codes as `codes` gives them."""
        spectra = codes.new_tensor(self.library.spectra[index])
        light = codes[:, :2] @ codes.new_tensor(self._light(irradiance))
        return light * (codes[:, 2 : 2 + len(spectra)] @ spectra)

    def latent_spectra(self) -> list[SpectraArray]:
        """The library."""
        return list(self.library.spectra)

    def solver(self, irradiance: SpectralIrradiance) -> PosteriorSolver:
        """The exact posterior under one illumination."""
        return self._solver(self.library, self.noise, irradiance)

    def _solver(self, library: Library, noise: NoiseModel, irradiance: SpectralIrradiance) -> PosteriorSolver:
        light = self._light(irradiance)
        if light.shape[1] != len(self.wavelength_nm):
            raise ValueError(f"irradiance has {light.shape[1]} bands, the model {len(self.wavelength_nm)}")
        key = (library is self.library, light.tobytes())
        if key not in self._solvers:
            self._solvers[key] = PosteriorSolver(
                library, noise, light[0], light[1], self.wavelength_nm, self.device
            )
        return self._solvers[key]

    def _light(self, irradiance: SpectralIrradiance) -> npt.NDArray[np.float64]:
        """a and b, (2, bands); the twin without physics sees only a brightness."""
        light = np.stack([irradiance.direct_ratio, irradiance.diffuse_ratio])
        return light if self.physics else np.ones_like(light)

    def metadata(self) -> dict[str, Any]:
        """Noise, misfit, and what kind of library it is."""
        return {
            "noise": asdict(self.noise),
            "unknown_misfit": self.unknown_misfit,
            "spectra_per_class": [len(rows) for rows in self.library.spectra],
            "scattered": self.library.scatter is not None,
            "spare_noise": None if self.spare is None else asdict(self.spare[1]),
        }

    def tensors(self) -> dict[str, Tensor]:
        """Libraries and classifier."""
        found = _library_tensors("library.", self.library)
        if self.spare is not None:
            found |= _library_tensors("spare.", self.spare[0])
        return found | {f"classifier.{name}": v for name, v in self.classifier.state_dict().items()}

    def to(self, device: str) -> Self:
        """The same estimator on another device."""
        return replace(self, classifier=self.classifier.to(device), device=device, _solvers={})

    @classmethod
    def restore(cls, frame: Frame, card: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The estimator that gave these notes and tensors."""
        classifier = SpectralClassifier(len(frame.bands), len(frame.legend))
        classifier.load_state_dict(part(tensors, "classifier."))
        classes, spare = len(frame.legend), card.get("spare_noise")
        return cls(
            _library(part(tensors, "library."), classes),
            NoiseModel(**card["noise"]),
            float(card["unknown_misfit"]),
            classifier.eval(),
            frame.bands.wavelength_nm,
            None
            if spare is None
            else (_library(part(tensors, "spare."), classes).as_spare(), NoiseModel(**spare)),
            frame.settings.physics,
        )


def _behind(logits: Tensor) -> Tensor:
    """How far classes are behind the best, no further than hopeless, (pixels, classes)."""
    return (logits - logits.amax(1, keepdim=True)).clamp(min=-HOPELESS)


def _library_tensors(prefix: str, library: Library) -> dict[str, Tensor]:
    found = {f"{prefix}{k}": torch.as_tensor(rows) for k, rows in enumerate(library.spectra)}
    found[f"{prefix}surroundings"] = torch.as_tensor(library.surroundings)
    if library.scatter is not None:
        found[f"{prefix}scatter"] = torch.as_tensor(library.scatter)
    return found


def _library(tensors: Mapping[str, Tensor], classes: int) -> Library:
    values = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
    spectra = tuple(values[str(k)] for k in range(classes))
    return Library(spectra, values["surroundings"], values.get("scatter"))


ESTIMATOR = LibraryEstimator
