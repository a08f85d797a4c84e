"""Learning a methane method from a scene: the background, and the prior of plumes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from p3vae.cli.errors import BandMismatchError, ModelFileError, SceneError, UsageError
from p3vae.cli.labels import DrawnPixels
from p3vae.cli.methane.scene import MethaneScene
from p3vae.cli.methane.settings import RetrievalSettings
from p3vae.cli.run.memory import return_memory
from p3vae.cli.run.model_files import model_errors
from p3vae.cli.scenes.base import Scene
from p3vae.cli.scenes.masking import read_mask
from p3vae.cli.scenes.tiling import Window
from p3vae.cli.tables import read_columns
from p3vae.models.checkpoint import read_model_file
from p3vae.models.methane.background.screening import background_mask
from p3vae.models.methane.baselines.matched_filter import MatchedFilter
from p3vae.models.methane.baselines.optimal_estimation import OptimalEstimation
from p3vae.models.methane.devices import Inverter, OnDevice
from p3vae.models.methane.model import KIND, MethaneP3VAE, pixels_needed
from p3vae.models.methane.plumes.prior import IntArray, PlumePrior
from p3vae.models.methane.plumes.vetting import SpectrumTest
from p3vae.models.methane.registry import preset_fit
from p3vae.models.methane.types import MethaneSettings
from p3vae.models.nn.threads import one_thread
from p3vae.physics.methane import MethaneAbsorption

ROOM_BELOW_ZERO_PPM_M = 5000.0
"""Several standard deviations of a usual pixel [ppm m]."""
MOST_OF_TEST = 12_000
"""Plume-free pixels from which the test of plumes' spectra is learned."""
LARGEST_ABSORPTION = 1.0
"""One part per million in a metre of air would take e-fold [ppm-1 m-1]: methane has 1e-5."""
FEWEST_UNDER_PLUME = 200
"""With fewer candidate plume pixels than this, the background is learned from plume-free ones alone."""


def absorption_table(options: RetrievalSettings) -> MethaneAbsorption:
    """The gas: the table of the package, or the user's."""
    table = _absorption_table(options).scaled(options.absorption_scale)
    if table.absorption.max() > LARGEST_ABSORPTION:
        raise UsageError(
            f"no gas absorbs {table.absorption.max():.3g} ppm-1 m-1", remedy="check --absorption-scale"
        )
    return table


def _absorption_table(options: RetrievalSettings) -> MethaneAbsorption:
    if options.absorption is None:
        return MethaneAbsorption.load()
    path = options.absorption
    try:
        rows = read_columns(path, ("wavelength_nm", "absorption"))
        wavelength, absorption = rows[np.lexsort(rows.T[::-1])].T
        if absorption.max() > LARGEST_ABSORPTION:
            raise ValueError(f"no gas absorbs {absorption.max():.3g} ppm-1 m-1")
        return MethaneAbsorption.from_user(wavelength, absorption, source=path.name)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot be read as an absorption table: {error}",
            path=path,
            remedy="--absorption takes columns wavelength_nm [nm] and absorption [ppm-1 m-1], one way",
        ) from error


@dataclass(frozen=True, eq=False)
class Fitted:
    """A method that has learned from a scene."""

    method: Inverter
    inverter: OnDevice
    """The method on the device that was chosen."""
    prior: PlumePrior | None
    """None: estimates stand as they are."""
    spectra: SpectrumTest | None
    """None: too few pixels to learn it from."""


def fit_method(
    scene: Scene,
    seen: MethaneScene,
    drawn: DrawnPixels,
    options: RetrievalSettings,
    device: str,
    progress: Callable[[int, int], None],
) -> Fitted:
    """Learn from drawn pixels, on the CPU; the p3VAE also learns what the scene says about plumes."""
    with one_thread():
        ground = _Ground.of(scene, seen, drawn, options.plume_mask)
        return_memory()
        if options.model is not None:
            method: Inverter = _saved(options.model, seen)
        else:
            ground.require(pixels_needed(seen.optics), scene, seen)
            method = _learned(ground, seen, options, progress)
        inverter = OnDevice.move(method, device)
        prior = _prior(inverter, scene, seen, drawn) if isinstance(method, MethaneP3VAE) else None
        return Fitted(method, inverter, prior, ground.spectra(seen))


