"""The same work without a command line: a scene, a model, arrays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.landcover.irradiance import IrradianceOptions
from p3vae.cli.landcover.maps import ClassifyOptions, classify_plan, irradiance_plan
from p3vae.cli.landcover.model_files import load_land_cover
from p3vae.cli.rasters.files import MapSpec
from p3vae.cli.rasters.grids import whole
from p3vae.cli.records.manifest import Provenance
from p3vae.cli.results import Maps
from p3vae.cli.run.mapping import Plan
from p3vae.cli.run.pipeline import run
from p3vae.cli.scenes.base import Scene, SceneOptions
from p3vae.cli.scenes.tiling import Window, tile_pixels, tile_shape, windows

if TYPE_CHECKING:
    from p3vae.models.landcover.model import LandCoverModel
    from p3vae.models.landcover.types import Method


def load_model(path: str | Path | None = None, device: str = "auto") -> LandCoverModel:
    """A land-cover model; None is the one that comes with the package."""
    return load_land_cover(None if path is None else Path(path), device)


def classify(
    scene: Scene,
    model: LandCoverModel,
    *,
    method: Method | None = None,
    probabilities: bool = False,
    unknown: bool = False,
    neighbours: bool = True,
    scene_gain: bool = True,
    irradiance: IrradianceOptions | None = None,
) -> Maps:
    """Land cover of a scene, with the nodata of the files `p3vae classify` would write.

    `landcover`, `confidence` and, where the model estimates light, `irradiance` and `irradiance_std` are
    (rows, cols); `probabilities`, when asked for, (classes, rows, cols). `neighbours` False maps every pixel
    by itself, also where held-out polygons of the training say that neighbours help. `scene_gain` False
    leaves gain, haze and noise of the scene as they are. Spectra are read tile by tile, only the maps are
    held in memory.
    """
    options = ClassifyOptions(
        method,
        probabilities,
        unknown,
        irradiance or IrradianceOptions(),
        neighbours=neighbours,
        scene_gain=scene_gain,
    )
    return _mapped(scene, classify_plan(scene, model, options, "given"))


def irradiance(
    scene: Scene, model: LandCoverModel, *, relight: bool = False, options: IrradianceOptions | None = None
) -> Maps:
    """Local direct irradiance δ·cosΘ [1] and its standard deviation; `relit` [1] is (bands, rows, cols)."""
    plan = irradiance_plan(scene, model, options or IrradianceOptions(), "given", relight=relight)
    return _mapped(scene, plan)


def invert_methane(scene: Scene, *, device: str = "auto", **options: Any) -> Maps:
    """Methane enhancement [ppm m], its standard deviation, sensitivity and quality of a radiance scene.

    `options` are fields of `MethaneOptions`, e.g. `method="mf"`. Plumes are listed by `p3vae invert-methane`.
    """
    from p3vae.cli.methane.fit import MethaneOptions
    from p3vae.cli.methane.retrieval import methane_plan

    plan = methane_plan(scene, MethaneOptions(**options), device, lambda done, total: None)
    return _mapped(scene, plan)


def train(
    scenes: str | Path | list[str | Path],
    labels: str | Path,
    output: str | Path,
    *,
    class_field: str | None = None,
    class_names: Sequence[str] = (),
    overwrite: bool = False,
    scene_options: SceneOptions | None = None,
    **settings: Any,
) -> LandCoverModel:
    """A land-cover model from scenes and labels, written to `output`.

    `settings` are fields of `TrainingSettings`, e.g. `model="random-forest"`, `seed=1`.
    """
    from p3vae.cli.landcover.train import TrainingRequest
    from p3vae.cli.landcover.train import train as run_training
    from p3vae.models.landcover.types import TrainingSettings

    paths = scenes if isinstance(scenes, list) else [scenes]
    request = TrainingRequest(
        scenes=tuple(Path(path) for path in paths),
        labels=Path(labels),
        output=Path(output),
        settings=TrainingSettings(**settings),
        class_field=class_field,
        class_names=tuple(class_names),
        overwrite=overwrite,
        show_progress=False,
    )
    return run_training(request, scene_options or SceneOptions())


def _mapped(scene: Scene, plan: Plan) -> Maps:
    """Apply a plan to every pixel, in memory."""
    grid = scene.grid
    sinks = {
        name: _ArraySink(spec, np.full((spec.bands, grid.height, grid.width), spec.nodata, spec.dtype))
        for name, spec in plan.specs.items()
    }
    shape = tile_shape(grid.height, grid.width, scene.block_shape, tile_pixels(len(scene.bands)), plan.halo)
    run(
        scene,
        windows(Window(0, 0, grid.height, grid.width), shape),
        plan.function,
        sinks,
        around=lambda window: window.grown(plan.halo, grid.height, grid.width),
    )
    ortho = scene.ortho
    if ortho is not None:
        grid, (row, col) = ortho.grid, ortho.swath_pixels(whole(ortho.grid))
        for sink in sinks.values():
            sink.array = np.where(row >= 0, sink.array[:, row, col], np.asarray(sink.nodata, sink.dtype))
    arrays = {name: sink.array if len(sink.array) > 1 else sink.array[0] for name, sink in sinks.items()}
    tags = Provenance(command="p3vae in Python", model_sha256=plan.model_sha256).tags(scene)
    return Maps(scene.path, grid, arrays, plan.specs, tags)


class _ArraySink:
    """A map in memory."""

    def __init__(self, spec: MapSpec, array: npt.NDArray[Any]) -> None:
        self.array, self.nodata, self.dtype = array, spec.nodata, array.dtype
        self.reports_invalid = spec.reports_invalid

    def write(self, window: Window, values: npt.NDArray[Any]) -> None:
        self.array[(slice(None), *window.slices)] = values
