"""The estimator protocol: what a land-cover model needs of the class that learns and predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from p3vae.models.landcover.types import ClassLegend, Method, TrainingSettings, TrainingSummary
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands

if TYPE_CHECKING:
    from p3vae.models.landcover.job import Job
    from p3vae.models.landcover.library.scene import SceneState

SpectraArray = npt.NDArray[np.floating[Any]]


OPTIONS = {
    "physics": "cannot be trained without physics (guided-vae is the published p3VAE without)",
    "stop_gradient": "has no stop-gradient",
    "class_prior": "has no class prior",
    "prior": "takes no other model as prior of its classes",
    "sky_offset": "has no sky offset",
}
"""Fields of `TrainingSettings` that not every estimator honours, and what is said of one that does not."""


@dataclass(frozen=True, eq=False)
class Frame:
    """Classes, bands, light and settings: what an estimator is built from before it learns."""

    legend: ClassLegend
    bands: Bands
    irradiance: SpectralIrradiance
    """Of training, at the bands."""
    settings: TrainingSettings

    @property
    def light(self) -> Tensor:
        """Direct and diffuse irradiance ratios of training, (2, bands)."""
        return light_ratios(self.irradiance)

    @property
    def cos_zenith(self) -> float:
        """cosΘ0 of training."""
        return float(np.cos(np.radians(self.irradiance.sun_zenith_deg)))


class PixelPrediction(NamedTuple):
    """Prediction for spectra; tensors (pixels,) unless said, None for what is not estimated."""

    logits: Tensor
    """(pixels, classes)."""
    sun: Tensor | None = None
    """Mean of z."""
    sun_std: Tensor | None = None
    sky: Tensor | None = None
    """Mean of w."""
    misfit: Tensor | None = None
    """Relative to the one from which on a spectrum counts as unknown."""
    known_light: Tensor | None = None
    """r, the probability that light is as in the labels."""
    surprise: Tensor | None = None
    """Direct light by the terrain less what spectra let expect [std]."""


class Estimator(Protocol):
    """Predicts classes, and perhaps light, of spectra that are float32, finite and never dark.

    A pixel's result depends neither on chance nor, but for rounding, on the other pixels of the call. The
    module of an estimator names it in `ESTIMATOR`; see `p3vae.models.landcover.registry`.
    """

    supported_options: ClassVar[frozenset[str]]
    """Which of `OPTIONS` it honours; `train` refuses the others unless they have their default."""

    @property
    def methods(self) -> tuple[Method, ...]:
        """How it predicts classes, the usual way first."""

    @property
    def gives_irradiance(self) -> bool:
        """Whether its latent light is that of the physics layer."""

    @property
    def gives_misfit(self) -> bool:
        """Whether it recognises spectra that no class explains."""

    def predict_logits(
        self, spectra: Tensor, irradiance: SpectralIrradiance, method: Method
    ) -> PixelPrediction:
        """Classes and light of spectra (pixels, bands) under the irradiance of their scene."""

    def codes(self, spectra: Tensor, irradiance: SpectralIrradiance) -> Tensor | None:
        """Latent codes (pixels, latents) without the class, the light first; None without latents."""

    def generate(self, index: int, codes: Tensor, irradiance: SpectralIrradiance) -> Tensor | None:
        """Mean spectra (samples, bands) of a class with codes (samples, latents); None without a decoder."""

    def latent_spectra(self) -> list[SpectraArray] | None:
        """Latent reflectance spectra of each class, (spectra, bands) each; None without any."""

    @classmethod
    def fit(cls, job: Job) -> tuple[Self, TrainingSummary]:
        """An estimator trained on `job.data`, on any device, and its scores on `job.held_out`."""

    def metadata(self) -> dict[str, Any]:
        """JSON values that belong to the model card."""

    def tensors(self) -> dict[str, Tensor]:
        """Everything learned."""

    def to(self, device: str) -> Self:
        """The same estimator on another device."""

    @classmethod
    def restore(cls, frame: Frame, card: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The estimator that gave this metadata and these tensors."""


class Discriminative:
    """Base of estimators that have neither latent variables nor a decoder."""

    def codes(self, spectra: Tensor, irradiance: SpectralIrradiance) -> Tensor | None:
        """None: no latent variables."""
        return None

    def generate(self, index: int, codes: Tensor, irradiance: SpectralIrradiance) -> Tensor | None:
        """None: no decoder."""
        return None

    def latent_spectra(self) -> list[SpectraArray] | None:
        """None: no latent spectra."""
        return None

    def metadata(self) -> dict[str, Any]:
        """Nothing but tensors."""
        return {}


class OutdatedModelError(ValueError):
    """Tensors that an earlier version of p3vae wrote."""


@runtime_checkable
class AveragingEstimator(Estimator, Protocol):
    """An estimator whose probabilities may take account of neighbours."""

    averages_neighbours: bool
    """Whether they do: held-out polygons say that it helps, or simulated scenes."""
    coupling: ClassVar[float | None]
    """Weight of a neighbour of the same class in the log posterior [1]; None is the mean over neighbours."""


@runtime_checkable
class SceneEstimator(Estimator, Protocol):
    """An estimator that can be brought to a scene which saw its ground otherwise, or with fewer bands."""

    def in_scene(self, spectra: npt.NDArray[np.float32]) -> tuple[Self, SceneState | None]:
        """The estimator for a scene with such pixels (pixels, bands), and how it differs if it does."""

    def at_bands(self, columns: npt.NDArray[np.integer[Any]]) -> Self:
        """The estimator for spectra that lack the other bands."""


@runtime_checkable
class TerrainEstimator(Protocol):
    """An estimator that takes what terrain says of the light as one more observation."""

    takes_terrain: ClassVar[bool]

    def predict_logits(
        self,
        spectra: Tensor,
        irradiance: SpectralIrradiance,
        method: Method,
        observed: Tensor | None = None,
    ) -> PixelPrediction:
        """As `Estimator.predict_logits`; `observed` (pixels, 5) has the columns of `ObservedLight`."""


@runtime_checkable
class ImageEstimator(Estimator, Protocol):
    """An estimator that looks at a pixel's neighbours, and so cannot judge spectra alone."""

    @property
    def halo(self) -> int:
        """How far it looks [pixels]."""

    def predict_image_logits(
        self, spectra: Sequence[Tensor], mask: Tensor, origin: tuple[int, int]
    ) -> PixelPrediction:
        """Classes of the spectra that lie where `mask` (rows, cols) is True, in its order.

        They come in pieces, (pixels, bands) each. `origin` is the row and column in its scene of the mask's
        first pixel. Pixels at least `halo` from those edges of the mask that lie inside the scene are judged
        as in the whole scene.
        """


def light_ratios(irradiance: SpectralIrradiance) -> Tensor:
    """a and b of the physics layer, (2, bands), float32."""
    ratios = np.stack([irradiance.direct_ratio, irradiance.diffuse_ratio])
    return torch.as_tensor(ratios, dtype=torch.float32)


def part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors under a prefix, without it."""
    return {name.removeprefix(prefix): v for name, v in tensors.items() if name.startswith(prefix)}
