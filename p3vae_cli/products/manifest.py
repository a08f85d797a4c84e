"""What was made, from what, by what: the record of a run, `SCENE_p3vae.json`."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from p3vae.cli.products.styles import Categories

if TYPE_CHECKING:
    from p3vae.cli.products.rasters import RasterSink
    from p3vae.cli.scenes.base import Scene

_SMALL = 2**20  # headers and side files are hashed, cubes are not: that would read them twice [bytes]


def command_line() -> str:
    """The command that is running, quoted for a shell."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


@dataclass(frozen=True)
class Provenance:
    """Where products come from."""

    command: str = field(default_factory=command_line)
    model_sha256: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What decides the result, JSON-like."""
    version: str = field(default_factory=lambda: importlib.metadata.version("p3vae"))

    def tags(self, scene: Scene) -> dict[str, str]:
        """The same as tags of a raster. No time of writing: equal runs give equal files."""
        tags = {"P3VAE_VERSION": self.version, "P3VAE_COMMAND": self.command, "P3VAE_SCENE": scene.path.name}
        if self.model_sha256:
            tags["P3VAE_MODEL_SHA256"] = self.model_sha256
        if scene.acquisition.time is not None:
            tags["ACQUISITION_TIME"] = scene.acquisition.time.isoformat()
        return tags


def manifest_document(
    scene: Scene,
    provenance: Provenance,
    products: Mapping[Path, RasterSink],
    *,
    earlier: Path,
    pixels: int,
    valid_pixels: int,
    seconds: float,
) -> bytes:
    """The JSON text of a manifest; `products` maps finished files (still staged) to their sinks.

    Entries of the manifest `earlier` for products that this run does not replace stay.
    """
    record = {
        "p3vae_version": provenance.version,
        "command": provenance.command,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "scene": _scene_record(scene),
        "model_sha256": provenance.model_sha256,
        "settings": dict(provenance.settings),
        "pixels": pixels,
        "valid_pixels": valid_pixels,
        "seconds": round(seconds, 3),
        "products": [_product_record(path, sink) for path, sink in products.items()],
        "earlier_runs": _earlier_runs(earlier, replaced={path.name for path in products}),
    }
    return json.dumps(finite(record), indent=2, ensure_ascii=False, default=str).encode() + b"\n"


def _earlier_runs(manifest: Path, replaced: set[str]) -> list[dict[str, Any]]:
    """Records of runs by other commands on the same scene whose products are still there."""
    try:
        latest = json.loads(manifest.read_text())
        runs = [*latest.pop("earlier_runs", []), latest]
        for run in runs:
            run["products"] = [
                product
                for product in run["products"]
                if product["file"] not in replaced and (manifest.parent / Path(product["file"]).name).exists()
            ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []  # none, or not one of ours
    return [run for run in runs if run["products"]]


def _scene_record(scene: Scene) -> dict[str, Any]:
    record: dict[str, Any] = {
        "path": str(scene.path.absolute()),
        "product": scene.product,
        "level": scene.level,
    }
    if scene.path.exists():
        status = scene.path.stat()
        record["size"] = status.st_size
        record["modified"] = datetime.fromtimestamp(status.st_mtime, UTC).isoformat(timespec="seconds")
    record["sha256_of_small_files"] = {
        file.name: sha256(file) for file in (scene.path, scene.path.with_suffix(".hdr")) if _is_small(file)
    }
    return record


def _product_record(path: Path, sink: RasterSink) -> dict[str, Any]:
    spec = sink.spec
    record: dict[str, Any] = {
        "file": path.name,
        "description": spec.description,
        "unit": spec.unit,
        "sha256": sha256(path),
        "statistics": [asdict(statistics) for statistics in sink.statistics],
    }
    if isinstance(spec.style, Categories):
        del record["statistics"]
        record["classes"] = [
            {**asdict(item), "pixels": sink.class_pixels.get(item.value, 0)} for item in spec.style.items
        ]
    return record


def sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_small(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= _SMALL


def finite(value: Any) -> Any:
    """The same JSON-like value with null for NaN and infinities, which JSON does not know."""
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
