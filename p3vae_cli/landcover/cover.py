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
    from p3vae.models.landcover.types import ClassLegend
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
    usable: npt.NDArray[np.bool_],
    irradiance: SpectralIrradiance,
    wanted: Mapping[str, MapSpec],
) -> dict[str, Array]:
    """Maps in `wanted` of spectra (pixels, bands) at the model's bands; nodata where not `usable`."""
    import torch

    parts = []
    with torch.inference_mode():
        for start in range(0, len(spectra), _CHUNK):
            some = torch.as_tensor(spectra[start : start + _CHUNK][usable[start : start + _CHUNK]])
            if len(some):
                estimator: Any = model.estimator
                found = estimator.cover(some.to(model.device), irradiance)
                parts.append([values.cpu().numpy() for values in found])
    columns = [np.concatenate(values) for values in zip(*parts, strict=True)] if parts else None
    return {name: _placed(name, columns, usable, spec) for name, spec in wanted.items()}


def _placed(name: str, columns: list[Array] | None, usable: npt.NDArray[np.bool_], spec: MapSpec) -> Array:
    """Values of the usable pixels at their places."""
    shape = (len(usable),) if spec.bands == 1 else (len(usable), spec.bands)
    out = np.full(shape, spec.nodata, spec.dtype)
    if columns is not None:
        material, probability, fraction, std = columns
        values = {
            "material": material + 1,
            "material_probability": probability,
            "fractions": fraction,
            "fractions_std": std,
        }
        out[usable] = values[name]
    return out


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
