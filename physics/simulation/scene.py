"""Synthetic scenes with exact truth: a town or mountains under a clear sky, as reflectance or radiance.

Apparent reflectance is what a flat-ground atmospheric correction makes of a rugged scene:

    x = [ z · I_dir/cosΘ0 + w · I_dif ] / [ I_dir + I_dif ] · ρ,     z = δ cosΘ

δ is the lit fraction of the pixel, Θ the local incidence angle, w = (1 - k) V + k z/cosΘ0 the diffuse
light seen: V the sky view and k the circumsolar share (Hay and Davies 1980). Mountains also reflect light
to each other: (1 - V) ρ̄ is added to the light, where ρ̄ is the mean reflectance of the scene; between houses
it is left out. On open flat ground z = cosΘ0 and w = 1, hence x = ρ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter

from p3vae.physics import terrain
from p3vae.physics.illumination import SpectralIrradiance, clear_sky_irradiance, clear_sky_transmittance
from p3vae.physics.simulation import materials
from p3vae.physics.simulation.landscape import Landscape
from p3vae.physics.simulation.mountains import build_mountains
from p3vae.physics.simulation.plumes import SimulatedPlume, random_plumes
from p3vae.physics.simulation.town import build_town
from p3vae.physics.spectral_response import Bands

Map = npt.NDArray[np.float32]
Relief = Literal["town", "mountains"]
Transmittance = Callable[[npt.NDArray[np.float32], npt.NDArray[np.intp]], npt.NDArray[np.floating]]
"""Light path through methane [ppm m] and image column, (pixels,) each, to transmittance (pixels, bands)."""

MARGIN = 24
"""Of mountains around the scene [pixels]: they cast shadows into it."""
WATER_VAPOUR_BANDS_NM = ((1340.0, 1450.0), (1800.0, 1960.0))
"""Where the atmosphere lets no usable light through [nm]."""


@dataclass(frozen=True)
class SimulationSettings:
    """What is simulated; the same settings always give the same scene."""

    rows: int = 160
    cols: int = 160
    pixel_size_m: float = 1.0
    seed: int = 0
    sun_zenith_deg: float = 40.0
    sun_azimuth_deg: float = 150.0
    """Clockwise from the top of the grid."""
    view_zenith_deg: float = 0.0
    day_of_year: int = 172
    noise: float = 0.005
    """Standard deviation of the sensor noise over the mean signal of a band, where the sun is bright [1]."""
    plume_peak_ppm_m: float = 0.0
    plume_count: int = 0
    smile_nm: float = 0.0
    """How far band centres shift from the middle of the image to its edges [nm]."""
    relief: Relief = "town"

    @property
    def margin(self) -> int:
        """Pixels around the scene whose relief is known [pixels]."""
        return MARGIN if self.relief == "mountains" else 0

    @property
    def column_shift_nm(self) -> npt.NDArray[np.float64]:
        """Shift of all band centres in each image column [nm], (cols,): a skewed parabola of mean zero."""
        across = np.linspace(-1.0, 1.0, self.cols)
        shape = across**2 + 0.5 * across
        return np.asarray(self.smile_nm * (shape - shape.mean()))

    def __post_init__(self) -> None:
        if min(self.rows, self.cols) < 8:
            raise ValueError(f"a scene needs at least 8 x 8 pixels, not {self.rows} x {self.cols}")
        if self.pixel_size_m <= 0 or self.noise < 0 or self.plume_peak_ppm_m < 0 or self.plume_count < 0:
            raise ValueError("pixel size must be positive; noise and plumes must not be negative")
        if not 0 <= self.sun_zenith_deg <= 80 or not 0 <= self.view_zenith_deg <= 60:
            raise ValueError("sun zenith must be from 0 to 80 degrees and view zenith from 0 to 60")


@dataclass(frozen=True, eq=False)
class SimulatedScene:
    """A scene and its truth; maps are (rows, cols), north-up or in the orientation of a swath image."""

    settings: SimulationSettings
    bands: Bands
    cube: npt.NDArray[np.float32]
    """(rows, cols, bands): apparent reflectance [1], or radiance [W m-2 sr-1 um-1]."""
    class_id: npt.NDArray[np.uint8]
    """Class covering most of the pixel; names and colours are `materials.LAND_COVER[class_id - 1]`."""
    purity: Map
    """Share of that class in the pixel [1]."""
    direct_light: Map
    """z = δ cosΘ [1]."""
    sky_view: Map
    """V [1]."""
    lit_fraction: Map
    """δ [1]: 1 in the sun, 0 in full shadow."""
    height_m: Map
    incidence: Map
    """Mean cosine of incidence, as if nothing cast a shadow [1]."""
    surroundings_m: Map
    """Heights of the scene and of `settings.margin` pixels around it [m]."""
    plumes: tuple[SimulatedPlume, ...]
    ppm_m: Map
    """Methane enhancement [ppm m]; zero without plume."""


@dataclass(frozen=True, eq=False)
class _Geometry:
    """Averages over the cells of each pixel."""

    direct_light: Map
    sky_view: Map
    lit_fraction: Map
    height_m: Map
    incidence: Map

    def part(self, rows: slice, columns: slice) -> _Geometry:
        """The same of some rows and columns."""
        return _Geometry(*(values[rows, columns] for values in vars(self).values()))


def simulate_reflectance(bands: Bands, settings: SimulationSettings) -> SimulatedScene:
    """A scene of apparent reflectance."""
    return _simulate(bands, settings, as_radiance=False, transmittance=None)


def simulate_radiance(
    bands: Bands, settings: SimulationSettings, transmittance: Transmittance | None = None
) -> SimulatedScene:
    """A scene of at-sensor radiance L = x (I_dir + I_dif)/π · T_up · T_CH4; path radiance is left out.

    `transmittance` gives T_CH4 for the enhancement times 1/cosΘ0 + 1/cosΘv; needed if there are plumes.
    """
    if settings.plume_count and transmittance is None:
        raise ValueError("plumes need the transmittance of methane")
    return _simulate(bands, settings, as_radiance=True, transmittance=transmittance)


def _simulate(
    bands: Bands, settings: SimulationSettings, *, as_radiance: bool, transmittance: Transmittance | None
) -> SimulatedScene:
    rng = np.random.default_rng(settings.seed)
    margin, build = settings.margin, build_town if settings.relief == "town" else build_mountains
    landscape = build(settings.rows + 2 * margin, settings.cols + 2 * margin, rng)
    around = light_geometry(landscape, settings)
    inside = slice(margin, margin + settings.rows), slice(margin, margin + settings.cols)
    geometry = around.part(*inside)
    abundance = _abundances(landscape, rng)[inside]
    gain = _brightness(abundance, rng)
    cube = np.empty((settings.rows, settings.cols, len(bands)), dtype=np.float32)
    for columns, seen_bands in _columns_by_bands(bands, settings):
        irradiance = _irradiance(seen_bands, settings)
        part = abundance[:, columns] @ _spectra(seen_bands) * gain[:, columns, None]
        light = _light_ratio(geometry.part(slice(None), columns), irradiance)
        if settings.relief == "mountains":
            light += (1 - geometry.sky_view[:, columns, None]) * part.mean((0, 1))
        part *= light
        if as_radiance:
            upward = clear_sky_transmittance(seen_bands, settings.view_zenith_deg)
            part *= (irradiance.total / np.pi * upward).astype(np.float32)
        cube[:, columns] = part
    plumes = random_plumes(settings.plume_count, settings.plume_peak_ppm_m, settings.rows, settings.cols, rng)
    ppm_m = np.zeros(cube.shape[:2], dtype=np.float32)
    for plume in plumes:
        ppm_m += plume.enhancement(settings.rows, settings.cols)
    if transmittance is not None:
        _absorb(cube, ppm_m * np.float32(_air_mass_factor(settings)), transmittance)
    _add_noise(cube, _irradiance(bands, settings), settings.noise, rng)
    class_id, purity = _majority(abundance)
    return SimulatedScene(
        settings,
        bands,
        cube,
        class_id,
        purity,
        geometry.direct_light,
        geometry.sky_view,
        geometry.lit_fraction,
        geometry.height_m,
        geometry.incidence,
        around.height_m,
        plumes,
        ppm_m,
    )


def _columns_by_bands(bands: Bands, settings: SimulationSettings) -> Iterator[tuple[slice, Bands]]:
    """Image columns that see the same wavelengths, and their bands: all at once unless there is smile."""
    if settings.smile_nm == 0:
        yield slice(None), bands
        return
    for column, shift in enumerate(settings.column_shift_nm):
        yield slice(column, column + 1), replace(bands, wavelength_nm=bands.wavelength_nm + shift)


def _absorb(cube: Map, path_ppm_m: Map, transmittance: Transmittance) -> None:
    columns = np.arange(cube.shape[1])
    for row, path in enumerate(path_ppm_m):
        if path.any():
            cube[row] *= transmittance(path, columns).astype(np.float32)


def light_geometry(landscape: Landscape, settings: SimulationSettings) -> _Geometry:
    """Light on every pixel: cells of the fine grid are lit or not, pixels average them."""
    fine = landscape.refinement
    height_m = landscape.height * np.float32(settings.pixel_size_m)
    steps_m = terrain.north_up(settings.pixel_size_m / fine)
    sun = settings.sun_zenith_deg, settings.sun_azimuth_deg
    incidence = terrain.incidence_cosine(landscape.slope_east, landscape.slope_north, *sun)
    lit = terrain.sunlit(height_m, steps_m, *sun) & (incidence > 0)
    view = terrain.sky_view(
        height_m, landscape.slope_east, landscape.slope_north, steps_m, azimuths=16, reach=20 * fine
    )
    return _Geometry(
        _pixel_mean(lit * incidence, fine),
        _pixel_mean(view, fine),
        _pixel_mean(lit, fine),
        _pixel_mean(height_m, fine),
        _pixel_mean(incidence, fine),
    )


def _irradiance(bands: Bands, settings: SimulationSettings) -> SpectralIrradiance:
    return clear_sky_irradiance(bands, settings.sun_zenith_deg, day_of_year=settings.day_of_year)


def _air_mass_factor(settings: SimulationSettings) -> float:
    angles = np.radians([settings.sun_zenith_deg, settings.view_zenith_deg])
    return float(np.sum(1.0 / np.cos(angles)))


def _pixel_mean(cells: npt.NDArray[np.generic], fine: int) -> Map:
    rows, cols = cells.shape[0] // fine, cells.shape[1] // fine
    blocks = cells.reshape(rows, fine, cols, fine)
    return np.asarray(blocks.mean(axis=(1, 3), dtype=np.float32))


def _light_ratio(geometry: _Geometry, irradiance: SpectralIrradiance) -> Map:
    """Light on the pixel over light on open flat ground, (rows, cols, bands)."""
    z = geometry.direct_light
    cos_zenith = float(np.cos(np.radians(irradiance.sun_zenith_deg)))
    diffuse = terrain.sky_light(geometry.sky_view, z, cos_zenith)
    direct_ratio = irradiance.direct_ratio.astype(np.float32)
    diffuse_ratio = irradiance.diffuse_ratio.astype(np.float32)
    return np.asarray(z[..., None] * direct_ratio + diffuse[..., None] * diffuse_ratio)


def _abundances(landscape: Landscape, rng: np.random.Generator) -> Map:
    """Share of each material in each pixel, (rows, cols, materials); materials of a class blend a little."""
    owner = materials.class_of_material()
    counted = [_pixel_mean(landscape.material == index, landscape.refinement) for index in range(len(owner))]
    abundance = np.stack(counted, axis=-1)
    shape = abundance.shape[:2]
    blend = rng.beta(1.5, 8.0, shape).astype(np.float32)[..., None]
    for class_id in np.unique(owner):
        members = owner == class_id
        cover = abundance[..., members].sum(axis=-1, keepdims=True)
        partners = rng.dirichlet(np.ones(members.sum()), shape).astype(np.float32)
        abundance[..., members] = (1 - blend) * abundance[..., members] + blend * cover * partners
    return abundance


def _spectra(bands: Bands) -> Map:
    """Reflectance of all materials, (materials, bands)."""
    spectra = [material.reflectance(bands.wavelength_nm) for material in materials.all_materials()]
    return np.stack(spectra).astype(np.float32)


def _brightness(abundance: Map, rng: np.random.Generator) -> Map:
    """Gain of each pixel: partly smooth over the ground, partly its own."""
    spread = np.repeat(
        [cover.gain_spread for cover in materials.LAND_COVER],
        [len(cover.materials) for cover in materials.LAND_COVER],
    )
    shape = abundance.shape[:2]
    smooth = gaussian_filter(rng.standard_normal(shape), 3.0)
    pattern = 0.6 * smooth / max(float(smooth.std()), 1e-9) + 0.8 * rng.standard_normal(shape)
    return np.asarray(np.exp(np.clip(pattern, -3, 3) * (abundance @ spread)), dtype=np.float32)


def _majority(abundance: Map) -> tuple[npt.NDArray[np.uint8], Map]:
    owner = materials.class_of_material()
    cover = np.stack([abundance[..., owner == k].sum(axis=-1) for k in np.unique(owner)], axis=-1)
    return (cover.argmax(axis=-1) + 1).astype(np.uint8), cover.max(axis=-1)


def _add_noise(cube: Map, irradiance: SpectralIrradiance, noise: float, rng: np.random.Generator) -> None:
    """Gaussian noise, band by band, stronger where the sun is weak (photon noise: as 1/√irradiance)."""
    total = irradiance.total
    relative = np.clip(np.sqrt(np.median(total) / np.maximum(total, 1e-12)), 0.3, 20.0)
    level = noise * relative * cube.mean(axis=(0, 1), dtype=np.float64)
    for row in range(cube.shape[0]):
        cube[row] += rng.standard_normal(cube[row].shape, dtype=np.float32) * level.astype(np.float32)
