"""Maps in memory: arrays with their grid, legend and units."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.errors import P3vaeError
from p3vae.cli.rasters.derived import write_derived
from p3vae.cli.rasters.files import MapSpec, valid_mask
from p3vae.cli.rasters.grids import subgrid, whole
from p3vae.cli.rasters.maps import MapFile
from p3vae.cli.rasters.pictures import class_picture, png, quantity_picture, scale_of
from p3vae.cli.scenes.base import UNITS, Grid, Scene
from p3vae.cli.scenes.tiling import Window
from p3vae.cli.styles.rasters import Categories
from p3vae.cli.styles.titles import title_of

if TYPE_CHECKING:
    import xarray

Array = npt.NDArray[Any]

_THUMBNAIL = 260


@dataclass(frozen=True, eq=False)
class Maps(Mapping[str, Array]):
    """The maps of a scene by name: `maps["landcover"]` is an array (rows, cols), or (bands, rows, cols)."""

    scene: Path
    grid: Grid
    arrays: Mapping[str, Array]
    specs: Mapping[str, MapSpec]
    """What each map is: description, unit, nodata, legend."""
    tags: Mapping[str, str] = field(default_factory=dict)

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
        data: xarray.Dataset = _xarray().Dataset(made, attrs={"scene": str(self.scene)})
        placed: xarray.Dataset = _georeferenced(data, self.grid)
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


def scene_to_xarray(scene: Scene, window: Window | None = None) -> xarray.DataArray:
    """The spectra of a scene, or of a window of it, as (y, x, wavelength); the whole is held in memory."""
    area = window or whole(scene.grid)
    tile = scene.read(area)
    data = _xarray().DataArray(
        np.where(tile.valid[..., None], tile.values, np.nan),
        dims=("y", "x", "wavelength"),
        coords={"wavelength": ("wavelength", scene.bands.wavelength_nm, {"units": "nm"})},
        name=scene.quantity,
        attrs={"units": UNITS[scene.quantity], "scene": str(scene.path)},
    )
    made: xarray.DataArray = _georeferenced(data, subgrid(scene.grid, area))
    return made


def _georeferenced(data: Any, grid: Grid) -> Any:
    """With coordinates of pixel centres and a `spatial_ref`, as the CF conventions and rioxarray have it."""
    attributes: dict[str, Any] = {}
    if grid.crs is not None:
        attributes |= {"crs_wkt": grid.crs.to_wkt(), "spatial_ref": grid.crs.to_wkt()}
    coordinates: dict[str, Any] = {}
    transform = grid.transform
    if transform is not None and transform.b == transform.d == 0:
        coordinates["x"] = transform.c + transform.a * (np.arange(grid.width) + 0.5)
        coordinates["y"] = transform.f + transform.e * (np.arange(grid.height) + 0.5)
    if transform is not None:
        attributes["GeoTransform"] = " ".join(repr(float(v)) for v in transform.to_gdal())
    coordinates["spatial_ref"] = _xarray().DataArray(0, attrs=attributes)
    return data.assign_coords(coordinates)


def _xarray() -> Any:
    try:
        import xarray
    except ImportError as error:
        raise P3vaeError("xarray is not installed", remedy="pip install 'p3vae[xarray]'") from error
    return xarray
