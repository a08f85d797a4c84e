"""What GIS users do with a finished class map: take out single pixels, and turn it into polygons."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from p3vae.cli.errors import ProductError
from p3vae.cli.rasters.derived import write_derived
from p3vae.cli.rasters.files import class_map
from p3vae.cli.rasters.maps import MapFile, read_class_map
from p3vae.cli.rasters.polygons import class_polygons
from p3vae.cli.rasters.vectors import save_geopackage
from p3vae.cli.styles.vectors import class_style


def smooth(path: Path, output: Path, *, radius: int, overwrite: bool) -> int:
    """Write the map with every pixel as most pixels around it; how many changed."""
    mapped = read_class_map(path)
    values = majority(mapped, radius)
    assert mapped.categories is not None
    spec = class_map("landcover", mapped.description or "land cover", mapped.categories)
    layers = {output.name: (spec, values)}
    write_derived(output.parent, layers, mapped.grid, mapped.tags, overwrite=overwrite, inputs=(path,))
    return int((values != np.where(mapped.valid, mapped.values, 0)).sum())


def majority(mapped: MapFile, radius: int) -> npt.NDArray[np.uint8]:
    """The commonest class in the square of `radius` pixels around each pixel; its own in a tie.

    Pixels without a class stay without, and do not count; the whole map is filtered at once.
    """
    assert mapped.categories is not None
    own = np.where(mapped.valid, mapped.values, 0)
    if own.max() > 255 or own.min() < 0:
        raise ProductError("holds values beyond 255", path=mapped.path, remedy="give a map of 1 to 255")
    size, best = 2 * radius + 1, own.astype(np.uint8)
    most = np.zeros(own.shape, np.float64)
    for item in mapped.categories.items:
        here = (own == item.value).astype(np.float64)
        count = ndimage.uniform_filter(here, size, mode="constant") * size**2
        count += 0.5 * here  # a tie is the pixel's own
        better = (count > most + 1e-6) & (own > 0)
        best[better], most[better] = item.value, count[better]
    return best


def polygons(path: Path, output: Path, *, overwrite: bool) -> int:
    """Write the map as polygons with class and area; how many."""
    mapped = read_class_map(path)
    assert mapped.categories is not None
    frame, style = class_polygons(mapped), class_style("class", mapped.categories.items)
    save_geopackage(output, frame, "landcover", overwrite=overwrite, inputs=(path,), style=style)
    return len(frame)
