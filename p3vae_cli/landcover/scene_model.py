"""A land-cover model brought to a scene: its bands, its sun, and how it saw its ground."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.errors import UsageError
from p3vae.cli.landcover.cover import cover_maps
from p3vae.cli.landcover.irradiance import scene_irradiance
from p3vae.cli.landcover.scene_state import at_bands, in_scene
from p3vae.cli.landcover.settings import LightSettings
from p3vae.cli.rasters.files import MapSpec
from p3vae.cli.run.fitness import fit_bands, require_land_cover
from p3vae.cli.scenes.base import Scene
from p3vae.cli.scenes.tiling import SpectraTile
from p3vae.physics.spectral_response import select_spectra

if TYPE_CHECKING:
    from p3vae.cli.landcover.terrain import SceneTerrain
    from p3vae.models.landcover.model import LandCoverModel
    from p3vae.models.landcover.types import Method, Prediction

Array = npt.NDArray[Any]


class SceneModel:
    """A model with the bands and the sun of a scene."""

    def __init__(
        self,
        scene: Scene,
        model: LandCoverModel,
        light: LightSettings,
        name: str,
        *,
        state: Mapping[str, Any] | None = None,
        method: Method | None = None,
        probabilities: bool = True,
        terrain: SceneTerrain | None = None,
    ) -> None:
        """`model` is at the bands of the scene already; `state` is what the scene differs by."""
        if (method or model.methods[0]) not in model.methods:
            raise UsageError(
                f"--method {method}: the {model.settings.model} model {name} has none",
                remedy=f"use --method {model.methods[0]}",
            )
        self.model, self._light, self._method = model, light, method
        self._state, self._probabilities, self._terrain = state or {}, probabilities, terrain
        self.adapter = fit_bands(scene, model.bands, name)
        self.irradiance = scene_irradiance(scene, model.bands, light)
        self._workers = _workers(model.device)
        self._cores = _one_thread_per_core(self._workers)

    @classmethod
    def of(
        cls,
        scene: Scene,
        model: LandCoverModel,
        light: LightSettings,
        name: str,
        *,
        scene_gain: bool = True,
        terrain: SceneTerrain | None = None,
    ) -> SceneModel:
        """For work on single pixels: refuses models that look at whole images."""
        require_land_cover(scene)
        if model.needs_images:
            raise UsageError(f"the {model.settings.model} model {name} cannot judge single pixels")
        model, state = in_scene(scene, at_bands(scene, model, name), name, scene_gain=scene_gain)
        return cls(scene, model, light, name, state=state, terrain=terrain)

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the result, for the manifest."""
        return {
            "model": self.model.settings.model,
            "method": self._method or self.model.methods[0],
            "bands": "matched" if self.adapter.is_exact else "resampled",
            "sun_zenith_deg": self.irradiance.sun_zenith_deg,
            "irradiance": str(self._light.table or "clear sky (SPECTRL2)"),
            **self._state,
            **(self._terrain.record if self._terrain else {}),
        }

    def predict(
        self,
        values: npt.NDArray[np.floating[Any]],
        observed: npt.NDArray[np.float32] | None = None,
    ) -> Prediction:
        """Classes and light of single spectra of the scene (pixels, scene bands), each by itself.

        `observed` (pixels, 5) is what terrain says of their light.
        """
        spectra = np.asarray(self.adapter(values.astype(np.float32, copy=False)), np.float32)
        return self.model.predict(
            spectra,
            self.irradiance,
            method=self._method,
            want_probabilities=self._probabilities or self.model.averages_neighbours,
            observed=observed,
        )

    def predict_tile(self, tile: SpectraTile) -> Prediction:
        """The valid pixels of a tile, in their order; NaN where one is too dark to judge."""
        if self.model.needs_images:
            return _with_nodata(self._predict_image(tile))
        found = self._in_parts(tile)
        if self.model.averages_neighbours:
            found = self.model.averaged(found, tile.valid)
        return _with_nodata(found)

    def cover(
        self, tile: SpectraTile, prediction: Prediction, wanted: Mapping[str, MapSpec]
    ) -> dict[str, Array]:
        """Materials and fractions of the valid pixels of a tile, in their order."""
        spectra = self.adapter(tile.values[tile.valid])
        return cover_maps(self.model, spectra, prediction, self.irradiance, wanted)

    def _in_parts(self, tile: SpectraTile) -> Prediction:
        """One part of the pixels per worker."""
        spectra = select_spectra(tile.values.reshape(-1, tile.values.shape[-1]), tile.valid.ravel())
        light = self._terrain.of_tile(tile.window, tile.valid) if self._terrain else None
        size = -(-len(spectra) // self._workers)

        def part(start: int) -> Prediction:
            some = slice(start, start + size)
            return self.predict(spectra[some], None if light is None else light[some])

        return _joined(list(self._cores.map(part, range(0, len(spectra), size))))

    def _predict_image(self, tile: SpectraTile) -> Prediction:
        """For a model that looks at neighbours; brought to its bands row by row, for one copy of the tile."""
        image = np.empty((*tile.valid.shape, len(self.model.bands)), np.float32)
        for row, values in enumerate(tile.values):
            image[row] = self.adapter(values)
        found = self.model.predict_image(
            image,
            self.irradiance,
            origin=(tile.window.row, tile.window.col),
            method=self._method,
            want_probabilities=self._probabilities,
        )
        valid = tile.valid.ravel()
        return replace(found, **{k: v[valid] for k, v in vars(found).items() if v is not None})


def _workers(device: str) -> int:
    """As many as a CPU has cores; a GPU is fed by one."""
    import torch

    return torch.get_num_threads() if device == "cpu" else 1


def _one_thread_per_core(workers: int) -> ThreadPoolExecutor:
    import torch

    return ThreadPoolExecutor(workers, "p3vae-predict", initializer=torch.set_num_threads, initargs=(1,))


def _joined(parts: list[Prediction]) -> Prediction:
    columns = {name: [getattr(part, name) for part in parts] for name in vars(parts[0])}
    return replace(
        parts[0],
        **{name: np.concatenate(values) for name, values in columns.items() if values[0] is not None},
    )


def _with_nodata(prediction: Prediction) -> Prediction:
    """The same with NaN for everything about pixels without a class."""
    dark = prediction.class_id == 0
    if not dark.any():
        return prediction
    reported = {k: v.copy() for k, v in vars(prediction).items() if k != "class_id" and v is not None}
    for values in reported.values():
        values[dark] = np.nan
    return replace(prediction, **reported)
