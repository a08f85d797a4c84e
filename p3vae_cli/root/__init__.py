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
    from p3vae.cli.api import (
        Maps,
        Scene,
        assess,
        classify,
        explain,
        invert_methane,
        irradiance,
        load_model,
        open_scene,
        rgb,
        scene_to_xarray,
        train,
    )

__version__: str

__all__ = [
    "Maps",
    "Scene",
    "assess",
    "classify",
    "explain",
    "invert_methane",
    "irradiance",
    "load_model",
    "open_scene",
    "rgb",
    "scene_to_xarray",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import on first use."""
    if name == "__version__":
        from importlib.metadata import version

        return version("p3vae")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("p3vae.cli.api"), name)


def __dir__() -> list[str]:
    """For completion with Tab."""
    return sorted([*__all__, "__version__"])
