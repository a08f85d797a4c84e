"""From a radiance scene to methane maps: a background learned from it, every pixel inverted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch

from p3vae.cli.base.errors import BandMismatchError, ModelFileError, SceneError, UsageError
from p3vae.cli.base.tables import read_columns
from p3vae.cli.base.tiling import SpectraTile, Window
from p3vae.cli.products.make import Findings, RunSummary
from p3vae.cli.products.manifest import sha256
from p3vae.cli.products.plumes import PLUME_FILES, PlumeOptions, write_plumes
from p3vae.cli.products.rasters import MapSpec, class_map
from p3vae.cli.products.staging import require_folder, require_free, writing
from p3vae.cli.products.styles import Categories, Category, Ramp
from p3vae.cli.samples import DrawnPixels, draw_pixels
from p3vae.cli.scenes.base import Scene
from p3vae.cli.scenes.masking import read_mask
from p3vae.cli.workflows.mapping import Plan
from p3vae.cli.workflows.methane_scene import LIT, MethaneScene
from p3vae.cli.workflows.model_files import model_errors, require_quantity
from p3vae.models.checkpoint import read_model_file, write_model_file
from p3vae.models.methane.matched_filter import MatchedFilter
from p3vae.models.methane.model import KIND, MethaneP3VAE, pixels_needed
from p3vae.models.methane.optimal_estimation import OptimalEstimation
from p3vae.models.methane.published import PaperSettings, fit_paper
from p3vae.models.methane.screening import background_mask
from p3vae.models.methane.types import MethaneEstimate, MethaneSettings
from p3vae.physics.methane import MethaneAbsorption
from p3vae.physics.quality import Quality, quality_classes

Array = npt.NDArray[Any]
MethaneMethod = Literal["p3vae", "oe", "mf", "mf-log", "mag1c"]

NODATA = -9999.0
USUAL_MAX_PPM_M = 50_000.0
BACKGROUND_PIXELS = 40_000
"""Pixels of the scene from which the background is learned."""
ROOM_BELOW_ZERO_PPM_M = 5000.0
"""Several standard deviations of a usual pixel [ppm m]."""
FEWEST_UNDER_PLUME = 200
"""With fewer candidate plume pixels than this, the background is learned from plume-free ones alone."""


@dataclass(frozen=True)
class MethaneOptions:
    """What `p3vae invert-methane` is asked to do."""

    method: MethaneMethod = "p3vae"
    preset: Literal["default", "paper"] = "default"
    plume_mask: Path | None = None
    model: Path | None = None
    save_model: Path | None = None
    absorption: Path | None = None
    absorption_scale: float = 1.0
    max_ppm_m: float | None = None
    """None: `USUAL_MAX_PPM_M`, or that of the model."""
    seed: int = 0
    overwrite: bool = False
    """Whether `save_model` may exist."""
    plumes: PlumeOptions = field(default_factory=PlumeOptions)

    @property
    def largest_ppm_m(self) -> float:
        """Largest enhancement that a background is learned for."""
        return USUAL_MAX_PPM_M if self.max_ppm_m is None else self.max_ppm_m


class Inverter(Protocol):
    """Any fitted method."""

    def invert(self, radiance: torch.Tensor, detector_column: torch.Tensor | None = None) -> MethaneEstimate:
        """Enhancement of radiance (pixels, bands)."""


@contextmanager
def _one_thread() -> Iterator[None]:
    """Learning is many small matrices: with more threads it takes longer, twice as long on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Cores:
    """A method at work on every core, a part of the pixels each: many small matrices need no more threads."""

    def __init__(self, method: Inverter) -> None:
        self._method, self._count = method, torch.get_num_threads()
        self._pool = ThreadPoolExecutor(
            self._count, "p3vae-invert", initializer=torch.set_num_threads, initargs=(1,)
        )

    def invert(self, radiance: torch.Tensor, detector_column: torch.Tensor | None) -> MethaneEstimate:
        """Enhancement of radiance (pixels, bands)."""
        parts = torch.chunk(radiance, self._count)
        columns = (
            [None] * len(parts) if detector_column is None else torch.chunk(detector_column, self._count)
        )
        return MethaneEstimate.concatenate(list(self._pool.map(self._method.invert, parts, columns)))


