"""Learning a methane method from a scene: the background, and the prior of plumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import torch

from p3vae.cli.base.errors import BandMismatchError, ModelFileError, SceneError, UsageError
from p3vae.cli.base.tables import read_columns
from p3vae.cli.base.tiling import Window
from p3vae.cli.products.plumes import PlumeOptions
from p3vae.cli.samples import DrawnPixels
from p3vae.cli.scenes.base import Scene
from p3vae.cli.scenes.masking import read_mask
from p3vae.cli.workflows.methane_scene import MethaneScene
from p3vae.cli.workflows.model_files import model_errors
from p3vae.models.checkpoint import read_model_file
from p3vae.models.methane.matched_filter import MatchedFilter
from p3vae.models.methane.model import KIND, MethaneP3VAE, pixels_needed
from p3vae.models.methane.optimal_estimation import OptimalEstimation
from p3vae.models.methane.plume_prior import PlumePrior
from p3vae.models.methane.published import PaperSettings, fit_paper
from p3vae.models.methane.screening import background_mask
from p3vae.models.methane.types import MethaneEstimate, MethaneSettings
from p3vae.physics.methane import MethaneAbsorption

MethaneMethod = Literal["p3vae", "oe", "mf", "mf-log", "mag1c"]

USUAL_MAX_PPM_M = 50_000.0
ROOM_BELOW_ZERO_PPM_M = 5000.0
"""Several standard deviations of a usual pixel [ppm m]."""
LARGEST_ABSORPTION = 1.0
"""One part per million in a metre of air would take e-fold [ppm-1 m-1]: methane has 1e-5."""
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
    quality_mask: bool = True
    """Whether pixels that are not clear (cloud, water, flare) are left out of the maps."""
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


def absorption_table(options: MethaneOptions) -> MethaneAbsorption:
    """The gas: the table of the package, or the user's."""
    table = _absorption_table(options).scaled(options.absorption_scale)
    if table.absorption.max() > LARGEST_ABSORPTION:
        raise UsageError(
            f"no gas absorbs {table.absorption.max():.3g} ppm-1 m-1",
            path=options.absorption,
            remedy="check the unit of --absorption, and --absorption-scale",
        )
    return table


def _absorption_table(options: MethaneOptions) -> MethaneAbsorption:
    if options.absorption is None:
        return MethaneAbsorption.load()
    path = options.absorption
    try:
        rows = read_columns(path, ("wavelength_nm", "absorption"))
        wavelength, absorption = rows[np.lexsort(rows.T[::-1])].T
        return MethaneAbsorption.from_table(wavelength, absorption, source=path.name)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot be read as an absorption table: {error}",
            path=path,
            remedy="columns wavelength_nm [nm] and absorption [ppm-1 m-1], one way",
        ) from error


@dataclass(frozen=True, eq=False)
class Fitted:
    """A method that has learned from a scene."""

    method: Inverter
    prior: PlumePrior | None
    """None: estimates stand as they are."""


def fit_method(
    scene: Scene,
    view: MethaneScene,
    drawn: DrawnPixels,
    options: MethaneOptions,
    progress: Callable[[int, int], None],
) -> Fitted:
    """Learn from drawn pixels; the p3VAE also learns what the scene says about plumes."""
    with _one_thread():
        method = _saved(options.model, view) if options.model else _fit(scene, view, drawn, options, progress)
        if not isinstance(method, MethaneP3VAE):
            return Fitted(method, None)
        used = np.flatnonzero(view.usable(drawn.spectra[:, view.bands], drawn.col))
        clear, row, col = view.clear[used], drawn.row[used], drawn.col[used]
        if not clear.any():
            raise _too_few(scene, view, 1, 0)
        found = method.invert(torch.from_numpy(drawn.spectra[used][:, view.bands]), view.groups(col))
        return Fitted(method, PlumePrior.learn(found.ppm_m.numpy(), found.std.numpy(), clear, row, col))


def _saved(path: Path, view: MethaneScene) -> MethaneP3VAE:
    with model_errors(path):
        file = read_model_file(path, kind=KIND)
    try:
        return MethaneP3VAE.from_file(file, view.optics)
    except KeyError as error:
        raise ModelFileError(
            f"has no {error}: it comes from another version of p3vae",
            path=path,
            remedy="learn it again with --save-model",
        ) from error
    except ValueError as error:
        raise BandMismatchError(str(error), path=path) from error


def _fit(
    scene: Scene,
    view: MethaneScene,
    drawn: DrawnPixels,
    options: MethaneOptions,
    progress: Callable[[int, int], None],
) -> Inverter:
    spectra = drawn.spectra[:, view.bands]
    lit = view.clear & (spectra > 0).all(axis=1) & ~view.dead[drawn.col]
    radiance, column = torch.from_numpy(spectra[lit]), view.groups(drawn.col[lit])
    needed = pixels_needed(view.optics)
    if len(radiance) < needed:
        raise _too_few(scene, view, needed, len(radiance))
    if options.plume_mask is None:
        free = background_mask(radiance, view.optics, column)
    else:
        grid = scene.grid
        inside = read_mask(options.plume_mask, grid, scene.ortho).kept(Window(0, 0, grid.height, grid.width))
        free = torch.from_numpy(~inside[drawn.row[lit], drawn.col[lit]])
    if int(free.sum()) < needed:
        raise _too_few(scene, view, needed, int(free.sum()))
    return _learned(radiance, free, column, view, options, progress)


def _too_few(scene: Scene, view: MethaneScene, needed: int, found: int) -> SceneError:
    return SceneError(
        f"{needed} clear, plume-free pixels are needed to learn the background, {found} were found "
        f"({view.ground})",
        path=scene.path,
        remedy="use a larger or clearer scene, or a smaller --plume-mask",
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
        # as published, from all pixels: its rounds take plumes out by themselves
        return MatchedFilter.fit(radiance, optics, variant="mag1c", detector_column=column)
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
    return MethaneP3VAE.fit(background, optics, settings=settings, unlabelled=rest, progress=progress)
