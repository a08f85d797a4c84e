"""What the maps of land cover and light are: names, units, colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from p3vae.cli.colours import hex_colour, rgb_colour
from p3vae.cli.rasters.files import MapSpec
from p3vae.cli.scenes.base import Scene
from p3vae.cli.styles.rasters import Categories, Category, Ramp

if TYPE_CHECKING:
    from p3vae.models.landcover.types import ClassLegend

UNKNOWN = 255
"""Value of pixels that no class explains."""
UNKNOWN_COLOURS = ("#3c3c3c", "#ffffff", "#ff00ff", "#00ffff", "#000000", "#ffff00", "#a0a0a0", "#0000ff")
"""Of these, unknown pixels have the first that no class comes near."""
DISTINCT_RGB = 60.0
"""Distance in RGB from which colours of a legend are distinct."""

CONFIDENCE = MapSpec(
    suffix="confidence",
    description="probability of the mapped class",
    unit="1",
    style=Ramp(minimum=0.0, maximum=1.0, colormap="viridis"),
)
IRRADIANCE = {
    "irradiance": MapSpec(
        suffix="irradiance",
        description="local direct irradiance, sunlit fraction x cosine of incidence (δ·cosΘ)",
        unit="1",
        style=Ramp(minimum=0.0, maximum=1.0, colormap="inferno"),
    ),
    "irradiance_std": MapSpec(
        suffix="irradiance_std",
        description="posterior standard deviation of the local direct irradiance (δ·cosΘ)",
        unit="1",
        style=Ramp(minimum=0.0, maximum=0.3, colormap="cividis"),
    ),
}


def unknown_colour(taken: Sequence[tuple[int, int, int]]) -> str:
    """The first of `UNKNOWN_COLOURS` that is distinct from all colours taken, or else the farthest."""

    def distance(colour: str) -> float:
        return min(math.dist(rgb_colour(colour), other) for other in taken)

    distinct = (colour for colour in UNKNOWN_COLOURS if distance(colour) >= DISTINCT_RGB)
    return next(distinct, max(UNKNOWN_COLOURS, key=distance))


def land_cover_spec(legend: ClassLegend, unknown: bool) -> MapSpec:
    """Classes in the colours of the model."""
    items = [
        Category(id_, name, hex_colour(colour))
        for id_, name, colour in zip(legend.ids, legend.names, legend.colours, strict=True)
    ]
    if unknown:
        items.append(Category(UNKNOWN, "unknown", unknown_colour(legend.colours)))
    return MapSpec(
        suffix="landcover",
        description="land cover",
        dtype="uint8",
        nodata=0,
        style=Categories(tuple(items)),
    )


def probabilities_spec(legend: ClassLegend) -> MapSpec:
    """One band per class."""
    return MapSpec(
        suffix="probabilities",
        description="class probabilities",
        unit="1",
        style=Ramp(minimum=0.0, maximum=1.0, colormap="viridis"),
        band_descriptions=legend.names,
        band_tags=tuple({"color": hex_colour(colour)} for colour in legend.colours),
    )


def relit_spec(scene: Scene) -> MapSpec:
    """A cube of the good bands."""
    bands = scene.bands.select(scene.bands.good)
    return MapSpec(
        suffix="relit",
        description="reflectance on flat, sunlit ground",
        unit="1",
        style=Ramp(minimum=0.0, colormap="gray"),
        band_descriptions=tuple(f"{centre:.2f} nm" for centre in bands.wavelength_nm),
        band_tags=tuple(
            {"wavelength": repr(float(centre)), "wavelength_units": "nm", "fwhm": repr(float(width))}
            for centre, width in zip(bands.wavelength_nm, bands.fwhm_nm, strict=True)
        ),
    )
