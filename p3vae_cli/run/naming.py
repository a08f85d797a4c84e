"""Names of products made from names of scenes."""

from __future__ import annotations

import string
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Self

from p3vae.cli.errors import UsageError

FIELDS = ("stem", "name", "parent", "parent2", "parent3", "parent4")
"""A scene's name without and with its suffix, the name of its folder, of the one around that, and so on."""


@dataclass(frozen=True)
class NameTemplate:
    """Folders and first part of the names of a scene's products, such as "{parent}/{stem}"."""

    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Check that a template names known fields only and leads nowhere else."""
        try:
            fields = [
                (name, spec, conversion) for _, name, spec, conversion in string.Formatter().parse(text)
            ]
        except ValueError as error:
            raise _refused(text, str(error)) from error
        for name, spec, conversion in fields:
            if name is not None and (name not in FIELDS or spec or conversion):
                raise _refused(text, f"it has no field {name!r}")
        parts = text.split("/")
        if text.startswith("/") or any(part in ("", ".", "..") for part in parts):
            raise _refused(text, "it must be a relative path below --output")
        return cls(text)

    def target(self, folder: Path, scene: Path) -> tuple[Path, str]:
        """Folder and first part of the names for a scene, below `folder`."""
        above = [parent.name for parent in scene.absolute().parents]
        values = {"stem": scene.stem, "name": scene.name}
        for place, field in enumerate(FIELDS[2:]):
            values[field] = above[place] if place < len(above) else ""
        path = PurePosixPath(self.text.format(**values))
        if not path.name or path.is_absolute() or ".." in path.parts:
            raise _refused(self.text, f"it gives {str(path)!r} for {scene}")
        return folder / path.parent, path.name


def _refused(text: str, problem: str) -> UsageError:
    known = ", ".join(f"{{{name}}}" for name in FIELDS)
    return UsageError(f"--output-template {text!r}: {problem}", remedy=f"fields are {known}")
