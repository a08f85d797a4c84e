"""A class map as polygons."""

from __future__ import annotations

import geopandas
import numpy as np
import shapely
from rasterio import features

from p3vae.cli.rasters.areas import M2_PER_HECTARE, row_areas_m2, to_map
from p3vae.cli.rasters.maps import MapFile


def class_polygons(mapped: MapFile) -> geopandas.GeoDataFrame:
    """One polygon per connected patch of a class, with name, value, colour, pixels and hectares.

    Pixels of a patch share edges. Hectares are those of the pixels, as in all areas of p3vae; NaN for a map
    that is nowhere on Earth.
    """
    assert mapped.categories is not None
    named = {item.value: item for item in mapped.categories.items}
    values = np.where(mapped.valid, mapped.values, 0).astype(np.int32)
    areas = row_areas_m2(mapped.grid)
    rows, shapes = [], []
    for outline, value in features.shapes(values, mask=values != 0, connectivity=4):
        shape = shapely.geometry.shape(outline)
        item = named[int(value)]
        hectares = np.nan
        if areas is not None:
            middle = min(int(shape.centroid.y), mapped.grid.height - 1)
            hectares = shape.area * areas[middle] / M2_PER_HECTARE
        rows.append((item.name, item.value, item.color, round(shape.area), hectares))
        shapes.append(shapely.transform(shape, lambda points: to_map(mapped.grid, points)))
    crs = None if mapped.grid.crs is None else mapped.grid.crs.to_wkt()
    return geopandas.GeoDataFrame(
        rows, columns=["class", "value", "color", "pixels", "hectares"], geometry=shapes, crs=crs
    )
