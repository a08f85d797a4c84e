"""What is made of a folder of products at the end of a call: a page (`--report`), a project (`--qgis`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from p3vae.cli.console import note, stdout
from p3vae.cli.errors import ProductError
from p3vae.cli.report.page import LARGEST_PICTURE, is_page
from p3vae.cli.run.settings import OutputSettings, is_raster
from p3vae.cli.styles.qgis_project import PROJECT, is_foreign

PAGE = "report.html"
_COLOURS = 4
"""Bytes of a pixel of a picture."""


def more_files(outputs: OutputSettings, maps: int, pixels: int) -> tuple[list[str], int]:
    """Names of what is made of the folder, and its bytes for a scene: a picture of it and of each map."""
    names = [PAGE] * outputs.report + [PROJECT] * outputs.qgis
    return names, (maps + 1) * min(pixels, LARGEST_PICTURE**2) * _COLOURS * outputs.report


def common_folder(scenes: Sequence[Path], outputs: OutputSettings) -> Path:
    """The folder of all products of a call: --output, or the one that holds all scenes."""
    folder = outputs.destination
    if folder is not None and not is_raster(folder):
        return folder
    return Path(os.path.commonpath([outputs.manifest_of(scene).parent.absolute() for scene in scenes]))


def require_replaceable(folder: Path, outputs: OutputSettings) -> None:
    """Refuse to replace what somebody else made, before any work starts."""
    if outputs.report and (folder / PAGE).exists() and not is_page(folder / PAGE):
        raise ProductError(
            "is no page of p3vae", path=folder / PAGE, remedy="rename it, or leave out --report"
        )
    if outputs.qgis and is_foreign(folder / PROJECT):
        raise ProductError(
            "was saved from QGIS and would be lost", path=folder / PROJECT, remedy="rename it first"
        )


def write_pages(folder: Path, outputs: OutputSettings, model: Path | None) -> None:
    """The page and the project that were asked for, of everything in `folder`."""
    made = []
    if outputs.report:
        from p3vae.cli.report.write import write_report

        made.append(write_report(folder, None, model=model, reference=None, overwrite=True))
    if outputs.qgis:
        from p3vae.cli.report.project import save_project

        made.append(save_project(folder))
    for path in made:
        if outputs.as_json:
            note(str(path))
        elif not outputs.quiet:
            stdout().print(str(path), highlight=False, soft_wrap=True)
