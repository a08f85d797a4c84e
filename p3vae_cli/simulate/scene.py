"""Simulates a scene and writes it in the layout of a real product, with its truth and labels beside it."""

from __future__ import annotations

import importlib.metadata
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from affine import Affine

from p3vae.cli.errors import UsageError
from p3vae.cli.rasters.files import gdal_environment
from p3vae.cli.rasters.vectors import write_geopackage
from p3vae.cli.records.staging import Staging, writing
from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.signals import stop_on_signals
from p3vae.cli.simulate.elevations import DemError, write_dem
from p3vae.cli.simulate.labels import label_polygons, label_style
from p3vae.cli.simulate.layouts import Placement, write_envi, write_geotiff
from p3vae.cli.simulate.prisma import (
    prisma_all_bands,
    prisma_bands,
    write_prisma_l1,
    write_prisma_l2d,
)
from p3vae.cli.simulate.truth import truth_names, write_truth
from p3vae.physics.illumination import sun_position
from p3vae.physics.simulation.scene import (
    WATER_VAPOUR_BANDS_NM,
    Relief,
    SimulatedScene,
    SimulationSettings,
    Transmittance,
    simulate_radiance,
    simulate_reflectance,
)
from p3vae.physics.spectral_response import Bands, outside

Layout = Literal["geotiff", "envi", "prisma-l2d", "prisma-l1"]
Mask = npt.NDArray[np.bool_]

EPSG = 32631
UPPER_LEFT = (373_000.0, 4_830_000.0)
"""Easting and northing [m] of the upper left corner, near Toulouse."""
PLACE = (1.43, 43.61)
"""Longitude and latitude [degree] for which the sun is computed."""
DEFAULT_TIME = datetime(2024, 4, 2, 10, 28, 37, 932000, tzinfo=UTC)
TRACK_AZIMUTH_DEG = 12.0
"""Azimuth of the top of a swath image: a descending orbit."""
EVEN_RANGE_NM = (420.0, 2450.0)

_SUFFIXES: dict[Layout, tuple[str, ...]] = {
    "geotiff": (".tif", ".tiff"),
    "envi": (".img", ".dat", ".bil"),
    "prisma-l2d": (".he5",),
    "prisma-l1": (".he5",),
}


@dataclass(frozen=True)
class SimulationRequest:
    """What the user asks for."""

    output: Path
    """The scene file, or a folder that gets one with the layout's usual name."""
    layout: Layout
    rows: int = 160
    cols: int = 160
    seed: int = 0
    pixel_size_m: float | None = None
    """None: 1 m, or 30 m for PRISMA and for mountains."""
    bands: str = "96"
    """A number of evenly spaced bands, or "prisma"."""
    time: datetime | None = None
    sun_zenith_deg: float | None = None
    """None: from time and place."""
    sun_azimuth_deg: float | None = None
    noise: float = 0.005
    plume_peak_ppm_m: float = 0.0
    plume_count: int = 1
    smile_nm: float = 1.0
    """Only for PRISMA level 1; the other products are corrected for it."""
    relief: Relief = "town"
    dem: DemError = field(default_factory=DemError)
    """What is wrong with the elevation model of mountains."""
    overwrite: bool = False


@dataclass(frozen=True)
class SimulationSummary:
    """What was written."""

    scene: Path
    labels: Path
    truth: tuple[Path, ...]
    plume_mass_kg: tuple[float, ...]
    """Mass of each plume [kg]."""


