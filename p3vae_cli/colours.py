"""Colours as #rrggbb and as red, green and blue from 0 to 255."""

from __future__ import annotations

from collections.abc import Sequence


def hex_colour(rgb: Sequence[int]) -> str:
    """(200, 30, 30) as #c81e1e."""
    red, green, blue = rgb[:3]
    return f"#{red:02x}{green:02x}{blue:02x}"


def rgb_colour(text: str) -> tuple[int, int, int]:
    """#c81e1e as (200, 30, 30)."""
    red, green, blue = bytes.fromhex(text.removeprefix("#"))
    return red, green, blue
