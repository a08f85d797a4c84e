"""`p3vae train --doubtful`: labels that the other labels contradict, as polygons to review."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import geopandas
import numpy as np
import pandas as pd
import shapely

from p3vae.cli.base.errors import SceneError
from p3vae.cli.products.areas import to_map
from p3vae.cli.products.vectors import save_geopackage
from p3vae.cli.samples import read_labels
from p3vae.cli.scenes import SceneOptions, open_scene
from p3vae.cli.scenes.base import Grid

if TYPE_CHECKING:
    from p3vae.cli.workflows.train import TrainingRequest
    from p3vae.models.landcover.types import DoubtfulPolygon

GROUPS_PER_SCENE = 10**9
"""Polygons of two scenes never share a number."""


def polygon_number(doubtful: DoubtfulPolygon) -> int:
    """The number of its polygon in the labels, from 1: the feature, or the connected patch of a raster."""
    return doubtful.group % GROUPS_PER_SCENE + 1


def require_place(scenes: Sequence[Path], scene_options: SceneOptions) -> None:
    """Refuse scenes that have no place on Earth before anything is learned."""
    for path in scenes:
        with open_scene(path, scene_options) as scene:
            if scene.grid.transform is None and not scene.grid.gcps:
                raise SceneError(
                    "is not georeferenced", path=path, remedy="leave --doubtful out: the table has them too"
                )


def save_doubtful(
    path: Path, request: TrainingRequest, scene_options: SceneOptions, doubtful: Sequence[DoubtfulPolygon]
) -> None:
    """Write the pixels of each polygon as one geometry in the CRS of the first scene, with a rank."""
    parts = []
    for number, source in enumerate(request.scenes):
        mine = [
            (rank, one) for rank, one in enumerate(doubtful, 1) if one.group // GROUPS_PER_SCENE == number
        ]
        if not mine and parts:
            continue
        with open_scene(source, scene_options) as scene:
            labels = read_labels(
                request.labels, scene.grid, class_field=request.class_field, class_names=request.class_names
            )
            outlines = []
            for _, one in mine:
                inside = labels.group == one.group % GROUPS_PER_SCENE
                outlines.append(_outline(scene.grid, labels.row[inside], labels.col[inside]))
            parts.append(_frame(scene.grid, mine, outlines))
    first = parts[0].crs
    frame = pd.concat([part if first is None else part.to_crs(first) for part in parts]).sort_values("rank")
    save_geopackage(
        path, frame, "doubtful", overwrite=request.overwrite, inputs=(*request.scenes, request.labels)
    )


def _outline(grid: Grid, row: np.ndarray, col: np.ndarray) -> shapely.Geometry:
    """Pixels as one geometry in map coordinates."""
    squares = shapely.union_all(shapely.box(col, row, col + 1, row + 1))
    return shapely.transform(squares, lambda corners: to_map(grid, corners))


def _frame(
    grid: Grid, ranked: Sequence[tuple[int, DoubtfulPolygon]], outlines: Sequence[shapely.Geometry]
) -> geopandas.GeoDataFrame:
    columns = {
        "rank": [rank for rank, _ in ranked],
        "class": [one.label for _, one in ranked],
        "likelier": [one.likelier for _, one in ranked],
        "probability": [round(one.probability, 4) for _, one in ranked],
        "pixels": [one.pixels for _, one in ranked],
        "polygon": [polygon_number(one) for _, one in ranked],
    }
    crs = None if grid.crs is None else grid.crs.to_wkt()
    return geopandas.GeoDataFrame(columns, geometry=list(outlines), crs=crs)
