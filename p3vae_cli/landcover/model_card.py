"""What `p3vae models` and `p3vae info MODEL` report: which models there are, and the card of one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from p3vae.cli.console import stdout
from p3vae.cli.errors import ModelFileError, UsageError
from p3vae.cli.records.manifest import finite
from p3vae.cli.records.stac import require_pystac
from p3vae.cli.records.stac_model import write_model_item
from p3vae.cli.run.model_files import find_model, load_land_cover, model_errors, shipped_models

_BLOCKS = " ▁▂▃▄▅▆▇█"
_PLOT_WIDTH = 48
_PLOT_NM = (400.0, 2450.0)
_SUFFIX = ".p3vae"


def names_model(path: Path) -> bool:
    """Whether a word on the command line means a model rather than a scene."""
    return path.suffix == _SUFFIX or find_model(path) != path


def list_models(given: Sequence[Path]) -> list[dict[str, Any]]:
    """Name, kind, classes and bands of the shipped models and of those given."""
    shipped = shipped_models()
    return [_entry(path, path in shipped) for path in (*shipped, *(find_model(path) for path in given))]


def model_card(path: Path) -> dict[str, Any]:
    """Everything a model file says about itself, ready for JSON."""
    file = find_model(path)
    kind, card = _read(file)
    record = {"path": str(file), "kind": kind} | dict(card)
    if kind == "landcover":
        spectra = load_land_cover(file, "cpu").latent_spectra()
        if spectra is not None:
            record["spectra"] = [[round(float(v), 4) for v in np.mean(one, axis=0)] for one in spectra]
    return record


def show_card(path: Path, *, as_json: bool) -> None:
    """Print the card of a model."""
    card = model_card(path)
    if as_json:
        stdout().out(json.dumps(finite(card), indent=2), highlight=False)
    else:
        stdout().print(render_card(card))


def save_item(path: Path, given: Sequence[Path]) -> None:
    """Write the STAC item of one model."""
    require_pystac()
    if len(given) != 1 or not names_model(given[0]):
        raise UsageError("--stac needs one model", remedy="p3vae info MODEL --stac FILE")
    model = find_model(given[0])
    kind, card = _read(model)
    with model_errors(model):
        write_model_item(path, model, kind, card)


def _read(path: Path) -> tuple[str, Mapping[str, Any]]:
    from p3vae.models.checkpoint import read_card

    with model_errors(path):
        return read_card(path)


def _entry(path: Path, shipped: bool) -> dict[str, Any]:
    try:
        kind, card = _read(path)
    except ModelFileError as error:
        return {"model": path.stem if shipped else str(path), "shipped": shipped, "error": error.problem}
    bands = card.get("bands", {}).get("wavelength_nm", card.get("wavelength_nm", ()))
    return {
        "model": path.stem if shipped else str(path),
        "shipped": shipped,
        "kind": kind,
        "estimator": card.get("settings", {}).get("model"),
        "classes": list(card.get("classes", {}).get("names", ())),
        "bands": len(bands),
        "range_nm": [bands[0], bands[-1]] if len(bands) else None,
    }


def render_list(entries: Sequence[Mapping[str, Any]]) -> RenderableType:
    """A table for people."""
    table = Table(box=None, pad_edge=False)
    for heading in ("Model", "Kind", "Bands", "Classes"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        if "error" in entry:
            table.add_row(entry["model"], "", "", f"cannot be used: {entry['error']}")
            continue
        low, high = entry["range_nm"] or (0, 0)
        span = f"{entry['bands']}, {low:.0f}-{high:.0f} nm" if entry["bands"] else ""
        table.add_row(entry["model"], entry["kind"], span, ", ".join(entry["classes"]))
    return table


def render_card(card: Mapping[str, Any]) -> RenderableType:
    """The card as a screen: facts, sources, validation, limits, and spectra."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    name = card.get("settings", {}).get("model")
    table.add_row("Model", str(card["path"]))
    table.add_row("Kind", f"{card['kind']} ({name})" if name else card["kind"])
    if card["kind"] != "landcover":
        return table
    bands = card["bands"]["wavelength_nm"]
    table.add_row("Bands", f"{len(bands)}, {bands[0]:.0f} - {bands[-1]:.0f} nm")
    table.add_row("Classes", ", ".join(card["classes"]["names"]))
    if materials := card.get("materials"):
        table.add_row("Materials", ", ".join(materials))
        table.add_row("Sensors", "any: bands that a scene lacks are integrated out")
    if prior := card.get("prior"):
        names = "; ".join(f"{own} is its {name}" for own, name in prior["matches"].items())
        text = f"{card['settings']['prior']}, weight {prior['pooling']:.2f} beside the labels"
        table.add_row("Prior", f"{text}; {names}" if names else text)
    if light := card.get("labels_light"):
        low, _, high = light["direct"]
        table.add_row(
            "Labels' light", f"direct light from {low:.2f} to {high:.2f} (nine tenths of the labels)"
        )
        averages = (
            "count: held-out polygons are mapped better" if card["averages_neighbours"] else "do not count"
        )
        table.add_row("Neighbours", averages)
    summary = card["summary"]
    scores = f"accuracy {summary['accuracy']:.3f}, calibration error {summary['calibration_error']:.3f}"
    table.add_row("Withheld data", scores)
    for label, text in _described(card.get("description", {})):
        table.add_row(label, text)
    return Group(table, *_plots(card))


def _described(description: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows about sources, validation and limits."""
    rows = [
        ("Made from", f"{s['name']}, {s['spectra']} spectra, {s['terms']}; {s['reference']}")
        for s in description.get("made_from", ())
    ]
    rows += [
        ("Validated on", f"{name}: {text}") for name, text in description.get("validated_on", {}).items()
    ]
    return rows + [("Limits", text) for text in description.get("limits", ())]


def _plots(card: Mapping[str, Any]) -> list[RenderableType]:
    """Mean spectra of the classes as rows of block characters."""
    spectra = card.get("spectra")
    if spectra is None:
        return []
    centres = np.asarray(card["bands"]["wavelength_nm"])
    low, high = _PLOT_NM
    top = max(max(one) for one in spectra)
    width = max(len(name) for name in card["classes"]["names"])
    lines: list[RenderableType] = [Text(f"Mean reflectance, 0 to {top:.2f}, {low:.0f} to {high:.0f} nm")]
    for name, one in zip(card["classes"]["names"], spectra, strict=True):
        lines.append(Text(f"{name:<{width}} {_sparkline(centres, np.asarray(one), top)}"))
    return lines


def _sparkline(centres: npt.NDArray[Any], values: npt.NDArray[Any], top: float) -> str:
    """One character per step of wavelength, blank where the model has no band."""
    grid = np.linspace(*_PLOT_NM, _PLOT_WIDTH)
    step = grid[1] - grid[0]
    level = np.clip(np.interp(grid, centres, values) / top, 0, 1) * (len(_BLOCKS) - 2)
    known = np.abs(grid[:, None] - centres).min(1) <= step
    return "".join(_BLOCKS[round(float(v)) + 1] if k else " " for v, k in zip(level, known, strict=True))
