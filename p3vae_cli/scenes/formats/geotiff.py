"""GeoTIFF and COG, and rasters that GDAL opens by a driver the user has named.

Wavelengths are looked for in the ENVI namespace, in band tags, in the IMAGERY domain, and last in the
band descriptions: IMAGERY comes late because GDAL rounds it to 1 nm for copies of ENVI files.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import rasterio

from p3vae.cli.errors import SceneError
from p3vae.cli.scenes.base import FloatArray, RawScene
from p3vae.cli.scenes.formats.rasters import RasterCube, calibration, grid_of, open_raster
from p3vae.cli.scenes.metadata import (
    acquisition,
    flags,
    ignored_value,
    nm_per_unit,
    numbers,
    stated_quantity,
    wavelength_in_words,
)
from p3vae.cli.scenes.registry import Driver
from p3vae.cli.scenes.settings import SceneSettings

Fields = dict[str, str]
_GEOTIFF = ("GTiff", "COG")
_BESIDE = (".aux.xml", ".msk")
"""Suffixes of files that GDAL reads with an image, and that change its values or its place."""


def open_any_raster(path: Path, options: SceneSettings) -> RawScene:
    """What a raster says of itself whose bands are the spectrum."""
    source = open_raster(path, options.drivers)
    try:
        return _raw_scene(path, source, options)
    except ValueError as error:
        source.close()
        raise SceneError(f"has unreadable metadata: {error}", path=path, remedy="correct its tags") from error
    except BaseException:
        source.close()
        raise


def _raw_scene(path: Path, source: rasterio.DatasetReader, options: SceneSettings) -> RawScene:
    fields = _lower(source.tags()) | _lower(source.tags(ns="ENVI"))
    tags = [_lower(source.tags(band)) for band in source.indexes]
    wavelength, fwhm = _wavelengths(source, fields, tags)
    gain, offset, quantity, guessed = calibration(
        stated_quantity(fields, source.units[0] or ""),
        options,
        np.array(source.scales),
        np.array(source.offsets),
    )
    stated = ignored_value(fields)
    missing = source.nodata if stated is None else stated
    missing = missing if options.nodata is None else options.nodata
    return RawScene(
        path=path,
        level=fields.get("processing_level"),
        grid=grid_of(source),
        wavelength_nm=wavelength,
        fwhm_nm=fwhm,
        good=_good(fields, tags),
        quantity=quantity,
        acquisition=acquisition(fields),
        block_shape=source.block_shapes[0],
        reader=RasterCube(source, gain, offset, missing),
        guessed_scale=guessed,
        product=None if source.driver in _GEOTIFF else source.driver,
    )


def _wavelengths(
    source: rasterio.DatasetReader, fields: Fields, tags: list[Fields]
) -> tuple[FloatArray | None, FloatArray | None]:
    """Wavelengths and widths [nm] from the most precise place that names a wavelength for every band."""
    if "wavelength" in fields:
        return _in_nm(
            numbers(fields["wavelength"]),
            fields.get("wavelength_units"),
            numbers(fields.get("fwhm", "")),
            None,
        )
    for name in ("wavelength", "wavelengths"):
        if all(name in tag for tag in tags):
            values = np.array([float(tag[name]) for tag in tags])
            widths = np.array([float(tag["fwhm"]) for tag in tags if "fwhm" in tag])
            return _in_nm(values, tags[0].get("wavelength_units"), widths, tags[0].get("fwhm_units"))
    imagery = [_lower(source.tags(band, ns="IMAGERY")) for band in source.indexes]
    if all("central_wavelength_um" in tag for tag in imagery):
        values = np.array([float(tag["central_wavelength_um"]) for tag in imagery])
        widths = np.array([float(tag["fwhm_um"]) for tag in imagery if "fwhm_um" in tag])
        return _in_nm(values, "um", widths, "um")
    named = [wavelength_in_words(text) for text in source.descriptions]
    return (None, None) if None in named else (np.array(named, dtype=float), None)


def _in_nm(
    values: FloatArray, unit: str | None, widths: FloatArray, width_unit: str | None
) -> tuple[FloatArray, FloatArray | None]:
    factor = nm_per_unit(unit, values)
    if len(widths) != len(values):
        return values * factor, None
    return values * factor, widths * (factor if width_unit is None else nm_per_unit(width_unit, widths))


def _good(fields: Fields, tags: list[Fields]) -> npt.NDArray[np.bool_]:
    if "bbl" in fields:
        listed = flags(fields["bbl"])
        if len(listed) == len(tags):
            return listed
    return np.array(
        [tag.get("bbl", tag.get("good", "1")).strip().lower() not in ("0", "false") for tag in tags]
    )


def _lower(tags: dict[str, str]) -> Fields:
    return {key.lower().replace(" ", "_"): value for key, value in tags.items()}


def files_of_image(image: Path, header: Path | None = None) -> tuple[Path, ...]:
    """An image that GDAL reads, its header, and what GDAL reads with it."""
    beside = (header, *(image.with_name(f"{image.name}{suffix}") for suffix in _BESIDE))
    return (image, *(file for file in beside if file is not None and file.is_file()))


DRIVER = Driver(
    "GeoTIFF",
    lambda candidate: not (candidate.is_hdf5 or candidate.is_zip),
    open_any_raster,
    files_of_image,
    calibrated=False,
    specificity=0,
)
