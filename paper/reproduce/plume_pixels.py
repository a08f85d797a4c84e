"""The methane experiment: PRISMA-like radiance of real or simulated ground, with and without plumes.

As in the paper, 85 % of the pixels get a random path-integrated concentration and 15 % stay without; the sun
stands 30° from the zenith, the sensor in the zenith. Pixels are split at random, or the test is ground that
no other part saw.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from p3vae.cli.tables import read_rows
from p3vae.models.methane.background.noise import SensorNoise
from p3vae.models.methane.types import PlumeOptics
from p3vae.physics.methane import MethaneAbsorption, air_mass_factor
from p3vae.physics.simulation.scene import SimulationSettings, simulate_radiance
from p3vae.physics.spectral_response import FWHM_PER_SIGMA, Bands, outside

FloatArray = npt.NDArray[np.floating[Any]]
Render = Callable[[FloatArray, FloatArray | None, float], FloatArray]
"""(ground, ppm m or None, strength of the absorption) to noise-free band radiance (pixels, bands)."""

SUN_ZENITH_DEG = 30.0
AIR_MASS = air_mass_factor(SUN_ZENITH_DEG)
PUBLISHED_STRENGTH = 10.0
"""The published absorption table is ten times as strong as methane."""
RANGES_PPM_M = {"high": (2e4, 1e5), "low": (0.0, 5e3)}
_PLUME_SHARE, _TEST_SHARE = 0.85, 0.40
_MEASURED_NM = ((433, 927), (976, 1102), (1147, 1322), (1481, 1761), (1955, 2397))
"""Where the airborne reflectance was measured and not interpolated."""
_SNR_BELOW_1800_NM, _SNR_ABOVE = 200.0, 100.0


class Setting(NamedTuple):
    """One data set of the experiment."""

    split: Literal["random", "other"]
    """Pixels split at random, or tested on other ground."""
    range: Literal["high", "low"]
    strength: float = PUBLISHED_STRENGTH
    """Absorption over that of methane [1]."""

    @property
    def name(self) -> str:
        """Unique, short."""
        return f"{self.split}-{self.range}-x{self.strength:g}"


@dataclass(frozen=True, eq=False)
class GroundAndSensor:
    """Three pieces of ground and the sensor above them."""

    pieces: tuple[FloatArray, ...]
    """What `render` makes radiance of, (pixels, channels) each; the last is the other ground."""
    render: Render
    bands: Bands
    absorption: MethaneAbsorption
    """Of methane, at its physical strength."""
    reference: FloatArray
    """Radiance over bright ground, at which the noise is specified, (bands,) [W m-2 sr-1 um-1]."""

    @property
    def noise(self) -> SensorNoise:
        """Of the sensor, 70 % photon noise at the reference radiance."""
        snr = np.where(self.bands.wavelength_nm < 1800.0, _SNR_BELOW_1800_NM, _SNR_ABOVE)
        return SensorNoise.from_snr(torch.as_tensor(self.reference), torch.as_tensor(snr))


@dataclass(frozen=True, eq=False)
class PlumePixels:
    """Radiance with noise, (pixels, bands) [W m-2 sr-1 um-1]."""

    plume_free: torch.Tensor
    under_plume: torch.Tensor
    """Training pixels of unknown concentration."""
    test: torch.Tensor
    ppm_m: FloatArray
    """Truth of the test pixels."""
    optics: PlumeOptics
    noise: SensorNoise
    range_ppm_m: tuple[float, float]


def make_pixels(
    ground: GroundAndSensor, setting: Setting, seed: int, *, most: int | None = None
) -> PlumePixels:
    """One data set; `most` bounds the number of pixels of each part."""
    rng = np.random.default_rng(seed)
    low, high = RANGES_PPM_M[setting.range]
    parts = [part[:most] for part in _split(ground.pieces, setting.split, rng)]
    truth = [None, *(rng.uniform(low, high, len(part)) for part in parts[1:])]
    noisy = []
    for part, ppm_m in zip(parts, truth, strict=True):
        clean = torch.as_tensor(ground.render(part, ppm_m, setting.strength))
        chance = torch.as_tensor(rng.standard_normal(clean.shape))
        noisy.append(clean + ground.noise.variance(clean).sqrt() * chance)
    curves = ground.absorption.scaled(setting.strength).band_transmittance(ground.bands)
    optics = PlumeOptics(curves, AIR_MASS, torch.as_tensor(ground.bands.wavelength_nm), high)
    assert truth[2] is not None
    free, under_plume, test = noisy
    return PlumePixels(free, under_plume, test, truth[2], optics, ground.noise, (low, high))


def _split(pieces: tuple[FloatArray, ...], how: str, rng: np.random.Generator) -> list[FloatArray]:
    """Ground without plume, with plume, and of the test."""
    known = np.concatenate(pieces if how == "random" else pieces[:-1])
    known = known[rng.permutation(len(known))]
    free = round((1 - _PLUME_SHARE) * len(known))
    if how == "other":
        return [known[:free], known[free:], rng.permutation(pieces[-1])]
    stop = free + round(_TEST_SHARE * len(known))
    return [known[:free], known[stop:], known[free:stop]]


def simulated_ground(size: int = 75) -> GroundAndSensor:
    """Three simulated towns; plumes act through the same band curves that the methods are given."""
    from p3vae.cli.simulate.prisma import prisma_all_bands

    every = prisma_all_bands()[0]
    usable = ~outside(every.wavelength_nm, _MEASURED_NM) & (np.diff(every.wavelength_nm, prepend=0.0) > 4.0)
    bands = every.select(usable)
    towns = [
        simulate_radiance(bands, SimulationSettings(size, size, 30.0, seed, SUN_ZENITH_DEG, noise=0.0)).cube
        for seed in (11, 12, 13)
    ]
    pieces = tuple(town.reshape(size * size, -1).astype(np.float64) for town in towns)
    absorption = MethaneAbsorption.load()

    def render(ground: FloatArray, ppm_m: FloatArray | None, strength: float) -> FloatArray:
        if ppm_m is None:
            return ground
        curves = absorption.scaled(strength).band_transmittance(bands)
        return np.asarray(ground * curves(torch.as_tensor(ppm_m * AIR_MASS)).numpy())

    reference = np.quantile(np.concatenate(pieces), 0.75, axis=0)
    return GroundAndSensor(pieces, render, bands, absorption, reference)


def ground_from_files(folder: Path) -> GroundAndSensor:
    """Airborne tiles of Toulouse under a PRISMA-like sensor; plumes act at 1 nm, before the band average."""
    grid = np.arange(400.0, 2501.0)
    bands = _prisma_bands(folder / "methane" / "prisma_fwhm.csv")
    response = np.exp(
        -0.5 * ((grid - bands.wavelength_nm[:, None]) * FWHM_PER_SIGMA / bands.fwhm_nm[:, None]) ** 2
    )
    response /= response.sum(axis=1, keepdims=True)
    sunlight = _sunlight(folder, grid)
    absorption = _absorption(folder / "methane", grid, sunlight)
    pieces, wavelength = _tiles(folder / "toulouse" / "toulouse.npz")

    def render(ground: FloatArray, ppm_m: FloatArray | None, strength: float) -> FloatArray:
        out = np.empty((len(ground), len(bands)))
        for rows in np.array_split(np.arange(len(ground)), max(1, len(ground) // 512)):
            fine = np.stack([np.interp(grid, wavelength, spectrum) for spectrum in ground[rows]]) * sunlight
            if ppm_m is not None:
                fine *= np.exp(-np.outer(ppm_m[rows], strength * AIR_MASS * absorption.absorption))
            out[rows] = fine @ response.T
        return out

    return GroundAndSensor(pieces, render, bands, absorption, response @ (0.3 * sunlight))


def _prisma_bands(path: Path) -> Bands:
    """Bands within the measured windows; where the detectors overlap, those of the VNIR."""
    centre, width = np.genfromtxt(path, delimiter=",", skip_header=1)[:, :2].T
    swir = np.cumsum(np.diff(centre, prepend=0.0) < 0) > 0
    kept = ~outside(centre, _MEASURED_NM) & ~(swir & (centre < centre[~swir].max()))
    order = np.argsort(centre[kept])
    return Bands.from_centres(centre[kept][order], width[kept][order])


def _sunlight(folder: Path, grid: FloatArray) -> FloatArray:
    """Radiance of a white surface seen through water vapour, (grid,)."""
    with np.load(folder / "simulated" / "simulated.npz", allow_pickle=False) as file:
        total = file["irradiance_direct"] + file["irradiance_diffuse"]
        irradiance = np.interp(grid, file["wavelength_um"] * 1000.0, total)
    wavelength_nm, water = _two_columns(folder / "methane" / "H2O_transmittance.csv")
    return np.asarray(irradiance * np.interp(grid, wavelength_nm, water) / np.pi)


def _absorption(folder: Path, grid: FloatArray, sunlight: FloatArray) -> MethaneAbsorption:
    """Shape from a 1 nm transmittance, strength from the published table, less its factor of ten."""
    wavelength_nm, transmittance = _two_columns(folder / "CH4_transmittance.csv")
    depth = np.interp(grid, wavelength_nm, -np.log(np.clip(transmittance, 1e-6, 1.0)))
    depth = np.where(grid > 1590.0, np.maximum(depth, 0.0), 0.0)
    table_nm, table = _two_columns(folder / "CH4_absorption.csv")
    within = (table_nm > 1600.0) & (table_nm < 2480.0)
    weight = np.exp(-0.5 * ((grid - table_nm[within, None]) * FWHM_PER_SIGMA / 5.5) ** 2)
    smooth = weight @ depth / weight.sum(axis=1)
    strength = smooth @ table[within] / (smooth @ smooth) / PUBLISHED_STRENGTH
    return MethaneAbsorption.from_table(grid, strength * depth, background=sunlight)


def _tiles(path: Path) -> tuple[tuple[FloatArray, ...], FloatArray]:
    """Reflectance of the usable pixels of three tiles, and their wavelengths [nm]."""
    with np.load(path, allow_pickle=False) as file:
        wavelength_nm = file["wavelength_um"][file["good_band"].astype(bool)] * 1000.0
        names = ("tile_asphalt", "tile_vegetation", "tile_fibercement")
        tiles = [file[name].reshape(-1, len(wavelength_nm)) * 1e-4 for name in names]
    return tuple(tile[tile.mean(axis=1) > 0.01] for tile in tiles), wavelength_nm


def _two_columns(path: Path) -> tuple[FloatArray, FloatArray]:
    """Wavelength [µm], returned in nm, and a value, of a table that may have decimal commas in quotes."""
    rows = [[float(cell.replace(",", ".")) for cell in row[:2]] for row in read_rows(path)]
    table = np.array(rows)
    return table[:, 0] * 1000.0, table[:, 1]
