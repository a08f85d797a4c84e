"""`p3vae train --doubtful`: labels that the other labels contradict, as polygons to review."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import geopandas
import shapely

from p3vae.cli.errors import SceneError
from p3vae.cli.labels import LabelledPixels, read_labels
from p3vae.cli.rasters.areas import to_map
from p3vae.cli.rasters.vectors import save_geopackage
from p3vae.cli.scenes.base import Grid
from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.scenes.settings import SceneSettings

if TYPE_CHECKING:
    from p3vae.cli.landcover.train_settings import TrainSettings
    from p3vae.models.landcover.types import DoubtfulPolygon

GROUPS_PER_SCENE = 10**9
"""Polygons of two scenes never share a number."""


def polygon_number(doubtful: DoubtfulPolygon) -> int:
    """The number of its polygon in the labels, from 1: the feature, or the connected patch of a raster."""
    return doubtful.group % GROUPS_PER_SCENE + 1


def require_place(scenes: Sequence[Path], scene_options: SceneSettings) -> None:
    """Refuse scenes that have no place on Earth before anything is learned."""
    for path in scenes:
        with open_scene(path, scene_options) as scene:
            if scene.grid.transform is None and not scene.grid.gcps:
                raise SceneError(
                    "is not georeferenced", path=path, remedy="leave --doubtful out: the table has them too"
                )


def save_doubtful(
    path: Path, request: TrainSettings, scene_options: SceneSettings, doubtful: Sequence[DoubtfulPolygon]
) -> None:
    """Write the pixels of each polygon as one geometry in the CRS of the first scene, with a rank."""
    outlines: list[geopandas.GeoSeries] = []
    for number, source in enumerate(request.scenes):
        mine = [one.group for one in doubtful if one.group // GROUPS_PER_SCENE == number]
        if not mine and number:
            continue
        with open_scene(source, scene_options) as scene:
            labels = read_labels(
                request.labels, scene.grid, class_field=request.class_field, class_names=request.class_names
            )
            found = _outlines(scene.grid, labels, mine)
        outlines.append(found if found.crs is None or number == 0 else found.to_crs(outlines[0].crs))
    geometry = {group: shape for part in outlines for group, shape in part.items()}
    columns = {
        "rank": range(1, len(doubtful) + 1),
        "class": [one.label for one in doubtful],
        "likelier": [one.likelier for one in doubtful],
        "probability": [round(one.probability, 4) for one in doubtful],
        "pixels": [one.pixels for one in doubtful],
        "polygon": [polygon_number(one) for one in doubtful],
    }
    frame = geopandas.GeoDataFrame(
        columns, geometry=[geometry[one.group] for one in doubtful], crs=outlines[0].crs
    )
    inputs = (*request.scenes, request.labels)
    save_geopackage(path, frame, "doubtful", overwrite=request.overwrite, inputs=inputs)


def _outlines(grid: Grid, labels: LabelledPixels, groups: Sequence[int]) -> geopandas.GeoSeries:
    """The pixels of each group as one geometry in map coordinates."""
    shapes = {}
    for group in groups:
        inside = labels.group == group % GROUPS_PER_SCENE
        row, col = labels.row[inside], labels.col[inside]
        squares = shapely.union_all(shapely.box(col, row, col + 1, row + 1))
        shapes[group] = shapely.transform(squares, lambda corners: to_map(grid, corners))
    return geopandas.GeoSeries(shapes, crs=None if grid.crs is None else grid.crs.to_wkt())