def simulate_to_files(request: SimulationRequest) -> SimulationSummary:
    """Simulate and write everything, or nothing."""
    path = _scene_path(request)
    placement = _placement(request)
    bands = _bands(request)
    truth = truth_names(path.stem, with_plume=request.plume_peak_ppm_m > 0, relief=request.relief)
    dem = [f"{path.stem}_dem.tif"] if request.relief == "mountains" else []
    labels = f"{path.stem}_labels.gpkg"
    header = [path.with_suffix(".hdr").name] if request.layout == "envi" else []
    staging = Staging(
        path.parent, [path.name, *header, labels, *truth, *dem], mark=path.name, overwrite=request.overwrite
    )
    simulated = _simulate(request, placement, bands)
    visible = _visible(request, simulated)
    with stop_on_signals() as check_signals, gdal_environment(), staging:
        staged = staging.path(path.name)
        with writing(path):
            _write_scene(request.layout, staged, simulated, visible, placement)
        check_signals()
        with open_scene(staged) as written:
            grid = written.grid
        write_truth(
            staging, path.stem, simulated, grid, visible=visible, tags=_provenance(request, simulated)
        )
        for name in dem:
            write_dem(staging, name, simulated, grid, request.dem, _provenance(request, simulated))
        polygons = label_polygons(simulated, visible, placement.transform, placement.crs)
        if grid.crs is not None:
            polygons = polygons.to_crs(grid.crs.to_wkt())
        with writing(path.parent / labels):
            write_geopackage(staging.path(labels), polygons, "labels")
            staging.path(f"{Path(labels).stem}.qml").write_bytes(label_style())
        check_signals()
        staging.commit()
    return SimulationSummary(
        path,
        path.parent / labels,
        tuple(path.parent / name for name in (*truth, *dem)),
        tuple(plume.mass_kg(simulated.settings.pixel_size_m) for plume in simulated.plumes),
    )


def layout_of(output: Path) -> Layout:
    """The layout that an output's name asks for; GeoTIFF when it says nothing."""
    suffix = output.suffix.lower()
    if suffix == ".he5":
        return "prisma-l1" if "L1" in output.name.upper() else "prisma-l2d"
    return "envi" if suffix in _SUFFIXES["envi"] else "geotiff"


def _scene_path(request: SimulationRequest) -> Path:
    suffix = request.output.suffix.lower()
    known = {one for several in _SUFFIXES.values() for one in several}
    if suffix in _SUFFIXES[request.layout]:
        return request.output
    if suffix in known:
        expected = " or ".join(_SUFFIXES[request.layout])
        raise UsageError(
            f"--output {request.output} does not fit the layout {request.layout}",
            remedy=f"end it with {expected}, or give a folder",
        )
    stamp = (request.time or DEFAULT_TIME).strftime("%Y%m%d%H%M%S")
    usual: dict[Layout, str] = {
        "geotiff": f"{request.relief}.tif",
        "envi": f"{request.relief}.img",
        "prisma-l2d": f"PRS_L2D_STD_{stamp}_{stamp}_0001.he5",
        "prisma-l1": f"PRS_L1_STD_OFFL_{stamp}_{stamp}_0001.he5",
    }
    return request.output / usual[request.layout]


def _placement(request: SimulationRequest) -> Placement:
    time = request.time or DEFAULT_TIME
    time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    zenith, azimuth = sun_position(time, *PLACE)
    step = _pixel_size(request)
    turn = Affine.rotation(-TRACK_AZIMUTH_DEG) if request.layout == "prisma-l1" else Affine.identity()
    return Placement(
        EPSG,
        Affine.translation(*UPPER_LEFT) @ turn @ Affine.scale(step, -step),
        time,
        zenith if request.sun_zenith_deg is None else request.sun_zenith_deg,
        azimuth if request.sun_azimuth_deg is None else request.sun_azimuth_deg,
        0.0,
    )


def _pixel_size(request: SimulationRequest) -> float:
    coarse = request.layout.startswith("prisma") or request.relief == "mountains"
    return request.pixel_size_m or (30.0 if coarse else 1.0)


def _bands(request: SimulationRequest) -> Bands:
    if request.layout.startswith("prisma"):
        return prisma_all_bands()[0]
    if request.bands == "prisma":
        vnir, swir = prisma_bands("vnir"), prisma_bands("swir")
        vnir = vnir.select(vnir.wavelength_nm < swir.wavelength_nm[0])
        centres = np.concatenate((vnir.wavelength_nm, swir.wavelength_nm))
        return _flag_water_vapour(Bands.from_centres(centres, np.concatenate((vnir.fwhm_nm, swir.fwhm_nm))))
    if not request.bands.isdecimal() or not 3 <= int(request.bands) <= 2000:
        raise UsageError(
            f"--bands {request.bands} is not possible", remedy='give a number from 3 on, or "prisma"'
        )
    centres = np.linspace(*EVEN_RANGE_NM, int(request.bands)).round(3)
    return _flag_water_vapour(Bands.from_centres(centres))


