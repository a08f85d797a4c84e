"""From what a file says to a scene: band order, overlap, bad bands, sun, and the user's own word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from pyproj import Transformer
from pyproj.exceptions import ProjError

from p3vae.cli.errors import SceneError, UnclearSceneError
from p3vae.cli.scenes.base import (
    Acquisition,
    BandIndex,
    FloatArray,
    Grid,
    RawScene,
    Scene,
    reading,
)
from p3vae.cli.scenes.metadata import estimated_fwhm
from p3vae.cli.scenes.overrides import WavelengthTable, wavelengths_of
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.scenes.tiling import Window
from p3vae.physics.spectral_response import Bands, outside

# Where samples are taken, as fractions of height and width: far apart from the start.
_SAMPLE_PLACES = (
    (0.5, 0.5),
    (0.25, 0.3),
    (0.75, 0.7),
    (0.3, 0.75),
    (0.7, 0.25),
    (0.5, 0.9),
    (0.5, 0.1),
    (0.1, 0.5),
    (0.9, 0.5),
)
_ENOUGH_SAMPLES = 3
_SAMPLE_PIXELS = 16
_NEARLY_ALL = 0.9
_TYPICAL_REFLECTANCE_LIMIT = 2.0


def assemble(raw: RawScene, driver: str, options: SceneSettings) -> Scene:
    """The scene of a file whose metadata were read. Closes its files if it cannot be used."""
    try:
        return _assemble(raw, driver, options)
    except BaseException:
        raw.reader.close()
        raise


def _assemble(raw: RawScene, driver: str, options: SceneSettings) -> Scene:
    raw = _with_wavelengths_file(replace(raw, grid=_without_useless_points(raw.grid)), options)
    wavelength = raw.wavelength_nm
    if wavelength is None:
        raise _unclear_without_wavelengths(raw, options)
    if len(wavelength) != len(raw.good):
        raise SceneError(
            f"lists {len(wavelength)} wavelengths for {len(raw.good)} bands",
            path=raw.path,
            remedy="give one line per band with --wavelengths",
        )
    order = _band_order(wavelength, raw, options)
    if len(order) == 0:
        raise SceneError("has no band with a wavelength", path=raw.path, remedy="use --wavelengths")
    samples = _samples(raw, order)
    bands = _bands(wavelength[order], order, raw, options, samples)
    if raw.guessed_scale:
        _check_reflectance_range(raw, samples[:, bands.good])
    columns, widths = raw.column_wavelength_nm, raw.column_fwhm_nm
    return Scene(
        path=raw.path,
        product=raw.product or driver,
        level=raw.level,
        grid=raw.grid,
        bands=bands,
        quantity=raw.quantity,
        acquisition=_acquisition(raw, options),
        block_shape=raw.block_shape,
        reader=raw.reader,
        file_bands=order,
        column_wavelength_nm=None if columns is None else columns[:, order],
        column_fwhm_nm=None if widths is None else widths[:, order],
        geolocator=raw.geolocator,
        ortho=raw.ortho,
        flags=raw.flags,
        quality_mask=options.quality_mask,
    )


def _unclear_without_wavelengths(raw: RawScene, options: SceneSettings) -> UnclearSceneError:
    """Says all that is missing, not one thing a run."""
    missing = ["wavelengths"]
    give = ["--wavelengths CSV (wavelength_nm) or a sensor, e.g. --wavelengths sentinel-2"]
    typical = _typical(_samples(raw, np.arange(len(raw.good)))) if raw.guessed_scale else 0.0
    if typical > _TYPICAL_REFLECTANCE_LIMIT:
        missing.append(f"scale (typical value {typical:.4g})")
        give.append(f"--scale {_usual_scale(typical)}")
    if _acquisition(raw, options).sun_zenith_deg is None:
        missing.append("sun")
        give.append("--sun-zenith DEG for land cover and methane")
    listed = " and ".join([", ".join(missing[:-1]), missing[-1]] if len(missing) > 1 else missing)
    return UnclearSceneError(f"has no {listed}", path=raw.path, remedy=f"give {', '.join(give)}")


def _without_useless_points(grid: Grid) -> Grid:
    """Control points without a CRS, or all on one line, place nothing: the scene is nowhere then."""
    on_image = [(point.col, point.row) for point in grid.gcps]
    on_ground = [(point.x, point.y) for point in grid.gcps]
    if not grid.gcps or (grid.crs and _span_an_area(on_image) and _span_an_area(on_ground)):
        return grid
    return replace(grid, crs=None, gcps=())


def _span_an_area(points: Sequence[tuple[float, float]]) -> bool:
    centred = points - np.mean(points, axis=0)
    return int(np.linalg.matrix_rank(centred, tol=1e-9 * np.abs(centred).max())) == 2


def _with_wavelengths_file(raw: RawScene, options: SceneSettings) -> RawScene:
    if options.wavelengths_file is None:
        return raw
    table: WavelengthTable = wavelengths_of(options.wavelengths_file, len(raw.good))
    if len(table.wavelength_nm) != len(raw.good):
        raise SceneError(
            f"lists {len(table.wavelength_nm)} wavelengths, but {raw.path} has {len(raw.good)} bands",
            path=options.wavelengths_file,
            remedy="give one line per band, in the order of the file",
        )
    return replace(
        raw,
        wavelength_nm=table.wavelength_nm,
        fwhm_nm=table.fwhm_nm,
        good=raw.good if table.good is None else table.good,
        column_wavelength_nm=None,
        column_fwhm_nm=None,
    )


def _band_order(wavelength: FloatArray, raw: RawScene, options: SceneSettings) -> BandIndex:
    """File bands in ascending wavelength, each wavelength once (of two equal ones, a good one)."""
    keep = np.isfinite(wavelength) & (wavelength > 0)
    if raw.detector is not None:
        vnir, swir = keep & (raw.detector == 0), keep & (raw.detector == 1)
        if vnir.any() and swir.any() and options.overlap == "swir":
            keep &= swir | (wavelength < wavelength[swir].min())
        elif vnir.any() and swir.any():
            keep &= vnir | (wavelength > wavelength[vnir].max())
    kept = np.flatnonzero(keep)
    kept = kept[np.lexsort((kept, ~raw.good[kept], wavelength[kept]))]
    return kept[np.diff(wavelength[kept], prepend=0.0) > 0]


def _bands(
    wavelength: FloatArray,
    order: BandIndex,
    raw: RawScene,
    options: SceneSettings,
    samples: npt.NDArray[np.float32],
) -> Bands:
    fwhm = estimated_fwhm(wavelength)
    if raw.fwhm_nm is not None and len(raw.fwhm_nm) == len(raw.good):
        given = raw.fwhm_nm[order]
        fwhm = np.where(np.isfinite(given) & (given > 0), given, fwhm)
    good = raw.good[order] & ~_missing(samples)
    good &= outside(wavelength, options.bad_bands)
    if not good.any():
        raise SceneError(
            "has no good band left",
            path=raw.path,
            remedy="check --bad-bands and the file's bad-band list",
        )
    return Bands(wavelength_nm=wavelength, fwhm_nm=fwhm, good=good)


def _samples(raw: RawScene, order: BandIndex) -> npt.NDArray[np.float32]:
    """Spectra of the pixels, in windows spread over the scene, that hold any value: (pixels, bands).

    A few windows do when every band is seen in them; each may cost a whole block of the file.
    """
    grid = raw.grid
    rows, cols = min(grid.height, _SAMPLE_PIXELS), min(grid.width, _SAMPLE_PIXELS)
    spectra = np.empty((0, len(order)), dtype=np.float32)
    filled = 0
    for down, right in _SAMPLE_PLACES:
        window = Window(int(down * (grid.height - rows)), int(right * (grid.width - cols)), rows, cols)
        with reading(raw.path):
            seen = raw.reader.read(window, order).reshape(-1, len(order))
        seen = seen[np.isfinite(seen).any(axis=1)]
        filled += bool(np.nan_to_num(seen).any())  # a black border says nothing about the values
        spectra = np.concatenate([spectra, seen])
        if filled >= _ENOUGH_SAMPLES and not _missing(spectra).any():
            break
    return spectra


def _missing(samples: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Bands missing in nearly all pixels that are otherwise there, e.g. the water-vapour bands of EnMAP."""
    if len(samples) == 0:
        return np.zeros(samples.shape[1], dtype=bool)
    return np.asarray(np.isnan(samples).mean(axis=0) > _NEARLY_ALL)


