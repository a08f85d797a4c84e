"""What a folder of products holds, by its manifests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from p3vae.cli.errors import SceneError

MANIFESTS = "*_p3vae.json"
MOST_SCENES = 200


@dataclass(frozen=True)
class SceneProducts:
    """The products of one scene, of all runs that its manifest lists."""

    name: str
    """Of the scene, with the folder of its products if that is another one."""
    scene: Path
    """Where the scene was when it was mapped."""
    runs: tuple[Mapping[str, Any], ...]
    """Records of the manifest, the latest first."""
    products: Mapping[str, Path]
    """Files that are there, by what they are: landcover, irradiance, ..."""
    missing: tuple[str, ...]
    """Names of files that the manifest lists and that are gone."""

    @property
    def plumes(self) -> tuple[Mapping[str, Any], ...]:
        """Rows of the methane plumes, which may be listed with several files."""
        listed = (
            p["plumes"] for run in self.runs for p in run["products"] if isinstance(p.get("plumes"), list)
        )
        return tuple(next(listed, ()))


def read_runs(folder: Path) -> list[SceneProducts]:
    """One entry per scene in `folder` and the folders in it; an error where no manifest is found."""
    if folder.is_file():
        manifests = [folder]
    elif folder.is_dir():
        manifests = [path for path in sorted(folder.rglob(MANIFESTS)) if not _is_hidden(path, folder)]
    else:
        raise SceneError("no such folder", path=folder, remedy="give the folder of the products")
    if len(manifests) > MOST_SCENES:
        raise SceneError(
            f"holds the products of {len(manifests)} scenes, more than the {MOST_SCENES} that can be shown",
            path=folder,
            remedy="give a folder in it",
        )
    found = [entry for entry in (_read(path, folder) for path in manifests) if entry is not None]
    if not found:
        raise SceneError(
            "holds no products of p3vae", path=folder, remedy="give the --output folder of a mapping command"
        )
    return found


def _is_hidden(path: Path, folder: Path) -> bool:
    """True in the folders of runs that go on, or were killed."""
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def _read(manifest: Path, folder: Path) -> SceneProducts | None:
    """None for a JSON file of something else."""
    try:
        record = json.loads(manifest.read_text(encoding="utf-8"))
        runs = (record, *reversed(record.get("earlier_runs", [])))
        scene = Path(record["scene"]["path"])
        listed = [Path(str(product["file"])).name for run in runs for product in run["products"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    stem = manifest.name.removesuffix("_p3vae.json")
    there: dict[str, Path] = {}
    for name in listed:  # of files that differ in their end only, the first counts
        there.setdefault(name.removeprefix(f"{stem}_").partition(".")[0], manifest.parent / name)
    missing = tuple(path.name for path in there.values() if not path.is_file())
    products = {key: path for key, path in there.items() if path.is_file()}
    inside = manifest.parent.relative_to(folder) if folder.is_dir() else Path()
    return SceneProducts((inside / stem).as_posix(), scene, runs, products, missing)
