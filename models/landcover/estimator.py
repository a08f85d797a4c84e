"""What a land-cover model needs of the part that thinks, and which parts there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from p3vae.models.landcover.types import ClassLegend, Method, TrainingSettings
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands

SpectraArray = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Frame:
    """What an estimator is told before it learns anything."""

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
    """What an estimator says of spectra; tensors (pixels,) unless said, None for what it cannot know."""

    logits: Tensor
    """(pixels, classes)."""
    sun: Tensor | None = None
    """Mean of z."""
    sun_std: Tensor | None = None
    sky: Tensor | None = None
    """Mean of w."""
    misfit: Tensor | None = None
    """Relative to the one from which on a spectrum counts as unknown."""


class Estimator(Protocol):
    """Tells classes, and perhaps light; knows how to be stored. Spectra are float32, finite, never dark.

    A pixel's result must depend neither on chance nor, but for rounding, on the other pixels of the call.
    """

    @property
    def methods(self) -> tuple[Method, ...]:
        """How it can tell classes, the usual way first."""

    @property
    def gives_irradiance(self) -> bool:
        """Whether its latent light is that of the physics layer."""

    @property
    def gives_misfit(self) -> bool:
        """Whether it can tell spectra that it does not know."""

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

    def metadata(self) -> dict[str, Any]:
        """JSON values that belong to the model card."""

    def tensors(self) -> dict[str, Tensor]:
        """Everything learned."""

    def to(self, device: str) -> Self:
        """The same estimator on another device."""

    @classmethod
    def restore(cls, frame: Frame, card: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The estimator that gave these notes and tensors."""


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


_HOMES = {
    "cnn": ("baselines.cnn", "SpectralCNN"),
    "gaussian-vae": ("vae.gaussian", "GaussianVAE"),
    "guided-vae": ("vae.guided", "GuidedVAE"),
    "ss-infogan": ("baselines.ss_infogan", "SemiSupervisedInfoGAN"),
    "fg-unet": ("baselines.fg_unet.estimator", "FGUNet"),
    "random-forest": ("baselines.random_forest", "RandomForest"),
}


def estimator_type(settings: TrainingSettings) -> type[Estimator]:
    """The class of estimator that these settings ask for."""
    module, name = _HOMES.get(settings.model, ("library.estimator", "LibraryEstimator"))
    if settings.model == "p3vae" and settings.preset == "paper":
        module, name = "vae.published", "PublishedP3VAE"
    found: type[Estimator] = getattr(import_module(f"p3vae.models.landcover.{module}"), name)
    return found


def looks_at_neighbours(settings: TrainingSettings) -> bool:
    """Whether the model that these settings ask for learns from image patches."""
    return hasattr(estimator_type(settings), "halo")


def light_ratios(irradiance: SpectralIrradiance) -> Tensor:
    """a and b of the physics layer, (2, bands), float32."""
    ratios = np.stack([irradiance.direct_ratio, irradiance.diffuse_ratio])
    return torch.as_tensor(ratios, dtype=torch.float32)


def part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors under a prefix, without it."""
    return {name.removeprefix(prefix): v for name, v in tensors.items() if name.startswith(prefix)}
