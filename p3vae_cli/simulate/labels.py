"""Label polygons for a simulated scene, drawn as an analyst would: well-lit, pure, and few in the shade."""

from __future__ import annotations

import geopandas
import numpy as np
import numpy.typing as npt
from affine import Affine
from rasterio import features
from rasterio.crs import CRS
from scipy import ndimage
from shapely.geometry import shape

from p3vae.cli.styles.rasters import Category
from p3vae.cli.styles.vectors import class_style
from p3vae.physics.simulation.materials import LAND_COVER
from p3vae.physics.simulation.scene import SimulatedScene

Mask = npt.NDArray[np.bool_]

MIN_PURITY = 0.97
MAX_SIDE = 7
"""Largest side of a polygon [pixels]."""
MIN_PIXELS = 6
SHADED_CLASSES = ("vegetation", "asphalt")
"""Classes that also get one polygon in the shade."""


def label_polygons(
    scene: SimulatedScene, visible: Mask, transform: Affine, crs: CRS, *, per_class: int = 12
) -> geopandas.GeoDataFrame:
    """Polygons of whole pixels with fields `class`, `class_id`, `color`; only `visible` pixels are used.

    Lit polygons lie where the sun reaches all of the pixel at an angle at least as good, nearly, as on
    flat ground; so shade and slopes away from the sun stay unlabelled, as in real campaigns.
    """
    rng = np.random.default_rng([scene.settings.seed, 1])
    cos_zenith = np.cos(np.radians(scene.settings.sun_zenith_deg))
    pure = visible & (scene.purity >= MIN_PURITY)
    lit = pure & (scene.lit_fraction >= 0.98) & (scene.direct_light >= 0.9 * cos_zenith)
    shaded = pure & (scene.lit_fraction <= 0.3)
    rows = []
    for class_id, cover in enumerate(LAND_COVER, start=1):
        here = scene.class_id == class_id
        patches = _patches(here & lit, per_class, rng)
        if cover.name in SHADED_CLASSES:
            patches += _patches(here & shaded, 1, rng)
        for patch in patches:
            outline = shape(next(features.shapes(patch.astype(np.uint8), mask=patch, transform=transform))[0])
            rows.append(
                {"class": cover.name, "class_id": class_id, "color": cover.color, "geometry": outline}
            )
    columns = ["class", "class_id", "color", "geometry"]
    return geopandas.GeoDataFrame(rows, columns=columns, geometry="geometry", crs=crs.to_wkt())


def label_style() -> bytes:
    """A QGIS style that shows label polygons in the colours of their classes."""
    items = [Category(number, cover.name, cover.color) for number, cover in enumerate(LAND_COVER, start=1)]
    return class_style("class", items)


def _patches(candidates: Mask, count: int, rng: np.random.Generator) -> list[Mask]:
    """Up to `count` connected patches, each around the middle of a different place."""
    remaining = candidates.copy()
    depth = ndimage.distance_transform_cdt(np.pad(candidates, 1), metric="chessboard")[1:-1, 1:-1]
    patches: list[Mask] = []
    for row, col in rng.permutation(np.argwhere(depth >= 2)):
        if len(patches) == count:
            break
        if not remaining[row, col]:
            continue
        box = _box(row, col, MAX_SIDE // 2)
        pieces, _ = ndimage.label(remaining[box])
        patch = np.zeros_like(candidates)
        patch[box] = pieces == pieces[row - box[0].start, col - box[1].start]
        if patch.sum() >= MIN_PIXELS:
            patches.append(patch)
            remaining[_box(row, col, MAX_SIDE)] = False
    return patches


def _box(row: int, col: int, reach: int) -> tuple[slice, slice]:
    """Slices of the square around a pixel, cut at the upper and left edge."""
    return slice(max(row - reach, 0), row + reach + 1), slice(max(col - reach, 0), col + reach + 1)
