"""What the spectra of a scene's plumes look like: their pixels are read again, once they are clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from p3vae.cli.labels import read_pixels
from p3vae.cli.methane.scene import MethaneScene
from p3vae.cli.scenes.base import Scene
from p3vae.cli.scenes.tiling import Window
from p3vae.models.methane.plumes.vetting import LogRatio, SpectrumTest

MOST_PIXELS = 300
"""Of a plume, the strongest, whose spectra are looked at."""
FEWEST_PIXELS = 4


@dataclass(frozen=True, eq=False)
class Vetting:
    """The test of a scene's spectra, and the scene to read them from."""

    scene: Scene
    seen: MethaneScene
    test: SpectrumTest

    def __call__(
        self, cluster: npt.NDArray[np.bool_], ppm_m: npt.NDArray[np.floating[Any]], area: Window
    ) -> LogRatio | None:
        """What the spectrum of a cluster in a part of the scene says; None if it cannot be read."""
        row, col = np.nonzero(cluster)
        strongest = np.argsort(-ppm_m[row, col], kind="stable")[:MOST_PIXELS]
        row, col = row[strongest], col[strongest]
        values = ppm_m[row, col]
        row, col = row + area.row, col + area.col
        spectra, valid = read_pixels(self.scene, row, col)
        spectra = spectra[:, self.seen.bands]
        known = valid & (spectra > 0).all(axis=1) & ~self.seen.dead[col]
        if known.sum() < FEWEST_PIXELS:
            return None
        return self.test.log_ratio(torch.from_numpy(spectra[known]), torch.from_numpy(values[known]))
