"""What pixels are made of: the likeliest material and the cover fractions of classes."""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.colours import hex_colour
from p3vae.cli.errors import UsageError
from p3vae.cli.rasters.files import MapSpec
from p3vae.cli.styles.rasters import Categories, Category, Ramp

if TYPE_CHECKING:
    from p3vae.models.landcover.model import LandCoverModel
    from p3vae.models.landcover.types import ClassLegend, Prediction
    from p3vae.physics.illumination import SpectralIrradiance

Array = npt.NDArray[Any]

_CHUNK = 65_536


def require_cover(model: LandCoverModel, option: str, name: str) -> None:
    """Refuse an option that only a model of materials can serve."""
    if not hasattr(model.estimator, "cover"):
        raise UsageError(
            f"{option} needs a model of materials, and {name} is none",
            remedy="the shipped model earth is one",
        )


def cover_maps(
    model: LandCoverModel,
    spectra: Array,
    found: Prediction,
    irradiance: SpectralIrradiance,
    wanted: Mapping[str, MapSpec],
) -> dict[str, Array]:
    """Maps in `wanted` of spectra (pixels, bands) at the model's bands; nodata where they have no class.

    The material is the likeliest one of the class that was found.
    """
    import torch

    index_of = np.zeros(256, np.int64)
    index_of[list(model.legend.ids)] = range(len(model.legend))
    usable, parts = found.class_id > 0, []
    estimator: Any = model.estimator
    with torch.inference_mode():
        for start in range(0, len(spectra), _CHUNK):
            here = np.flatnonzero(usable[start : start + _CHUNK]) + start
            if len(here):
                some, classes = (
                    torch.from_numpy(values).to(model.device)
                    for values in (spectra[here], index_of[found.class_id[here]])
                )
                parts.append([v.cpu().numpy() for v in estimator.cover(some, irradiance, classes)])
    if not parts:
        return {name: _empty(len(spectra), spec) for name, spec in wanted.items()}
    material, share, fraction, std = (np.concatenate(values) for values in zip(*parts, strict=True))
    columns = {
        "material": material + 1,
        "material_probability": share * found.confidence[usable],
        "fractions": fraction,
        "fractions_std": std,
    }
    maps = {name: _empty(len(spectra), spec) for name, spec in wanted.items()}
    for name, values in maps.items():
        values[usable] = columns[name]
    return maps


def _empty(pixels: int, spec: MapSpec) -> Array:
    """Nodata, (pixels,) or (pixels, bands)."""
    return np.full((pixels,) if spec.bands == 1 else (pixels, spec.bands), spec.nodata, spec.dtype)


def material_specs(model: LandCoverModel) -> dict[str, MapSpec]:
    """The likeliest material and its probability."""
    estimator: Any = model.estimator
    count = len(estimator.materials)
    items = tuple(
        Category(k + 1, material, _hue(k / count)) for k, material in enumerate(estimator.materials)
    )
    return {
        "material": MapSpec(
            suffix="material",
            description="likeliest material",
            dtype="uint8",
            nodata=0,
            style=Categories(items),
        ),
        "material_probability": MapSpec(
            suffix="material_probability",
            description="probability of the likeliest material",
            unit="1",
            style=Ramp(minimum=0.0, maximum=1.0, colormap="viridis"),
        ),
    }


def fraction_specs(legend: ClassLegend) -> dict[str, MapSpec]:
    """Cover fractions of the classes and their standard deviations, one band each."""
    tags = tuple({"color": hex_colour(colour)} for colour in legend.colours)
    return {
        name: MapSpec(
            suffix=name,
            description=description,
            unit="1",
            style=Ramp(minimum=0.0, maximum=top, colormap="viridis"),
            band_descriptions=legend.names,
            band_tags=tags,
        )
        for name, description, top in (
            ("fractions", "cover fraction of each class", 1.0),
            ("fractions_std", "standard deviation of the cover fraction of each class", 0.5),
        )
    }


def _hue(share: float) -> str:
    """Colours around the circle, alternately light and dark."""
    red, green, blue = colorsys.hls_to_rgb(share, 0.35 + 0.3 * (round(share * 97) % 2), 0.65)
    return hex_colour([round(255 * part) for part in (red, green, blue)])