def _check_reflectance_range(raw: RawScene, samples: npt.NDArray[np.float32]) -> None:
    typical = _typical(samples)
    if typical <= _TYPICAL_REFLECTANCE_LIMIT:
        return
    raise UnclearSceneError(
        f"typical value {typical:.4g} is no reflectance, and no scale is given in the file",
        path=raw.path,
        remedy=f"add --scale {_usual_scale(typical)} for scaled reflectance, or --quantity radiance",
    )


def _typical(samples: npt.NDArray[np.float32]) -> float:
    """Median of the values of pixels that are not black."""
    spectra = samples[np.nan_to_num(samples).any(axis=1)]
    values = spectra[np.isfinite(spectra)]
    return float(np.median(values)) if len(values) else 0.0


def _usual_scale(typical: float) -> str:
    return "0.01" if typical < 100 else "1e-4"


def _acquisition(raw: RawScene, options: SceneSettings) -> Acquisition:
    acquired = _with_place(raw.acquisition, raw.grid)
    zenith, azimuth = acquired.sun_zenith_deg, acquired.sun_azimuth_deg
    if zenith is None or azimuth is None:
        computed = _sun_position(acquired)
        zenith = computed[0] if zenith is None else zenith
        azimuth = computed[1] if azimuth is None else azimuth
    return replace(
        acquired,
        sun_zenith_deg=_first(options.sun_zenith_deg, zenith),
        sun_azimuth_deg=_first(options.sun_azimuth_deg, azimuth),
        view_zenith_deg=_first(options.view_zenith_deg, acquired.view_zenith_deg),
    )


def _first(stated: float | None, found: float | None) -> float | None:
    return found if stated is None else stated


def _with_place(acquired: Acquisition, grid: Grid) -> Acquisition:
    """Adds the place of the centre pixel of a map grid, unless the product names a place."""
    if acquired.longitude_deg is not None or grid.crs is None or grid.transform is None:
        return acquired
    to_map, col, row = grid.transform, grid.width / 2, grid.height / 2
    x, y = to_map.a * col + to_map.b * row + to_map.c, to_map.d * col + to_map.e * row + to_map.f
    try:
        lon, lat = Transformer.from_crs(grid.crs.to_wkt(), "EPSG:4326", always_xy=True).transform(x, y)
    except ProjError:  # a local CRS, which has no place on earth
        return acquired
    if not (np.isfinite(lon) and np.isfinite(lat)):
        return acquired
    return replace(acquired, longitude_deg=float(lon), latitude_deg=float(lat))


def _sun_position(acquired: Acquisition) -> tuple[float | None, float | None]:
    """Sun zenith and azimuth [deg] computed from time and place, where both are known."""
    if acquired.time is None or acquired.longitude_deg is None or acquired.latitude_deg is None:
        return None, None
    from p3vae.physics.illumination import sun_position  # pvlib is slow to import and seldom needed here

    return sun_position(acquired.time, acquired.longitude_deg, acquired.latitude_deg)
