"""From a land-cover model and a scene to maps: classes, confidence, irradiance, relit reflectance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.errors import ModelFileError, UsageError
from p3vae.cli.landcover.cover import (
    cover_maps,
    fraction_specs,
    material_specs,
    require_cover,
)
from p3vae.cli.landcover.irradiance import IrradianceOptions, scene_irradiance
from p3vae.cli.landcover.model_files import fit_bands, require_quantity
from p3vae.cli.landcover.scene_state import brought_to_scene
from p3vae.cli.landcover.seen import Seen
from p3vae.cli.rasters.files import MapSpec
from p3vae.cli.run.mapping import Plan
from p3vae.cli.scenes.base import Scene
from p3vae.cli.scenes.tiling import SpectraTile
from p3vae.cli.styles.rasters import Categories, Category, Ramp
from p3vae.physics.spectral_response import select_spectra

if TYPE_CHECKING:
    from p3vae.models.landcover.model import LandCoverModel
    from p3vae.models.landcover.types import ClassLegend, Method, Prediction

Array = npt.NDArray[Any]

UNKNOWN = 255
"""Value of pixels that no class explains."""
UNKNOWN_COLOURS = ("#3c3c3c", "#ffffff", "#ff00ff", "#00ffff", "#000000", "#ffff00", "#a0a0a0", "#0000ff")
"""Of these, unknown pixels have the first that no class comes near."""
DISTINCT_RGB = 60.0
"""Distance in RGB from which colours of a legend are distinct."""


@dataclass(frozen=True)
class ClassifyOptions:
    """What `p3vae classify` makes."""

    method: Method | None = None
    """None is the model's usual one."""
    probabilities: bool = False
    unknown: bool = False
    """Mark pixels whose spectrum the model cannot reconstruct."""
    irradiance: IrradianceOptions = field(default_factory=IrradianceOptions)
    materials: bool = False
    """Also the likeliest material inside the class."""
    fractions: bool = False
    """Also the cover fraction of each class."""
    neighbours: bool = True
    """Average over neighbours, where the model says that it helps."""
    scene_gain: bool = True
    """Correct what the scene differs by from that of training: gain, haze, noise."""


def classify_plan(scene: Scene, model: LandCoverModel, options: ClassifyOptions, model_name: str) -> Plan:
    """Land cover, confidence, irradiance with its std where estimated, and what `options` adds."""
    if options.unknown and not model.estimator.gives_misfit:
        raise UsageError(f"--unknown needs a model that reconstructs spectra; {model_name} does not")
    if options.unknown and UNKNOWN in model.legend.ids:
        name = model.legend.names[model.legend.ids.index(UNKNOWN)]
        raise UsageError(
            f"--unknown marks pixels with {UNKNOWN}, which is the class {name} of {model_name}",
            remedy="train with another id for that class",
        )
    digest = model.digest
    model, scene_state = brought_to_scene(scene, model, model_name, scene_gain=options.scene_gain)
    if not options.neighbours:
        model = model.without_neighbours()
    cover = _cover_specs(model, options, model_name)
    predict = _Predictor(scene, model, options, model_name)
    seen = Seen(model.legend, predict.cos_zenith)

    def maps(tile: SpectraTile) -> Mapping[str, Array]:
        prediction = predict(tile)
        classes = prediction.class_id
        seen.add(prediction, tile)
        if options.unknown:
            assert prediction.misfit is not None
            classes = np.where(prediction.misfit > 1, np.uint8(UNKNOWN), classes)
        found = {"landcover": _unpack(classes, tile), "confidence": _unpack(prediction.confidence, tile)}
        if model.estimator.gives_irradiance:
            found |= _light_maps(prediction, tile)
        if options.probabilities:
            assert prediction.probabilities is not None
            found["probabilities"] = np.moveaxis(_unpack(prediction.probabilities, tile), -1, 0)
        return found | (predict.cover(tile, prediction, cover) if cover else {})

    specs = {"landcover": _land_cover_spec(model.legend, options.unknown), "confidence": _CONFIDENCE}
    if model.estimator.gives_irradiance:
        specs |= _IRRADIANCE
    if options.probabilities:
        specs["probabilities"] = _probabilities_spec(model.legend)
    specs |= cover
    settings = (
        predict.settings | scene_state | {"unknown": options.unknown, "neighbours": model.averages_neighbours}
    )
    return Plan(
        maps,
        specs,
        digest,
        settings,
        model.halo,
        seen.record,
        lambda _summary, _staging: seen.findings(model_name),
    )


