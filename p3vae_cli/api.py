"""The same work without a command line: a scene, a model, maps in memory.

Keywords are the long options of the commands: `--bad-bands` is `bad_bands`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from p3vae.cli.errors import P3vaeError
from p3vae.cli.landcover.settings import (
    ClassifySettings,
    ExplainSettings,
    IrradianceMapSettings,
    LightSettings,
)
from p3vae.cli.landcover.train_settings import TrainSettings
from p3vae.cli.methane.settings import RetrievalSettings
from p3vae.cli.rasters.files import MapSpec, gdal_environment
from p3vae.cli.rasters.grids import whole
from p3vae.cli.rasters.resample import on_map, swath_map
from p3vae.cli.rasters.xarrays import scene_to_xarray
from p3vae.cli.records.manifest import Provenance
from p3vae.cli.run.mapper import Mapper
from p3vae.cli.run.maps import Array, Maps
from p3vae.cli.run.model_files import load_land_cover
from p3vae.cli.run.pipeline import run
from p3vae.cli.run.task import require_keepable
from p3vae.cli.scenes import opening
from p3vae.cli.scenes.base import Scene
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.scenes.tiling import Window, tile_pixels, tile_shape, windows

if TYPE_CHECKING:
    from p3vae.cli.assess.assessment import Assessment
    from p3vae.cli.landcover.explain import Explanation
    from p3vae.models.landcover.model import LandCoverModel

__all__ = [
    "Maps",
    "Scene",
    "assess",
    "classify",
    "explain",
    "invert_methane",
    "irradiance",
    "load_model",
    "open_scene",
    "rgb",
    "scene_to_xarray",
    "train",
]

P = ParamSpec("P")
R = TypeVar("R")


def _with_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Errors name keywords where the command line has options."""

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except P3vaeError as error:
            error.name_keywords()
            raise

    return called


@_with_keywords
def open_scene(path: str | Path, **keywords: Any) -> Scene:
    """Open a scene of any supported product; close it, or use it in a `with` statement.

    `keywords` are what the file does not say: `scale=1e-4`, `sun_zenith=30`, `bad_bands="1340-1450"`, ...
    """
    return opening.open_scene(path, SceneSettings.of_keywords(keywords, caller="open_scene"))


@_with_keywords
def load_model(path: str | Path | None = None, device: str = "auto") -> LandCoverModel:
    """A land-cover model from its file, or a shipped one by its name; None is earth."""
    return load_land_cover(None if path is None else Path(path), device)


@_with_keywords
def classify(scene: Scene, model: LandCoverModel | None = None, **keywords: Any) -> Maps:
    """Land cover of a scene, with the nodata of the files `p3vae classify` would write.

    `landcover`, `confidence` and, where the model estimates light, `irradiance` and `irradiance_std` are
    (rows, cols); `probabilities`, when asked for, (classes, rows, cols). `keywords` are the options of the
    command: `unknown=True`, `neighbours=False`, `aod=0.2`, ... Spectra are read tile by tile, only the maps
    are held in memory.
    """
    from p3vae.cli.landcover.maps import ClassMapper

    settings = ClassifySettings.of_keywords(keywords, caller="classify", without=("model", "device"))
    return _mapped(scene, ClassMapper(scene, model or load_model(), settings, "given"))


@_with_keywords
def irradiance(scene: Scene, model: LandCoverModel | None = None, **keywords: Any) -> Maps:
    """Local direct irradiance δ·cosΘ [1] and its standard deviation; `relit` [1] is (bands, rows, cols).

    `keywords` are the options of `p3vae irradiance-map`: `relight=True`, `aod=0.2`, ...
    """
    from p3vae.cli.landcover.maps import LightMapper

    settings = IrradianceMapSettings.of_keywords(keywords, caller="irradiance", without=("model", "device"))
    return _mapped(scene, LightMapper(scene, model or load_model(), settings, "given"))


@_with_keywords
def invert_methane(scene: Scene, **keywords: Any) -> Maps:
    """Methane enhancement [ppm m], its standard deviation, sensitivity and quality of a radiance scene.

    `maps.tables["plumes"]` lists its plumes. `keywords` are the options of the command: `wind=4`,
    `method="mag1c"`, ...
    """
    settings = RetrievalSettings.of_keywords(keywords, caller="invert_methane")
    require_keepable(settings, scene, overwrite=False)
    mapper = settings.mapper(scene)
    maps = _mapped(scene, mapper)
    mapper.keep()
    return maps


