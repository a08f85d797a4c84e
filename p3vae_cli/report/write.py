"""`p3vae report` from end to end."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from p3vae.cli.assess.assessment import AssessRequest, ClassAssessment, assess
from p3vae.cli.errors import ModelFileError
from p3vae.cli.records.staging import Staging, writing
from p3vae.cli.report import page
from p3vae.cli.report.assessment import assessment_section, matrix_table
from p3vae.cli.report.content import Extras, section
from p3vae.cli.report.runs import SceneProducts, read_runs
from p3vae.cli.run.model_files import load_land_cover, shipped_models

if TYPE_CHECKING:
    from p3vae.models.landcover.model import LandCoverModel


def write_report(
    folder: Path, output: Path | None, *, model: Path | None, reference: Path | None, overwrite: bool
) -> Path:
    """Write the page about the products of `folder`; beside them unless `output` says where."""
    entries = read_runs(folder)
    target = output or (folder if folder.is_dir() else folder.parent) / "report.html"
    with Staging(target.parent, [target.name], target.name, overwrite=overwrite) as staging:
        known = _model(entries, model)
        extras = Extras(known, {} if reference is None else _assessments(entries, reference))
        title = entries[0].name if len(entries) == 1 else f"{len(entries)} scenes"
        links = " · ".join(f'<a href="#{escape(e.name, quote=True)}">{escape(e.name)}</a>' for e in entries)
        body = [f"<h1>p3vae: {escape(title)}</h1>", f"<nav>{links}</nav>" if len(entries) > 1 else ""]
        body += [section(entry, extras, of=len(entries)) for entry in entries]
        if known is not None:
            made_these = any(run.get("model_sha256") == known.digest for e in entries for run in e.runs)
            body.append(_model_section(known, made_these))
        with writing(target):
            staging.path(target.name).write_text(page.page(f"p3vae: {title}", body), encoding="utf-8")
        staging.commit()
    return target


def _model(entries: list[SceneProducts], given: Path | None) -> LandCoverModel | None:
    """The model that was given, or the shipped one if it made the products."""
    if given is not None:
        return load_land_cover(given, "cpu")
    used = {run.get("model_sha256") for entry in entries for run in entry.runs} - {None}
    for path in shipped_models() if used else ():
        with suppress(ModelFileError):  # a model of another kind made no land cover
            found = load_land_cover(path, "cpu")
            if found.digest in used:
                return found
    return None


def _assessments(entries: list[SceneProducts], reference: Path) -> dict[str, str]:
    made = {}
    for entry in entries:
        if "landcover" in entry.products:
            found = assess(AssessRequest(entry.products["landcover"], reference))
            assert isinstance(found, ClassAssessment)
            made[entry.name] = assessment_section(found)
    return made


def _model_section(model: LandCoverModel, made_these: bool) -> str:
    """The model card: validation and settings, and a note if it `made_these` products not."""
    summary = model.summary
    text = f"Average F1 {summary.average_f1:.3f}, accuracy {summary.accuracy:.3f} on polygons kept aside."
    confusion = np.array(summary.confusion)
    parts = [f"<h2>The model</h2><p>{text}</p>"]
    if not made_these:
        parts.append('<p class="note">These maps were made with another model.</p>')
    if confusion.size:
        parts.append(matrix_table(model.legend.names, confusion, "True \\ predicted"))
    card = {
        "classes": ", ".join(model.legend.names),
        "bands": len(model.bands),
        "wavelengths": f"{model.bands.wavelength_nm[0]:.0f} to {model.bands.wavelength_nm[-1]:.0f} nm",
        "sun_zenith_deg": model.irradiance.sun_zenith_deg,
        "settings": asdict(model.settings),
        "sha256": model.digest,
    }
    return "".join([*parts, page.folded("Model card", page.facts(card))])