def irradiance_plan(
    scene: Scene,
    model: LandCoverModel,
    irradiance: IrradianceOptions,
    model_name: str,
    *,
    relight: bool,
    scene_gain: bool = True,
) -> Plan:
    """The irradiance δ·cosΘ and its standard deviation; with `relight` also the cube under flat, full sun."""
    if not model.estimator.gives_irradiance:
        raise ModelFileError(
            f"a {model.settings.model} model does not estimate light",
            path=model_name,
            remedy="use a p3vae model",
        )
    digest = model.digest
    model, scene_state = brought_to_scene(scene, model, model_name, scene_gain=scene_gain)
    model = model.without_neighbours()
    predict = _Predictor(scene, model, ClassifyOptions(irradiance=irradiance), model_name)
    good = np.flatnonzero(scene.bands.good)

    def maps(tile: SpectraTile) -> Mapping[str, Array]:
        prediction = predict(tile)
        found = _light_maps(prediction, tile)
        if relight:
            relit = prediction.relit(tile.values[tile.valid][:, good], at_scene)
            found["relit"] = np.moveaxis(_unpack(relit, tile), -1, 0)
        return found

    specs = dict(_IRRADIANCE)
    if relight:
        at_scene = scene_irradiance(scene, scene.bands.select(good), irradiance)
        specs["relit"] = _relit_spec(scene)
    return Plan(maps, specs, digest, predict.settings | scene_state | {"relight": relight})


def _cover_specs(model: LandCoverModel, options: ClassifyOptions, name: str) -> dict[str, MapSpec]:
    """Maps of materials and fractions that were asked for."""
    specs: dict[str, MapSpec] = {}
    if options.materials:
        require_cover(model, "--materials", name)
        specs |= material_specs(model)
    if options.fractions:
        require_cover(model, "--fractions", name)
        specs |= fraction_specs(model.legend)
    return specs


