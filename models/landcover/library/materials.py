"""The estimator behind the shipped model `earth`: materials of spectral libraries, for any sensor.

A component is ground that one material dominates, pure or mixed with other ground; its spectra are Gaussian,
as those of a class in `decoder`. The posterior runs over components and light; probabilities of the
components of a material add up, and those of the materials of a class.

    p(class | x) = Σ_{components of the class} p(component | x)

Spectra of another sensor are linear in those of the library, x = Wᵀ x_library. So its mean is Wᵀρ, its
directions and factors are Wᵀ times theirs, and a band that a sensor does not have is integrated out by
leaving it away: both are exact for a Gaussian.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from p3vae.models.landcover.estimator import Frame, PixelPrediction, SpectraArray, light_ratios, part
from p3vae.models.landcover.job import Job
from p3vae.models.landcover.library.decoder import FloatArray, LightPrior, SpectralLibrary
from p3vae.models.landcover.library.low_rank import LowRankSolver
from p3vae.models.landcover.library.solver import PosteriorSolver
from p3vae.models.landcover.types import Method, TrainingError, TrainingSummary
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands, gaussian_average_matrix

IntArray = npt.NDArray[np.int64]

_LEVEL = 0.06
"""Relative standard deviation of z [1] that the brightness of a material leaves open."""


class CoverPrediction(NamedTuple):
    """What pixels are made of; arrays (pixels,) unless said."""

    material: Tensor
    """Index of the likeliest material of the likeliest class."""
    material_probability: Tensor
    fraction: Tensor
    """Posterior mean of the share of ground of each class, (pixels, classes); sums to one."""
    fraction_std: Tensor
    """(pixels, classes)."""


@dataclass(frozen=True, eq=False)
class MaterialEstimator:
    """Gaussian components of materials, a prior of light, and which class each belongs to."""

    supported_options: ClassVar[frozenset[str]] = frozenset()
    gives_irradiance: ClassVar[bool] = True
    gives_misfit: ClassVar[bool] = True
    takes_terrain: ClassVar[bool] = True
    methods: ClassVar[tuple[Method, ...]] = ("posterior",)

    library: SpectralLibrary
    """Its classes are the components."""
    prior: LightPrior
    """Its z are in units of the cosine of the sun's zenith."""
    weight: FloatArray
    """Prior probability of each component, (components,)."""
    material: IntArray
    """Index of the material of each component, (components,)."""
    class_of: IntArray
    """Index of the class of each material, (materials,)."""
    fraction: FloatArray
    """Mean share of ground of each class in a component, (components, classes)."""
    fraction_std: FloatArray
    """(components, classes)."""
    materials: tuple[str, ...]
    """Names."""
    ood_threshold: float
    """Squared Mahalanobis distance per band above which a spectrum is out-of-distribution."""
    independent_bands: float
    """Number of bands, where neighbours closer than those of the library count for less."""
    description: Mapping[str, Any]
    """Sources, validation and limits, for the model card."""
    device: str = "cpu"
    _solvers: dict[bytes, PosteriorSolver] = field(default_factory=dict, init=False, repr=False)

    def at_bands(self, own: Bands, bands: Bands) -> Self:
        """The estimator for spectra at `bands`, from the one at `own`."""
        left = np.sqrt(
            np.maximum(
                np.square(bands.fwhm_nm)
                - np.interp(bands.wavelength_nm, own.wavelength_nm, own.fwhm_nm) ** 2,
                0,
            )
        )
        weights = gaussian_average_matrix(own.wavelength_nm, bands.wavelength_nm, left)
        density = _density(bands, float(np.median(own.fwhm_nm)))
        library = SpectralLibrary(
            self.library.mean @ weights,
            self.library.directions @ weights,
            self.library.factors @ weights,
            (self.library.noise @ weights) * density,
        )
        return replace(self, library=library, independent_bands=float((1 / density).sum()))

    def merged(self, classes: IntArray) -> Self:
        """The estimator for a legend in which class k has become `classes[k]`."""
        count = int(classes.max()) + 1
        to = np.eye(count)[classes]
        variance = np.square(self.fraction_std) @ to
        return replace(
            self,
            class_of=classes[self.class_of],
            fraction=self.fraction @ to,
            fraction_std=np.sqrt(variance),
        )

    @classmethod
    def fit(cls, job: Job) -> tuple[Self, TrainingSummary]:
        """It is made from spectral libraries, not from the labels of a scene."""
        raise TrainingError("earth is made from spectral libraries; train p3vae on labels")

    def predict_logits(
        self,
        spectra: Tensor,
        irradiance: SpectralIrradiance,
        method: Method,
        observed: Tensor | None = None,
    ) -> PixelPrediction:
        """Classes and light; log-odds of an out-of-distribution spectrum are divided by its misfit."""
        found = self.solver(irradiance).solve(spectra, observed)
        misfit = found.distance / (self.ood_threshold * self.independent_bands)
        owner = torch.as_tensor(self.class_of[self.material], device=spectra.device)
        logits = _grouped(found.logits, owner, int(self.class_of.max()) + 1) / misfit.clamp(min=1)[:, None]
        return PixelPrediction(logits, found.sun, found.sun_std, found.sky, misfit, surprise=found.surprise)

    def cover(self, spectra: Tensor, irradiance: SpectralIrradiance) -> CoverPrediction:
        """Materials and fractions of spectra (pixels, bands)."""
        probability = self.solver(irradiance).solve(spectra).logits.softmax(1)
        owner = torch.as_tensor(self.material, device=spectra.device)
        by_material = _summed(probability, owner, len(self.materials))
        owner = torch.as_tensor(self.class_of, device=spectra.device)
        by_class = _summed(by_material, owner, int(owner.max()) + 1)
        inside = owner == by_class.argmax(1, keepdim=True)
        likeliest = by_material.where(inside, by_material.new_zeros(())).max(1)
        mean, std = (probability.new_tensor(values) for values in (self.fraction, self.fraction_std))
        fraction = probability @ mean
        second = probability @ (std.square() + mean.square())
        return CoverPrediction(
            likeliest.indices,
            likeliest.values.clamp(max=1),
            fraction,
            (second - fraction.square()).clamp(min=0).sqrt(),
        )

    def codes(self, spectra: Tensor, irradiance: SpectralIrradiance) -> Tensor:
        """z, w, and the posterior mean of c under the likeliest component, (pixels, 2 + directions)."""
        return self.solver(irradiance).codes(spectra)

    def generate(self, index: int, codes: Tensor, irradiance: SpectralIrradiance) -> Tensor | None:
        """None: codes belong to components, of which a class has several."""
        return None

    def latent_spectra(self) -> list[SpectraArray]:
        """Means of the components of each class."""
        owner = self.class_of[self.material]
        return [self.library.mean[owner == index] for index in range(int(self.class_of.max()) + 1)]

    def solver(self, irradiance: SpectralIrradiance) -> PosteriorSolver:
        """The posterior under one illumination."""
        light = light_ratios(irradiance).double().numpy()
        cos_zenith = float(np.cos(np.radians(irradiance.sun_zenith_deg)))
        key = light.tobytes() + np.float64(cos_zenith).tobytes()
        if key not in self._solvers:
            self._solvers[key] = LowRankSolver.build(
                self.library,
                replace(self.prior, mean=self.prior.mean * (cos_zenith, 1.0)),
                light,
                class_prior=self.weight,
                level=_LEVEL,
            ).to(self.device)
        return self._solvers[key]

    def metadata(self) -> dict[str, Any]:
        """Materials, and what is said of the model."""
        return {
            "materials": list(self.materials),
            "ood_threshold": self.ood_threshold,
            "independent_bands": self.independent_bands,
            "description": dict(self.description),
        }

    def tensors(self) -> dict[str, Tensor]:
        """Components and priors."""
        found = {f"library.{name}": values for name, values in self.library.tensors().items()}
        found |= {f"light.{name}": values for name, values in self.prior.tensors().items()}
        for name in ("weight", "material", "class_of", "fraction", "fraction_std"):
            found[f"component.{name}"] = torch.as_tensor(getattr(self, name))
        return {name: value.float() if value.is_floating_point() else value for name, value in found.items()}

    def to(self, device: str) -> Self:
        """The same estimator on another device."""
        return replace(self, device=device)

    @classmethod
    def restore(cls, frame: Frame, card: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The estimator that gave this metadata and these tensors."""
        parts = {name: values.numpy() for name, values in part(tensors, "component.").items()}
        weight = parts["weight"].astype(np.float64)
        return cls(
            SpectralLibrary.restore(part(tensors, "library.")),
            LightPrior.restore(part(tensors, "light.")),
            weight / weight.sum(),
            parts["material"],
            parts["class_of"],
            parts["fraction"].astype(np.float64),
            parts["fraction_std"].astype(np.float64),
            tuple(card["materials"]),
            float(card["ood_threshold"]),
            float(card["independent_bands"]),
            card["description"],
        )


def _density(bands: Bands, spacing_nm: float) -> FloatArray:
    """Bands per `spacing_nm` about each band, at least one: close neighbours share their errors."""
    if len(bands) < 2:
        return np.ones(len(bands))
    gaps = np.diff(bands.wavelength_nm)
    nearest = np.minimum(np.append(gaps, np.inf), np.insert(gaps, 0, np.inf))
    return np.asarray(np.maximum(spacing_nm / nearest, 1.0))


def _summed(values: Tensor, owner: Tensor, count: int) -> Tensor:
    """Sums of the columns of each owner, (pixels, count)."""
    return values.new_zeros((len(values), count)).index_add_(1, owner, values)


def _grouped(logits: Tensor, owner: Tensor, count: int) -> Tensor:
    """Log of the summed exponentials of the columns of each owner, (pixels, count)."""
    largest = logits.max(1, keepdim=True).values
    total = _summed((logits - largest).exp(), owner, count)
    return total.clamp(min=1e-30).log() + largest


ESTIMATOR = MaterialEstimator
