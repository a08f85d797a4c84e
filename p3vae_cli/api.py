"""The same work without a command line: a scene, a model, arrays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.base.pipeline import run
from p3vae.cli.base.tiling import Window, tile_pixels, tile_shape, windows
from p3vae.cli.scenes.base import Scene
from p3vae.cli.workflows.irradiance import IrradianceOptions
from p3vae.cli.workflows.landcover import ClassifyOptions, classify_plan
from p3vae.cli.workflows.model_files import load_land_cover

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
    irradiance: IrradianceOptions | None = None,
) -> dict[str, npt.NDArray[Any]]:
    """Maps of a scene as arrays, by name, with the nodata of the files `p3vae classify` would write.

    `landcover`, `confidence` and, where the model estimates light, `irradiance` and `irradiance_std` are
    (rows, cols); `probabilities`, when asked for, (classes, rows, cols). Spectra are read tile by tile, only
    the maps are held in memory.
    """
    options = ClassifyOptions(method, probabilities, unknown, irradiance or IrradianceOptions())
    plan = classify_plan(scene, model, options, "given")
    grid = scene.grid
    sinks = {
        name: _ArraySink(np.full((spec.bands, grid.height, grid.width), spec.nodata, spec.dtype), spec.nodata)
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
    return {name: sink.array if len(sink.array) > 1 else sink.array[0] for name, sink in sinks.items()}


class _ArraySink:
    """A map in memory."""

    reports_invalid = False

    def __init__(self, array: npt.NDArray[Any], nodata: float) -> None:
        self.array, self.nodata, self.dtype = array, nodata, array.dtype

    def write(self, window: Window, values: npt.NDArray[Any]) -> None:
        self.array[(slice(None), *window.slices)] = values