@dataclass(frozen=True, eq=False)
class _Ground:
    """Clear pixels with signal in every band, (pixels,) of those drawn."""

    radiance: torch.Tensor
    column: torch.Tensor | None
    free: torch.Tensor
    """Those without plume, a mask."""
    row: IntArray
    col: IntArray

    @classmethod
    def of(cls, scene: Scene, seen: MethaneScene, drawn: DrawnPixels, plume_mask: Path | None) -> _Ground:
        """Plumes are where the mask says, or where a robust filter finds them."""
        used = seen.clear & (drawn.spectra[:, seen.bands] > 0).all(axis=1) & ~seen.dead[drawn.col]
        radiance = torch.from_numpy(drawn.spectra[np.ix_(used, seen.bands)])
        row, col = drawn.row[used], drawn.col[used]
        column = seen.groups(col)
        if plume_mask is not None:
            grid = scene.grid
            inside = read_mask(plume_mask, grid, scene.ortho).kept(Window(0, 0, grid.height, grid.width))
            free = torch.from_numpy(~inside[row, col])
        elif len(radiance) < pixels_needed(seen.optics):
            free = torch.ones(len(radiance), dtype=torch.bool)
        else:
            free = background_mask(radiance, seen.optics, column)
        return cls(radiance, column, free, row, col)

    def require(self, needed: int, scene: Scene, seen: MethaneScene) -> None:
        """Refuse a scene with too little ground to learn from."""
        if int(self.free.sum()) < needed:
            raise _too_few(scene, seen, needed, int(self.free.sum()))

    def spectra(self, seen: MethaneScene) -> SpectrumTest | None:
        """What plume-free spectra look like, from some of them."""
        free = np.flatnonzero(self.free.numpy())
        if len(free) < pixels_needed(seen.optics):
            return None
        some = free[:: -(-len(free) // MOST_OF_TEST)]
        return SpectrumTest.learn(self.radiance[some], seen.optics, self.row[some], self.col[some])


def _prior(inverter: OnDevice, scene: Scene, seen: MethaneScene, drawn: DrawnPixels) -> PlumePrior:
    used = np.flatnonzero(seen.usable(drawn.spectra[:, seen.bands], drawn.col))
    clear, row, col = seen.clear[used], drawn.row[used], drawn.col[used]
    if not clear.any():
        raise _too_few(scene, seen, 1, 0)
    found = inverter.invert(torch.from_numpy(drawn.spectra[np.ix_(used, seen.bands)]), seen.groups(col))
    return PlumePrior.learn(found.ppm_m.numpy(), found.std.numpy(), clear, row, col)


def _saved(path: Path, seen: MethaneScene) -> MethaneP3VAE:
    with model_errors(path):
        file = read_model_file(path, kind=KIND)
    try:
        return MethaneP3VAE.from_file(file, seen.optics)
    except KeyError as error:
        raise ModelFileError(
            f"has no {error}: it comes from another version of p3vae",
            path=path,
            remedy="learn it again with --save-model",
        ) from error
    except ValueError as error:
        raise BandMismatchError(str(error), path=path) from error


def _too_few(scene: Scene, seen: MethaneScene, needed: int, found: int) -> SceneError:
    return SceneError(
        f"{needed} clear, plume-free pixels are needed to learn the background, {found} were found "
        f"({seen.ground})",
        path=scene.path,
        remedy="use a larger or clearer scene, or a smaller --plume-mask",
    )


def _learned(
    ground: _Ground, seen: MethaneScene, options: RetrievalSettings, progress: Callable[[int, int], None]
) -> Inverter:
    optics, free, radiance, column = seen.optics, ground.free, ground.radiance, ground.column
    background = radiance[free]
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
    if options.preset != "default":
        under = radiance if rest is None else rest
        most, seed = options.largest_ppm_m, options.seed
        return preset_fit(options.preset)(
            background, under, optics, max_ppm_m=most, seed=seed, progress=progress
        )
    # Below zero the prior leaves room for noise, so that plume-free ground averages to zero, not above it.
    below = max(0.1 * options.largest_ppm_m, ROOM_BELOW_ZERO_PPM_M)
    settings = MethaneSettings(min_ppm_m=-below, max_ppm_m=options.largest_ppm_m, seed=options.seed)
    return MethaneP3VAE.fit(background, optics, settings=settings, unlabelled=rest, progress=progress)
