"""Small pictures of maps and scenes, as PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import rasterio
from rasterio.errors import RasterioError
from rasterio.io import MemoryFile

from p3vae.cli.colours import rgb_colour
from p3vae.cli.rasters.files import gdal_environment
from p3vae.cli.rasters.maps import MapFile
from p3vae.cli.rasters.resample import SwathMap, on_map
from p3vae.cli.scenes.base import Scene, reading
from p3vae.cli.scenes.drivers import open_geotiff
from p3vae.cli.scenes.tiling import Window
from p3vae.cli.styles.rasters import (
    ColourImage,
    Ramp,
    Stop,
    ramp_stops,
    read_alphas,
    read_ramp,
    rgb_bands,
    style_document,
)

Image = npt.NDArray[np.uint8]
"""(rows, cols, 4): red, green, blue, alpha."""

_STRETCH = (2.0, 98.0)  # percentiles of a band that become black and white
_ROWS = 256
_STYLE_PIXELS = 400
"""Side of the picture from which the stretch of a scene is taken."""


def png(image: Image) -> bytes:
    """The bytes of a PNG file."""
    rows, cols, bands = image.shape
    with gdal_environment(), MemoryFile() as file:
        with file.open(driver="PNG", height=rows, width=cols, count=bands, dtype="uint8") as target:
            target.write(np.moveaxis(image, -1, 0))
        return bytes(file.read())


def class_picture(mapped: MapFile, size: int) -> Image:
    """A class map in its colours, at most `size` pixels a side, by nearest neighbour."""
    assert mapped.categories is not None
    step = _step(mapped.values.shape, size)
    values, valid = mapped.values[::step, ::step], mapped.valid[::step, ::step]
    image = np.zeros((*values.shape, 4), np.uint8)
    alphas = read_alphas(mapped.path.with_suffix(".qml"))
    for value, colour in mapped.categories.rgba().items():
        image[(values == value) & valid] = (*colour[:3], alphas.get(value, colour[3]))
    return image


def scale_of(mapped: MapFile) -> tuple[Stop, ...]:
    """The colours of a quantity's own QGIS style, or viridis over the middle of its values."""
    values = mapped.values[mapped.valid]
    low, high = np.percentile(values, _STRETCH) if values.size else (0.0, 1.0)
    return read_ramp(mapped.path.with_suffix(".qml")) or ramp_stops(Ramp(), (float(low), float(high)))


def quantity_picture(mapped: MapFile, scale: tuple[Stop, ...], size: int) -> Image:
    """A quantity in the colours of `scale`, at most `size` pixels a side, by block means."""
    step = _step(mapped.values.shape, size)
    return coloured(
        _block_means(np.where(mapped.valid, mapped.values, np.nan).astype(np.float64), step), scale
    )


def coloured(values: npt.NDArray[np.float64], scale: tuple[Stop, ...]) -> Image:
    """Values (rows, cols) in the colours of `scale`; NaN is transparent."""
    stops = np.array([(*rgb_colour(stop.color), stop.alpha) for stop in scale], np.float64)
    places = [stop.value for stop in scale]
    channels = [np.interp(np.nan_to_num(values), places, stops[:, k]) for k in range(4)]
    channels[3] = np.where(np.isfinite(values), channels[3], 0)
    return np.stack(channels, axis=-1).astype(np.uint8)


def scene_picture(scene: Scene, size: int, area: Window, onto: SwathMap | None = None) -> Image:
    """Part of a scene in true colour, or by three of its bands without visible ones; every n-th pixel.

    `onto` is how the products of a swath came onto a map grid, if they did.
    """
    usable = np.flatnonzero(scene.bands.good)
    bands = scene.file_bands[usable[list(rgb_bands(scene.bands.wavelength_nm[usable].tolist()))]]
    step = _step((area.rows, area.cols), size) if onto is None else 1
    parts = []
    for row in range(0, area.rows, _ROWS * step):
        window = Window(area.row + row, area.col, min(_ROWS * step, area.rows - row), area.cols)
        with reading(scene.path):
            parts.append(scene.reader.read(window, bands)[::step, ::step])
    image = stretched(np.concatenate(parts))
    if onto is None:
        return image
    step = _step((onto.grid.height, onto.grid.width), size)
    channels = [on_map(image[..., channel], onto, 0)[::step, ::step] for channel in range(4)]
    return np.stack(channels, axis=-1)


def cube_picture(path: Path, size: int) -> Image:
    """A cube of ours (`relit`) in true colour."""
    with gdal_environment(), reading(path), open_geotiff(path) as source:
        wavelengths = [float(source.tags(band)["wavelength"]) for band in source.indexes]
        step = _step(source.shape, size)
        shape = (3, -(-source.height // step), -(-source.width // step))
        chosen = [int(index) + 1 for index in rgb_bands(wavelengths)]
        return stretched(np.moveaxis(source.read(chosen, out_shape=shape), 0, -1))


def stretched(values: npt.NDArray[Any]) -> Image:
    """Three bands (rows, cols, 3) as red, green and blue; NaN is transparent."""
    valid = np.isfinite(values).all(axis=-1)
    image = np.zeros((*valid.shape, 4), np.uint8)
    if valid.any():
        low, high = np.percentile(values[valid], _STRETCH, axis=0)
        share = (values[valid] - low) / np.maximum(high - low, 1e-12)
        image[valid, :3] = np.round(255 * np.clip(share, 0, 1))
        image[valid, 3] = 255
    return image


def _step(shape: tuple[int, ...], size: int) -> int:
    return -(-max(shape[:2]) // size)


def _block_means(values: npt.NDArray[np.float64], step: int) -> npt.NDArray[np.float64]:
    """Means of step x step blocks without NaN; blocks at the lower and right edge may be smaller."""
    if step == 1:
        return values
    rows, cols = (np.arange(0, length, step) for length in values.shape)
    filled, known = np.nan_to_num(values), np.isfinite(values).astype(np.float64)
    total, count = (
        np.add.reduceat(np.add.reduceat(part, rows, axis=0), cols, axis=1) for part in (filled, known)
    )
    with np.errstate(invalid="ignore"):
        return np.asarray(total / np.where(count > 0, count, np.nan))


def raster_style(path: Path) -> bytes | None:
    """A QGIS style that shows a cube in true colour; None for a file that GDAL does not read as one."""
    try:
        with gdal_environment(), open_geotiff(path) as source:
            centres = [_wavelength(source, band) for band in source.indexes]
            known = [band for band, centre in zip(source.indexes, centres, strict=True) if centre is not None]
            if len(known) < 3:
                return None
            chosen = rgb_bands([centres[band - 1] or 0.0 for band in known])
            bands = [known[index] for index in chosen]
            step = _step(source.shape, _STYLE_PIXELS)
            shape = (3, -(-source.height // step), -(-source.width // step))
            values = source.read(bands, out_shape=shape, masked=True).astype(np.float64)
            scale, offset = source.scales[bands[0] - 1], source.offsets[bands[0] - 1]
    except RasterioError:
        return None
    seen = values.compressed() * scale + offset
    if not seen.size:
        return None
    low, high = (float(value) for value in np.percentile(seen, _STRETCH))
    return style_document(ColourImage((bands[0], bands[1], bands[2]), low, high))


def _wavelength(source: rasterio.DatasetReader, band: int) -> float | None:
    """Centre of a band [nm] as GDAL users write it; None where it is not said."""
    tags = {key.lower(): value for key, value in source.tags(band).items()}
    try:
        value = float(tags["wavelength"])
    except (KeyError, ValueError):
        return None
    return value * (1000.0 if value < 100 else 1.0)
