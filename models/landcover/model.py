"""A trained land-cover model: what it knows, how it predicts, and how it is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from p3vae.models.checkpoint import ModelFile, ModelFormatError, read_model_file, write_model_file
from p3vae.models.landcover import neighbours
from p3vae.models.landcover.estimator import (
    AveragingEstimator,
    Estimator,
    Frame,
    ImageEstimator,
    OutdatedModelError,
    PixelPrediction,
    SceneEstimator,
    SpectraArray,
    TerrainEstimator,
)
from p3vae.models.landcover.library.scene import SceneState
from p3vae.models.landcover.registry import estimator_type
from p3vae.models.landcover.types import (
    ClassLegend,
    ClassScore,
    DoubtfulPolygon,
    FloatArray,
    Method,
    Prediction,
    TrainingSettings,
    TrainingSummary,
)
from p3vae.models.landcover.usable import DARKEST_RMS
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands, select_spectra

KIND = "landcover"
_DARKEST_RMS = 1e-4
_CHUNK = 65_536


@dataclass(frozen=True, eq=False, repr=False)
class LandCoverModel:
    """Classes, bands, and the estimator that predicts them; immutable once trained."""

    legend: ClassLegend
    bands: Bands
    irradiance: SpectralIrradiance
    """The illumination it was trained under, at its bands."""
    settings: TrainingSettings
    summary: TrainingSummary
    estimator: Estimator
    data_sha256: str = ""
    """Hash of the training spectra and labels."""
    device: str = "cpu"
    sources: tuple[Mapping[str, str], ...] = ()
    """Role, name and SHA-256 of the files it was trained on."""

    def __repr__(self) -> str:
        nm = self.bands.wavelength_nm
        spectrum = f"{len(self.bands)} bands from {nm[0]:.0f} to {nm[-1]:.0f} nm"
        return f"<LandCoverModel {self.settings.model}: {', '.join(self.legend.names)}; {spectrum}>"

    @property
    def methods(self) -> tuple[Method, ...]:
        """Ways it predicts classes, the usual one first."""
        return self.estimator.methods

    @property
    def halo(self) -> int:
        """How far its maps depend on a pixel's neighbours [pixels]."""
        if isinstance(self.estimator, ImageEstimator):
            return self.estimator.halo
        return neighbours.HALO if self.averages_neighbours else 0

    @property
    def needs_images(self) -> bool:
        """Whether it cannot judge spectra alone."""
        return isinstance(self.estimator, ImageEstimator)

    @property
    def averages_neighbours(self) -> bool:
        """Whether its maps show the mean of log posteriors over neighbours."""
        return isinstance(self.estimator, AveragingEstimator) and self.estimator.averages_neighbours

    def without_neighbours(self) -> Self:
        """The same model with a map of every pixel by itself."""
        if not self.averages_neighbours:
            return self
        estimator: Any = self.estimator
        return replace(self, estimator=replace(estimator, averages_neighbours=False))

    def predict(
        self,
        spectra: FloatArray,
        irradiance: SpectralIrradiance,
        *,
        method: Method | None = None,
        want_probabilities: bool = False,
        observed: FloatArray | None = None,
    ) -> Prediction:
        """Classes, and light where the model estimates it, of apparent reflectance spectra, (pixels, bands).

        `observed` is what terrain says of their light, (pixels, 5), for a model that `takes_terrain`.
        `irradiance` is that of the scene at the model's bands: it may differ from the one of training.
        `method` None is the model's usual one. Deterministic, and the same however the pixels are split
        over calls, from networks of the baselines and of the published p3VAE up to rounding.
        """
        chosen = method or self.methods[0]
        if chosen not in self.methods:
            raise ValueError(f"a {self.settings.model} model has no {chosen}")
        usable, chunks = self._chunks(spectra)
        with torch.inference_mode():
            parts = [
                self.estimator.predict_logits(chunk, irradiance, chosen, *more)
                for chunk, *more in zip(chunks, *self._observed(observed, usable), strict=True)
            ]
        found = PixelPrediction(*(_joined(values) for values in zip(*parts, strict=True)))
        return self._prediction(found, usable, want_probabilities)

    @property
    def takes_terrain(self) -> bool:
        """Whether it takes light as terrain tells it for one more observation."""
        return isinstance(self.estimator, TerrainEstimator)

    def _observed(
        self, observed: FloatArray | None, usable: npt.NDArray[np.bool_]
    ) -> list[tuple[Tensor, ...]]:
        """What was observed of the usable pixels, in pieces as those of `_chunks`; nothing of nothing."""
        if observed is None:
            return []
        kept = (
            torch.from_numpy(np.asarray(observed, np.float32)[usable]) if usable.any() else torch.zeros(1, 4)
        )
        return [torch.split(kept.to(self.device), _CHUNK)]

    def predict_image(
        self,
        image: FloatArray,
        irradiance: SpectralIrradiance,
        *,
        origin: tuple[int, int] = (0, 0),
        method: Method | None = None,
        want_probabilities: bool = False,
    ) -> Prediction:
        """The map of all pixels, row by row, of an image (rows, cols, bands) with NaN for nodata.

        `origin` is the row and column of the first pixel in the scene that the image was cut from, with
        `halo` pixels around those of interest where the scene has them.
        """
        spectra = image.reshape(-1, image.shape[-1])
        if not isinstance(self.estimator, ImageEstimator):
            wanted = want_probabilities or self.averages_neighbours
            alone = self.predict(spectra, irradiance, method=method, want_probabilities=wanted)
            if not self.averages_neighbours:
                return alone
            averaged = self.averaged(alone, np.ones(image.shape[:2], np.bool_))
            return averaged if want_probabilities else replace(averaged, probabilities=None)
        usable, chunks = self._chunks(spectra)
        mask = usable.reshape(image.shape[:2]).copy()
        if not usable.any():
            mask[0, 0] = True  # the place of the made-up one
        with torch.inference_mode():
            found = self.estimator.predict_image_logits(
                list(chunks), torch.from_numpy(mask).to(self.device), origin
            )
        return self._prediction(found, usable, want_probabilities)

    def averaged(self, found: Prediction, valid: npt.NDArray[np.bool_]) -> Prediction:
        """A prediction with probabilities of the valid pixels of an image, in accord with neighbours.

        `valid` is (rows, cols); `found` has its True pixels, row by row. Light and misfit stay as they are.
        """
        assert found.probabilities is not None
        judged = valid.copy()
        judged[valid] = found.class_id > 0
        image = np.zeros((*valid.shape, found.probabilities.shape[1]), np.float32)
        image[valid] = found.probabilities
        coupling = self.estimator.coupling if isinstance(self.estimator, AveragingEstimator) else None
        if coupling is None:
            probability = neighbours.averaged(image, judged)[valid]
        else:
            probability = neighbours.coupled(image, judged, coupling)[valid]
        usable = found.class_id > 0
        probability[~usable] = 0
        ids = np.asarray(self.legend.ids, dtype=np.uint8)[probability.argmax(1)]
        return replace(
            found,
            class_id=np.where(usable, ids, np.uint8(0)),
            confidence=probability.max(1),
            probabilities=probability,
        )

    def at_bands(self, columns: npt.NDArray[np.integer[Any]]) -> Self:
        """The model for spectra that lack the other bands; only one whose bands can be integrated out."""
        estimator: Any = self.estimator
        bands, light = self.bands.select(columns), self.irradiance
        irradiance = SpectralIrradiance(
            bands.wavelength_nm, light.direct[columns], light.diffuse[columns], light.sun_zenith_deg
        )
        return replace(self, bands=bands, irradiance=irradiance, estimator=estimator.at_bands(columns))

    def in_scene(self, spectra: FloatArray) -> tuple[Self, SceneState | None]:
        """The model for a scene with such pixels (pixels, bands), and how it differs from that of training.

        None where it is the scene of training, or where the estimator does not know what scenes differ by.
        """
        if not isinstance(self.estimator, SceneEstimator):
            return self, None
        estimator, state = self.estimator.in_scene(spectra)
        return replace(self, estimator=estimator), state

    def _prediction(
        self, found: PixelPrediction, usable: npt.NDArray[np.bool_], want_probabilities: bool
    ) -> Prediction:
        probability = found.logits.softmax(1)
        confidence, index = (_spread(values.cpu().numpy(), usable) for values in probability.max(1))
        ids = np.asarray(self.legend.ids, dtype=np.uint8)[index]
        sun, sun_std, sky, misfit, known_light, surprise = (
            None if values is None else _spread(values.cpu().numpy(), usable) for values in found[1:]
        )
        return Prediction(
            class_id=np.where(usable, ids, np.uint8(0)),
            confidence=confidence,
            irradiance=sun,
            irradiance_std=sun_std,
            sky=sky,
            misfit=misfit,
            known_light=known_light,
            surprise=surprise,
            probabilities=_spread(probability.cpu().numpy(), usable) if want_probabilities else None,
        )

    def codes(self, spectra: FloatArray, irradiance: SpectralIrradiance) -> FloatArray | None:
        """Latent codes (pixels, latents) without the class, the light first; zero for useless pixels.

        None from a model without latent variables.
        """
        usable, chunks = self._chunks(spectra)
        with torch.inference_mode():
            found = _joined([self.estimator.codes(chunk, irradiance) for chunk in chunks])
        return None if found is None else _spread(found.cpu().numpy(), usable)

    def generate(self, index: int, codes: FloatArray, irradiance: SpectralIrradiance) -> FloatArray | None:
        """Mean spectra (samples, bands) of the class at `index` with codes (samples, latents).

        The way back from `codes`; None from a model without a decoder.
        """
        with torch.inference_mode():
            values = torch.as_tensor(codes, dtype=torch.float32, device=self.device)
            made = self.estimator.generate(index, values, irradiance)
        return None if made is None else made.cpu().numpy()

    def latent_spectra(self) -> list[SpectraArray] | None:
        """Latent reflectance spectra of each class, (spectra, bands) each; None without any."""
        return self.estimator.latent_spectra()

    def relight(self, spectra: FloatArray, irradiance: SpectralIrradiance) -> FloatArray:
        """What the same ground would show flat and sunlit, (pixels, bands); NaN where it has no class."""
        return self.predict(spectra, irradiance).relit(spectra, irradiance)

    @property
    def digest(self) -> str:
        """SHA-256 of everything the model file holds."""
        return model_file(self).digest

    def _chunks(self, spectra: FloatArray) -> tuple[npt.NDArray[np.bool_], Iterator[Tensor]]:
        """Which pixels can be used, and those in pieces; a made-up one if none can."""
        values = np.asarray(spectra, dtype=np.float32)
        if values.ndim != 2 or values.shape[1] != len(self.bands):
            raise ValueError(f"spectra must be (pixels, {len(self.bands)}), got {values.shape}")
        # Finite only if every band is, and needs no copy of the spectra.
        energy = np.einsum("ij,ij->i", values, values)
        usable = np.isfinite(energy) & (energy > values.shape[1] * DARKEST_RMS**2)
        if not usable.any():
            return usable, iter([torch.ones((1, len(self.bands)), device=self.device)])
        kept = torch.from_numpy(select_spectra(values, usable))
        return usable, (piece.to(self.device) for piece in torch.split(kept, _CHUNK))


