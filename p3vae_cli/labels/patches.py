"""Image patches around the samples of a scene, for models that look at a pixel's neighbours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from p3vae.cli.console import note
from p3vae.cli.labels.draw import Samples
from p3vae.cli.scenes.base import Scene
from p3vae.cli.scenes.tiling import Window
from p3vae.models.landcover.patches import (
    MOST_BYTES,
    PATCH_SIZE,
    PatchSet,
    full_patch,
    patches_affordable,
    plan_patches,
)
from p3vae.physics.spectral_response import BandAdapter


def with_patches(
    scene: Scene, samples: Samples, adapter: BandAdapter, *, unlabelled: int, scenes: int, seed: int
) -> Samples:
    """Samples with the patches they lie in, at the adapter's bands, and about `unlabelled` pixels in others.

    Labelled samples outside the patches that memory allows, shared between `scenes`, are left out with a
    note.
    """
    pixels, grid = samples.pixels, scene.grid
    plan = plan_patches(
        (grid.height, grid.width),
        pixels.row,
        pixels.col,
        pixels.class_id,
        unlabelled=-(-unlabelled // PATCH_SIZE**2),
        most=max(1, patches_affordable(len(adapter.target)) // scenes),
        rng=np.random.default_rng(seed),
    )
    left_out = int((~plan.kept).sum())
    if left_out:
        note(
            f"{scene.path}: {left_out} of {len(plan.kept)} labelled pixels are left out, because the patches "
            f"they lie in would take more than {MOST_BYTES >> 20} MB"
        )
    empty = np.empty((0, PATCH_SIZE, PATCH_SIZE, len(adapter.target)), np.float32)
    read = [_read(scene, adapter, int(row), int(col)) for row, col in plan.corners]
    return replace(
        samples,
        spectra=samples.spectra[plan.kept],
        pixels=pixels.subset(np.flatnonzero(plan.kept), "all lie in patches that were left out"),
        patches=PatchSet(np.stack(read) if read else empty, plan.place).without_nodata(),
    )


def _read(scene: Scene, adapter: BandAdapter, row: int, col: int) -> npt.NDArray[np.float32]:
    rows, cols = min(PATCH_SIZE, scene.grid.height - row), min(PATCH_SIZE, scene.grid.width - col)
    tile = scene.read(Window(row, col, rows, cols))
    values = np.where(tile.valid[..., None], adapter(tile.values), np.float32(np.nan))
    return full_patch(values)