def methane_plan(scene: Scene, options: MethaneOptions, progress: Callable[[int, int], None]) -> Plan:
    """Methane, its standard deviation and sensitivity, quality, and afterwards plumes."""
    require_quantity(scene, "radiance", "a methane retrieval")
    _require_sense(options)
    if options.save_model is not None:
        require_free(options.save_model, overwrite=options.overwrite, inputs=(scene.path,))
        require_folder(options.save_model.parent)
    drawn = draw_pixels(scene, BACKGROUND_PIXELS, options.seed)
    view = MethaneScene.from_scene(scene, drawn, _absorption(options), options.largest_ppm_m)
    with _one_thread():
        method = _fit(scene, view, drawn, options, progress)
    cores = _Cores(method)

    def maps(tile: SpectraTile) -> Mapping[str, Array]:
        values = tile.values[..., view.bands].reshape(-1, len(view.bands))
        column = np.tile(np.arange(tile.window.cols) + tile.window.col, tile.window.rows)
        alive = ~view.dead[column]
        usable = tile.valid.ravel() & alive & ((values > 0).mean(axis=1) > LIT)
        found = np.full((3, len(values)), NODATA, np.float32)
        if usable.any():
            radiance = torch.from_numpy(np.ascontiguousarray(values[usable]))
            estimate = cores.invert(radiance, view.groups(column[usable]))
            found[:, usable] = torch.stack([estimate.ppm_m, estimate.std, estimate.sensitivity]).numpy()
        classes = quality_classes(values, view.nominal, view.sun_zenith_deg)
        quality = np.where(usable | (alive & (classes == Quality.SATURATED)), classes, 0)
        named = zip(
            ("methane", "methane_std", "methane_sensitivity", "quality"), (*found, quality), strict=True
        )
        return {name: part.reshape(tile.valid.shape) for name, part in named}

    settings = {
        "method": options.method if options.preset == "default" else "paper",
        "air_mass_factor": view.optics.air_mass_factor,
        "sun_zenith_deg": view.sun_zenith_deg,
        "view_zenith_deg": view.view_zenith_deg,
        "absorption": str(options.absorption or MethaneAbsorption.load().source),
        "absorption_scale": options.absorption_scale,
        "max_ppm_m": method.settings.max_ppm_m if isinstance(method, MethaneP3VAE) else options.largest_ppm_m,
        "smile": view.optics.detector_columns is not None,
    }

    def after(summary: RunSummary) -> Findings:
        dead, reported = np.flatnonzero(view.dead), list[str]()
        if view.view_zenith_deg is None:
            reported.append("the view zenith is unknown and taken as 0 (--view-zenith DEG)")
        if len(dead):
            reported.append(f"{len(dead)} dead detector columns left out: {', '.join(map(str, dead))}")
        found = write_plumes(summary, scene, options.plumes)
        return replace(found, lines=[*reported, *found.lines])

    digest = None if options.model is None else sha256(options.model)
    return Plan(maps, _SPECS, digest, settings, after=after)


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


def _absorption(options: MethaneOptions) -> MethaneAbsorption:
    if options.absorption is None:
        return MethaneAbsorption.load().scaled(options.absorption_scale)
    path = options.absorption
    try:
        rows = read_columns(path, ("wavelength_nm", "absorption"))
        wavelength, absorption = rows[np.lexsort(rows.T[::-1])].T
        table = MethaneAbsorption.from_table(wavelength, absorption, source=path.name)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot be read as an absorption table: {error}",
            path=path,
            remedy="columns wavelength_nm [nm] and absorption [ppm-1 m-1], one way",
        ) from error
    return table.scaled(options.absorption_scale)


