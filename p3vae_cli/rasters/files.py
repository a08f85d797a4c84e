"""Maps on disk: cloud-optimised GeoTIFFs with style, categories, statistics and provenance."""

from __future__ import annotations

import json
import logging
import math
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import rasterio
import rasterio.shutil
from affine import Affine
from rasterio.errors import NotGeoreferencedWarning, RasterioError
from rasterio.io import MemoryFile
from rasterio.windows import Window as RasterioWindow

from p3vae.cli.errors import ProductError, UsageError
from p3vae.cli.rasters.areas import ClassExtent, row_areas_m2
from p3vae.cli.rasters.statistics import Statistics
from p3vae.cli.records.staging import Staging, writing
from p3vae.cli.scenes.base import Grid
from p3vae.cli.scenes.class_rasters import CLASS_NAMES_TAG
from p3vae.cli.scenes.drivers import gdal_name, open_geotiff
from p3vae.cli.scenes.gdal import gdal_errors
from p3vae.cli.scenes.tiling import Window
from p3vae.cli.styles.rasters import (
    Categories,
    Ramp,
    Style,
    category_document,
    rgb_bands,
    side_files,
    style_document,
    true_colour,
)

Array = npt.NDArray[Any]

BLOCK = 512

DEFAULT_CREATION_OPTIONS = {
    "COMPRESS": "DEFLATE",
    "PREDICTOR": "YES",
    "BLOCKSIZE": str(BLOCK),
    "BIGTIFF": "IF_SAFER",
}

GDAL_CACHE_MB = 64

_MOVES_PIXELS = {
    *("TILING_SCHEME", "TARGET_SRS", "RES", "EXTENT", "ALIGNED_LEVELS", "ADD_ALPHA"),
    *("ZOOM_LEVEL", "ZOOM_LEVEL_STRATEGY", "WARP_RESAMPLING"),
}
"""Creation options of the COG driver with which products would not be on the scene's grid."""
_ANYWHERE = Affine.scale(30.0, -30.0)


@dataclass(frozen=True)
class MapSpec:
    """What a map is: one quantity, in one file, in all that a GIS wants to know about it."""

    suffix: str
    """Name of the map; the file is called SCENE_suffix.tif."""
    description: str
    """For a human, with the unit: GIS programs show it, and not the unit."""
    dtype: str = "float32"
    nodata: float = math.nan
    unit: str = ""
    style: Style = field(default_factory=Ramp)
    band_descriptions: tuple[str, ...] = ()
    """One per band of a map with several; empty for a single band."""
    reports_invalid: bool = False
    """A map that reports why pixels are invalid, and keeps its values there."""
    band_tags: tuple[Mapping[str, str], ...] = ()
    """One mapping per band, e.g. {"wavelength": "550.0", "fwhm": "10.0"} or {"color": "#c81e1e"}."""

    @property
    def bands(self) -> int:
        """Number of bands in the file."""
        return max(1, len(self.band_descriptions))

    @property
    def bytes_per_pixel(self) -> int:
        """Size of a pixel before compression [bytes]."""
        return self.bands * np.dtype(self.dtype).itemsize


def class_map(suffix: str, description: str, categories: Categories) -> MapSpec:
    """Spec of a class map: uint8, 0 = nodata, palette."""
    return MapSpec(suffix, description, dtype="uint8", nodata=0, style=categories)


