"""Wind for emission rates: one number for all scenes, or a table with a line for each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from p3vae.cli.base.errors import UsageError
from p3vae.cli.base.tables import read_rows

COLUMNS = ("scene", "wind_m_s")
REMEDY = "columns scene (file name), wind_m_s and, if known, wind_std_m_s and source"


@dataclass(frozen=True)
class SceneWind:
    """10 m wind of one scene."""

    m_s: float
    std_m_s: float | None = None
    source: str | None = None


@dataclass(frozen=True)
class WindOption:
    """The value of `--wind`: a speed [m s-1] or a CSV file."""

    value: float | Path

    @classmethod
    def parse(cls, text: str) -> WindOption:
        """From the command line: what is no number is a file."""
        try:
            value = float(text)
        except ValueError:
            return cls(Path(text))
        if not (math.isfinite(value) and value >= 0.0):
            raise UsageError(f"--wind {text} is no speed", remedy="give metres per second, or a CSV file")
        return cls(value)

    def of(self, scene: Path) -> SceneWind:
        """The wind of a scene; UsageError where a table has none for it."""
        if not isinstance(self.value, Path):
            return SceneWind(self.value, source="--wind")
        table = _read(self.value)
        for name in (scene.name, scene.stem):
            if name in table:
                return table[name]
        raise UsageError(f"has no wind for the scene {scene.name}", path=self.value, remedy="add a line")


def _read(path: Path) -> dict[str, SceneWind]:
    try:
        heading, *rows = [[cell.strip() for cell in row] for row in read_rows(path)] or [[]]
        missing = [name for name in COLUMNS if name not in heading]
        if missing:
            raise ValueError(f"it has no column {missing[0]!r}")
        table = {}
        for row in rows:
            cells = dict(zip(heading, row, strict=False))
            std = cells.get("wind_std_m_s")
            table[cells["scene"]] = SceneWind(
                _speed(cells.get("wind_m_s", "")),
                _speed(std) if std else None,
                cells.get("source") or path.name,
            )
        return table
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot be read as a wind table: {error}", path=path, remedy=REMEDY) from error


def _speed(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value >= 0.0):
        raise ValueError(f"{text} is no wind speed")
    return value
