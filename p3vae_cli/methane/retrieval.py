"""From a radiance scene to methane maps: a background learned from it, every pixel inverted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from p3vae.cli.errors import UsageError
from p3vae.cli.labels import draw_pixels
from p3vae.cli.landcover.model_files import require_quantity, resolve_device
from p3vae.cli.methane.fit import Fitted, MethaneOptions, absorption_table, fit_method
from p3vae.cli.methane.maps import SPECS, MethaneMaps
from p3vae.cli.methane.plumes import PLUME_FILES, write_plumes
from p3vae.cli.methane.scene import MethaneScene
from p3vae.cli.methane.vetting import Vetting
from p3vae.cli.records.manifest import sha256
from p3vae.cli.records.staging import Staging, require_folder, require_free, writing
from p3vae.cli.run.make import Findings, RunSummary
from p3vae.cli.run.mapping import Plan
from p3vae.cli.run.memory import return_memory
from p3vae.cli.scenes.base import Scene
from p3vae.models.checkpoint import write_model_file
from p3vae.models.methane.model import MethaneP3VAE
from p3vae.physics.methane import LINE_WIDTH_NM, MethaneAbsorption

TILE_SIZE = 128
"""Side of the tiles [pixels]: larger ones take more memory than what libraries and model leave of 700 MB."""
BACKGROUND_PIXELS = 30_000
"""Pixels of the scene from which the background is learned."""


def methane_plan(
    scene: Scene, options: MethaneOptions, device: str, progress: Callable[[int, int], None]
) -> Plan:
    """Methane, its standard deviation and sensitivity, quality, and afterwards plumes."""
    require_quantity(scene, "radiance", "a methane retrieval")
    _require_sense(options)
    chosen = _device(device, options)
    options.plumes.winds_over(scene)  # wind that does not cover this scene is refused before the work
    if options.save_model is not None:
        require_free(options.save_model, overwrite=options.overwrite, inputs=(scene.path,))
        require_folder(options.save_model.parent)
    drawn = draw_pixels(scene, BACKGROUND_PIXELS, options.seed)
    gas = absorption_table(options)
    view = MethaneScene.from_scene(scene, drawn, gas, options.largest_ppm_m)
    fitted = fit_method(scene, view, drawn, options, chosen, progress)
    return_memory()
    vet = None if fitted.spectra is None else Vetting(scene, view, fitted.spectra)
    maps, prior = MethaneMaps(fitted, view, quality_mask=options.quality_mask), fitted.prior is not None

    def after(summary: RunSummary, staging: Staging) -> Findings:
        maps.close()
        return_memory()
        found = write_plumes(summary, staging, scene, options.plumes, prior=prior, vet=vet)
        return replace(found, lines=[*_notes(view, gas), *found.lines])

    def keep() -> None:
        if options.save_model is not None and isinstance(fitted.method, MethaneP3VAE):
            with writing(options.save_model):
                write_model_file(options.save_model, fitted.method.to_file())

    digest = None if options.model is None else sha256(options.model)
    settings = _settings(scene, view, gas, fitted, options)
    return Plan(
        maps,
        SPECS,
        digest,
        settings,
        halo=maps.halo,
        after=after,
        more=PLUME_FILES,
        tile_size=TILE_SIZE,
        last=keep,
    )


def _device(name: str, options: MethaneOptions) -> str:
    """Where to invert; the filters and optimal estimation need double precision, which Apple's GPUs lack."""
    device = resolve_device(name)
    if device != "mps" or options.method == "p3vae":
        return device
    if name == "auto":
        return "cpu"
    raise UsageError(f"--method {options.method} needs double precision", remedy="use --device cpu")


def _notes(view: MethaneScene, gas: MethaneAbsorption) -> list[str]:
    dead, reported = np.flatnonzero(view.dead), list[str]()
    if gas.borrowed_lines:
        reported.append(
            f"{gas.source} does not resolve methane's lines (steps of {LINE_WIDTH_NM:g} nm would): "
            "how they saturate is taken from our table"
        )
    if view.view_zenith_deg is None:
        reported.append("the view zenith is unknown and taken as 0 (--view-zenith DEG)")
    if len(dead):
        reported.append(f"{len(dead)} dead detector columns left out: {', '.join(map(str, dead))}")
    return reported


def _settings(
    scene: Scene, view: MethaneScene, gas: MethaneAbsorption, fitted: Fitted, options: MethaneOptions
) -> dict[str, Any]:
    """What decides the result, for the manifest."""
    method, prior = fitted.method, fitted.prior
    return {
        "method": options.method if options.preset == "default" else "paper",
        "air_mass_factor": view.optics.air_mass_factor,
        "sun_zenith_deg": view.sun_zenith_deg,
        "view_zenith_deg": view.view_zenith_deg,
        "absorption": gas.source if options.absorption is None else str(options.absorption),
        "absorption_scale": options.absorption_scale,
        "max_ppm_m": method.settings.max_ppm_m if isinstance(method, MethaneP3VAE) else options.largest_ppm_m,
        "smile": view.optics.detector_columns is not None,
        "quality_mask": options.quality_mask,
        "prior": None
        if prior is None
        else {
            "plume_share": prior.weight,
            "spike_ppm_m": prior.spike_ppm_m,
            "slab_ppm_m": prior.slab_ppm_m,
            "error_correlation": prior.correlation,
        },
        **options.plumes.settings(scene),
    }


def _require_sense(options: MethaneOptions) -> None:
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


MADE = (*(f"{spec.suffix}.tif" for spec in SPECS.values()), *PLUME_FILES)
"""Ends of the names of all products."""