class RasterSink:
    """One map being written; windows may come in any order, each pixel once."""

    def __init__(
        self,
        staging: Staging,
        name: str,
        spec: MapSpec,
        grid: Grid,
        *,
        origin: tuple[int, int] = (0, 0),
        tags: Mapping[str, str] | None = None,
        creation_options: Mapping[str, str] | None = None,
    ) -> None:
        """Open a working file for the product `name` (.tif); `origin` is where `grid` begins in the scene."""
        self.spec = spec
        self.grid = grid
        self.name = name
        self.final = staging.folder / name
        self.statistics = [Statistics()] * spec.bands
        self._class_rows: dict[int, npt.NDArray[np.int64]] = {}  # pixels per row, by value
        self._staging = staging
        self._origin = origin
        self._options = DEFAULT_CREATION_OPTIONS | dict(creation_options or {})
        self.working = staging.path(f".working-{name}")
        """The raster as written so far; plain, without overviews."""
        with writing(self.final):
            self._dataset = rasterio.open(gdal_name(self.working), "w", **self._profile())
            self._describe(tags or {})

    @property
    def reports_invalid(self) -> bool:
        """Whether values where spectra are invalid are kept."""
        return self.spec.reports_invalid

    @property
    def nodata(self) -> float:
        """The value of pixels without a result."""
        return self.spec.nodata

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored values."""
        return np.dtype(self.spec.dtype)

    def write(self, window: Window, values: Array) -> None:
        """Write (rows, cols) or (bands, rows, cols) values of a window of the scene."""
        stack = values[np.newaxis] if values.ndim == 2 else values
        row, col = window.row - self._origin[0], window.col - self._origin[1]
        with writing(self.final):
            self._dataset.write(
                stack.astype(self.dtype, copy=False),
                window=RasterioWindow(col, row, window.cols, window.rows),
            )
        for band, layer in enumerate(stack):
            self._count(band, layer, row)

    def _count(self, band: int, layer: Array, row: int) -> None:
        values = valid_values(layer, self.spec.nodata)
        self.statistics[band] += Statistics.from_values(values)
        if isinstance(self.spec.style, Categories):
            for value in np.unique(values):
                rows = self._class_rows.setdefault(int(value), np.zeros(self.grid.height, np.int64))
                rows[row : row + len(layer)] += np.count_nonzero(layer == value, axis=1)

    @property
    def classes(self) -> tuple[ClassExtent, ...]:
        """What each class of the legend covers, as written so far; empty unless the map has categories."""
        if not isinstance(self.spec.style, Categories):
            return ()
        areas = row_areas_m2(self.grid)
        nowhere = np.zeros(self.grid.height, np.int64)
        mapped = sum(int(rows.sum()) for rows in self._class_rows.values())
        return tuple(
            ClassExtent.of_rows(
                item.value, item.name, item.color, self._class_rows.get(item.value, nowhere), areas, mapped
            )
            for item in self.spec.style.items
        )

    def finish(self) -> None:
        """Make the final raster with overviews, and its side files; they wait in the staging folder."""
        with writing(self.final):
            pixels = self.grid.width * self.grid.height
            quantity = not isinstance(self.spec.style, Categories)  # the mean of class numbers says nothing
            for band, statistics in enumerate(self.statistics, start=1):
                self._dataset.update_tags(band, **(statistics.tags(pixels) if quantity else {}))
            self.close()
            rasterio.shutil.copy(
                self.working, self._staging.path(self.name), driver="COG", **self._copy_options()
            )
            self._verify()
            self.working.unlink()
            self._write_side_files()

    def close(self) -> None:
        """Close the working file; harmless when it is closed already."""
        self._dataset.close()

    def _profile(self) -> dict[str, Any]:
        georeference: dict[str, Any] = {"crs": self.grid.crs}
        if self.grid.transform is not None:
            georeference["transform"] = self.grid.transform
        elif self.grid.gcps:
            georeference["gcps"] = list(self.grid.gcps)
        return {
            "driver": "GTiff",
            "width": self.grid.width,
            "height": self.grid.height,
            "count": self.spec.bands,
            "dtype": self.spec.dtype,
            "nodata": self.spec.nodata,
            "tiled": True,
            "blockxsize": BLOCK,
            "blockysize": BLOCK,
            "interleave": "band",
            "bigtiff": "IF_SAFER",
            **georeference,
        }

    def _describe(self, tags: Mapping[str, str]) -> None:
        spec, dataset = self.spec, self._dataset
        dataset.update_tags(**tags)
        for band in range(1, spec.bands + 1):
            dataset.set_band_description(band, (spec.band_descriptions or (spec.description,))[band - 1])
            if spec.unit:
                dataset.set_band_unit(band, spec.unit)
            if spec.band_tags:
                dataset.update_tags(band, **spec.band_tags[band - 1])
        if spec.band_descriptions:
            dataset.update_tags(DESCRIPTION=spec.description)
        if isinstance(spec.style, Categories):
            dataset.write_colormap(1, spec.style.rgba())
            names = {item.value: item.name for item in spec.style.items}
            dataset.update_tags(**{CLASS_NAMES_TAG: json.dumps(names, ensure_ascii=False)})

    def _copy_options(self) -> dict[str, str]:
        resampling = "MODE" if isinstance(self.spec.style, Categories) else "AVERAGE"
        threads = os.environ.get("GDAL_NUM_THREADS", "ALL_CPUS")
        return {"OVERVIEW_RESAMPLING": resampling, "NUM_THREADS": threads} | self._options

    def _verify(self) -> None:
        """Read the raster back: GDAL may report a failed write only in passing when it closes a file."""
        with open_geotiff(self._staging.path(self.name)) as raster:
            for band, expected in enumerate(self.statistics, start=1):
                found = Statistics()
                for _, block in raster.block_windows(band):
                    found += Statistics.from_values(
                        valid_values(raster.read(band, window=block), self.spec.nodata)
                    )
                if found.count != expected.count and not (self._lossy() and found.count):
                    raise ProductError(
                        f"{expected.count - found.count} pixels were lost while writing",
                        path=self.final,
                        remedy="check the disk and its free space",
                    )

    def _lossy(self) -> bool:
        return self._options["COMPRESS"].upper() in {
            "JPEG",
            "WEBP",
            "LERC",
            "LERC_DEFLATE",
            "LERC_ZSTD",
            "JXL",
        }

    def _write_side_files(self) -> None:
        style_file, *categories_file = side_files(self.name, self.spec.style)
        style = style_document(self._shown(), self.statistics[0].stretch())
        self._staging.path(style_file).write_bytes(style)
        if isinstance(self.spec.style, Categories):
            document = category_document(self.spec.style)
            self._staging.path(categories_file[0]).write_bytes(document)

    def _shown(self) -> Style:
        """The style of the map; a cube of spectra is shown in true colour."""
        wavelengths = [float(tags["wavelength"]) for tags in self.spec.band_tags if "wavelength" in tags]
        if len(wavelengths) < 3 or len(wavelengths) != self.spec.bands:
            return self.spec.style
        ends = [self.statistics[band].stretch() for band in rgb_bands(wavelengths)]
        return true_colour(wavelengths, min(low for low, _ in ends), max(high for _, high in ends))


def valid_values(values: Array, nodata: float) -> Array:
    """The values that are neither nodata nor NaN, flat."""
    selected: Array = values[valid_mask(values, nodata)]
    return selected


def valid_mask(values: Array, nodata: float) -> npt.NDArray[np.bool_]:
    """True where a value is neither nodata nor NaN."""
    keep = values != nodata
    if np.issubdtype(values.dtype, np.floating):
        keep &= ~np.isnan(values)
    return np.asarray(keep)


def parse_creation_options(pairs: Iterable[str]) -> dict[str, str]:
    """`("COMPRESS=ZSTD", ...)` to a mapping, refusing what GDAL would ignore with a mere warning."""
    options = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not value:
            raise UsageError(f"--co {pair} is not NAME=VALUE", remedy="for example --co COMPRESS=ZSTD")
        if name.upper() in _MOVES_PIXELS:
            raise UsageError(
                f"--co {pair} would leave the scene's grid", remedy="leave it out, or --grid utm"
            )
        options[name.upper()] = value
    complaint = _complaint_about(options) if options else ""
    if complaint:
        raise UsageError(f"--co: {complaint}", remedy="see the options of GDAL's COG driver")
    return options


def _complaint_about(options: Mapping[str, str]) -> str:
    """What GDAL says when it writes tiny rasters with these options; empty when it is content."""
    complaints = _Complaints()
    logger = logging.getLogger("rasterio._env")
    logger.addHandler(complaints)
    try:
        for dtype in ("uint8", "float32"):
            profile = {"width": 16, "height": 16, "count": 1, "dtype": dtype, "transform": _ANYWHERE}
            with MemoryFile() as source, MemoryFile(ext=".tif") as target:
                with source.open(driver="GTiff", **profile) as raster:
                    raster.write(np.ones((1, 16, 16), dtype))
                with gdal_errors():
                    rasterio.shutil.copy(source.name, target.name, driver="COG", **options)
    except RasterioError as error:
        complaints.said.append(str(error))
    finally:
        logger.removeHandler(complaints)
    return complaints.said[0] if complaints.said else ""


class _Complaints(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage().partition(" in ")[2])


@contextmanager
def gdal_environment() -> Iterator[None]:
    """GDAL with a small block cache (its default is 5 % of the machine), unless GDAL_CACHEMAX is set."""
    settings = {} if "GDAL_CACHEMAX" in os.environ else {"GDAL_CACHEMAX": GDAL_CACHE_MB}
    with rasterio.Env(**settings), warnings.catch_warnings():
        # A scene that is nowhere on Earth gives products that are nowhere: nothing to warn about here.
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        yield