def _flag_water_vapour(bands: Bands) -> Bands:
    return replace(bands, good=outside(bands.wavelength_nm, WATER_VAPOUR_BANDS_NM))


def _simulate(request: SimulationRequest, placement: Placement, bands: Bands) -> SimulatedScene:
    is_swath = request.layout == "prisma-l1"
    if request.relief == "mountains" and is_swath:
        raise UsageError("--relief mountains needs a map", remedy="choose another --layout")
    if request.plume_peak_ppm_m and not is_swath:
        raise UsageError("--plume needs radiance", remedy="add --layout prisma-l1")
    try:
        settings = SimulationSettings(
            rows=request.rows,
            cols=request.cols,
            pixel_size_m=_pixel_size(request),
            seed=request.seed,
            sun_zenith_deg=placement.sun_zenith_deg,
            sun_azimuth_deg=placement.sun_azimuth_deg - (TRACK_AZIMUTH_DEG if is_swath else 0.0),
            view_zenith_deg=placement.view_zenith_deg,
            day_of_year=placement.time.timetuple().tm_yday,
            noise=request.noise,
            plume_peak_ppm_m=request.plume_peak_ppm_m,
            plume_count=request.plume_count if request.plume_peak_ppm_m else 0,
            smile_nm=request.smile_nm if is_swath else 0.0,
            relief=request.relief,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not is_swath:
        return simulate_reflectance(bands, settings)
    return simulate_radiance(bands, settings, _methane(bands, settings) if settings.plume_count else None)


def _methane(bands: Bands, settings: SimulationSettings) -> Transmittance:
    """Transmittance from the shipped absorption table, column by column; torch is imported only for this."""
    import torch

    from p3vae.physics.methane import MethaneAbsorption

    smiling = settings.smile_nm != 0
    centres = bands.wavelength_nm + settings.column_shift_nm[:, None] if smiling else None
    curves = MethaneAbsorption.load().band_transmittance(bands, centres_nm=centres)

    def transmittance(
        path_ppm_m: npt.NDArray[np.float32], column: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.float32]:
        path = torch.as_tensor(path_ppm_m, dtype=torch.float64)
        with torch.no_grad():
            transmitted = curves(path, torch.as_tensor(column) if smiling else None)
        return np.asarray(transmitted.numpy(), dtype=np.float32)

    return transmittance


def _visible(request: SimulationRequest, simulated: SimulatedScene) -> Mask:
    """Everything, but for the padding of a level 2D map, in which a turned swath leaves corners empty."""
    rows, cols = simulated.class_id.shape
    if request.layout != "prisma-l2d":
        return np.ones((rows, cols), dtype=np.bool_)
    row, col = np.mgrid[0:rows, 0:cols] + 0.5
    slant = np.tan(np.radians(TRACK_AZIMUTH_DEG))
    left = slant * (rows - row)
    right = cols - slant * row
    return np.asarray((col > left) & (col < right))


def _write_scene(
    layout: Layout, path: Path, simulated: SimulatedScene, visible: Mask, placement: Placement
) -> None:
    cube = np.where(visible[..., None], simulated.cube, np.float32(np.nan))
    if layout == "geotiff":
        write_geotiff(path, cube, simulated.bands, placement)
    elif layout == "envi":
        write_envi(path, cube, simulated.bands, placement)
    elif layout == "prisma-l2d":
        write_prisma_l2d(path, cube, placement)
    else:
        write_prisma_l1(path, cube, placement, simulated.settings.column_shift_nm)


def _provenance(request: SimulationRequest, simulated: SimulatedScene) -> dict[str, str]:
    """Tags that say how to make the scene again; no path, no clock: equal runs give equal files."""
    settings = {f"SIMULATED_{key.upper()}": repr(value) for key, value in asdict(simulated.settings).items()}
    return {
        "P3VAE_VERSION": importlib.metadata.version("p3vae"),
        "SIMULATED_LAYOUT": request.layout,
    } | settings
