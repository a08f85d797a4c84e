"""Which files a run reads, so that it does not write over them: by path, link or hard link."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path

from p3vae.cli.errors import P3vaeError, ProductError
from p3vae.cli.scenes.opening import scene_files

_ADDED = (".aux.xml", ".ovr", ".msk", ".hdr", ".xml", "-wal", "-shm", "-journal")
"""Suffixes added to the whole name of a file that is read with another."""
_EXCHANGED = (".hdr", ".HDR", ".prj", ".tfw", ".wld")
"""Suffixes in place of the file's own."""
_SHAPEFILE = (".shp", ".shx", ".dbf", ".prj", ".cpg", ".sbn", ".sbx", ".qix", ".idm", ".ind", ".fbn", ".fbx")
_COMPANIONS = (("_landcover", "_confidence"), ("", "_std"))
"""Last parts of the stem of a map, and of the map that is judged with it."""
_WRITTEN_OF_FOLDERS = (".html", ".qgz")
"""Suffixes of what is written of a folder of products and not read."""
_FEW = 100
"""Inputs that are looked up anew each time."""

_declared: ContextVar[tuple[Path, ...]] = ContextVar("inputs of this run", default=())


@contextmanager
def declared(paths: Iterable[Path]) -> Iterator[None]:
    """Within, these are inputs of the run, besides those declared before."""
    _identities_of_many.cache_clear()
    token = _declared.set((*_declared.get(), *paths))
    try:
        yield
    finally:
        _declared.reset(token)


def declared_inputs() -> tuple[Path, ...]:
    """The files that this run reads, as far as it has said so; without those that belong to them."""
    return _declared.get()


def require_no_input(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Refuse to write a file that the run reads: one of `inputs` or of those declared, or a part of one."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return
    paths = tuple(dict.fromkeys((*inputs, *_declared.get())))
    known = (_identities_of_many if len(paths) > _FEW else _identities)(paths)
    owner = known.get((status.st_dev, status.st_ino))
    if owner is None:
        return
    how = "" if owner == path else f": it belongs to {owner}"
    raise ProductError(f"is an input and would be lost{how}", path=path, remedy="choose another name for it")


def _identities(paths: tuple[Path, ...]) -> dict[tuple[int, int], Path]:
    found: dict[tuple[int, int], Path] = {}
    for path in paths:
        for file in (*_files_of(path), *_companions(path)):
            with suppress(OSError, ValueError):
                status = file.stat()
                found.setdefault((status.st_dev, status.st_ino), path)
    return found


_identities_of_many = lru_cache(maxsize=1)(_identities)


def existing_files_of(path: Path) -> list[Path]:
    """The files that an input is read from, itself first, then in the order of their names."""
    found = {file for file in _files_of(path) if _is_there(file)}
    return sorted(found, key=lambda file: (file != path, str(file)))


def _is_there(file: Path) -> bool:
    try:
        return file.is_file()
    except (OSError, ValueError):
        return False


def _companions(path: Path) -> Iterator[Path]:
    """Maps that are judged with a map, if they lie beside it."""
    for own, other in _COMPANIONS:
        if path.suffix.lower() in (".tif", ".tiff") and path.stem.endswith(own):
            yield path.with_name(f"{path.stem.removesuffix(own)}{other}{path.suffix}")


def _files_of(path: Path) -> Iterator[Path]:
    """Names of the files that are read with an input, itself first; most are not there.

    Of a folder, or a manifest, that is everything in the folder.
    """
    try:
        if path.is_dir() or path.name.endswith("_p3vae.json"):
            yield from _in_folder(path)
            return
        if not path.is_file():
            return
    except (OSError, ValueError):
        return
    yield path
    with suppress(OSError, ValueError, P3vaeError):
        yield from scene_files(path)
    exchanged = _SHAPEFILE if path.suffix.lower() == ".shp" else _EXCHANGED
    yield from (path.with_name(path.name + end) for end in _ADDED)
    yield from (path.with_name(path.stem + case) for end in exchanged for case in (end, end.upper()))


def _in_folder(path: Path) -> Iterator[Path]:
    folder = path if path.is_dir() else path.parent
    for place, _, names in os.walk(folder):
        for name in names:
            if not name.endswith(_WRITTEN_OF_FOLDERS):
                yield Path(place, name)
