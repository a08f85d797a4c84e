"""Whether a scene was mapped already, just so: its manifest against what is asked for now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from p3vae.cli.errors import ProductError, UsageError
from p3vae.cli.records.manifest import finite, read_manifest, sha256, sha256_of_small_files
from p3vae.cli.scenes.identity import FileIdentity
from p3vae.cli.scenes.inputs import existing_files_of

_SHOWN = 40
"""Characters shown of a value."""


@dataclass(frozen=True)
class DoneRun:
    """A run that made exactly what is asked for, from the same files."""

    manifest: Path
    record: Mapping[str, Any]

    @property
    def products(self) -> dict[str, str]:
        """Paths of its files, by what distinguishes their names."""
        names = [str(product["file"]) for product in self.record["products"]]
        return named_products({name: str(self.manifest.parent / name) for name in names}, self.manifest)


def named_products(paths: Mapping[str, str], manifest: Path) -> dict[str, str]:
    """Paths of files by what distinguishes their names; the end .tif is left out."""
    stem = manifest.name.removesuffix("p3vae.json")
    return {name.removeprefix(stem).removesuffix(".tif"): path for name, path in paths.items()}


def done_run(
    manifest: Path,
    request: Mapping[str, Any],
    version: str,
    files: Sequence[FileIdentity],
    *,
    replace: bool = False,
) -> DoneRun | None:
    """The run that `manifest` lists for this request; None if there is none, and the scene is to be mapped.

    A run of the same command that differs, or whose files are not there, is an error that says how it
    differs, or with `replace` no reason to keep it.
    """
    record = _run_of(manifest, str(request["command"]))
    if record is None:
        return None
    differing = [*_differences(record, finite(request), version, files), *_changed(record, manifest)]
    if not differing:
        return DoneRun(manifest, record)
    if replace:
        return None
    raise ProductError(
        f"lists a run that differs: {'; '.join(differing)}",
        path=manifest,
        remedy="use --resume --overwrite, which makes only what differs anew, or choose another --output",
    )


def same_products(
    manifest: Path,
    request: Mapping[str, Any],
    additions: frozenset[str],
    version: str,
    files: Sequence[FileIdentity],
) -> frozenset[str]:
    """Names of what other commands made in just the same way, so that making it again changes nothing.

    `additions` are entries of requests that add products but change no map that two commands make.
    """
    left_out = additions | {"command"}
    asked = _deciding(finite(request), left_out)
    names: set[str] = set()
    for run in _runs(manifest):
        own = run["request"]
        if own.get("command") == request["command"] or _deciding(own, left_out) != asked:
            continue
        if not _differences(run, own, version, files) and not _changed(run, manifest):
            names |= {str(product["file"]) for product in run["products"]}
    return frozenset(names)


def _deciding(request: Mapping[str, Any], left_out: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if name not in left_out and value is not None}


def hashed_files(request: Mapping[str, Any]) -> dict[str, Any]:
    """The same request, JSON-like, with a hash for every file that it names."""
    return {key: _hashed(value) for key, value in request.items()}


def _hashed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return hashed_files(value)
    if isinstance(value, list | tuple):
        return [_hashed(item) for item in value]
    if not isinstance(value, Path):
        return value
    try:
        beside = {file.name: sha256(file) for file in existing_files_of(value) if file != value}
        found = {"sha256": sha256(value)} if value.is_file() else {}
        return {"name": value.name, **found, **({"beside": beside} if beside else {})}
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", path=value, remedy="check the path") from error


def _run_of(manifest: Path, command: str) -> dict[str, Any] | None:
    """The latest run of a command that a manifest lists."""
    return next((run for run in _runs(manifest) if run["request"].get("command") == command), None)


def _runs(manifest: Path) -> list[dict[str, Any]]:
    """The runs that a manifest lists with their requests, the latest first."""
    latest = read_manifest(manifest)
    if latest is None:
        return []
    earlier = latest.get("earlier_runs")
    runs = [latest, *reversed(earlier if isinstance(earlier, list) else [])]
    return [
        run
        for run in runs
        if isinstance(run, dict)
        and isinstance(run.get("products"), list)
        and isinstance(run.get("request"), dict)
    ]


def _differences(
    record: Mapping[str, Any], request: Mapping[str, Any], version: str, files: Sequence[FileIdentity]
) -> list[str]:
    found = []
    if record.get("p3vae_version") != version:
        found.append(f"p3vae {record.get('p3vae_version')}, now {version}")
    scene = record.get("scene")
    scene = scene if isinstance(scene, dict) else {}
    if scene.get("files") != [file.record() for file in files] or (
        scene.get("sha256_of_small_files") != sha256_of_small_files(files)
    ):
        found.append("the scene has changed since")
    before = record["request"]
    for name in sorted({*before, *request}):
        if before.get(name) != request.get(name):
            found.append(f"{name} {_short(before.get(name))}, now {_short(request.get(name))}")
    return found


def _changed(record: Mapping[str, Any], manifest: Path) -> list[str]:
    """Files that are not there, or not as they were: by size and time, or else by their hashes."""
    found = []
    for product in record["products"]:
        path = manifest.with_name(Path(str(product.get("file"))).name)
        try:
            if not _is_same(path, product, manifest):
                found.append(f"{path.name} was changed")
        except OSError:
            found.append(f"{path.name} is missing")
        for name in product.get("side_files", ()):
            if not manifest.with_name(Path(str(name)).name).is_file():
                found.append(f"{name} is missing")
    return found


def _is_same(path: Path, product: Mapping[str, Any], manifest: Path) -> bool:
    """A run moves its manifest last: nobody has touched a file whose entry in the folder is older."""
    now = path.stat()
    if now.st_size != product.get("size"):
        return False
    untouched = now.st_ctime_ns <= manifest.stat().st_ctime_ns
    if untouched and now.st_mtime_ns == product.get("modified_ns"):
        return True
    return sha256(path) == product.get("sha256")


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
