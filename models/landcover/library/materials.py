"""The estimator behind the shipped model `earth`: materials of spectral libraries, for any sensor.

A component is ground that one material dominates, pure or mixed with other ground; its spectra are Gaussian,
as those of a class in `decoder`. The posterior runs over components and light; probabilities of the
components of a material add up, and those of the materials of a class.

    p(class | x) = Σ_{components of the class} p(component | x)

The encoder q(y | x) was trained on draws of the same ground in any light (`encoder`). Both infer one thing,
and their logarithmic pool with equal weights (Genest and Zidek 1986) is the posterior of the map:

    log p(class | x) = (log p + log q) / (2 T) + constant

with one temperature T for each grid of the encoder, from libraries that neither saw. Light is that of p
alone; fractions and materials are those of q, or of p where a sensor has no grid of q.

Spectra of another sensor are linear in those of the library, x = Wᵀ x_library. So its mean is Wᵀρ, its
directions and factors are Wᵀ times theirs, and a band that a sensor does not have is integrated out by
leaving it away: both are exact for a Gaussian.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from p3vae.models.landcover.estimator import Frame, PixelPrediction, SpectraArray, light_ratios, part
from p3vae.models.landcover.library.chunks import fixed_chunks, with_observed
from p3vae.models.landcover.library.decoder import FloatArray, LightPrior, SpectralLibrary
from p3vae.models.landcover.library.encoder import Encoder, Network
from p3vae.models.landcover.library.low_rank import LowRankSolver
from p3vae.models.landcover.library.scene import Basis, Classes, Home, SceneState
from p3vae.models.landcover.library.solver import PixelPosterior, PosteriorSolver
from p3vae.models.landcover.types import Method, TrainingError, TrainingSummary
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands, gaussian_average_matrix

if TYPE_CHECKING:
    from p3vae.models.landcover.job import Job

IntArray = npt.NDArray[np.int64]

_LEVEL = 0.06
"""Relative standard deviation of z [1] that the brightness of a material leaves open."""


_GAIN_NM = 2000.0
"""A sensor without bands from here on shows too little to tell a gain from its ground [nm]."""


class CoverPrediction(NamedTuple):
    """What pixels are made of; arrays (pixels,) unless said."""

    material: Tensor
    """Index of the likeliest material of a class."""
    material_probability: Tensor
    """Of that material if the class is right [1]."""
    fraction: Tensor
    """Mean of the share of ground of each class, (pixels, classes); sums to one."""
    fraction_std: Tensor
    """(pixels, classes)."""


@dataclass(frozen=True, eq=False)
class MaterialEstimator:
    """Gaussian components of materials, a prior of light, and which class each belongs to."""

    supported_options: ClassVar[frozenset[str]] = frozenset()
    gives_irradiance: ClassVar[bool] = True
    gives_misfit: ClassVar[bool] = True
    takes_terrain: ClassVar[bool] = True
    coupling: ClassVar[float | None] = 0.3

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
    encoder: Encoder = field(default_factory=lambda: Encoder(()))
    network: Network | None = None
    """That of the encoder for these bands."""
    merging: IntArray | None = None
    """Index of the class that each class of the encoder has become; None is: itself."""
    averages_neighbours: bool = False
    """Whether maps show the mean over neighbours."""
    wavelength_nm: FloatArray | None = None
    """Of the bands."""
    scene: SceneState | None = None
    """How a scene saw its ground."""
    device: str = "cpu"
    _solvers: dict[bytes, PosteriorSolver] = field(default_factory=dict, init=False, repr=False)

    @property
    def methods(self) -> tuple[Method, ...]:
        """`classifier` is the encoder alone."""
        return ("posterior",) if self.network is None else ("posterior", "classifier")

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
        return replace(
            self,
            library=library,
            independent_bands=float((1 / density).sum()),
            network=self.encoder.at_bands(bands),
            wavelength_nm=bands.wavelength_nm,
        )

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
            merging=classes if self.merging is None else classes[self.merging],
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
        solver, parts = self.solver(irradiance), []
        for piece, seen in with_observed(fixed_chunks(spectra, solver.columns), observed, solver.columns):
            self._to_home(piece)
            parts.append(self._judged(piece, solver, method, seen))
        joined = [torch.cat(values)[: len(spectra)] for values in zip(*parts, strict=True)]
        logits, sun, sun_std, sky, misfit, surprise = joined
        return PixelPrediction(logits, sun, sun_std, sky, misfit, surprise=surprise)

    def _judged(
        self, piece: Tensor, solver: PosteriorSolver, method: Method, seen: Tensor | None
    ) -> tuple[Tensor, ...]:
        """Logits, light and misfit of a piece of `fixed_chunks`, which is overwritten."""
        encoded = None if self.network is None else self.network(piece).material
        found = solver.solve_chunk(piece, seen)
        misfit = found.distance / (self.ood_threshold * self.independent_bands)
        logits = self._pooled(found, encoded, method) / misfit.clamp(min=1)[:, None]
        return logits, found.sun, found.sun_std, found.sky, misfit, found.surprise

    def _pooled(self, found: PixelPosterior, encoded: Tensor | None, method: Method) -> Tensor:
        """log p(class | x), (pixels, classes), of posterior and encoder."""
        count = int(self.class_of.max()) + 1
        owner = torch.as_tensor(self.class_of[self.material], device=found.logits.device)
        posterior = _grouped(found.logits, owner, count).log_softmax(1)
        if encoded is None or self.network is None:
            return posterior
        owner = torch.as_tensor(self.class_of, device=encoded.device)
        classified = _grouped(encoded, owner, count)
        if method == "classifier":
            return classified
        return (posterior + classified) / (2 * self.network.temperature)

    def cover(
        self, spectra: Tensor, irradiance: SpectralIrradiance, classes: Tensor | None = None
    ) -> CoverPrediction:
        """Fractions of spectra (pixels, bands), and the likeliest material of a class.

        `classes` are the indices (pixels,) of those of the map; None is the class of the likeliest material.
        """
        probability, fraction, std = self._cover(spectra, irradiance)
        owner = torch.as_tensor(self.class_of, device=spectra.device)
        by_class = _summed(probability, owner, int(owner.max()) + 1)
        chosen = by_class.argmax(1) if classes is None else classes
        inside = probability.where(owner == chosen[:, None], probability.new_zeros(()))
        likeliest = inside.max(1)
        share = likeliest.values / inside.sum(1).clamp(min=1e-12)
        return CoverPrediction(likeliest.indices, share, fraction, std)

    def _cover(self, spectra: Tensor, irradiance: SpectralIrradiance) -> tuple[Tensor, Tensor, Tensor]:
        """Probabilities (pixels, materials), fractions and their standard deviations (pixels, classes)."""
        if self.network is None:
            return self._cover_of_posterior(spectra, irradiance)
        parts = []
        for piece in fixed_chunks(spectra, spectra.shape[1]):
            self._to_home(piece)
            parts.append(self.network(piece))
        material, fraction, std = (torch.cat(values)[: len(spectra)] for values in zip(*parts, strict=True))
        if self.merging is not None:
            into = torch.as_tensor(self.merging, device=spectra.device)
            count = int(into.max()) + 1
            fraction = _summed(fraction, into, count)
            std = _summed(std.square(), into, count).sqrt()
        return material.exp(), fraction, std

    def _cover_of_posterior(
        self, spectra: Tensor, irradiance: SpectralIrradiance
    ) -> tuple[Tensor, Tensor, Tensor]:
        solver = self.solver(irradiance)
        parts = [solver.solve_chunk(self._to_home(p)).logits for p in fixed_chunks(spectra, solver.columns)]
        probability = torch.cat(parts)[: len(spectra)].softmax(1)
        owner = torch.as_tensor(self.material, device=spectra.device)
        mean, std = (probability.new_tensor(values) for values in (self.fraction, self.fraction_std))
        fraction = probability @ mean
        second = probability @ (std.square() + mean.square())
        return (
            _summed(probability, owner, len(self.materials)),
            fraction,
            (second - fraction.square()).clamp(min=0).sqrt(),
        )

    def _to_home(self, piece: Tensor) -> Tensor:
        """Spectra as the library would show them, in place."""
        if self.scene is not None:
            piece.sub_(piece.new_tensor(self.scene.offset)).div_(piece.new_tensor(self.scene.gain))
        return piece

    def in_scene(self, spectra: npt.NDArray[np.float32]) -> tuple[Self, SceneState | None]:
        """The estimator for a scene with such pixels (pixels, bands), and how it differs from the library."""
        nm = self.wavelength_nm
        if nm is None or nm.max() < _GAIN_NM:
            return self, None
        basis = Basis.at(nm)
        home = Home(np.zeros((1, basis.size)), self.library.noise[None], ())
        state = SceneState.found(spectra, home, self._classes, basis)
        if state is None:
            return self, None
        library = replace(self.library, noise=self.library.noise + state.excess_noise)
        return replace(self, library=library, scene=state), state

    @property
    def _classes(self) -> Classes:
        """The components on level sunlit ground, with one covariance."""
        library, bands = self.library, self.library.mean.shape[1]
        inside = library.directions.reshape(-1, bands)
        shared = library.factors.T @ library.factors + np.diag(library.noise)
        return Classes(library.mean, inside.T @ inside / len(library.mean) + shared)

    def codes(self, spectra: Tensor, irradiance: SpectralIrradiance) -> Tensor:
        """z, w, and the posterior mean of c under the likeliest component, (pixels, 2 + directions)."""
        return self.solver(irradiance).codes(self._to_home(spectra.clone()))

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
            "averages_neighbours": self.averages_neighbours,
            "encoder": self.encoder.metadata(),
            "description": dict(self.description),
        }

    def tensors(self) -> dict[str, Tensor]:
        """Components and priors."""
        found = {f"library.{name}": values for name, values in self.library.tensors().items()}
        found |= {f"light.{name}": values for name, values in self.prior.tensors().items()}
        for name in ("weight", "material", "class_of", "fraction", "fraction_std"):
            found[f"component.{name}"] = torch.as_tensor(getattr(self, name))
        found |= {f"encoder.{name}": values for name, values in self.encoder.tensors().items()}
        return {name: value.float() if value.is_floating_point() else value for name, value in found.items()}

    def to(self, device: str) -> Self:
        """The same estimator on another device."""
        return replace(self, network=self.network and self.network.to(device), device=device)

    @classmethod
    def restore(cls, frame: Frame, card: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The estimator that gave this metadata and these tensors."""
        parts = {name: values.numpy() for name, values in part(tensors, "component.").items()}
        weight = parts["weight"].astype(np.float64)
        encoder = Encoder.restore(card["encoder"], part(tensors, "encoder."))
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
            encoder,
            encoder.at_bands(frame.bands),
            averages_neighbours=bool(card["averages_neighbours"]),
            wavelength_nm=frame.bands.wavelength_nm,
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
