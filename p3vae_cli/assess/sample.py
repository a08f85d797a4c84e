"""`p3vae sample`: a stratified random sample of a class map, for an interpreter to label."""

from __future__ import annotations

from pathlib import Path

import geopandas
import numpy as np
import numpy.typing as npt
import shapely

from p3vae.cli.errors import UsageError
from p3vae.cli.rasters.areas import to_map
from p3vae.cli.rasters.maps import MapFile, read_class_map
from p3vae.cli.rasters.vectors import save_geopackage
from p3vae.cli.styles.vectors import to_label_style

LEAST_PER_CLASS = 50
"""As Olofsson et al. (2014), section 5.1.1, advise for rare classes."""


def sample(
    path: Path, output: Path, *, count: int, minimum: int, seed: int, overwrite: bool
) -> dict[str, int]:
    """Write a point per drawn pixel, to be labelled in its empty field `class`; samples per map class."""
    mapped = read_class_map(path)
    if mapped.grid.transform is None and not mapped.grid.gcps:
        raise UsageError("is not georeferenced", path=path, remedy="points need a map with a place on Earth")
    classes = [item for item in mapped.classes if mapped.pixels(item.value)]
    if not classes:
        raise UsageError("has no class but unknown", path=path, remedy="give another map")
    pixels = np.array([mapped.pixels(item.value) for item in classes])
    drawn = allocate(pixels, count, minimum)
    rng = np.random.default_rng(seed)
    points, names = [], []
    for item, number in zip(classes, drawn.tolist(), strict=True):
        places = np.flatnonzero((mapped.values == item.value) & mapped.valid)
        points.append(rng.choice(places, number, replace=False))
        names += [item.name] * number
    frame = _frame(mapped, np.concatenate(points), names, rng.permutation(len(names)))
    style = to_label_style("class", classes)
    save_geopackage(output, frame, "samples", overwrite=overwrite, inputs=(path,), style=style)
    return dict(zip((item.name for item in classes), drawn.tolist(), strict=True))


def allocate(pixels: npt.NDArray[np.int64], count: int, minimum: int) -> npt.NDArray[np.int64]:
    """Samples of every class: at least `minimum`, the others in proportion to its pixels; `count` in all.

    A class never gets more than its pixels, and the minimum is less where `count` does not suffice for it.
    """
    least = np.minimum(pixels, min(minimum, count // len(pixels)))
    pinned = np.zeros(len(pixels), bool)
    quota = np.zeros(len(pixels))
    while not pinned.all():
        free = count - least[pinned].sum()
        quota = np.where(pinned, least, free * pixels / pixels[~pinned].sum())
        below = ~pinned & (quota < least)
        if not below.any():
            break
        pinned |= below
    quota = np.maximum(quota, least)
    drawn = np.minimum(np.floor(quota).astype(np.int64), pixels)
    for index in np.argsort(drawn - quota, kind="stable"):  # what rounding left over, largest share first
        if drawn.sum() < count and drawn[index] < pixels[index]:
            drawn[index] += 1
    return drawn


def _frame(
    mapped: MapFile, places: npt.NDArray[np.int64], names: list[str], order: npt.NDArray[np.int64]
) -> geopandas.GeoDataFrame:
    """Pixel centres in random order, so that no run of one class suggests the next answer."""
    row, col = np.divmod(places[order], mapped.grid.width)
    centres = to_map(mapped.grid, np.column_stack([col + 0.5, row + 0.5]))
    columns = {
        "sample": np.arange(1, len(order) + 1),
        "class": np.array([None] * len(order), dtype=object),
        "map_class": [names[index] for index in order],
    }
    crs = None if mapped.grid.crs is None else mapped.grid.crs.to_wkt()
    return geopandas.GeoDataFrame(columns, geometry=shapely.points(centres), crs=crs)
