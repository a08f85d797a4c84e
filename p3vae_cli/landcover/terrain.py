"""What terrain says of the light of a scene: from elevations, or from a raster of the cosine of incidence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from p3vae.cli.console import note
from p3vae.cli.errors import SceneError, UsageError
from p3vae.cli.labels.scene_pixels import placed_pixels
from p3vae.cli.landcover.terrain_settings import TerrainSettings
from p3vae.cli.rasters.elevations import read_elevations, steps_on_ground
from p3vae.cli.rasters.files import MapSpec, gdal_environment
from p3vae.cli.run.fitness import sun_above_horizon
from p3vae.cli.scenes.base import Scene, reading, same_place
from p3vae.cli.scenes.drivers import ForeignFileError, open_dataset
from p3vae.cli.scenes.tiling import Window
from p3vae.cli.styles.rasters import Ramp
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.irradiance import relight_spectra
from p3vae.physics.terrain import sky_light, terrain_light

if TYPE_CHECKING:
    from p3vae.cli.landcover.scene_model import SceneModel
    from p3vae.models.landcover.terrain_error import TerrainError

Half = npt.NDArray[np.float16]

SKY_ERROR = 0.1
"""Standard deviation of the light of the sky about that by the sky view [1]."""
_SHIFTS = range(-3, 4)
"""Displacements that the audit tries [pixels]."""
_OF_SHIFTS = 4
"""Of so many pixels one is asked."""
_CLEARLY = 12.0
"""By how much the log evidence of another place must be larger."""
LAYERS = {
    "terrain_incidence": MapSpec(
        "terrain_incidence",
        "cosine of incidence by the terrain, zero in cast shadow",
        unit="1",
        style=Ramp(0.0, 1.0, "inferno"),
    ),
    "terrain_sky_view": MapSpec(
        "terrain_sky_view", "sky view factor of the terrain", unit="1", style=Ramp(0.0, 1.0, "gray")
    ),
    "terrain_shadow": MapSpec(
        "terrain_shadow", "1 in the cast shadow of the terrain", unit="1", style=Ramp(0.0, 1.0, "gray")
    ),
}
AUDIT = MapSpec(
    "terrain_disagreement",
    "direct light by the terrain less that by the spectra, in standard deviations of both errors",
    unit="1",
    style=Ramp(-4.0, 4.0, "cividis"),
)


def require_takes_terrain(model: Any, settings: TerrainSettings, name: str) -> None:
    """Refuse terrain for a model, or an estimator, that has no use for it."""
    if settings.given and not getattr(model, "takes_terrain", False):
        raise UsageError(f"the model {name} takes no terrain", remedy="use a p3vae model, or no --dem")


@dataclass(eq=False)
class SceneTerrain:
    """Light of every pixel of a scene by its terrain: two bytes for each of three numbers."""

    incidence: Half
    """Cosine of incidence, zero in cast shadow, NaN where nothing is known, (rows, cols) [1]."""
    sky_view: Half
    shadow: Half
    cos_zenith: float
    path: Path
    found: TerrainError | None = None
    """How far it is right; None until spectra have said it, or where they cannot."""
    shift: tuple[int, int] = (0, 0)
    """Pixels to the east and north by which it fits the spectra better."""

    @classmethod
    def of(cls, scene: Scene, settings: TerrainSettings) -> Self | None:
        """What the settings name; None if they name nothing."""
        if not settings.given:
            return None
        if settings.dem is not None and settings.incidence is not None:
            raise UsageError("--dem and --incidence say the same", remedy="give one of them")
        zenith = sun_above_horizon(scene)
        cos_zenith = float(np.cos(np.radians(zenith)))
        if settings.dem is None:
            assert settings.incidence is not None
            return cls(*_of_incidence(scene, settings.incidence), cos_zenith, settings.incidence)
        made = cls(*_of_elevations(scene, settings.dem, zenith), cos_zenith, settings.dem)
        if not (made.incidence > 0).any():
            raise SceneError("lies in the shadow of the terrain as a whole", path=scene.path)
        return made

    def observed(self, rows: Any, cols: Any) -> npt.NDArray[np.float32]:
        """The observation of each pixel, (pixels, 5): see `ObservedLight`."""
        direct, view = (values[rows, cols].astype(np.float32) for values in (self.incidence, self.sky_view))
        known = np.isfinite(direct) & (self.found is not None)
        seen = np.isfinite(view) & known
        error, spread = (self.found.error, self.found.spread) if self.found else (np.inf, 0.0)
        sky = sky_light(view, direct, self.cos_zenith)
        return np.stack(
            [
                np.where(known, direct, 0),
                np.where(known, 1 / error**2, 0),
                np.where(seen, sky, 0),
                np.where(seen, 1 / SKY_ERROR**2, 0),
                np.full(len(direct), spread),
            ],
            1,
        ).astype(np.float32)

    def of_tile(self, window: Window, valid: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
        """The same of the valid pixels of a window."""
        rows, cols = np.nonzero(valid)
        return self.observed(rows + window.row, cols + window.col)

    def flat(
        self,
        spectra: npt.NDArray[np.float32],
        rows: npt.NDArray[np.integer[Any]],
        cols: npt.NDArray[np.integer[Any]],
        irradiance: SpectralIrradiance,
    ) -> npt.NDArray[np.float32]:
        """Spectra (pixels, bands) as on flat, sunlit ground; NaN below half of its direct light."""
        direct, view = (values[rows, cols].astype(np.float32) for values in (self.incidence, self.sky_view))
        sky = sky_light(np.where(np.isfinite(view), view, 1), direct, self.cos_zenith)
        direct[~(direct >= self.cos_zenith / 2)] = np.nan
        return relight_spectra(spectra, direct, sky, irradiance)

    def layers(self, window: Window) -> dict[str, npt.NDArray[np.float32]]:
        """The maps of `LAYERS` in a window."""
        maps = (self.incidence, self.sky_view, self.shadow)
        return {
            name: values[window.slices].astype(np.float32) for name, values in zip(LAYERS, maps, strict=True)
        }

    def learn(self, scene: Scene, brought: SceneModel, *, audit: bool) -> None:
        """By some pixels of the scene: how far it is right, and whether it would be elsewhere."""
        from p3vae.models.landcover.terrain_error import LARGEST_ERROR, Brightness, evidence_of, fitted_error

        with gdal_environment():
            spectra, (rows, cols) = placed_pixels(scene, brought.adapter)
        light = brought.irradiance
        direct = self.incidence[rows, cols].astype(np.float64)
        sky = sky_light(self.sky_view[rows, cols].astype(np.float64), direct, self.cos_zenith)
        sky = np.where(np.isfinite(sky), sky, 1.0)
        ratios = np.stack([light.direct_ratio, light.diffuse_ratio])
        seen = Brightness.of(spectra, ratios, sky)
        self.found = fitted_error(seen, direct)
        if self.found is None:
            note(f"warning: {scene.path}: too few lit pixels to judge {self.path.name}, which is not used")
        elif self.found.error >= LARGEST_ERROR:
            note(
                f"warning: {scene.path}: its brightness does not follow the slopes of {self.path.name}; "
                "check that it shows the same place, and heights"
            )
        elif audit:
            places = {
                (east, north): self._at(rows, cols, east, north) for east in _SHIFTS for north in _SHIFTS
            }
            lit = np.all([np.isfinite(c) & (c > 0.02) for c in places.values()], axis=0)
            lit &= np.arange(len(lit)) % _OF_SHIFTS == 0
            some, error = seen.subset(lit), self.found.error
            score = {place: evidence_of(some, c[lit], error) for place, c in places.items()}
            best = max(score, key=lambda place: score[place])
            self.shift = best if score[best] > score[0, 0] + _CLEARLY else (0, 0)

    def _at(self, rows: Any, cols: Any, east: int, north: int) -> npt.NDArray[np.float64]:
        """Incidence at pixels, if the terrain were displaced by so many pixels; NaN outside."""
        from_row, from_col = rows + north, cols - east
        height, width = self.incidence.shape
        inside = (from_row >= 0) & (from_row < height) & (from_col >= 0) & (from_col < width)
        found = self.incidence[np.clip(from_row, 0, height - 1), np.clip(from_col, 0, width - 1)]
        return np.where(inside, found.astype(np.float64), np.nan)

    def lines(self, scene: Scene) -> list[str]:
        """What the audit found, in one line."""
        if self.found is None:
            return []
        east, north = self.shift
        if (east, north) == (0, 0):
            return [
                f"{self.path.name} lies where the spectra say; its error of cos i is {self.found.error:.2f}"
            ]
        grid = scene.grid
        size = abs(grid.transform.a) if grid.transform and grid.crs and grid.crs.is_projected else None
        unit = "pixels" if size is None else "m"
        parts = [
            f"{abs(number) * (size or 1):g} {unit} to the {name}"
            for number, name in (
                (east, "east" if east > 0 else "west"),
                (north, "north" if north > 0 else "south"),
            )
            if number
        ]
        return [f"{self.path.name} fits the spectra better {' and '.join(parts)}"]

    @property
    def record(self) -> dict[str, Any]:
        """For the manifest."""
        found = self.found
        return {
            "terrain": {
                "file": self.path.name,
                "error": None if found is None else round(found.error, 4),
                "spread_of_brightness": None if found is None else round(found.spread, 4),
                "fits_better_by_pixels": list(self.shift),
            }
        }


def _of_elevations(scene: Scene, path: Path, zenith: float) -> tuple[Half, Half, Half]:
    grid, azimuth = scene.grid, scene.acquisition.sun_azimuth_deg
    if grid.transform is None or grid.crs is None:
        raise UsageError(
            "--dem needs a scene on a map grid with a CRS", path=scene.path, remedy="--incidence"
        )
    if azimuth is None:
        raise SceneError("the sun's azimuth is unknown", path=scene.path, remedy="give --sun-azimuth DEG")
    heights, margin = read_elevations(path, grid)
    if margin == 0:
        note(f"warning: {path} ends with the scene: ground beyond casts no shadow into it")
    steps = steps_on_ground(grid.crs, grid.transform, grid.width / 2, grid.height / 2)
    found = terrain_light(heights, steps, zenith, azimuth)
    inside = slice(margin, margin + grid.height), slice(margin, margin + grid.width)
    incidence, view, shadow = (values[inside].astype(np.float16) for values in found)
    return incidence, view, shadow


def _of_incidence(scene: Scene, path: Path) -> tuple[Half, Half, Half]:
    """From the band that says it is the cosine of incidence, or the only one."""
    with gdal_environment(), reading(path):
        try:
            source = open_dataset(path)
        except ForeignFileError as error:
            raise UsageError(str(error), path=path, remedy="give GeoTIFF or ENVI") from error
        with source:
            size = (source.height, source.width)
            if size != (scene.grid.height, scene.grid.width) or not same_place(
                source.crs, source.transform, scene.grid
            ):
                raise UsageError("lies on another grid than the scene", path=path, remedy="use --dem instead")
            number = _incidence_band(source.descriptions, path)
            read = source.read(number, masked=True)
    values = np.ma.filled(read.astype(np.float32), np.nan)
    values[~np.isfinite(values) | (values <= -9999)] = np.nan
    if np.isnan(values).all():
        raise UsageError("holds no value", path=path)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if low < -1.001 or high > 1.001:
        kind = "angles, not cosines" if high > 2 else "values that are no cosines"
        raise UsageError(
            f"holds {kind}: from {low:g} to {high:g}", path=path, remedy="give cos i, from -1 to 1"
        )
    incidence = np.maximum(values, 0).astype(np.float16)
    unknown = np.full_like(incidence, np.nan)
    return incidence, unknown, unknown


def _incidence_band(names: tuple[str | None, ...], path: Path) -> int:
    if len(names) == 1:
        return 1
    for number, name in enumerate(names, start=1):
        plain = (name or "").lower().replace(" ", "").replace("_", "")
        if plain.startswith(("cosi", "cosine(i)", "cosinei", "cos(i)")):
            return number
    raise UsageError(
        f"none of its {len(names)} bands is called cosine of incidence",
        path=path,
        remedy="give that band alone",
    )