def _joined(parts: tuple[Tensor | None, ...] | list[Tensor | None]) -> Any:
    given = [values for values in parts if values is not None]
    return torch.cat(given) if given else None


def _spread(values: npt.NDArray[Any], usable: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Values of the usable pixels at their places, zero elsewhere."""
    out = np.zeros((len(usable), *values.shape[1:]), values.dtype)
    out[usable] = values[: int(usable.sum())]
    return out


def save_model(path: str | Path, model: LandCoverModel) -> None:
    """Write one model file, atomically."""
    write_model_file(path, model_file(model))


def load_model(path: str | Path, device: str = "cpu") -> LandCoverModel:
    """Read and check a model file; `ModelFormatError` says what is wrong with it."""
    file = read_model_file(path, kind=KIND)
    outdated = f"{path}: written by an earlier version of p3vae; train it again"
    if "log_loss" not in file.card.get("summary", {}):
        raise ModelFormatError(outdated)
    try:
        return _from_file(file, device)
    except OutdatedModelError as error:
        raise ModelFormatError(outdated) from error
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
        "data_sha256": model.data_sha256,
        "sources": [dict(source) for source in model.sources],
    }
    light = {
        "irradiance.direct": torch.as_tensor(model.irradiance.direct),
        "irradiance.diffuse": torch.as_tensor(model.irradiance.diffuse),
    }
    return ModelFile(KIND, card | model.estimator.metadata(), light | model.estimator.tensors())


def _from_file(file: ModelFile, device: str) -> LandCoverModel:
    card, tensors = file.card, file.tensors
    classes = card["classes"]
    legend = ClassLegend(
        tuple(classes["ids"]), tuple(classes["names"]), tuple((r, g, b) for r, g, b in classes["colours"])
    )
    bands = Bands.from_centres(card["bands"]["wavelength_nm"], card["bands"]["fwhm_nm"])
    irradiance = SpectralIrradiance(
        bands.wavelength_nm,
        tensors["irradiance.direct"].numpy(),
        tensors["irradiance.diffuse"].numpy(),
        card["illumination"]["sun_zenith_deg"],
    )
    summary = dict(card["summary"])
    summary["scores"] = tuple(ClassScore(**score) for score in summary["scores"])
    summary["warnings"] = tuple(summary["warnings"])
    summary["confusion"] = tuple(tuple(row) for row in summary["confusion"])
    summary["doubtful"] = tuple(DoubtfulPolygon(**one) for one in summary.get("doubtful", ()))
    known = {field.name for field in fields(TrainingSettings)}
    settings = TrainingSettings(**{name: value for name, value in card["settings"].items() if name in known})
    frame = Frame(legend, bands, irradiance, settings)
    estimator = estimator_type(settings).restore(frame, card, tensors).to(device)
    return LandCoverModel(
        legend,
        bands,
        irradiance,
        settings,
        TrainingSummary(**summary),
        estimator,
        card["data_sha256"],
        device,
        tuple(card["sources"]),
    )
