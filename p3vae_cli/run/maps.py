"""The maps of a scene: arrays in memory, or files; with their grid and what each of them is."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.rasters.areas import ClassExtent
from p3vae.cli.rasters.derived import write_derived
from p3vae.cli.rasters.files import MapSpec, RasterSink, valid_mask
from p3vae.cli.rasters.grids import whole
from p3vae.cli.rasters.maps import MapFile
from p3vae.cli.rasters.pictures import class_picture, png, quantity_picture, scale_of
from p3vae.cli.rasters.resample import SwathMap
from p3vae.cli.rasters.statistics import Statistics
from p3vae.cli.rasters.vectors import write_geopackage
from p3vae.cli.rasters.xarrays import georeferenced, xarray_module
from p3vae.cli.records.manifest import product_record, sha256
from p3vae.cli.records.staging import Staging, writing
from p3vae.cli.scenes.base import Grid
from p3vae.cli.scenes.drivers import open_geotiff
from p3vae.cli.scenes.tiling import Window
from p3vae.cli.styles.rasters import Categories, Style, style_document
from p3vae.cli.styles.titles import title_of

if TYPE_CHECKING:
    import xarray
    from geopandas import GeoDataFrame

Array = npt.NDArray[Any]

_THUMBNAIL = 260
"""Width of a picture in a notebook [pixels]."""


@dataclass(eq=False, repr=False)
class Maps(Mapping[str, Array]):
    """The maps of a scene by name: `maps["landcover"]` is an array (rows, cols), or (bands, rows, cols)."""

    scene: Path
    grid: Grid
    specs: dict[str, MapSpec]
    """What each map is: description, unit, nodata, legend."""
    arrays: Mapping[str, Array]
    area: Window
    """The part of the scene that was mapped."""
    tags: Mapping[str, str] = field(default_factory=dict)
    swath: Maps | None = None
    """For a swath whose maps were brought onto a map grid: they as they were, each pixel once."""
    onto: SwathMap | None = None
    """How they came onto the map grid."""
    tables: dict[str, GeoDataFrame] = field(default_factory=dict)
    """Polygons that were made of the maps."""
    lines: list[str] = field(default_factory=list)
    """What was found, for people."""
    record: dict[str, Any] = field(default_factory=dict)
    """What was found, for programs."""

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def __repr__(self) -> str:
        names = ", ".join(f"{name} {array.shape}" for name, array in self.arrays.items())
        return f"<Maps of {self.scene.name}: {names}>"

    @property
    def units(self) -> dict[str, str]:
        """Unit of every map; "1" for a ratio, "" for classes."""
        return {name: spec.unit for name, spec in self.specs.items()}

    @property
    def legend(self) -> dict[int, str]:
        """Class names by value in the first class map; empty if there is none."""
        styles = (spec.style for spec in self.specs.values())
        found = next((style for style in styles if isinstance(style, Categories)), None)
        return {} if found is None else {item.value: item.name for item in found.items}

    def save(self, folder: str | Path, *, overwrite: bool = False) -> list[Path]:
        """Write the maps as cloud-optimised GeoTIFFs with styles, all of them or none; their paths."""
        stem = self.scene.stem
        layers = {f"{stem}_{self.specs[n].suffix}.tif": (self.specs[n], self.arrays[n]) for n in self.arrays}
        target = Path(folder)
        write_derived(target, layers, self.grid, self.tags, overwrite=overwrite, inputs=(self.scene,))
        return [target / name for name in layers]

    def to_xarray(self) -> xarray.Dataset:
        """All maps with coordinates, units, and the CRS where rioxarray looks for it; nodata is NaN or 0."""
        made = {}
        for name, array in self.arrays.items():
            spec = self.specs[name]
            dims = ("y", "x") if array.ndim == 2 else (f"{name}_band", "y", "x")
            attributes: dict[str, Any] = {"long_name": spec.description, "units": spec.unit}
            if isinstance(spec.style, Categories):
                attributes["flag_values"] = [item.value for item in spec.style.items]
                attributes["flag_meanings"] = " ".join(i.name.replace(" ", "_") for i in spec.style.items)
            attributes["_FillValue"] = spec.nodata
            made[name] = (dims, array, attributes)
        data: xarray.Dataset = xarray_module().Dataset(made, attrs={"scene": str(self.scene)})
        placed: xarray.Dataset = georeferenced(data, self.grid)
        return placed

    def _repr_html_(self) -> str:
        """Small pictures with titles, for notebooks."""
        figures = []
        for name, spec in self.specs.items():
            if self.arrays[name].ndim > 2:
                continue
            picture = base64.b64encode(png(self._picture(name))).decode()
            unit = f" [{spec.unit}]" if spec.unit not in ("", "1") else ""
            figures.append(
                '<figure style="display: inline-block; margin: 4px"><img style="image-rendering: pixelated" '
                f'width="{_THUMBNAIL}" src="data:image/png;base64,{picture}">'
                f"<figcaption>{escape(title_of(spec.suffix))}{escape(unit)}</figcaption></figure>"
            )
        return f"<div>{escape(repr(self))}<br>{''.join(figures)}</div>"

    def _picture(self, name: str) -> npt.NDArray[np.uint8]:
        spec, array = self.specs[name], self.arrays[name]
        categories = spec.style if isinstance(spec.style, Categories) else None
        valid = valid_mask(array, spec.nodata)
        shown = MapFile(Path(name), self.grid, array, valid, categories, spec.description, spec.unit, {})
        if categories is not None:
            return class_picture(shown, _THUMBNAIL)
        return quantity_picture(shown, scale_of(shown), _THUMBNAIL)

    @property
    def seen(self) -> Maps:
        """The maps as the sensor saw them: no pixel is repeated."""
        return self.swath or self

    def add(self, name: str, spec: MapSpec, values: Array) -> None:
        """One more map on the same grid."""
        self.specs[name] = spec
        self.arrays = {**self.arrays, name: values}

    def add_table(
        self, name: str, frame: GeoDataFrame, layer: str, style: bytes, description: str, **record: Any
    ) -> None:
        """Polygons, with their style for QGIS."""
        self.tables[name] = frame

    def add_file(self, end: str, content: Callable[[], bytes], description: str, **record: Any) -> None:
        """A file beside the maps; in memory there is none."""

    def restyle(self, name: str, style: Style) -> None:
        """Show a map in other colours than its spec says."""


@dataclass(eq=False, repr=False, kw_only=True)
class MapFiles(Maps):
    """Maps in files of a run; while it goes on, they lie in its staging folder."""

    staging: Staging
    stem: str
    """First part of the names of further files."""
    manifest: Path
    sinks: Mapping[str, RasterSink]
    pixels: int
    valid_pixels: int
    seconds: float = 0.0
    made: list[dict[str, Any]] = field(default_factory=list)
    """What the manifest says of the maps."""
    added: list[dict[str, Any]] = field(default_factory=list)
    """What the manifest says of the files that were added."""
    removed: list[str] = field(default_factory=list)
    """Names of files of an earlier run that are not part of the products any more."""

    @property
    def paths(self) -> dict[str, Path]:
        """Where the maps are, once the run is over."""
        return {name: sink.final for name, sink in self.sinks.items()}

    @property
    def classes(self) -> dict[str, tuple[ClassExtent, ...]]:
        """What each class covers, of the maps with classes."""
        return {name: sink.classes for name, sink in self.sinks.items() if sink.classes}

    @property
    def statistics(self) -> dict[str, tuple[Statistics, ...]]:
        """Of each map, one per band."""
        return {name: tuple(sink.statistics) for name, sink in self.sinks.items()}

    def records(self) -> list[dict[str, Any]]:
        """What the manifest says of the maps and the files added to them."""
        self.made = [product_record(self.staging.path(sink.name), sink) for sink in self.sinks.values()]
        return [*self.made, *self.added]

    def add(self, name: str, spec: MapSpec, values: Array) -> None:
        """One more raster on the same grid."""
        kept = {key: value for key, value in self.tags.items() if key.startswith("P3VAE_")}
        file = f"{self.stem}_{spec.suffix}.tif"
        sink = RasterSink(self.staging, file, spec, self.grid, tags=kept)
        try:
            sink.write(whole(self.grid), values)
            sink.finish()
        finally:
            sink.close()
        self.added.append(product_record(self.staging.path(file), sink))

    def add_table(
        self, name: str, frame: GeoDataFrame, layer: str, style: bytes, description: str, **record: Any
    ) -> None:
        """A GeoPackage with its style."""
        file = f"{self.stem}_{name}.gpkg"
        path = self.staging.path(file)
        with writing(self.staging.folder / file):
            write_geopackage(path, frame, layer)
            path.with_suffix(".qml").write_bytes(style)
        self._note(path, description, record)
        self.tables[name] = frame

    def add_file(self, end: str, content: Callable[[], bytes], description: str, **record: Any) -> None:
        """A file whose name ends with `end`."""
        file = f"{self.stem}_{end}"
        self.staging.add(file)
        with writing(self.staging.folder / file):
            self.staging.path(file).write_bytes(content())
        self._note(self.staging.path(file), description, record)

    def _note(self, path: Path, description: str, record: Mapping[str, Any]) -> None:
        about = {"file": path.name, "description": description}
        self.added.append(about | {"size": path.stat().st_size, "sha256": sha256(path)} | dict(record))

    def restyle(self, name: str, style: Style) -> None:
        """Write the style of a map anew."""
        file = Path(self.sinks[name].name).with_suffix(".qml").name
        self.staging.path(file).write_bytes(style_document(style))


class RasterArrays(Mapping[str, Array]):
    """Rasters read when they are asked for, and not kept."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = paths

    def __getitem__(self, name: str) -> Array:
        with open_geotiff(self._paths[name]) as source:
            values: Array = source.read()
        return values if len(values) > 1 else values[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)
