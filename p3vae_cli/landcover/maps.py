"""Land cover and light of a scene: classes, confidence, irradiance, relit reflectance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from p3vae.cli.errors import ModelFileError, UsageError
from p3vae.cli.landcover.cover import fraction_specs, material_specs, require_cover
from p3vae.cli.landcover.extras import extra_files, make_extras
from p3vae.cli.landcover.irradiance import scene_irradiance
from p3vae.cli.landcover.scene_model import SceneModel
from p3vae.cli.landcover.scene_state import at_bands, in_scene
from p3vae.cli.landcover.seen import Seen
from p3vae.cli.landcover.settings import ClassifySettings, IrradianceMapSettings, ModelMapSettings
from p3vae.cli.landcover.specs import (
    CONFIDENCE,
    IRRADIANCE,
    UNKNOWN,
    land_cover_spec,
    probabilities_spec,
    relit_spec,
)
from p3vae.cli.landcover.terrain import AUDIT, LAYERS, SceneTerrain, require_takes_terrain
from p3vae.cli.rasters.files import MapSpec
from p3vae.cli.run.fitness import require_land_cover
from p3vae.cli.run.mapper import Mapper, Steps
from p3vae.cli.run.maps import Maps
from p3vae.cli.run.model_files import load_land_cover, model_name
from p3vae.cli.scenes.base import Scene
from p3vae.cli.scenes.tiling import SpectraTile

if TYPE_CHECKING:
    from p3vae.models.landcover.model import LandCoverModel
    from p3vae.models.landcover.types import Prediction

Array = npt.NDArray[Any]


class _ModelMapper(Mapper):
    """Maps by a land-cover model."""

    def __init__(self, scene: Scene, model: LandCoverModel, settings: ModelMapSettings, name: str) -> None:
        require_land_cover(scene)
        self.model_sha256 = model.digest
        self._scene, self._name = scene, name
        self._light, self._scene_gain = settings.irradiance, settings.scene_gain
        self._model = at_bands(scene, model, name)
        self._brought: SceneModel | None = None
        self._terrain_settings = settings.terrain
        self._terrain: SceneTerrain | None = None
        if not settings.terrain.given and (settings.terrain.layers or settings.terrain.audit):
            raise UsageError("--terrain and --audit need terrain", remedy="give --dem FILE")
        require_takes_terrain(self._model, settings.terrain, name)
        shown, audit = settings.terrain.layers, settings.terrain.audit
        self._terrain_specs = {
            **(LAYERS if shown else {}),
            **({"terrain_disagreement": AUDIT} if audit else {}),
        }

    @property
    def brought(self) -> SceneModel:
        """The model in the scene, once it is prepared."""
        assert self._brought is not None, "a mapper is prepared before it maps"
        return self._brought

    def _bring(self, **how: Any) -> None:
        """Learn how the scene saw its ground."""
        self._terrain = SceneTerrain.of(self._scene, self._terrain_settings)
        model, state = in_scene(self._scene, self._model, self._name, scene_gain=self._scene_gain)
        self._brought = SceneModel(
            self._scene, model, self._light, self._name, state=state, terrain=self._terrain, **how
        )
        if self._terrain is not None:
            self._terrain.learn(self._scene, self._brought, audit=self._terrain_settings.audit)

    def _terrain_maps(self, tile: SpectraTile, prediction: Prediction) -> dict[str, Array]:
        """Of the valid pixels of a tile, those that were asked for."""
        if self._terrain is None or not self._terrain_specs:
            return {}
        found = {name: values[tile.valid] for name, values in self._terrain.layers(tile.window).items()}
        assert prediction.surprise is not None
        found["terrain_disagreement"] = prediction.surprise
        return {name: found[name] for name in self._terrain_specs}

    def _terrain_lines(self) -> list[str]:
        """What the audit found."""
        if self._terrain is None or not self._terrain_settings.audit:
            return []
        return self._terrain.lines(self._scene)


class ClassMapper(_ModelMapper):
    """`p3vae classify`: land cover, confidence, irradiance with its std where estimated."""

    def __init__(self, scene: Scene, model: LandCoverModel, settings: ClassifySettings, name: str) -> None:
        if settings.unknown:
            _require_unknown(model, name)
        super().__init__(scene, model, settings, name)
        if not settings.neighbours:
            self._model = self._model.without_neighbours()
        self._settings, self._seen = settings, Seen(self._model.legend)
        self._cover = _cover_specs(self._model, settings, name)
        self.specs = self._specs()
        self.files = extra_files(settings)
        self.halo = self._model.halo

    @classmethod
    def of_file(cls, scene: Scene, settings: ClassifySettings) -> Self:
        """With the model that the settings name."""
        model = load_land_cover(settings.model, settings.device)
        return cls(scene, model, settings, model_name(settings.model))

    def _specs(self) -> dict[str, MapSpec]:
        legend, light = self._model.legend, self._model.estimator.gives_irradiance
        return {
            "landcover": land_cover_spec(legend, self._settings.unknown),
            "confidence": CONFIDENCE,
            **(IRRADIANCE if light else {}),
            **({"probabilities": probabilities_spec(legend)} if self._settings.probabilities else {}),
            **self._cover,
            **self._terrain_specs,
        }

    def prepare(self, progress: Steps) -> None:
        """Learn gain, haze and noise of the scene, where the model has those of its own."""
        self._bring(method=self._settings.method, probabilities=self._settings.probabilities)

    def __call__(self, tile: SpectraTile) -> Mapping[str, Array]:
        """All maps of a tile."""
        prediction = self.brought.predict_tile(tile)
        self._seen.add(prediction, tile)
        found = {"landcover": self._classes(prediction), "confidence": prediction.confidence}
        if self._model.estimator.gives_irradiance:
            found |= _light_maps(prediction)
        if self._settings.probabilities:
            assert prediction.probabilities is not None
            found["probabilities"] = prediction.probabilities
        if self._cover:
            found |= self.brought.cover(tile, prediction, self._cover)
        found |= self._terrain_maps(tile, prediction)
        return {name: _unpack(values, tile) for name, values in found.items()}

    def _classes(self, prediction: Prediction) -> Array:
        if not self._settings.unknown:
            return prediction.class_id
        assert prediction.misfit is not None
        return np.where(prediction.misfit > 1, np.uint8(UNKNOWN), prediction.class_id)

    def finish(self, maps: Maps) -> None:
        """Say what is unusual about the scene, and make the maps that need the whole one."""
        maps.lines += self._seen.lines(self._name, self.brought.irradiance.sun_zenith_deg)
        maps.lines += self._terrain_lines()
        make_extras(maps, self._settings)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Of the model in the scene, and of the map."""
        return self.brought.settings | {
            "unknown": self._settings.unknown,
            "neighbours": self._model.averages_neighbours,
        }

    @property
    def results(self) -> Mapping[str, Any]:
        """How much of the scene is as the model knows it."""
        return self._seen.record()


