"""A picture of every plume: its enhancement over the ground, its outline and its likely source."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rasterio.warp import transform
from scipy import ndimage

from p3vae.cli.rasters.areas import WGS84, to_map
from p3vae.cli.rasters.maps import MapFile, read_map
from p3vae.cli.rasters.pictures import Image, coloured, png, scale_of, stretched
from p3vae.cli.records.manifest import read_manifest, sha256
from p3vae.cli.run.maps import MapFiles, Maps
from p3vae.cli.scenes.base import Scene, reading
from p3vae.cli.scenes.pixel_coordinates import PixelCoordinates
from p3vae.cli.scenes.tiling import Window

_MARGIN, _LEAST_MARGIN = 0.5, 10
"""Ground around a plume: share of its longer side, and pixels."""
_SIDE = 480
"""Pixels are enlarged by the whole number that comes next to this side."""
_GROUND_NM = 2100.0
"""Where the ground is seen and methane hardly is."""
_OUTLINE, _SOURCE, _BAR = (255, 255, 255, 255), (0, 229, 255, 255), (255, 255, 255, 255)
_CROSS, _THICK = 7, 3
_BARS_M = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
_BAR_SHARE = 0.3
_END = "plume-{number}.png"


def earlier_pictures(manifest: Path, stem: str, made: set[str]) -> list[str]:
    """Names of pictures that an earlier run listed, as they are now, and this one has not made."""
    record = read_manifest(manifest) or {}
    earlier = record.get("earlier_runs")
    runs = [record, *(earlier if isinstance(earlier, list) else [])]
    pattern = re.compile(re.escape(stem) + "_" + _END.format(number=r"\d+"))
    listed = {
        str(product["file"]): product.get("sha256")
        for run in runs
        for product in run.get("products", ())
        if pattern.fullmatch(str(product["file"]))
    }
    folder = manifest.parent
    return sorted(
        name
        for name in listed.keys() - made
        if (folder / name).is_file() and sha256(folder / name) == listed[name]
    )


def add_pictures(
    maps: Maps, scene: Scene, labels: npt.NDArray[np.int32], rows: Sequence[dict[str, Any]]
) -> None:
    """A picture for each plume that the map shows; earlier ones of other plumes go."""
    if not isinstance(maps, MapFiles):
        return
    made = set(PlumePictures(maps, scene, labels).write(rows)) if rows else set()
    maps.removed += earlier_pictures(maps.manifest, maps.stem, made)


@dataclass(frozen=True, eq=False)
class PlumePictures:
    """Makes the pictures of a run, on the grid of its maps."""

    maps: MapFiles
    scene: Scene
    labels: npt.NDArray[np.int32]
    """On that grid."""

    def write(self, rows: Sequence[dict[str, Any]]) -> list[str]:
        """The names of the pictures that were added."""
        methane = read_map(self.maps.staging.path(self.maps.sinks["methane"].name))
        scale, found = scale_of(methane), ndimage.find_objects(self.labels)
        names = []
        for row in rows:
            box = found[row["plume"] - 1] if row["plume"] <= len(found) else None
            if box is None:
                continue
            window = _around(box, self.labels.shape)
            image = coloured(methane.values[window.slices].astype(np.float64), scale)
            inside = self.labels[window.slices] == row["plume"]
            image[~inside | ~methane.valid[window.slices]] = 0
            picture = png(self._drawn(image, inside, window, methane, row))
            end = _END.format(number=row["plume"])
            self.maps.add_file(end, lambda picture=picture: picture, "picture of a plume")  # type: ignore[misc]
            names.append(f"{self.maps.stem}_{end}")
        return names

    def _drawn(
        self,
        plume: Image,
        inside: npt.NDArray[np.bool_],
        window: Window,
        methane: MapFile,
        row: dict[str, Any],
    ) -> Image:
        """The plume over the ground, enlarged, with its outline, its source and a bar for the scale."""
        ground = self._ground(window)
        image: Image = np.where(plume[..., 3:] > 0, plume, ground)
        factor = max(1, -(-_SIDE // max(image.shape[:2])))
        image = image.repeat(factor, axis=0).repeat(factor, axis=1)
        large = inside.repeat(factor, axis=0).repeat(factor, axis=1)
        image[large & ~ndimage.binary_erosion(large, iterations=max(1, factor // 4))] = _OUTLINE
        grid = methane.grid
        if row["source_lon"] is not None and grid.crs is not None:
            x, y = transform("EPSG:4326", grid.crs, [row["source_lon"]], [row["source_lat"]])
            col, line = PixelCoordinates(grid)(np.array([[x[0], y[0]]]))[0]
            _cross(image, int((line - window.row) * factor), int((col - window.col) * factor))
            _bar(image, _metres_per_pixel(methane, window) / factor)
        return image

    def _ground(self, window: Window) -> Image:
        """The scene in grey, in one band of the short-wave infrared, or the nearest to it."""
        area, onto = self.maps.area, self.maps.onto
        good = np.flatnonzero(self.scene.bands.good)
        nearest = np.abs(self.scene.bands.wavelength_nm[good] - _GROUND_NM).argmin()
        band = self.scene.file_bands[good[nearest] : good[nearest] + 1]
        if onto is None:
            values = self._read(window._replace(row=window.row + area.row, col=window.col + area.col), band)
        else:
            values = onto.values(self._whole(window, band), window, np.nan, nearest=True)
        return stretched(
            values.repeat(3, axis=2) if values.ndim == 3 else values[..., None].repeat(3, axis=2)
        )

    def _whole(self, window: Window, band: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
        """The swath (rows, cols), read only where a window of the map may show it."""
        area, onto = self.maps.area, self.maps.onto
        assert onto is not None
        lines = np.repeat(np.arange(area.rows, dtype=np.int32)[:, None] + 1, area.cols, axis=1)
        shown = onto.values(lines, window, 0, nearest=True)
        values = np.full((area.rows, area.cols), np.nan, np.float32)
        if shown.any():
            top, bottom = int(shown[shown > 0].min()) - 1, int(shown.max())
            part = Window(area.row + top, area.col, bottom - top, area.cols)
            values[top:bottom] = self._read(part, band)[..., 0]
        return values

    def _read(self, window: Window, band: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
        with self.scene.lock, reading(self.scene.path):
            return self.scene.reader.read(window, band)


def _around(box: tuple[slice, slice], shape: tuple[int, ...]) -> Window:
    height, width = (part.stop - part.start for part in box)
    margin = max(_LEAST_MARGIN, int(_MARGIN * max(height, width)))
    return Window(box[0].start, box[1].start, height, width).grown(margin, shape[0], shape[1])


def _metres_per_pixel(methane: MapFile, window: Window) -> float:
    """Along a line of the map, in the middle of a window."""
    middle = window.row + window.rows / 2
    ends = to_map(methane.grid, np.array([[window.col, middle], [window.col + window.cols, middle]]))
    lon, lat = transform(methane.grid.crs, "EPSG:4326", *ends.T.tolist())
    return float(WGS84.inv(lon[0], lat[0], lon[1], lat[1])[2] / window.cols)


def _cross(image: Image, row: int, col: int) -> None:
    """A mark at a place."""
    for rows, cols in ((_THICK // 2, _CROSS), (_CROSS, _THICK // 2)):
        image[max(row - rows, 0) : row + rows + 1, max(col - cols, 0) : col + cols + 1] = _SOURCE


def _bar(image: Image, metres: float) -> None:
    """A bar of a round length, at most 30 % of the width, with a tick at each end and at each fifth of it."""
    fitting = [length for length in _BARS_M if length <= _BAR_SHARE * image.shape[1] * metres]
    if not fitting or metres <= 0:
        return
    length, bottom, left = round(fitting[-1] / metres), image.shape[0] - 10, 10
    image[bottom - _THICK : bottom, left : left + length] = _BAR
    for tick in np.linspace(left, left + length - 1, 6).astype(int):
        image[bottom - 3 * _THICK : bottom, tick] = _BAR
