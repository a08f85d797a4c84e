"""Which files a scene is read from, and whether they are still the same ones."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from p3vae.cli.errors import SceneError


@dataclass(frozen=True)
class FileIdentity:
    """A file as it was when somebody looked at it."""

    path: Path
    size: int
    """[bytes]"""
    modified_ns: int
    """Time of the last change, since 1970 [ns]."""
    inode: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """The file as it is now; SceneError for a pipe or a device, which nobody can read twice."""
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise SceneError("is no regular file", path=path, remedy="give the path of a file")
        return cls(path, status.st_size, status.st_mtime_ns, status.st_ino)

    def record(self) -> dict[str, Any]:
        """For the manifest; the folder may be another one tomorrow."""
        return {"name": self.path.name, "size": self.size, "modified_ns": self.modified_ns}


def identify(paths: Iterable[Path]) -> tuple[FileIdentity, ...]:
    """The files as they are now."""
    return tuple(FileIdentity.of(path) for path in paths)


def require_unchanged(files: Iterable[FileIdentity]) -> None:
    """Refuse to vouch for what was read from files that were replaced or changed meanwhile."""
    for file in files:
        try:
            same = FileIdentity.of(file.path) == file
        except OSError:
            same = False
        if not same:
            raise SceneError(
                "was changed while it was read", path=file.path, remedy="run it again when it is complete"
            )
