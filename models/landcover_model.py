"""A trained land-cover model: what it knows, how it predicts, and how it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from p3vae.models.checkpoint import ModelFile, ModelFormatError, read_model_file, write_model_file
from p3vae.models.landcover_published import PublishedOptions, PublishedP3VAE
from p3vae.models.landcover_types import (
    ClassLegend,
    ClassScore,
    FloatArray,
    Method,
    Prediction,
    TrainingSettings,
    TrainingSummary,
)
from p3vae.models.networks import SpectralClassifier, contiguous_segments
from p3vae.models.posterior import Library, NoiseModel, PixelPosterior, PosteriorSolver
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.irradiance import relight_spectra, sky_from_sun
from p3vae.physics.spectral_response import Bands

KIND = "landcover"
_DARKEST_RMS = 1e-4
_CHUNK = 32_768


@dataclass(frozen=True, eq=False)
class LandCoverModel:
    """Classes, bands, latent spectra, noise and classifier; immutable once trained."""

    legend: ClassLegend
    bands: Bands
    irradiance: SpectralIrradiance
    """The illumination it was trained under, at its bands."""
    settings: TrainingSettings
    summary: TrainingSummary
    library: Library
    noise: NoiseModel
    unknown_misfit: float
    """Misfit beyond which a spectrum counts as unknown, fixed on validation polygons."""
    classifier: SpectralClassifier
    published: PublishedP3VAE | None = None
    """Networks of `preset="paper"`, which then answer instead of the exact posterior."""
    data_sha256: str = ""
    """Hash of the training spectra and labels."""
    device: str = "cpu"
    _solvers: dict[bytes, PosteriorSolver] = field(default_factory=dict, repr=False)

    def predict(
        self,
        spectra: FloatArray,
        irradiance: SpectralIrradiance,
        *,
        method: Method = "posterior",
        want_probabilities: bool = False,
    ) -> Prediction:
        """Classes and irradiance of apparent reflectance spectra, (pixels, bands).

        `irradiance` is that of the scene at the model's bands: it may differ from the one of training.
        Deterministic, and the same however the pixels are split over calls.
        """
        values = np.ascontiguousarray(spectra, dtype=np.float32)
        if values.ndim != 2 or values.shape[1] != len(self.bands):
            raise ValueError(f"spectra must be (pixels, {len(self.bands)}), got {values.shape}")
        usable = _has_signal(values)
        kept = values if usable.all() else values[usable]
        parts = [
            self._predict_usable(part.to(self.device), irradiance, method)
            for part in torch.split(torch.from_numpy(kept), _CHUNK)
        ]
        found = [torch.cat(values_).cpu().numpy() for values_ in zip(*parts, strict=True)]
        return self._prediction(usable, found, want_probabilities)

    def relight(self, spectra: FloatArray, irradiance: SpectralIrradiance) -> FloatArray:
        """The reflectance that the same ground would show flat and sunlit, (pixels, bands)."""
        light = self.predict(spectra, irradiance)
        sky = np.where(light.class_id > 0, light.sky, 1.0)
        return relight_spectra(spectra, light.irradiance, sky, irradiance)

    @property
    def digest(self) -> str:
        """SHA-256 of everything the model file holds."""
        return model_file(self).digest

    def solver(self, irradiance: SpectralIrradiance) -> PosteriorSolver:
        """The exact posterior under one illumination."""
        light = _light(irradiance, self.settings.physics)
        if light.shape[1] != len(self.bands):
            raise ValueError(f"irradiance has {light.shape[1]} bands, the model has {len(self.bands)}")
        key = light.tobytes()
        if key not in self._solvers:
            self._solvers[key] = PosteriorSolver(
                self.library, self.noise, light[0], light[1], self.bands.wavelength_nm, self.device
            )
        return self._solvers[key]

    @torch.inference_mode()
    def _predict_usable(
        self, spectra: Tensor, irradiance: SpectralIrradiance, method: Method
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Probabilities, mean and std of z, mean of w, relative misfit."""
        if self.published is not None:
            return self._predict_published(spectra, irradiance, method)
        if len(spectra) == 0:
            empty = spectra.new_zeros(0)
            return spectra.new_zeros((0, len(self.legend))), empty, empty, empty, empty
        found: PixelPosterior = self.solver(irradiance).solve(spectra)
        logits = found.log_evidence if method == "posterior" else self.classifier(spectra)
        return logits.softmax(1), found.sun, found.sun_std, found.sky, found.misfit / self.unknown_misfit

    def _predict_published(
        self, spectra: Tensor, irradiance: SpectralIrradiance, method: Method
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        assert self.published is not None
        net = self.published.eval()
        net.direct_ratio.copy_(torch.as_tensor(irradiance.direct_ratio))
        net.diffuse_ratio.copy_(torch.as_tensor(irradiance.diffuse_ratio))
        evidence, z, std = net.importance_posterior(spectra)
        logits = evidence if method == "posterior" else net.classifier(spectra)
        misfit = -evidence.amax(1) / self.unknown_misfit
        return logits.softmax(1), z, std, sky_from_sun(z), misfit

    def _prediction(
        self, usable: npt.NDArray[np.bool_], found: list[npt.NDArray[Any]], want_probabilities: bool
    ) -> Prediction:
        def full(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
            out = np.zeros((len(usable), *values.shape[1:]), values.dtype)
            out[usable] = values
            return out

        probability, z, std, sky, misfit = found
        ids = np.asarray(self.legend.ids, dtype=np.uint8)[probability.argmax(1)]
        return Prediction(
            class_id=full(ids),
            confidence=full(probability.max(1, initial=0.0)),
            irradiance=full(z),
            irradiance_std=full(std),
            sky=full(sky),
            misfit=full(misfit),
            probabilities=full(probability) if want_probabilities else None,
        )


def _has_signal(spectra: FloatArray) -> npt.NDArray[np.bool_]:
    """True for spectra (pixels, bands) that are finite throughout, as their energy then is, and not dark."""
    energy = np.einsum("ij,ij->i", spectra, spectra)
    return np.isfinite(energy) & (energy > spectra.shape[1] * _DARKEST_RMS**2)


def _light(irradiance: SpectralIrradiance, physics: bool) -> npt.NDArray[np.float64]:
    """a and b, (2, bands); the twin without physics sees only a brightness."""
    light = np.stack([irradiance.direct_ratio, irradiance.diffuse_ratio])
    return light if physics else np.ones_like(light)


def save_model(path: str | Path, model: LandCoverModel) -> None:
    """Write one model file, atomically."""
    write_model_file(path, model_file(model))


def load_model(path: str | Path, device: str = "cpu") -> LandCoverModel:
    """Read and check a model file; `ModelFormatError` says what is wrong with it."""
    file = read_model_file(path, kind=KIND)
    try:
        return _from_file(file, device)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ModelFormatError(f"{path}: its content is not a complete land-cover model ({error})") from error


def model_file(model: LandCoverModel) -> ModelFile:
    """Card and tensors of a model."""
    card = {
        "classes": asdict(model.legend),
        "bands": {
            "wavelength_nm": model.bands.wavelength_nm.tolist(),
            "fwhm_nm": model.bands.fwhm_nm.tolist(),
        },
        "illumination": {"sun_zenith_deg": model.irradiance.sun_zenith_deg},
        "settings": asdict(model.settings),
        "summary": asdict(model.summary),
        "noise": asdict(model.noise),
        "unknown_misfit": model.unknown_misfit,
        "data_sha256": model.data_sha256,
    }
    return ModelFile(KIND, card, _tensors(model))


def _tensors(model: LandCoverModel) -> dict[str, Tensor]:
    tensors = {
        "irradiance.direct": torch.as_tensor(model.irradiance.direct),
        "irradiance.diffuse": torch.as_tensor(model.irradiance.diffuse),
        "library.surroundings": torch.as_tensor(model.library.surroundings),
    }
    for index, spectra in enumerate(model.library.spectra):
        tensors[f"library.{index}"] = torch.as_tensor(spectra)
    for prefix, module in (("classifier", model.classifier), ("published", model.published)):
        if module is not None:
            tensors |= {f"{prefix}.{name}": value for name, value in module.state_dict().items()}
    return tensors


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): v for name, v in tensors.items() if name.startswith(prefix)}


