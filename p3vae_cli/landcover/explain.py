"""`p3vae explain`: why a pixel has its class."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from p3vae.cli.colours import hex_colour
from p3vae.cli.errors import SceneError, UsageError
from p3vae.cli.landcover.scene_model import SceneModel
from p3vae.cli.landcover.settings import ExplainSettings
from p3vae.cli.landcover.terrain import SceneTerrain, require_takes_terrain
from p3vae.cli.rasters.areas import to_map
from p3vae.cli.rasters.grids import in_crs_of
from p3vae.cli.run.model_files import load_land_cover, model_name
from p3vae.cli.scenes.base import Grid, Scene
from p3vae.cli.scenes.pixel_coordinates import PixelCoordinates
from p3vae.cli.scenes.tiling import Window

Values = npt.NDArray[np.float64]

RELATIVE_NOISE = 0.02
"""Standard deviation of a spectrum about its fit, relative to its root mean square: how far the codes of a
class may leave their prior to fit it better."""
BRIGHTEST = 1.5
"""Direct and sky light that a fit may use, at most: 1 faces the sun, or sees the whole sky [1]."""
_WORST_BANDS = 8


@dataclass(frozen=True)
class Place:
    """A pixel."""

    row: int
    col: int


@dataclass(frozen=True, eq=False)
class ClassFit:
    """What the decoder makes of a spectrum if it is of one class."""

    name: str
    colour: str
    probability: float
    spectrum: Values | None
    """Fitted, (bands,); None from a model without a decoder."""
    codes: Values | None
    """Direct and sky light, if the model estimates light, then the variability of the class [std]."""

    def rms(self, observed: Values) -> float | None:
        """Root mean square of the residual [1]."""
        return None if self.spectrum is None else float(np.sqrt(np.mean((observed - self.spectrum) ** 2)))


@dataclass(frozen=True, eq=False)
class Explanation:
    """A pixel, its spectrum, and its likeliest classes."""

    scene: Path
    place: Place
    x: float | None
    y: float | None
    wavelength_nm: Values
    observed: Values
    fits: tuple[ClassFit, ...]
    """All classes, the likeliest first."""
    irradiance: float | None
    irradiance_std: float | None
    misfit: float | None
    """Unknown above 1."""
    known_light: float | None
    """Probability that the pixel is lit as the labels of the model are."""
    averaged: bool
    """Whether the probabilities are means over the neighbours."""

    @property
    def against(self) -> tuple[float, float] | None:
        """Wavelengths [nm] between which the second class fits worst, compared with the first."""
        first, second = self.fits[0].spectrum, self.fits[1].spectrum
        if first is None or second is None:
            return None
        worse = (self.observed - second) ** 2 - (self.observed - first) ** 2
        width = min(_WORST_BANDS, len(worse))
        start = int(np.argmax(np.convolve(worse, np.ones(width), "valid")))
        return float(self.wavelength_nm[start]), float(self.wavelength_nm[start + width - 1])


def explain_pixel(scene: Scene, settings: ExplainSettings) -> Explanation:
    """The explanation of the pixel that was asked for, by map coordinates or by column and row."""
    place = find_place(scene.grid, settings.at, settings.crs, settings.pixel)
    model, name = load_land_cover(settings.model), model_name(settings.model)
    require_takes_terrain(model, settings.terrain, name)
    terrain = SceneTerrain.of(scene, settings.terrain)
    brought = SceneModel.of(
        scene, model, settings.irradiance, name, scene_gain=settings.scene_gain, terrain=terrain
    )
    if terrain is not None:
        terrain.learn(scene, brought, audit=False)
    return explain(scene, brought, place)


def find_place(
    grid: Grid, at: tuple[float, float] | None, crs: str | None, pixel: tuple[int, int] | None
) -> Place:
    """The pixel that was asked for, by map coordinates or by column and row."""
    if (at is None) == (pixel is None):
        raise UsageError("where is not clear", remedy="give --at X,Y or --pixel COL,ROW")
    if pixel is not None:
        col, row = pixel
    else:
        assert at is not None
        place = PixelCoordinates(grid)(in_crs_of(grid, np.array([at]), crs))[0]
        if not np.isfinite(place).all():
            raise UsageError(f"--at {at[0]:g},{at[1]:g} has no place in the scene's CRS")
        col, row = (int(part) for part in np.floor(place))
    if not (0 <= col < grid.width and 0 <= row < grid.height):
        where = f"--at {at[0]:g},{at[1]:g}" if at else f"--pixel {col},{row}"
        raise UsageError(
            f"{where} lies outside the scene of {grid.width} x {grid.height} pixels",
            remedy="check the order and the CRS",
        )
    return Place(row, col)


def explain(scene: Scene, brought: SceneModel, place: Place) -> Explanation:
    """The class of a pixel, its light, and what the two likeliest classes make of its spectrum."""
    pixel = Window(place.row, place.col, 1, 1)
    tile = scene.read(pixel.grown(brought.model.halo, scene.grid.height, scene.grid.width))
    inside = pixel.seen_from(tile.window).slices
    if not tile.valid[inside].all():
        raise SceneError(f"pixel {place.col},{place.row} is nodata", path=scene.path, remedy="choose another")
    here = np.zeros_like(tile.valid)
    here[inside] = True
    number = int(np.flatnonzero(here[tile.valid])[0])
    found = brought.predict_tile(tile)
    if found.class_id[number] == 0:
        raise SceneError(f"pixel {place.col},{place.row} is black", path=scene.path, remedy="choose another")
    spectrum = tile.values[inside].reshape(1, -1).astype(np.float32)
    observed = np.asarray(brought.adapter(spectrum)[0], np.float64)
    assert found.probabilities is not None
    georeferenced = scene.grid.transform is not None or scene.grid.gcps
    centre = np.array([[place.col + 0.5, place.row + 0.5]])
    x, y = to_map(scene.grid, centre)[0].tolist() if georeferenced else (None, None)
    return Explanation(
        scene=scene.path,
        place=place,
        x=x,
        y=y,
        wavelength_nm=brought.model.bands.wavelength_nm,
        observed=observed,
        fits=_fits(brought, observed, found.probabilities[number]),
        irradiance=_only(found.irradiance, number),
        irradiance_std=_only(found.irradiance_std, number),
        misfit=_only(found.misfit, number),
        known_light=_only(found.known_light, number),
        averaged=brought.model.averages_neighbours,
    )


def _fits(brought: SceneModel, observed: Values, probability: npt.NDArray[Any]) -> tuple[ClassFit, ...]:
    """All classes, the likeliest first; those of vanishing probability by how well they fit."""
    legend = brought.model.legend
    codes = brought.model.codes(observed[None].astype(np.float32), brought.irradiance)
    fits, costs = [], []
    for index, name in enumerate(legend.names):
        found = None if codes is None else _fit(brought, index, observed, codes[0].astype(np.float64))
        spectrum, fitted, cost = found or (None, None, 0.0)
        colour = hex_colour(legend.colours[index])
        fits.append(ClassFit(name, colour, float(probability[index]), spectrum, fitted))
        costs.append(cost)
    order = sorted(range(len(fits)), key=lambda k: (-round(fits[k].probability, 6), costs[k]))
    return tuple(fits[k] for k in order)


def _fit(
    brought: SceneModel, index: int, observed: Values, start: Values
) -> tuple[Values, Values, float] | None:
    """The spectrum of a class nearest to the observed one, its codes, and the sum of squares.

    Least squares over the codes of the decoder: light within its bounds, a standard normal prior of the
    others, residuals measured against `RELATIVE_NOISE`. None without a decoder.
    """
    model, noise = brought.model, RELATIVE_NOISE * np.sqrt(np.mean(observed**2))
    lights = 2 if model.estimator.gives_irradiance else 0

    def spectrum(codes: Values) -> Values | None:
        made = model.generate(index, codes[None].astype(np.float32), brought.irradiance)
        return None if made is None else made[0].astype(np.float64)

    def residual(codes: Values) -> Values:
        made = spectrum(codes)
        assert made is not None
        return np.concatenate([(made - observed) / noise, codes[lights:]])

    if spectrum(start) is None:
        return None
    is_light = np.arange(len(start)) < lights
    low, high = np.where(is_light, 0.0, -np.inf), np.where(is_light, BRIGHTEST, np.inf)
    inside = np.where(is_light, np.clip(start, 1e-3, BRIGHTEST - 1e-3), start)
    found = least_squares(residual, inside, bounds=(low, high), diff_step=1e-3)
    best = spectrum(found.x)
    assert best is not None
    return best, found.x, float(found.cost)


def _only(values: npt.NDArray[Any] | None, number: int) -> float | None:
    return None if values is None else float(values[number])
