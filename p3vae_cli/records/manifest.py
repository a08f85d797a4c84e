"""What was made, from what, by what: the record of a run, `SCENE_p3vae.json`."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from p3vae.cli.records.staging import require_free
from p3vae.cli.styles.rasters import Categories, side_files

if TYPE_CHECKING:
    from p3vae.cli.rasters.files import RasterSink
    from p3vae.cli.run.mapper import Mapper
    from p3vae.cli.run.maps import MapFiles
    from p3vae.cli.scenes.base import Scene
    from p3vae.cli.scenes.identity import FileIdentity

_SMALL = 2**20  # headers and side files are hashed, cubes are not: that would read them twice [bytes]


_LONGEST_NAME = 255
"""Of a file, on every usual file system [bytes]."""


def command_line() -> str:
    """The command that is running, quoted for a shell; bytes that are no UTF-8 as escapes."""
    typed = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    return os.fsencode(typed).decode(errors="backslashreplace")


@dataclass(frozen=True)
class Provenance:
    """By what call products are made."""

    command: str = field(default_factory=command_line)
    request: Mapping[str, Any] = field(default_factory=dict)
    """What was asked for, JSON-like: the same request of the same scene gives the same products."""
    version: str = field(default_factory=lambda: importlib.metadata.version("p3vae"))

    @property
    def command_name(self) -> str:
        """The command that was asked for, e.g. "classify"."""
        return str(self.request.get("command", "p3vae"))

    def tags(self, scene: Scene, model_sha256: str | None) -> dict[str, str]:
        """The same as tags of a raster. No time of writing: equal runs give equal files."""
        tags = {"P3VAE_VERSION": self.version, "P3VAE_COMMAND": self.command, "P3VAE_SCENE": scene.path.name}
        if model_sha256:
            tags["P3VAE_MODEL_SHA256"] = model_sha256
        if scene.acquisition.time is not None:
            tags["ACQUISITION_TIME"] = scene.acquisition.time.isoformat()
        return tags


def manifest_document(
    scene: Scene,
    provenance: Provenance,
    mapper: Mapper,
    products: Sequence[Mapping[str, Any]],
    maps: MapFiles,
) -> bytes:
    """The JSON text of a manifest; `products` are the records of finished files.

    Entries of an earlier manifest for products that this run neither replaces nor removes stay.
    """
    gone = {*maps.removed, *(product["file"] for product in products)}
    record = {
        "p3vae_version": provenance.version,
        "command": provenance.command,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "scene": _scene_record(scene),
        "model_sha256": mapper.model_sha256,
        "settings": dict(mapper.settings),
        "request": dict(provenance.request),
        "results": dict(mapper.results),
        "pixels": maps.pixels,
        "valid_pixels": maps.valid_pixels,
        "seconds": round(maps.seconds, 3),
        "products": list(products),
        "earlier_runs": _earlier_runs(maps.manifest, replaced=gone),
    }
    text = json.dumps(finite(record), indent=2, ensure_ascii=False, default=str)
    return text.encode(errors="backslashreplace") + b"\n"  # as JSON has it


def read_manifest(path: Path) -> dict[str, Any] | None:
    """The record in a manifest; None where there is none, or it is not one of ours."""
    try:
        record = json.loads(path.read_text())
        earlier = record.get("earlier_runs") or []
        ours = "p3vae_version" in record and all(_lists_names(run) for run in [record, *earlier])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return record if ours else None


def _lists_names(run: Mapping[str, Any]) -> bool:
    """Whether the products of a run are names, as a file system takes them."""
    products = run["products"]
    names = [name for product in products for name in (product["file"], *product.get("side_files", ()))]
    return isinstance(products, list) and all(_is_name(name) for name in names)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and "\0" not in name and 0 < len(os.fsencode(name)) <= _LONGEST_NAME


def require_ours(manifest: Path, *, overwrite: bool, inputs: Iterable[Path]) -> None:
    """Refuse to replace a file of the manifest's name that is not a manifest."""
    if read_manifest(manifest) is None:
        require_free(manifest, overwrite=overwrite, inputs=inputs)


def _earlier_runs(manifest: Path, replaced: set[str]) -> list[dict[str, Any]]:
    """Records of runs by other commands on the same scene whose products are still there."""
    latest = read_manifest(manifest)
    if latest is None:
        return []
    try:
        return _still_there([*latest.pop("earlier_runs", []), latest], manifest.parent, replaced)
    except (KeyError, TypeError, AttributeError):
        return []


def _still_there(runs: list[dict[str, Any]], folder: Path, replaced: set[str]) -> list[dict[str, Any]]:
    for run in runs:
        run["products"] = [
            product
            for product in run["products"]
            if product["file"] not in replaced and (folder / Path(product["file"]).name).exists()
        ]
    return [run for run in runs if run["products"]]


def _scene_record(scene: Scene) -> dict[str, Any]:
    record: dict[str, Any] = {
        "path": str(scene.path.absolute()),
        "product": scene.product,
        "level": scene.level,
        "files": [file.record() for file in scene.files],
    }
    if scene.files:
        modified = datetime.fromtimestamp(scene.files[0].modified_ns / 1e9, UTC)
        record |= {"size": scene.files[0].size, "modified": modified.isoformat(timespec="seconds")}
    record["sha256_of_small_files"] = sha256_of_small_files(scene.files)
    return record


def sha256_of_small_files(files: Iterable[FileIdentity]) -> dict[str, str]:
    """By name; large ones are known by size and time."""
    return {file.path.name: sha256(file.path) for file in files if file.size <= _SMALL}


def product_record(path: Path, sink: RasterSink) -> dict[str, Any]:
    """What a manifest tells of a raster; `path` is where it lies now."""
    spec = sink.spec
    record: dict[str, Any] = {
        "file": path.name,
        "description": spec.description,
        "unit": spec.unit,
        "size": path.stat().st_size,
        "sha256": sha256(path),
        "width": sink.grid.width,
        "height": sink.grid.height,
        "side_files": list(side_files(path.name, spec.style)),
        "statistics": [asdict(statistics) for statistics in sink.statistics],
    }
    if isinstance(spec.style, Categories):
        del record["statistics"]
        record["classes"] = [asdict(extent) for extent in sink.classes]
    return record


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def finite(value: Any) -> Any:
    """The same JSON-like value with null for NaN and infinities, which JSON does not know."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
