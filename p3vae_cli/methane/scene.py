"""A scene as the methane methods see it: its working bands and columns, and a plume's optics in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from p3vae.cli.errors import BandMismatchError, SceneError
from p3vae.cli.labels import DrawnPixels
from p3vae.cli.run.fitness import sun_zenith
from p3vae.cli.scenes.base import Scene
from p3vae.models.methane.types import PlumeOptics
from p3vae.physics.detector import LIT, dead_columns
from p3vae.physics.methane import MethaneAbsorption, air_mass_factor
from p3vae.physics.quality import Quality, quality_classes
from p3vae.physics.spectral_response import WATER_VAPOUR_NM, outside

LARGEST_ZENITH_DEG = 85.0
SHORT_WAVE_NM = 1000.0
MOST_DARK = 0.01
"""Share of clear pixels without signal above which a band is left out."""
SMILE_COLUMN_GROUPS = 32
"""Neighbouring detector columns whose band centres are averaged: a smile is smooth."""


@dataclass(frozen=True, eq=False)
class MethaneScene:
    """A scene's bands and geometry as the methods see them."""

    optics: PlumeOptics
    bands: npt.NDArray[np.intp]
    """Bands of the scene in use."""
    nominal: npt.NDArray[np.float64]
    """Their centres [nm]."""
    sun_zenith_deg: float
    view_zenith_deg: float | None
    """None: unknown, taken as straight down."""
    dead: npt.NDArray[np.bool_]
    """Detector columns (columns,) without a working element in every band."""
    clear: npt.NDArray[np.bool_]
    """Of the drawn pixels (pixels,), those that are neither cloud, water, flare nor saturated."""
    ground: str
    """Shares of clear ground, cloud and so on, for messages."""

    @classmethod
    def from_scene(
        cls, scene: Scene, drawn: DrawnPixels, absorption: MethaneAbsorption, largest_ppm_m: float
    ) -> MethaneScene:
        """Bands that have signal, and the optics of a plume in them up to an enhancement [ppm m]."""
        zenith, view_zenith = _sun_zenith(scene), _view_zenith(scene)
        seen = scene.bands.good & outside(scene.bands.wavelength_nm, WATER_VAPOUR_NM)
        quality = quality_classes(drawn.spectra[:, seen], scene.bands.wavelength_nm[seen], zenith)
        short_wave = seen & (scene.bands.wavelength_nm > SHORT_WAVE_NM)
        if short_wave.any() and not (drawn.spectra[:, short_wave] > 0).any():
            raise SceneError(
                f"no signal beyond {SHORT_WAVE_NM:g} nm",
                path=scene.path,
                remedy="look at the short-wave infrared bands: is that detector's image in the file?",
            )
        clear = quality == Quality.CLEAR
        if not clear.any():
            raise SceneError(
                f"no clear ground to learn from: {_shares(quality)}",
                path=scene.path,
                remedy="methane is seen over ground that is lit in the short-wave infrared",
            )
        dead, stuck = dead_columns(drawn.spectra, drawn.col, seen, clear, scene.grid.width)
        seen &= ~stuck
        lit = clear & ~dead[drawn.col]
        dark = np.array([(band[lit] <= 0).mean() if lit.any() else 1.0 for band in drawn.spectra.T])
        bands = np.flatnonzero(seen & (dark < MOST_DARK))
        if len(bands) == 0:
            raise SceneError(
                "no band has signal that changes from pixel to pixel",
                path=scene.path,
                remedy="look at the image, and check --bad-bands",
            )
        chosen = scene.bands.select(bands)
        centres = None
        if scene.column_wavelength_nm is not None:
            groups = min(SMILE_COLUMN_GROUPS, scene.grid.width)
            parts = np.array_split(scene.column_wavelength_nm[:, bands], groups)
            centres = np.stack([part.mean(axis=0) for part in parts])
        try:
            curves = absorption.band_transmittance(chosen, centres_nm=centres)
        except ValueError as error:
            raise BandMismatchError(str(error), path=scene.path) from error
        factor = air_mass_factor(zenith, view_zenith or 0.0)
        optics = PlumeOptics(curves, factor, torch.from_numpy(chosen.wavelength_nm.copy()), largest_ppm_m)
        if not optics.absorbing.any():
            raise BandMismatchError(
                "no band sees methane: bands from 1600 to 2450 nm are needed", path=scene.path
            )
        return cls(optics, bands, chosen.wavelength_nm, zenith, view_zenith, dead, clear, _shares(quality))

    def usable(
        self, spectra: npt.NDArray[np.floating[Any]], column: npt.NDArray[np.integer[Any]]
    ) -> npt.NDArray[np.bool_]:
        """Pixels (pixels,) of working columns with signal in nearly all bands; spectra (pixels, bands)."""
        return np.asarray(~self.dead[column] & ((spectra > 0).mean(axis=1) > LIT))

    def groups(self, column: npt.NDArray[np.integer[Any]]) -> torch.Tensor | None:
        """Group of neighbouring detector columns of each image column; None without a smile."""
        count = self.optics.detector_columns
        if count is None:
            return None
        edges = np.cumsum([len(part) for part in np.array_split(self.dead, count)])
        return torch.from_numpy(np.searchsorted(edges, column, side="right"))


def _shares(quality: npt.NDArray[np.uint8]) -> str:
    """Shares of the classes, largest first."""
    counts = {each.label: int((quality == each).sum()) for each in Quality}
    ranked = sorted((name for name in counts if counts[name]), key=lambda name: -counts[name])
    return ", ".join(f"{100 * counts[name] / len(quality):.0f} % {name}" for name in ranked) or "no pixel"


def _sun_zenith(scene: Scene) -> float:
    zenith = sun_zenith(scene)
    _require_high(scene, zenith, "the sun stands", "--sun-zenith")
    return zenith


def _view_zenith(scene: Scene) -> float | None:
    zenith = scene.acquisition.view_zenith_deg
    if zenith is not None:
        _require_high(scene, zenith, "the sensor stands", "--view-zenith")
    return zenith


def _require_high(scene: Scene, zenith_deg: float, who: str, option: str) -> None:
    if not 0.0 <= zenith_deg < LARGEST_ZENITH_DEG:
        raise SceneError(
            f"{who} at {zenith_deg:.1f} degrees from the zenith",
            path=scene.path,
            remedy=f"methane needs 0 to {LARGEST_ZENITH_DEG:g} degrees; {option} says otherwise",
        )
