"""What GIS users do with a finished class map: take out single pixels, and turn it into polygons."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from p3vae.cli.rasters.derived import write_derived
from p3vae.cli.rasters.files import class_map
from p3vae.cli.rasters.filters import majority
from p3vae.cli.rasters.maps import read_class_map
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


def polygons(path: Path, output: Path, *, overwrite: bool) -> int:
    """Write the map as polygons with class and area; how many."""
    mapped = read_class_map(path)
    assert mapped.categories is not None
    frame, style = class_polygons(mapped), class_style("class", mapped.categories.items)
    save_geopackage(output, frame, "landcover", overwrite=overwrite, inputs=(path,), style=style)
    return len(frame)
