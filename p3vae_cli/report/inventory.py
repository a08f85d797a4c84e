"""What many scenes hold: one report each, or one table of all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from p3vae.cli.console import note, stdout
from p3vae.cli.errors import P3vaeError, UnclearSceneError
from p3vae.cli.rasters.files import gdal_environment
from p3vae.cli.records.manifest import finite
from p3vae.cli.report.incomplete import describe, render_incomplete
from p3vae.cli.report.info import render, summarise
from p3vae.cli.run.fitness import fit_models
from p3vae.cli.run.lists import SomeScenesFailedError
from p3vae.cli.run.model_files import shipped_models
from p3vae.cli.run.outcomes import Outcome, failed
from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.tables import csv_line

Form = Literal["report", "json", "csv"]

_COLUMNS = (
    *("path", "status", "product", "level", "width", "height", "crs", "xmin", "ymin", "xmax", "ymax"),
    *("quantity", "bands", "good_bands", "first_nm", "last_nm", "sun_zenith_deg", "sun_azimuth_deg"),
    *("view_zenith_deg", "time", "longitude_deg", "latitude_deg", "valid_fraction", "models", "error"),
)


def show_scenes(paths: Sequence[Path], options: SceneSettings, models: Sequence[Path], form: Form) -> None:
    """Print what each scene holds; one that cannot be read does not stop the others."""
    outcomes = _printed(_described(paths, options, [*shipped_models(), *models]), form, len(paths))
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if errors and len(paths) == 1:
        raise errors[0]
    if errors:
        many = len(errors) == len(paths)
        raise (P3vaeError if many else SomeScenesFailedError)(f"{len(errors)} of {len(paths)} scenes failed")


def _described(paths: Sequence[Path], options: SceneSettings, models: list[Path]) -> Iterator[Outcome]:
    for path in paths:
        try:
            yield Outcome(path, "done", _record(path, options, models))
        except BaseException as error:
            yield failed(path, error)


def _record(path: Path, options: SceneSettings, models: list[Path]) -> dict[str, Any]:
    """A scene as it is, or what is stored in a raster that lacks something."""
    with gdal_environment():
        try:
            scene = open_scene(path, options)
        except UnclearSceneError as problem:
            return describe(path, problem, options.drivers)
        with scene:
            return summarise(scene) | {"models": fit_models(scene, models)}


def _printed(outcomes: Iterator[Outcome], form: Form, count: int) -> Iterator[Outcome]:
    show: Mapping[Form, Callable[[Outcome], None]] = {
        "report": _show_report,
        "json": lambda outcome: _show_json(outcome, single=count == 1),
        "csv": lambda outcome: _print(csv_line(_row(outcome))),
    }
    if form == "csv":
        _print(csv_line(_COLUMNS))
    for outcome in outcomes:
        if count > 1 and outcome.error is not None:
            note(f"Error: {outcome.error}")
        show[form](outcome)
        yield outcome


def _print(line: str) -> None:
    stdout().out(line, highlight=False)


def _show_report(outcome: Outcome) -> None:
    if outcome.error is None:
        record = dict(outcome.record)
        stdout().print(render_incomplete(record) if "problem" in record else render(record))


def _show_json(outcome: Outcome, *, single: bool) -> None:
    if not single:
        _print(json.dumps(finite({"scene": str(outcome.scene), **outcome.as_record()})))
    elif outcome.error is None:
        _print(json.dumps(finite(outcome.record), indent=2))


def _row(outcome: Outcome) -> list[Any]:
    """Cells of the inventory, in the order of `_COLUMNS`."""
    record = dict(outcome.record)
    incomplete = record.pop("problem", None)
    bands = [] if incomplete else record.get("bands", [])
    centres = [band["wavelength_nm"] for band in bands]
    cells = record | {
        "path": str(outcome.scene),
        "status": "failed" if outcome.error else "incomplete" if incomplete else "read",
        "error": outcome.error or incomplete,
        "bands": len(bands) or None,
        "good_bands": sum(band["good"] for band in bands) if bands else None,
        "first_nm": min(centres, default=None),
        "last_nm": max(centres, default=None),
        "models": " ".join(model["model"] for model in record.get("models", ()) if model["applicable"]),
    }
    cells |= dict(zip(("xmin", "ymin", "xmax", "ymax"), record.get("bounds") or [None] * 4, strict=True))
    return ["" if cells.get(name) is None else cells[name] for name in _COLUMNS]