@_with_keywords
def train(
    scenes: str | Path | list[str | Path], labels: str | Path, output: str | Path, **keywords: Any
) -> LandCoverModel:
    """A land-cover model from scenes and labels, written to `output`.

    `keywords` are the options of `p3vae train`, `model="random-forest"`, `seed=1`, ..., and of `open_scene`.
    """
    from p3vae.cli.landcover.train import train as run_training

    of_scene = {name: keywords.pop(name) for name in SceneSettings.keywords() if name in keywords}
    asked = TrainSettings.of_keywords(keywords | {"labels": labels, "output": output}, caller="train")
    paths = tuple(Path(path) for path in (scenes if isinstance(scenes, list) else [scenes]))
    request = replace(asked, scenes=paths, show_progress=bool(asked.show_progress))
    return run_training(request, SceneSettings.of_keywords(of_scene, caller="train"))


@_with_keywords
def explain(
    scene: Scene, model: LandCoverModel | None = None, *, light: Mapping[str, Any] | None = None, **where: Any
) -> Explanation:
    """Why the pixel at `at=(x, y)` in map coordinates, or at `pixel=(col, row)`, has its class.

    `light` are keywords for the sky, such as `{"aod": 0.2}`; `crs` is that of `at`.
    """
    from p3vae.cli.landcover.explain import explain as of_pixel
    from p3vae.cli.landcover.explain import find_place
    from p3vae.cli.landcover.scene_model import SceneModel

    asked = ExplainSettings.of_keywords(
        where, caller="explain", without=("model", "output", "overwrite", "json")
    )
    sky = LightSettings.of_keywords(light or {}, caller="explain")
    place = find_place(scene.grid, asked.at, asked.crs, asked.pixel)
    brought = SceneModel.of(scene, model or load_model(), sky, "given", scene_gain=asked.scene_gain)
    return of_pixel(scene, brought, place)


@_with_keywords
def assess(
    map_path: str | Path,
    reference: str | Path,
    *,
    class_field: str | None = None,
    class_map: str | Path | None = None,
    confidence: str | Path | None = None,
    std: str | Path | None = None,
    compare: str | Path | None = None,
) -> Assessment:
    """A map that was written, against reference data: error matrix, accuracies and areas, or errors."""
    from p3vae.cli.assess.assessment import AssessRequest
    from p3vae.cli.assess.assessment import assess as run_assessment

    paths = {"class_map": class_map, "confidence": confidence, "std": std, "compare": compare}
    given = {name: Path(path) for name, path in paths.items() if path is not None}
    return run_assessment(AssessRequest(Path(map_path), Path(reference), class_field, **given))


@_with_keywords
def rgb(scene: Scene, size: int = 700) -> Array:
    """A picture of a scene in true colour, or by three of its bands: (rows, cols, 4), 0 to 255.

    Every n-th pixel, so that no side is longer than `size`.
    """
    from p3vae.cli.rasters.pictures import scene_picture

    return scene_picture(scene, size, whole(scene.grid))


def _mapped(scene: Scene, mapper: Mapper) -> Maps:
    """Map every pixel, in memory."""
    grid, area = scene.grid, whole(scene.grid)
    mapper.prepare(lambda done, total: None)
    sinks = {name: _ArraySink(spec, area) for name, spec in mapper.specs.items()}
    shape = tile_shape(grid.height, grid.width, scene.block_shape, tile_pixels(len(scene.bands)), mapper.halo)
    run(
        scene,
        windows(area, shape),
        mapper,
        sinks,
        around=lambda window: window.grown(mapper.halo, grid.height, grid.width),
    )
    tags = Provenance(command="p3vae in Python").tags(scene, mapper.model_sha256)
    specs = dict(mapper.specs)
    maps = Maps(scene.path, grid, specs, {name: sink.values for name, sink in sinks.items()}, area, tags)
    onto = swath_map(scene, area, grid, utm=False, pixel_size=None)
    if onto is not None:
        arrays = {name: _on_map(maps[name], spec, onto) for name, spec in specs.items()}
        maps = Maps(scene.path, onto.grid, specs, arrays, area, tags, swath=maps, onto=onto)
    with gdal_environment():
        mapper.finish(maps)
    return maps


def _on_map(values: Array, spec: MapSpec, onto: Any) -> Array:
    """A map of a swath on its map grid."""
    bands = [on_map(band, onto, spec.nodata) for band in (values if values.ndim > 2 else values[None])]
    return np.stack(bands) if values.ndim > 2 else bands[0]


class _ArraySink:
    """A map in memory."""

    def __init__(self, spec: MapSpec, area: Window) -> None:
        self._array = np.full((spec.bands, area.rows, area.cols), spec.nodata, spec.dtype)
        self.nodata, self.dtype = spec.nodata, self._array.dtype
        self.reports_invalid = spec.reports_invalid

    def write(self, window: Window, values: Array) -> None:
        """Store the values of one window."""
        self._array[(slice(None), *window.slices)] = values

    @property
    def values(self) -> Array:
        """(rows, cols), or (bands, rows, cols)."""
        return self._array if len(self._array) > 1 else self._array[0]
