"""Hyperspectral scenes, whatever product they come in: `open_scene(path)`."""

from p3vae.cli.scenes.base import UNITS, Acquisition, Grid, Quantity, Scene, SceneOptions
from p3vae.cli.scenes.opening import open_scene, scene_files
from p3vae.cli.scenes.overrides import parse_ranges
from p3vae.cli.scenes.tiling import SpectraTile

__all__ = [
    "UNITS",
    "Acquisition",
    "Grid",
    "Quantity",
    "Scene",
    "SceneOptions",
    "SpectraTile",
    "open_scene",
    "parse_ranges",
    "scene_files",
]
