"""Ways to damage a file: bytes, words and numbers of a text, objects of HDF5, values of a model's card."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

NUMBERS = (
    "0",
    "-1",
    "1e9",
    "999999999999",
    "1e400",
    "nan",
    "inf",
    "-1e308",
    "",
    "abc",
    "\u0663",
    "1" * 400,
    "0x10",
)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_HOSTILE_TEXT = (
    b"{" * 300,
    b"[" * 3000,
    b" " * 6000,
    b"\0",
    b"\xff\xfe",
    b"\xc2\x85",
    b"<!DOCTYPE a>",
    b"<OGRVRTDataSource>",
)


def damaged(path: Path, rng: random.Random, tokens: tuple[str, ...]) -> None:
    """Damage a file in place, in one to three ways; `tokens` are words that would lead elsewhere."""
    ways: list[Callable[[Path, random.Random, tuple[str, ...]], None]] = [_bytes, _cut, _insert]
    if path.suffix.lower() in (".hdr", ".xml", ".csv", ".toml", ".txt", ".geojson", ".json"):
        ways = [_number, _number, _words, _words, _lines, _insert, _cut, _bytes]
    elif path.suffix in (".he5", ".nc"):
        ways = [_bytes, _bytes, _cut, _object, _object, _object]
    elif path.suffix == ".p3vae":
        ways = [_card, _card, _card, _bytes, _cut]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rng.choice(ways)(path, rng, tokens)


def _bytes(path: Path, rng: random.Random, tokens: tuple[str, ...]) -> None:
    content = bytearray(path.read_bytes())
    head = rng.random() < 0.6  # headers matter more than pixels
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        if content:
            place = rng.randrange(min(len(content), 4096) if head else len(content))
            content[place] = rng.choice((0, 255, 127, 128, rng.randrange(256)))
    path.write_bytes(content)


def _cut(path: Path, rng: random.Random, tokens: tuple[str, ...]) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * rng.random())])


def _insert(path: Path, rng: random.Random, tokens: tuple[str, ...]) -> None:
    content = path.read_bytes()
    place = rng.randrange(len(content) + 1)
    added = rng.choice((*_HOSTILE_TEXT, rng.randbytes(rng.randrange(1, 500)), *(t.encode() for t in tokens)))
    path.write_bytes(content[:place] + added + content[place:])


def _number(path: Path, rng: random.Random, tokens: tuple[str, ...]) -> None:
    content = path.read_bytes()
    found = list(_NUMBER.finditer(content))
    if found:
        match = rng.choice(found)
        path.write_bytes(content[: match.start()] + rng.choice(NUMBERS).encode() + content[match.end() :])


def _words(path: Path, rng: random.Random, tokens: tuple[str, ...]) -> None:
    content = path.read_bytes()
    found = list(re.finditer(rb"[A-Za-z_]{3,}", content))
    if found:
        match = rng.choice(found)
        new = rng.choice((*tokens, *NUMBERS, "a" * 100_000, "x")).encode()
        path.write_bytes(content[: match.start()] + new + content[match.end() :])


def _lines(path: Path, rng: random.Random, tokens: tuple[str, ...]) -> None:
    lines = path.read_bytes().split(b"\n")
    place = rng.randrange(len(lines))
    if rng.random() < 0.5:
        del lines[place]
    else:
        lines[place:place] = [lines[place]] * rng.choice((1, 2, 1000))
    path.write_bytes(b"\n".join(lines))


def _object(path: Path, rng: random.Random, tokens: tuple[str, ...]) -> None:
    """Another shape, type or place of an object of HDF5, or another value of an attribute."""
    try:
        with h5py.File(path, "r+") as file:
            names: list[str] = []
            file.visit(names.append)
            if file.attrs and rng.random() < 0.5:
                key = rng.choice(sorted(file.attrs))
                file.attrs[key] = _value(rng, tokens)
            elif names:
                _change(file, rng.choice(names), rng, tokens)
    except (OSError, RuntimeError, ValueError, KeyError, TypeError):
        _bytes(path, rng, tokens)  # damaged already


def _change(file: h5py.File, name: str, rng: random.Random, tokens: tuple[str, ...]) -> None:
    shape = getattr(file[name], "shape", (4,))
    del file[name]
    kind = rng.choice(
        ("gone", "group", "text", "scalar", "huge", "empty", "flat", "external", "link", "soft", "nan")
    )
    if kind == "group":
        file.create_group(name)
    elif kind == "text":
        file[name] = "text"
    elif kind == "scalar":
        file[name] = 3.5
    elif kind == "huge":
        huge = tuple(10 ** rng.choice((5, 6, 9)) for _ in shape) or (10**9,)
        file.create_dataset(
            name, huge[:3], "u2", chunks=tuple(1024 if i == 0 else 1 for i in range(len(huge[:3])))
        )
    elif kind == "empty":
        file[name] = np.empty((0,) * max(len(shape), 1))
    elif kind == "flat":
        file[name] = np.zeros(7)
    elif kind == "nan":
        file[name] = np.full(shape, np.nan)
    elif kind == "external":
        file.create_dataset(name, shape or (4,), "u1", external=[(tokens[0], 0, h5py.h5f.UNLIMITED)])
    elif kind == "link":
        file[name] = h5py.ExternalLink(tokens[0], "/data")
    elif kind == "soft":
        file[name] = h5py.SoftLink("/nowhere")


def _value(rng: random.Random, tokens: tuple[str, ...]) -> Any:
    return rng.choice(
        (np.nan, -1, 1e300, "text", b"\xff", np.zeros(0), np.zeros(500), 10**12, *tokens, [1.0, 2.0])
    )


def _card(path: Path, rng: random.Random, tokens: tuple[str, ...]) -> None:
    """Another value somewhere in a model's card, or NaN among its weights, with a hash that fits."""
    from p3vae.models.checkpoint import (
        ModelFile,
        ModelFormatError,
        read_card,
        read_model_file,
        write_model_file,
    )

    try:
        kind, _ = read_card(path)
        file = read_model_file(path, kind=kind)
    except (ModelFormatError, OSError):
        return _bytes(path, rng, tokens)
    card, tensors = json.loads(json.dumps(dict(file.card))), dict(file.tensors)
    if tensors and rng.random() < 0.2:
        name = rng.choice(sorted(tensors))
        change = rng.choice(("nan", "gone", "flat", "negative"))
        if change == "gone":
            del tensors[name]
        elif change == "flat":
            tensors[name] = tensors[name].flatten()[:1].clone()
        elif tensors[name].is_floating_point():
            tensors[name] = tensors[name] * (float("nan") if change == "nan" else -1.0)
        else:
            tensors[name] = -tensors[name]
    else:
        _alter(card, rng, tokens)
    try:
        write_model_file(path, ModelFile(kind, card, tensors))
    except (ValueError, TypeError, RecursionError):
        _bytes(path, rng, tokens)


def _alter(node: Any, rng: random.Random, tokens: tuple[str, ...]) -> None:
    """Replace one value of a JSON tree."""
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and rng.random() < 0.8:
            node = node[key]
            continue
        deep: Any = []
        for _ in range(200):
            deep = [deep]
        node[key] = rng.choice(
            (None, -1, 1e308, 10**30, "text", "\x01\x00", [], {}, deep, 2.5, True, tokens[0])
        )
        return
