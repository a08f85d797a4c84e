"""HTML of the page: layers over a quick-look, legends, tables."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from p3vae.cli.rasters.pictures import Image, png
from p3vae.cli.styles.rasters import Stop, figure

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


LARGEST_PICTURE = 700
"""Largest side of a picture [pixels]."""
_HEAD = 1000
"""Characters in which `_GENERATOR` stands."""
_GENERATOR = '<meta name="generator" content="p3vae">'


@dataclass(frozen=True, eq=False)
class Layer:
    """A map that can be laid over the quick-look."""

    key: str
    title: str
    image: Image
    legend: str
    """HTML."""


def page(title: str, body: Sequence[str]) -> str:
    """A whole document that loads nothing from anywhere."""
    files = resources.files("p3vae.cli.report")
    style, script = ((files / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f'{_GENERATOR}<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{style}</style></head>'
        f"<body><main>{''.join(body)}</main><script>{script}</script></body></html>\n"
    )


def is_page(path: Path) -> bool:
    """Whether a file is one of these documents."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return _GENERATOR in file.read(_HEAD)
    except OSError:
        return False


def viewer(name: str, base: Image | None, layers: Sequence[Layer]) -> str:
    """Layers over the quick-look `base`, one at a time, with a slider for their opacity."""
    if not layers:
        return ""
    images = [] if base is None else [f'<img src="{data_uri(base)}" alt="quick-look">']
    rows, cols = layers[0].image.shape[:2]
    shape = f"aspect-ratio: {cols} / {rows}; width: min(100%, {80 * cols / rows:.1f}vh)"
    choices, legends = [], []
    for number, layer in enumerate(layers):
        hidden = "" if number == 0 else " hidden"
        key, title = escape(layer.key, quote=True), escape(layer.title)
        images.append(
            f'<img class="over" data-layer="{key}"{hidden} src="{data_uri(layer.image)}" alt="{title}">'
        )
        checked = " checked" if number == 0 else ""
        button = f'<input type="radio" name="{escape(name, quote=True)}" value="{key}"{checked}>'
        choices.append(f"<label>{button} {title}</label>")
        legends.append(f'<div data-layer="{key}"{hidden}>{layer.legend}</div>')
    return (
        f'<div class="viewer"><div class="stack" style="{shape}">{"".join(images)}</div><div class="side">'
        f'<fieldset class="layers">{"".join(choices)}</fieldset>'
        '<label>Opacity <input type="range" min="0" max="100" value="100"></label>'
        f"{''.join(legends)}</div></div>"
    )


def data_uri(image: Image) -> str:
    """A picture inside the page."""
    return "data:image/png;base64," + base64.b64encode(png(image)).decode()


def colour_bar(scale: Sequence[Stop], unit: str, description: str, highest: float | None = None) -> str:
    """A legend of a quantity; what it does not show is said: values that are not drawn, or beyond its end."""
    low, high = scale[0].value, scale[-1].value
    places = [(100 * (stop.value - low) / (high - low), stop) for stop in scale]
    stops = ", ".join(f"{stop.color}{stop.alpha:02x} {place:.1f}%" for place, stop in places)
    ends = "".join(f"<span>{figure(value)}</span>" for value in (low, (low + high) / 2, high))
    if unit not in ("", "1") and f"[{unit}]" not in description:
        description = f"{description} [{unit}]"
    clear = max((stop.value for stop in scale if stop.alpha == 0), default=None)
    said = [] if clear is None else [f"not drawn below {figure(clear)}"]
    said += [f"highest value {figure(highest)}"] if highest is not None and highest > high else []
    return (
        f'<div class="bar" style="background: linear-gradient(to right, {stops})"></div>'
        f'<div class="ends">{ends}</div><p class="soft">{escape("; ".join([description, *said]))}</p>'
    )


def colour_box(colour: str) -> str:
    """A small box in the colour of a class."""
    return f'<span class="box" style="background: {escape(colour, quote=True)}"></span>'


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """A table whose cells are HTML already."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heading)
    head = f"<thead><tr>{head}</tr></thead>" if heading else ""
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table class="{kind}">{head}<tbody>{lines}</tbody></table></div>'


def facts(values: Mapping[str, Any]) -> str:
    """Names and values, nested ones as name.name."""
    rows = [[escape(name), escape(text)] for name, text in _flat(values)]
    return table((), rows, "wide")


def folded(title: str, content: str) -> str:
    """What opens on a click."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    lines = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines += _flat(value, f"{prefix}{name}.")
        elif value is not None and value != "":
            lines.append((f"{prefix}{name}", f"{value:.6g}" if isinstance(value, float) else str(value)))
    return lines
