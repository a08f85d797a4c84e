"""Colours of classes from a file: a QGIS style, a CSV table or a GIMP palette."""

from __future__ import annotations

import re
from pathlib import Path

from p3vae.cli.colours import hex_colour
from p3vae.cli.errors import UsageError
from p3vae.cli.scenes.xml import parse_xml
from p3vae.cli.tables import read_rows

_DOCTYPE = re.compile(rb"<!DOCTYPE qgis[^\[\]<>]*>")
"""As QGIS begins its styles; one that declares anything stays, and is refused."""
_HEX = re.compile(r"#?[0-9a-fA-F]{6}")
_REMEDY = "give a QGIS style (.qml), a CSV with the columns name,color or a GIMP palette (.gpl)"


def read_colours(path: Path) -> dict[str, str]:
    """#rrggbb by the name of a class in lower case."""
    readers = {".qml": _of_style, ".csv": _of_table, ".gpl": _of_palette}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise UsageError("is no file of colours", path=path, remedy=_REMEDY)
    try:
        found = reader(path)
    except FileNotFoundError as error:
        raise UsageError("no such file", path=path, remedy="check --colours") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot be read as colours: {error}", path=path, remedy=_REMEDY) from error
    if not found:
        raise UsageError("names no class with a colour", path=path, remedy=_REMEDY)
    return {name.strip().casefold(): colour for name, colour in found.items()}


def _of_table(path: Path) -> dict[str, str]:
    heading, *rows = read_rows(path) or [[]]
    names = [title.strip().lower() for title in heading]
    colour = next((title for title in ("color", "colour") if title in names), None)
    if colour is None or not {"name", "class"} & {*names}:
        raise ValueError("it lacks the columns name and color")
    name = "name" if "name" in names else "class"
    return {row[names.index(name)]: _checked(row[names.index(colour)]) for row in rows}


def _of_palette(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines or not lines[0].startswith("GIMP Palette"):
        raise ValueError("it does not begin with GIMP Palette")
    matches = (re.fullmatch(r"\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S.*?)\s*", line) for line in lines[1:])
    found = {match[4]: [int(match[k]) for k in (1, 2, 3)] for match in matches if match}
    if any(max(rgb) > 255 for rgb in found.values()):
        raise ValueError("a colour goes from 0 to 255")
    return {name: hex_colour(rgb) for name, rgb in found.items()}


def _of_style(path: Path) -> dict[str, str]:
    """Of a paletted raster, or of the categories of a vector layer."""
    root = parse_xml(_DOCTYPE.sub(b"", path.read_bytes(), count=1))
    entries = {entry.get("label", ""): entry.get("color", "") for entry in root.iter("paletteEntry")}
    symbols = {}
    for symbol in root.iter("symbol"):
        options = {option.get("name"): option.get("value", "") for option in symbol.iter("Option")}
        parts = options.get("color", "").split(",")
        if len(parts) >= 3 and all(part.isdecimal() for part in parts[:3]):
            symbols[symbol.get("name")] = hex_colour([int(part) for part in parts[:3]])
    for category in root.iter("category"):
        if category.get("symbol") in symbols:
            entries[category.get("label", "")] = symbols[category.get("symbol")]
    return {name: _checked(colour[:7]) for name, colour in entries.items() if name}


def _checked(text: str) -> str:
    if not _HEX.fullmatch(text.strip()):
        raise ValueError(f"{text!r} is not #rrggbb")
    return f"#{text.strip().removeprefix('#').lower()}"
