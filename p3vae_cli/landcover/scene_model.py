"""A land-cover model brought to a scene, for work on single pixels rather than whole maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from p3vae.cli.errors import UsageError
from p3vae.cli.landcover.irradiance import IrradianceOptions, scene_irradiance
from p3vae.cli.landcover.model_files import fit_bands, require_quantity
from p3vae.cli.landcover.scene_state import brought_to_scene
from p3vae.cli.scenes.base import Scene
from p3vae.cli.scenes.tiling import SpectraTile
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import BandAdapter

if TYPE_CHECKING:
    from p3vae.models.landcover.model import LandCoverModel
    from p3vae.models.landcover.types import Prediction

Spectra = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class SceneModel:
    """A model with the bands and the sun of a scene."""

    model: LandCoverModel
    adapter: BandAdapter
    irradiance: SpectralIrradiance

    @classmethod
    def of(
        cls,
        scene: Scene,
        model: LandCoverModel,
        options: IrradianceOptions,
        name: str,
        *,
        scene_gain: bool = True,
    ) -> Self:
        """Refuses scenes whose bands or quantity do not fit, and models that look at neighbours."""
        require_quantity(scene, "reflectance", "a land-cover model")
        if model.needs_images:
            raise UsageError(f"the {model.settings.model} model {name} cannot judge single pixels")
        model, _ = brought_to_scene(scene, model, name, scene_gain=scene_gain)
        return cls(model, fit_bands(scene, model.bands, name), scene_irradiance(scene, model.bands, options))

    def predict(self, values: Spectra) -> Prediction:
        """Classes with probabilities, and light, of single spectra of the scene (pixels, scene bands)."""
        spectra = np.asarray(self.adapter(values.astype(np.float32)), np.float32)
        return self.model.predict(spectra, self.irradiance, want_probabilities=True)

    def predict_tile(self, tile: SpectraTile) -> Prediction:
        """The same of the valid pixels of a tile as a map shows them, with neighbours where these count."""
        found = self.predict(tile.values[tile.valid])
        return self.model.averaged(found, tile.valid) if self.model.averages_neighbours else found
