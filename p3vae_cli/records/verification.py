"""Products against their manifests, and what runs left that are dead."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rasterio.errors import RasterioError

from p3vae.cli.errors import ProductError, UsageError
from p3vae.cli.records import transactions
from p3vae.cli.records.manifest import read_manifest, sha256
from p3vae.cli.records.staging import writing
from p3vae.cli.scenes.drivers import ForeignFileError, open_dataset

_MANIFESTS = "*_p3vae.json"


@dataclass(frozen=True)
class Verified:
    """A manifest and what is wrong with its products."""

    manifest: Path
    files: int
    problems: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """One line of JSON."""
        status = "damaged" if self.problems else "whole"
        return {
            "manifest": str(self.manifest),
            "status": status,
            "files": self.files,
            "problems": list(self.problems),
        }


@dataclass(frozen=True)
class Leftover:
    """The hidden folder of a run that is under way or was killed, or a foreign one of such a name."""

    path: Path
    state: transactions.State
    problem: str = ""
    """Why it could not be cleaned."""

    def record(self) -> dict[str, Any]:
        """One line of JSON."""
        return {"folder": str(self.path), "status": self.state}


def verify(places: Sequence[Path]) -> Iterator[Verified]:
    """Every manifest in folders (and the folders in them), or the manifests given, with all their files."""
    for manifest in _manifests(places):
        record = read_manifest(manifest)
        if record is None:
            yield Verified(manifest, 0, ("is not a manifest",))
            continue
        earlier = record.get("earlier_runs")
        runs = [
            record,
            *(run for run in (earlier if isinstance(earlier, list) else []) if isinstance(run, dict)),
        ]
        products = [
            product for run in runs for product in run.get("products", ()) if isinstance(product, dict)
        ]
        problems = [problem for product in products for problem in _problems(manifest.parent, product)]
        yield Verified(manifest, len(products), tuple(problems))


def _manifests(places: Sequence[Path]) -> Iterator[Path]:
    for place in places:
        if place.is_dir():
            found = (path for path in place.rglob(_MANIFESTS) if path.is_file())
            yield from sorted(
                path for path in found if not any(p.startswith(transactions.PREFIX) for p in path.parts)
            )
        else:
            _require_there(place)
            yield place


def _require_there(place: Path) -> None:
    if not (place.is_dir() or place.is_file()):
        raise UsageError("no such file or folder", path=place, remedy="give an output folder")


def _problems(folder: Path, product: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with one file of a manifest."""
    name = Path(str(product.get("file"))).name
    path = folder / name
    try:
        if not path.is_file():
            yield f"{name} is missing"
            return
        if sha256(path) != product.get("sha256"):
            yield f"{name} was changed"
        elif path.suffix.lower() in {".tif", ".tiff"} and "width" in product:
            with open_dataset(path) as raster:
                if (raster.width, raster.height) != (product["width"], product.get("height")):
                    yield f"{name} has another grid"
    except (OSError, RasterioError, ForeignFileError) as error:
        yield f"{name} cannot be read: {error}"
    side_files = product.get("side_files")
    for beside in side_files if isinstance(side_files, list) else []:
        if not (folder / Path(str(beside)).name).is_file():
            yield f"{beside} is missing"


def leftovers(places: Sequence[Path]) -> Iterator[Leftover]:
    """Hidden folders of runs in folders (and the folders in them), or of the manifests given.

    Links are not followed, and other hidden folders (.git) not entered.
    """
    for place in places:
        _require_there(place)
        own = transactions.hidden_folder(place.parent, place.name)
        for hidden in _below(place) if place.is_dir() else [own]:
            if hidden.is_dir() and not hidden.is_symlink():
                yield Leftover(hidden, transactions.state_of(hidden))


def _below(place: Path) -> Iterator[Path]:
    for folder, names, _ in os.walk(place):
        yield from (Path(folder, name) for name in sorted(names) if name.startswith(transactions.PREFIX))
        names[:] = sorted(name for name in names if not name.startswith("."))


def clean(places: Sequence[Path]) -> Iterator[Leftover]:
    """Finish or remove what dead runs left; what is in use, or foreign, stays."""
    for found in leftovers(places):
        try:
            if found.state in ("to be finished", "to be removed"):
                with writing(found.path):
                    transactions.clean(found.path)
            yield found
        except ProductError as error:
            yield replace(found, problem=str(error))
