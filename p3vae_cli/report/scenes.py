"""The scene behind the products of a folder, opened as it was when it was mapped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from p3vae.cli.errors import P3vaeError
from p3vae.cli.rasters.grids import bbox_window, subgrid, whole
from p3vae.cli.rasters.resample import SwathMap, swath_map
from p3vae.cli.report.runs import SceneProducts
from p3vae.cli.scenes.base import Scene
from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.scenes.tiling import Window

_NUMBERS = ("sun_zenith_deg", "sun_azimuth_deg", "view_zenith_deg", "scale", "nodata")


@dataclass(frozen=True, eq=False)
class MappedScene:
    """A scene, and the part of it that its maps show."""

    scene: Scene
    area: Window
    onto: SwathMap | None
    """How its maps came onto a map grid; None if they lie on the scene's own."""


def open_mapped(entry: SceneProducts, shape: tuple[int, int]) -> tuple[MappedScene | None, str]:
    """The scene whose maps have this shape (rows, cols); None and the reason where there is none."""
    request = entry.runs[0].get("request")
    asked: Mapping[str, Any] = request if isinstance(request, Mapping) else {}
    try:
        scene = open_scene(entry.scene, _options(asked.get("scene_options")))
    except (P3vaeError, TypeError, ValueError) as error:
        return None, f"the scene cannot be opened. {error}"
    try:
        bbox = asked.get("bbox")
        area = bbox_window(scene.grid, tuple(bbox), asked.get("bbox_crs")) if bbox else whole(scene.grid)
        size, utm = asked.get("pixel_size"), bool(asked.get("to_utm"))
        onto = swath_map(scene, area, subgrid(scene.grid, area), utm=utm, pixel_size=size)
        if shape == ((area.rows, area.cols) if onto is None else (onto.grid.height, onto.grid.width)):
            return MappedScene(scene, area, onto), ""
        problem = "the maps are on another grid than the scene."
    except (P3vaeError, TypeError, ValueError) as error:
        problem = f"the mapped part of the scene is not known. {error}"
    scene.close()
    return None, problem


def _options(recorded: Any) -> SceneSettings:
    """What the user had stated about the scene, but for files and drivers: a manifest may be a stranger's."""
    if not isinstance(recorded, Mapping):
        return SceneSettings()
    numbers: dict[str, Any] = {
        name: float(recorded[name]) for name in _NUMBERS if recorded.get(name) is not None
    }
    ranges = tuple((float(low), float(high)) for low, high in recorded.get("bad_bands") or ())
    quantity, overlap = recorded.get("quantity"), recorded.get("overlap")
    return SceneSettings(
        **numbers,
        bad_bands=ranges,
        quantity=quantity if quantity in ("reflectance", "radiance") else None,
        overlap="vnir" if overlap == "vnir" else "swir",
    )
