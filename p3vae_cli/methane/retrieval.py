"""From a radiance scene to methane maps and plumes: a background learned from it, every pixel inverted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.errors import UsageError
from p3vae.cli.labels import draw_pixels
from p3vae.cli.methane.fit import Fitted, absorption_table, fit_method
from p3vae.cli.methane.maps import SPECS, MethaneTiles
from p3vae.cli.methane.plumes import PLUME_FILES, add_plumes, plume_record, winds_at
from p3vae.cli.methane.scene import MethaneScene
from p3vae.cli.methane.settings import RetrievalSettings
from p3vae.cli.methane.vetting import Vetting
from p3vae.cli.records.manifest import sha256
from p3vae.cli.records.staging import writing
from p3vae.cli.run.fitness import require_methane
from p3vae.cli.run.mapper import Mapper, Steps
from p3vae.cli.run.maps import Maps
from p3vae.cli.run.memory import return_memory
from p3vae.cli.run.model_files import resolve_device
from p3vae.cli.scenes.base import Scene
from p3vae.cli.scenes.tiling import SpectraTile
from p3vae.models.checkpoint import write_model_file
from p3vae.models.methane.model import MethaneP3VAE
from p3vae.models.methane.plumes.prior import HALO_PIXELS
from p3vae.physics.methane import LINE_WIDTH_NM, MethaneAbsorption

TILE_SIZE = 128
"""Side of the tiles [pixels]: larger ones take more memory than what libraries and model leave of 700 MB."""
BACKGROUND_PIXELS = 30_000
"""Pixels of the scene from which the background is learned."""


class MethaneMapper(Mapper):
    """`p3vae invert-methane`: methane, its standard deviation and sensitivity, quality, and then plumes."""

    specs = SPECS
    files = PLUME_FILES
    tile_size = TILE_SIZE

    def __init__(self, scene: Scene, settings: RetrievalSettings) -> None:
        require_methane(scene)
        _require_sense(settings)
        winds_at(settings.plumes, scene)  # wind that does not cover this scene is refused before the work
        self._scene, self._settings = scene, settings
        self._device = _device(settings.device, settings)
        self.model_sha256 = None if settings.model is None else sha256(settings.model)
        self.halo = HALO_PIXELS if settings.method == "p3vae" and settings.preset == "default" else 0

    def prepare(self, progress: Steps) -> None:
        """Learn the background from pixels without plumes, and what plumes look like."""
        scene, settings = self._scene, self._settings
        drawn = draw_pixels(scene, BACKGROUND_PIXELS, settings.seed)
        self._gas = absorption_table(settings)
        self._seen = MethaneScene.from_scene(scene, drawn, self._gas, settings.largest_ppm_m)
        self._fitted = fit_method(scene, self._seen, drawn, settings, self._device, progress)
        return_memory()
        self._tiles = MethaneTiles(self._fitted, self._seen, quality_mask=scene.quality_mask)

    def __call__(self, tile: SpectraTile) -> Mapping[str, npt.NDArray[Any]]:
        """Enhancement, std, sensitivity and quality of a tile."""
        return self._tiles(tile)

    def finish(self, maps: Maps) -> None:
        """Find plumes, and weigh them."""
        self._tiles.close()
        return_memory()
        spectra, prior = self._fitted.spectra, self._fitted.prior is not None
        judge = None if spectra is None else Vetting(self._scene, self._seen, spectra)
        maps.lines += _notes(self._seen, self._gas)
        add_plumes(maps, self._scene, self._settings.plumes, prior=prior, judge=judge)

    def keep(self) -> None:
        """Save the background, if asked."""
        path, method = self._settings.save_model, self._fitted.method
        if path is not None and isinstance(method, MethaneP3VAE):
            with writing(path):
                write_model_file(path, method.to_file())

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides the result."""
        return _settings(self._scene, self._seen, self._gas, self._fitted, self._settings)


def _device(name: str, options: RetrievalSettings) -> str:
    """Where to invert; the filters and optimal estimation need double precision, which Apple's GPUs lack."""
    device = resolve_device(name)
    if device != "mps" or options.method == "p3vae":
        return device
    if name == "auto":
        return "cpu"
    raise UsageError(f"--method {options.method} needs double precision", remedy="use --device cpu")


def _notes(seen: MethaneScene, gas: MethaneAbsorption) -> list[str]:
    dead, reported = np.flatnonzero(seen.dead), list[str]()
    if gas.borrowed_lines:
        reported.append(
            f"{gas.source} does not resolve methane's lines (steps of {LINE_WIDTH_NM:g} nm would): "
            "how they saturate is taken from our table"
        )
    if seen.view_zenith_deg is None:
        reported.append("the view zenith is unknown and taken as 0 (--view-zenith DEG)")
    if len(dead):
        reported.append(f"{len(dead)} dead detector columns left out: {', '.join(map(str, dead))}")
    return reported


def _settings(
    scene: Scene, seen: MethaneScene, gas: MethaneAbsorption, fitted: Fitted, options: RetrievalSettings
) -> dict[str, Any]:
    """What decides the result, for the manifest."""
    method, prior = fitted.method, fitted.prior
    return {
        "method": options.method if options.preset == "default" else "paper",
        "air_mass_factor": seen.optics.air_mass_factor,
        "sun_zenith_deg": seen.sun_zenith_deg,
        "view_zenith_deg": seen.view_zenith_deg,
        "absorption": gas.source if options.absorption is None else str(options.absorption),
        "absorption_scale": options.absorption_scale,
        "max_ppm_m": method.settings.max_ppm_m if isinstance(method, MethaneP3VAE) else options.largest_ppm_m,
        "smile": seen.optics.detector_columns is not None,
        "quality_mask": scene.quality_mask,
        "prior": None
        if prior is None
        else {
            "plume_share": prior.weight,
            "spike_ppm_m": prior.spike_ppm_m,
            "slab_ppm_m": prior.slab_ppm_m,
            "error_correlation": prior.correlation,
        },
        **plume_record(options.plumes, scene),
    }


def _require_sense(options: RetrievalSettings) -> None:
    """Options that only the default p3VAE heeds are refused elsewhere, rather than ignored."""
    if options.method != "p3vae" and options.preset != "default":
        raise UsageError(f"--preset {options.preset} is a p3VAE", remedy="leave --method out")
    keeps = {"--model": options.model, "--save-model": options.save_model}
    for name, path in keeps.items():
        if path is not None and (options.method != "p3vae" or options.preset != "default"):
            raise UsageError(
                f"{name} is for the default p3VAE only", remedy="leave --method and --preset out"
            )
    learning = {
        "--max-ppm-m": options.max_ppm_m,
        "--plume-mask": options.plume_mask,
        "--save-model": options.save_model,
    }
    for name, given in learning.items():
        if given is not None and options.model is not None:
            raise UsageError(f"{name} is for learning, and --model has learned", remedy=f"leave {name} out")
