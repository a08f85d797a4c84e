"""What the spectra of a scene's plumes look like: their pixels are read again, once the plumes are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from p3vae.cli.products.areas import same_pixels
from p3vae.cli.samples import read_pixels
from p3vae.cli.scenes.base import Grid, Scene
from p3vae.cli.workflows.methane_scene import MethaneScene
from p3vae.models.methane.plume_mass import Plume
from p3vae.models.methane.vetting import SpectrumTest

MOST_PIXELS = 300
"""Of a plume, the strongest, whose spectra are looked at."""
FEWEST_PIXELS = 4


@dataclass(frozen=True, eq=False)
class Vetting:
    """The test of a scene's spectra, and the scene to read them from."""

    scene: Scene
    view: MethaneScene
    test: SpectrumTest

    def __call__(
        self,
        plumes: Sequence[Plume],
        labels: npt.NDArray[np.int32],
        ppm_m: npt.NDArray[np.floating[Any]],
        grid: Grid,
    ) -> list[Plume]:
        """The plumes of a map on `grid` with their log-likelihood ratios."""
        return [
            replace(each, methane_log_ratio=self._of(labels == each.label, ppm_m, grid)) for each in plumes
        ]

    def _of(
        self, inside: npt.NDArray[np.bool_], ppm_m: npt.NDArray[np.floating[Any]], grid: Grid
    ) -> float | None:
        row, col = np.nonzero(inside)
        strongest = np.argsort(-ppm_m[row, col], kind="stable")[:MOST_PIXELS]
        row, col = row[strongest], col[strongest]
        values = ppm_m[row, col]
        row, col = same_pixels(row, col, grid, self.scene.grid)
        there = (row >= 0) & (row < self.scene.grid.height) & (col >= 0) & (col < self.scene.grid.width)
        row, col, values = row[there], col[there], values[there]
        spectra, valid = read_pixels(self.scene, row, col)
        spectra = spectra[:, self.view.bands]
        known = valid & (spectra > 0).all(axis=1) & ~self.view.dead[col]
        if known.sum() < FEWEST_PIXELS:
            return None
        return self.test.log_ratio(torch.from_numpy(spectra[known]), torch.from_numpy(values[known]))
