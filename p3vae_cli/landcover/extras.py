"""What `p3vae classify` makes of its finished land cover: a smoothed map, and polygons."""

from __future__ import annotations

from dataclasses import replace

from p3vae.cli.landcover.settings import ClassifySettings
from p3vae.cli.rasters.files import class_map, valid_mask
from p3vae.cli.rasters.filters import majority
from p3vae.cli.rasters.maps import MapFile
from p3vae.cli.rasters.polygons import class_polygons
from p3vae.cli.run.maps import Maps
from p3vae.cli.styles.rasters import Categories
from p3vae.cli.styles.titles import LAND_COVER_POLYGONS
from p3vae.cli.styles.vectors import class_style

SMOOTHED = "landcover_smooth"


def extra_files(settings: ClassifySettings) -> list[str]:
    """Suffixes of their files."""
    smoothed = [f"{SMOOTHED}.tif"] * (settings.smooth is not None)
    return smoothed + [f"{LAND_COVER_POLYGONS}.gpkg"] * settings.polygons


def make_extras(maps: Maps, settings: ClassifySettings) -> None:
    """Make them; the whole map is held in memory for that."""
    if not extra_files(settings):
        return
    mapped = _land_cover(maps)
    categories = mapped.categories
    assert categories is not None
    if settings.smooth is not None:
        mapped = replace(mapped, values=majority(mapped, settings.smooth))
        spec = class_map(SMOOTHED, "land cover, each pixel as most around it", categories)
        maps.add(SMOOTHED, spec, mapped.values)
    if settings.polygons:
        maps.add_table(
            LAND_COVER_POLYGONS,
            class_polygons(mapped),
            "landcover",
            class_style("class", categories.items),
            "patches of one class, with their area",
        )


def _land_cover(maps: Maps) -> MapFile:
    spec, values = maps.specs["landcover"], maps["landcover"]
    assert isinstance(spec.style, Categories)
    valid = valid_mask(values, spec.nodata)
    return MapFile(maps.scene, maps.grid, values, valid, spec.style, spec.description, spec.unit, maps.tags)
