"""A STAC item of a model, with the Machine Learning Model extension (MLM)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from p3vae.cli.colours import hex_colour
from p3vae.cli.records.manifest import finite
from p3vae.cli.records.stac import classification, require_stac
from p3vae.cli.records.staging import save
from p3vae.cli.scenes.inputs import require_no_input

if TYPE_CHECKING:
    from pystac.extensions.mlm import ModelInput, ModelOutput

_ALWAYS: dict[str, Any] = {
    "datetime": None,
    "start_datetime": datetime(1970, 1, 1, tzinfo=UTC),
    "end_datetime": datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
}
"""A model is bound to no time; the extension asks for an interval as wide as this."""


def write_model_item(path: Path, model: Path, kind: str, card: Mapping[str, Any]) -> None:
    """Write the item of a model file with this card; an earlier one is replaced."""
    require_no_input(path, [model])
    require_stac(path, type="Feature")
    content = model_item(path, model, kind, card)
    save(path, lambda staged: staged.write_bytes(content), overwrite=True, inputs=[model])


def model_item(path: Path, model: Path, kind: str, card: Mapping[str, Any]) -> bytes:
    """The JSON text of the item that will be at `path`. A model has no place on Earth: no geometry."""
    import pystac
    from pystac.extensions.mlm import MLMExtension, TaskType

    task = TaskType.CLASSIFICATION if kind == "landcover" else TaskType.REGRESSION
    item = pystac.Item(path.stem, None, None, properties={"title": f"p3vae {kind} model"}, **_ALWAYS)
    extended = MLMExtension.ext(item, add_if_missing=True)
    settings = card.get("settings", {})
    extended.apply(
        name=f"p3vae-{model.stem}",
        architecture=str(settings.get("model", "p3vae")),
        tasks=[task],
        framework="PyTorch",
        accelerator_constrained=False,
        pretrained=True,
        input=[_input(card)],
        output=[_output(kind, card, task)],
    )
    plain = {name: value for name, value in settings.items() if value is not None}
    if plain:
        item.properties["mlm:hyperparameters"] = plain
    href = Path(os.path.relpath(model.absolute(), path.parent.absolute())).as_posix()
    asset = pystac.Asset(
        href, "Weights and card", None, "application/octet-stream", ["mlm:model", "mlm:weights"]
    )
    asset.extra_fields["mlm:artifact_type"] = "safetensors"
    asset.extra_fields["bands"] = _bands(card)
    item.add_asset("model", asset)
    document = item.to_dict(include_self_link=False, transform_hrefs=False)
    return json.dumps(finite(document), indent=1, ensure_ascii=False).encode() + b"\n"


def _centres(card: Mapping[str, Any]) -> Sequence[float]:
    """Wavelengths [nm] of a model's bands, ascending."""
    found: Sequence[float] = card.get("bands", {}).get("wavelength_nm") or card.get("wavelength_nm", ())
    return found


def _bands(card: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"name": _band(centre)} for centre in _centres(card)]


def _band(centre: float) -> str:
    return f"{centre:.1f} nm"


def _input(card: Mapping[str, Any]) -> ModelInput:
    from pystac.extensions.mlm import InputStructure, ModelInput
    from pystac.extensions.raster import DataType

    names = [_band(centre) for centre in _centres(card)]
    shape = InputStructure.create([-1, len(names)], ["batch", "channel"], DataType.FLOAT32)
    return ModelInput.create(name="spectra", bands=names, input=shape)


def _output(kind: str, card: Mapping[str, Any], task: Any) -> ModelOutput:
    from pystac.extensions.mlm import ModelOutput, ResultStructure
    from pystac.extensions.raster import DataType

    if kind != "landcover":
        result = ResultStructure.create([-1], ["batch"], DataType.FLOAT32)
        return ModelOutput.create(
            name="methane", tasks=[task], result=result, description="enhancement [ppm m] of each pixel"
        )
    legend = card["classes"]
    result = ResultStructure.create([-1, len(legend["names"])], ["batch", "class"], DataType.FLOAT32)
    classes = [
        classification(value, name, hex_colour(colour))
        for value, name, colour in zip(legend["ids"], legend["names"], legend["colours"], strict=True)
    ]
    return ModelOutput.create(name="landcover", tasks=[task], result=result, classes=classes)