def _from_file(file: ModelFile, device: str) -> LandCoverModel:
    card, tensors = file.card, file.tensors
    classes = card["classes"]
    legend = ClassLegend(
        tuple(classes["ids"]), tuple(classes["names"]), tuple((r, g, b) for r, g, b in classes["colours"])
    )
    bands = Bands.of(card["bands"]["wavelength_nm"], card["bands"]["fwhm_nm"])
    irradiance = SpectralIrradiance(
        bands.wavelength_nm,
        tensors["irradiance.direct"].numpy(),
        tensors["irradiance.diffuse"].numpy(),
        card["illumination"]["sun_zenith_deg"],
    )
    summary = dict(card["summary"])
    summary["scores"] = tuple(ClassScore(**score) for score in summary["scores"])
    summary["warnings"] = tuple(summary["warnings"])
    settings = TrainingSettings(**card["settings"])
    spectra = tuple(tensors[f"library.{index}"].numpy() for index in range(len(legend)))
    classifier = SpectralClassifier(len(bands), len(legend))
    classifier.load_state_dict(_part(tensors, "classifier."))
    published = None
    if settings.preset == "paper":
        published = published_network(bands, irradiance, len(legend), settings)
        published.load_state_dict(_part(tensors, "published."))
        published.to(device).eval()
    return LandCoverModel(
        legend=legend,
        bands=bands,
        irradiance=irradiance,
        settings=settings,
        summary=TrainingSummary(**summary),
        library=Library(spectra, tensors["library.surroundings"].numpy()),
        noise=NoiseModel(**card["noise"]),
        unknown_misfit=card["unknown_misfit"],
        classifier=classifier.to(device).eval(),
        published=published,
        data_sha256=card["data_sha256"],
        device=device,
    )


def published_network(
    bands: Bands, irradiance: SpectralIrradiance, classes: int, settings: TrainingSettings
) -> PublishedP3VAE:
    """The published networks for these bands, freshly initialised from torch's random state."""
    return PublishedP3VAE(
        contiguous_segments(torch.as_tensor(bands.wavelength_nm)),
        classes,
        settings.spectra_per_class,
        torch.as_tensor(irradiance.direct_ratio),
        torch.as_tensor(irradiance.diffuse_ratio),
        float(np.cos(np.radians(irradiance.sun_zenith_deg))),
        PublishedOptions(physics=settings.physics, stop_gradient=settings.stop_gradient),
    )