class _Predictor:
    """A model brought to a scene: its bands and its sun."""

    def __init__(
        self, scene: Scene, model: LandCoverModel, options: ClassifyOptions, model_name: str
    ) -> None:
        require_quantity(scene, "reflectance", "a land-cover model")
        if (options.method or model.methods[0]) not in model.methods:
            raise UsageError(
                f"--method {options.method}: the {model.settings.model} model {model_name} has none",
                remedy=f"use --method {model.methods[0]}",
            )
        self._model, self._options = model, options
        self._adapter = fit_bands(scene, model.bands, model_name)
        self._irradiance = scene_irradiance(scene, model.bands, options.irradiance)
        self._workers = _workers(model.device)
        self._cores = _one_thread_per_core(self._workers)

    @property
    def cos_zenith(self) -> float:
        """cosΘ0 of the scene."""
        return float(np.cos(np.radians(self._irradiance.sun_zenith_deg)))

    @property
    def settings(self) -> dict[str, Any]:
        """For the manifest."""
        return {
            "model": self._model.settings.model,
            "method": self._options.method or self._model.methods[0],
            "bands": "matched" if self._adapter.is_exact else "resampled",
            "sun_zenith_deg": self._irradiance.sun_zenith_deg,
            "irradiance": str(self._options.irradiance.table or "clear sky (SPECTRL2)"),
        }

    def __call__(self, tile: SpectraTile) -> Prediction:
        """The valid pixels of a tile, in their order; NaN where one is too dark to judge."""
        if self._model.needs_images:
            return _with_nodata(self._predict_whole(tile))
        found = self._predict(tile)
        if self._model.averages_neighbours:
            found = self._model.averaged(found, tile.valid)
        return _with_nodata(found)

    def cover(
        self, tile: SpectraTile, prediction: Prediction, wanted: Mapping[str, MapSpec]
    ) -> dict[str, Array]:
        """Maps of materials and fractions, laid out as the tile."""
        spectra = self._adapter(tile.values[tile.valid])
        found = cover_maps(self._model, spectra, prediction, self._irradiance, wanted)
        unpacked = {name: _unpack(values, tile) for name, values in found.items()}
        return {name: np.moveaxis(v, -1, 0) if v.ndim > 2 else v for name, v in unpacked.items()}

    def _predict(self, tile: SpectraTile) -> Prediction:
        """In parts, one per worker."""
        spectra = select_spectra(tile.values.reshape(-1, tile.values.shape[-1]), tile.valid.ravel())
        size = -(-len(spectra) // self._workers)

        def predict(start: int) -> Prediction:
            return self._model.predict(
                self._adapter(spectra[start : start + size]),
                self._irradiance,
                method=self._options.method,
                want_probabilities=self._options.probabilities or self._model.averages_neighbours,
            )

        return _joined(list(self._cores.map(predict, range(0, len(spectra), size))))

    def _predict_whole(self, tile: SpectraTile) -> Prediction:
        """For a model that looks at neighbours; brought to its bands row by row, for one copy of the tile."""
        image = np.empty((*tile.valid.shape, len(self._model.bands)), np.float32)
        for row, values in enumerate(tile.values):
            image[row] = self._adapter(values)
        found = self._model.predict_image(
            image,
            self._irradiance,
            origin=(tile.window.row, tile.window.col),
            method=self._options.method,
            want_probabilities=self._options.probabilities,
        )
        valid = tile.valid.ravel()
        return replace(found, **{k: v[valid] for k, v in vars(found).items() if v is not None})


def _workers(device: str) -> int:
    """As many as a CPU has cores; a GPU is fed by one."""
    import torch

    return torch.get_num_threads() if device == "cpu" else 1


def _light_maps(prediction: Prediction, tile: SpectraTile) -> dict[str, Array]:
    assert prediction.irradiance is not None and prediction.irradiance_std is not None
    return {
        "irradiance": _unpack(prediction.irradiance, tile),
        "irradiance_std": _unpack(prediction.irradiance_std, tile),
    }


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


def _unpack(values: Array, tile: SpectraTile) -> Array:
    """Values of the valid pixels, (valid, ...), laid out as (rows, cols, ...)."""
    full = np.zeros((*tile.valid.shape, *values.shape[1:]), values.dtype)
    full[tile.valid] = values
    return full


_CONFIDENCE = MapSpec(
    suffix="confidence",
    description="probability of the mapped class",
    unit="1",
    style=Ramp(minimum=0.0, maximum=1.0, colormap="viridis"),
)
_IRRADIANCE = {
    "irradiance": MapSpec(
        suffix="irradiance",
        description="local direct irradiance, sunlit fraction x cosine of incidence (δ·cosΘ)",
        unit="1",
        style=Ramp(minimum=0.0, maximum=1.0, colormap="inferno"),
    ),
    "irradiance_std": MapSpec(
        suffix="irradiance_std",
        description="posterior standard deviation of the local direct irradiance (δ·cosΘ)",
        unit="1",
        style=Ramp(minimum=0.0, maximum=0.3, colormap="cividis"),
    ),
}


def hex_colour(rgb: tuple[int, int, int]) -> str:
    """(200, 30, 30) as #c81e1e."""
    return "#{:02x}{:02x}{:02x}".format(*rgb)


def unknown_colour(taken: Sequence[tuple[int, int, int]]) -> str:
    """The first of `UNKNOWN_COLOURS` that is distinct from all colours taken, or else the farthest."""

    def distance(colour: str) -> float:
        return min(math.dist(bytes.fromhex(colour[1:]), other) for other in taken)

    distinct = (colour for colour in UNKNOWN_COLOURS if distance(colour) >= DISTINCT_RGB)
    return next(distinct, max(UNKNOWN_COLOURS, key=distance))


def _land_cover_spec(legend: ClassLegend, unknown: bool) -> MapSpec:
    items = [
        Category(id_, name, hex_colour(colour))
        for id_, name, colour in zip(legend.ids, legend.names, legend.colours, strict=True)
    ]
    if unknown:
        items.append(Category(UNKNOWN, "unknown", unknown_colour(legend.colours)))
    return MapSpec(
        suffix="landcover",
        description="land cover",
        dtype="uint8",
        nodata=0,
        style=Categories(tuple(items)),
    )


def _probabilities_spec(legend: ClassLegend) -> MapSpec:
    return MapSpec(
        suffix="probabilities",
        description="class probabilities",
        unit="1",
        style=Ramp(minimum=0.0, maximum=1.0, colormap="viridis"),
        band_descriptions=legend.names,
        band_tags=tuple({"color": hex_colour(colour)} for colour in legend.colours),
    )


def _relit_spec(scene: Scene) -> MapSpec:
    bands = scene.bands.select(scene.bands.good)
    return MapSpec(
        suffix="relit",
        description="reflectance on flat, sunlit ground",
        unit="1",
        style=Ramp(minimum=0.0, colormap="gray"),
        band_descriptions=tuple(f"{centre:.2f} nm" for centre in bands.wavelength_nm),
        band_tags=tuple(
            {"wavelength": repr(float(centre)), "wavelength_units": "nm", "fwhm": repr(float(width))}
            for centre, width in zip(bands.wavelength_nm, bands.fwhm_nm, strict=True)
        ),
    )