def _fit(
    scene: Scene,
    view: MethaneScene,
    drawn: DrawnPixels,
    options: MethaneOptions,
    progress: Callable[[int, int], None],
) -> Inverter:
    if options.model is not None:
        with model_errors(options.model):
            file = read_model_file(options.model, kind=KIND)
        try:
            return MethaneP3VAE.from_file(file, view.optics)
        except KeyError as error:
            raise ModelFileError(
                f"has no {error}: it comes from another version of p3vae",
                path=options.model,
                remedy="learn it again with --save-model",
            ) from error
        except ValueError as error:
            raise BandMismatchError(str(error), path=options.model) from error
    spectra = drawn.spectra[:, view.bands]
    lit = (spectra > 0).all(axis=1) & ~view.dead[drawn.col]
    radiance, column = torch.from_numpy(spectra[lit]), view.groups(drawn.col[lit])
    needed = pixels_needed(view.optics)
    if len(radiance) < needed:
        raise _too_few(scene, needed, len(radiance))
    if options.plume_mask is None:
        free = background_mask(radiance, view.optics, column)
    else:
        grid = scene.grid
        inside = read_mask(options.plume_mask, grid).kept(Window(0, 0, grid.height, grid.width))
        free = torch.from_numpy(~inside[drawn.row[lit], drawn.col[lit]])
    if int(free.sum()) < needed:
        raise _too_few(scene, needed, int(free.sum()))
    return _learned(radiance, free, column, view, options, progress)


def _too_few(scene: Scene, needed: int, found: int) -> SceneError:
    return SceneError(
        f"{needed} plume-free pixels are needed to learn the background, {found} were found",
        path=scene.path,
        remedy="use a larger scene or a smaller --plume-mask",
    )


def _learned(
    radiance: torch.Tensor,
    free: torch.Tensor,
    column: torch.Tensor | None,
    view: MethaneScene,
    options: MethaneOptions,
    progress: Callable[[int, int], None],
) -> Inverter:
    optics, background = view.optics, radiance[free]
    free_column = None if column is None else column[free]
    if options.method in ("mf", "mf-log"):
        variant: Literal["classic", "log"] = "classic" if options.method == "mf" else "log"
        return MatchedFilter.fit(background, optics, variant=variant, detector_column=free_column)
    if options.method == "mag1c":
        # Its own rounds take rare plumes out, but a plume that fills a column needs more than that.
        return MatchedFilter.fit(background, optics, variant="mag1c", detector_column=free_column)
    if options.method == "oe":
        return OptimalEstimation.fit(background, optics, prior_mean=0.0, prior_std=options.largest_ppm_m / 4)
    rest = radiance[~free] if int((~free).sum()) >= FEWEST_UNDER_PLUME else None
    if options.preset == "paper":
        under = radiance if rest is None else rest
        paper = PaperSettings(max_ppm_m=options.largest_ppm_m, seed=options.seed)
        return fit_paper(background, under, optics, settings=paper, progress=progress)
    # Below zero the prior leaves room for noise, so that plume-free ground averages to zero, not above it.
    below = max(0.1 * options.largest_ppm_m, ROOM_BELOW_ZERO_PPM_M)
    settings = MethaneSettings(min_ppm_m=-below, max_ppm_m=options.largest_ppm_m, seed=options.seed)
    model = MethaneP3VAE.fit(background, optics, settings=settings, unlabelled=rest, progress=progress)
    if options.save_model is not None:
        with writing(options.save_model):
            write_model_file(options.save_model, model.to_file())
    return model


_SPECS = {
    "methane": MapSpec(
        suffix="methane",
        description="methane enhancement [ppm m]",
        nodata=NODATA,
        unit="ppm m",
        style=Ramp(minimum=0.0, colormap="inferno", suffix=" ppm·m"),
    ),
    "methane_std": MapSpec(
        suffix="methane_std",
        description="standard deviation of the methane enhancement [ppm m]",
        nodata=NODATA,
        unit="ppm m",
        style=Ramp(minimum=0.0, colormap="cividis", suffix=" ppm·m"),
    ),
    "methane_sensitivity": MapSpec(
        suffix="methane_sensitivity",
        description="change of the estimate per change of the truth",
        nodata=NODATA,
        unit="1",
        style=Ramp(minimum=0.0, maximum=1.0, colormap="viridis"),
    ),
    "quality": replace(
        class_map(
            "quality",
            "what the ground is, as far as it matters for methane",
            Categories(tuple(Category(quality.value, quality.label, quality.colour) for quality in Quality)),
        ),
        reports_invalid=True,
    ),
}

MADE = (*(f"{spec.suffix}.tif" for spec in _SPECS.values()), *PLUME_FILES)
"""Ends of the names of all products."""
