"""Maps from hyperspectral scenes, by models that know about sun, shadow, slope and gas.

    import p3vae

    with p3vae.open_scene("scene.tif") as scene:
        maps = p3vae.classify(scene, p3vae.load_model("town.p3vae"))
    maps["landcover"], maps.legend, maps.units      # arrays (rows, cols), names by value, units by map
    maps.to_xarray()                                # with coordinates and CRS (pip install 'p3vae[xarray]')
    maps.save("maps/")                              # the files that `p3vae classify` would write

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from p3vae.cli.api import classify, invert_methane, irradiance, load_model, train
    from p3vae.cli.results import Maps, scene_to_xarray
    from p3vae.cli.scenes import Scene, SceneOptions, open_scene

__version__: str

__all__ = [
    "Maps",
    "Scene",
    "SceneOptions",
    "classify",
    "invert_methane",
    "irradiance",
    "load_model",
    "open_scene",
    "scene_to_xarray",
    "train",
]

_HOMES = {
    **dict.fromkeys(("classify", "invert_methane", "irradiance", "load_model", "train"), "api"),
    **dict.fromkeys(("Maps", "scene_to_xarray"), "results"),
    **dict.fromkeys(("Scene", "SceneOptions", "open_scene"), "scenes"),
}


def __getattr__(name: str) -> Any:
    """Import on first use."""
    if name == "__version__":
        from importlib.metadata import version

        return version("p3vae")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"p3vae.cli.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """For completion with Tab."""
    return sorted([*__all__, "__version__"])
