"""Line charts as SVG, drawn with the page's own text colour so that they fit light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.floating[Any]]

WIDTH, HEIGHT = 440, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 12, 40


@dataclass(frozen=True, eq=False)
class Line:
    """One line of a chart, (points,) each; NaN interrupts it."""

    label: str
    colour: str
    y: Values
    band: tuple[Values, Values] | None = None
    """Lower and upper edge of a shaded band around it."""
    dashed: bool = False
    marked: bool = False
    """Show the points."""


@dataclass(frozen=True)
class Axis:
    """A range and its name, with unit."""

    label: str
    low: float
    high: float

    @classmethod
    def around(cls, label: str, *values: Values, zero: bool = False) -> Axis:
        """An axis that holds all values, and zero if wanted."""
        known = [part[np.isfinite(part)] for part in values]
        flat = np.concatenate(known) if known else np.zeros(0)
        low, high = (float(flat.min()), float(flat.max())) if flat.size else (0.0, 1.0)
        low = min(low, 0.0) if zero else low
        return cls(label, low, high if high > low else low + 1.0)

    def ticks(self) -> list[float]:
        """About five round numbers inside the range."""
        step = 10.0 ** math.floor(math.log10((self.high - self.low) / 4))
        step *= next(k for k in (1, 2, 2.5, 5, 10) if (self.high - self.low) / (step * k) <= 6)
        first = math.ceil(self.low / step - 1e-9)
        return [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


def line_chart(x: Values, lines: Sequence[Line], x_axis: Axis, y_axis: Axis, title: str) -> str:
    """An SVG element; `title` is read aloud and shown as a tooltip."""
    across = _scaled(x, x_axis, _LEFT, WIDTH - _RIGHT)
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" xmlns="http://www.w3.org/2000/svg">',
        f"<title>{escape(title)}</title>",
        *_axes(x_axis, y_axis),
    ]
    for line in lines:
        if line.band is not None:
            low, high = (_scaled(edge, y_axis, HEIGHT - _BOTTOM, _TOP) for edge in line.band)
            outlines = [_outline(across[run], low[run], high[run]) for run in _runs(low + high)]
            parts += [f'<path d="{d}" fill="{line.colour}" opacity="0.22"/>' for d in outlines]
        up = _scaled(line.y, y_axis, HEIGHT - _BOTTOM, _TOP)
        stroke = f'fill="none" stroke="{line.colour}" stroke-width="2"'
        stroke += ' stroke-dasharray="5 4"' if line.dashed else ""
        if not line.dashed:  # a rim, without which light colours are lost on a light page
            parts += [f'<path class="rim" d="{_path(across[run], up[run])}"/>' for run in _runs(up)]
        parts += [
            f'<path d="{_path(across[run], up[run])}" {stroke}><title>{escape(line.label)}</title></path>'
            for run in _runs(up)
        ]
        if line.marked:
            parts += [
                f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{line.colour}"/>'
                for a, b in zip(across, up, strict=True)
                if math.isfinite(a + b)
            ]
    return "".join([*parts, "</svg>"])


def with_gaps(x: Values, y: Values, widest: float) -> tuple[Values, Values]:
    """The same points with a NaN wherever neighbours in `x` lie farther apart than `widest`."""
    gaps = np.flatnonzero(np.diff(x) > widest) + 1
    return np.insert(x, gaps, np.nan), np.insert(y.astype(np.float64), gaps, np.nan)


def _axes(x_axis: Axis, y_axis: Axis) -> list[str]:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    parts = []
    for value in y_axis.ticks():
        up = _place(value, y_axis, bottom, _TOP)
        parts.append(f'<path class="grid" d="M{_LEFT} {up:.1f}H{right}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{up + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in x_axis.ticks():
        across = _place(value, x_axis, _LEFT, right)
        parts.append(f'<text x="{across:.1f}" y="{bottom + 16}" text-anchor="middle">{value:g}</text>')
    middle = (_LEFT + right) / 2
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{right}"/>')
    parts.append(f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_axis.label)}</text>')
    parts.append(
        f'<text transform="translate(13 {(_TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_axis.label)}</text>"
    )
    return parts


def _place(value: float, axis: Axis, start: float, end: float) -> float:
    return start + (value - axis.low) / (axis.high - axis.low) * (end - start)


def _scaled(values: Values, axis: Axis, start: float, end: float) -> Values:
    return start + (np.asarray(values, np.float64) - axis.low) / (axis.high - axis.low) * (end - start)


def _runs(values: Values) -> list[slice]:
    """Stretches without NaN."""
    known = np.concatenate([[False], np.isfinite(values), [False]]).astype(np.int8)
    edges = np.flatnonzero(np.diff(known)).reshape(-1, 2)
    return [slice(int(start), int(stop)) for start, stop in edges]


def _path(x: Values, y: Values) -> str:
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


def _outline(x: Values, low: Values, high: Values) -> str:
    return _path(np.concatenate([x, x[::-1]]), np.concatenate([high, low[::-1]])) + "Z"