def _require_unknown(model: LandCoverModel, name: str) -> None:
    if not model.estimator.gives_misfit:
        raise UsageError(f"--unknown needs a model that reconstructs spectra; {name} does not")
    if UNKNOWN in model.legend.ids:
        taken = model.legend.names[model.legend.ids.index(UNKNOWN)]
        raise UsageError(
            f"--unknown marks pixels with {UNKNOWN}, which is the class {taken} of {name}",
            remedy="train with another id for that class",
        )


def _cover_specs(model: LandCoverModel, settings: ClassifySettings, name: str) -> dict[str, MapSpec]:
    """Maps of materials and fractions that were asked for."""
    specs: dict[str, MapSpec] = {}
    if settings.materials:
        require_cover(model, "--materials", name)
        specs |= material_specs(model)
    if settings.fractions:
        require_cover(model, "--fractions", name)
        specs |= fraction_specs(model.legend)
    return specs


class LightMapper(_ModelMapper):
    """`p3vae irradiance-map`: δ·cosΘ and its std; with `relight` also the cube under flat, full sun."""

    def __init__(
        self, scene: Scene, model: LandCoverModel, settings: IrradianceMapSettings, name: str
    ) -> None:
        if not model.estimator.gives_irradiance:
            raise ModelFileError(
                f"a {model.settings.model} model does not estimate light",
                path=name,
                remedy="use a p3vae model",
            )
        super().__init__(scene, model, settings, name)
        self._model = self._model.without_neighbours()
        self._relight = settings.relight
        self._good = np.flatnonzero(scene.bands.good)
        relit = {"relit": relit_spec(scene)} if self._relight else {}
        self.specs = {**IRRADIANCE, **relit, **self._terrain_specs}

    @classmethod
    def of_file(cls, scene: Scene, settings: IrradianceMapSettings) -> Self:
        """With the model that the settings name."""
        model = load_land_cover(settings.model, settings.device)
        return cls(scene, model, settings, model_name(settings.model))

    def prepare(self, progress: Steps) -> None:
        """Learn gain, haze and noise of the scene, where the model has those of its own."""
        self._bring(probabilities=False)
        bands = self._scene.bands.select(self._good)
        self._at_scene = scene_irradiance(self._scene, bands, self._light) if self._relight else None

    def __call__(self, tile: SpectraTile) -> Mapping[str, Array]:
        """Light of a tile, and its spectra without it."""
        prediction = self.brought.predict_tile(tile)
        found = _light_maps(prediction)
        if self._at_scene is not None:
            found["relit"] = prediction.relit(tile.values[tile.valid][:, self._good], self._at_scene)
        found |= self._terrain_maps(tile, prediction)
        return {name: _unpack(values, tile) for name, values in found.items()}

    def finish(self, maps: Maps) -> None:
        """Say what the audit found."""
        maps.lines += self._terrain_lines()

    @property
    def settings(self) -> Mapping[str, Any]:
        """Of the model in the scene."""
        return self.brought.settings | {"relight": self._relight}


def _light_maps(prediction: Prediction) -> dict[str, Array]:
    assert prediction.irradiance is not None and prediction.irradiance_std is not None
    return {"irradiance": prediction.irradiance, "irradiance_std": prediction.irradiance_std}


def _unpack(values: Array, tile: SpectraTile) -> Array:
    """Values of the valid pixels, (valid, ...), laid out as (rows, cols) or (bands, rows, cols)."""
    full = np.zeros((*tile.valid.shape, *values.shape[1:]), values.dtype)
    full[tile.valid] = values
    return np.moveaxis(full, -1, 0) if full.ndim > 2 else full
