"""The STAC collection of all items of a command below a folder."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from p3vae.cli.records import transactions
from p3vae.cli.records.stac import collection_id, collection_name, item_pattern, require_stac
from p3vae.cli.records.staging import Staging, writing

_PATIENCE_S = 60.0
"""How long another run may hold the collection."""


def write_collection(folder: Path, command: str) -> Path | None:
    """Make the collection of the items that are there now, also those of other runs; None without any.

    It is made anew from the items each time, so that runs side by side need not know of each other.
    """
    path = folder / collection_name(command)
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with Staging(folder, [path.name], path.name, overwrite=True) as staging:
                items = list(_items(path, command))
                if not items:
                    return None
                require_stac(path, type="Collection", id=collection_id(command))
                with writing(path):
                    staging.path(path.name).write_bytes(_document(items, command))
                staging.commit()
            return path
        except transactions.BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def _items(collection: Path, command: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Path, relative to the collection, and content of every item that names it."""
    folder = collection.parent
    for path in sorted(folder.rglob(item_pattern(command))):
        if any(part.startswith(transactions.PREFIX) for part in path.relative_to(folder).parts):
            continue
        try:
            item = json.loads(path.read_text(encoding="utf-8"))
            links = {link["rel"]: link["href"] for link in item["links"]}
            own = os.path.normpath(path.parent / links["collection"]) == os.path.normpath(collection)
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if own:
            yield path.relative_to(folder).as_posix(), item


def _document(items: list[tuple[str, Mapping[str, Any]]], command: str) -> bytes:
    import pystac

    collection = pystac.Collection(
        id=collection_id(command),
        description=f"Products of p3vae {command}: one item per scene.",
        extent=pystac.Extent(_spatial(items), _temporal(items)),
        title=f"p3vae {command}",
        license="other",
    )
    collection.add_link(pystac.Link("root", f"./{collection_name(command)}", "application/json"))
    for place, item in items:
        collection.add_link(pystac.Link("item", f"./{place}", "application/geo+json", item.get("id")))
    document = collection.to_dict(include_self_link=False, transform_hrefs=False)
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def _spatial(items: list[tuple[str, Mapping[str, Any]]]) -> Any:
    """The box around all boxes; the whole Earth where no item has a place."""
    import pystac

    boxes = [item["bbox"] for _, item in items if item.get("bbox")]
    if not boxes:
        return pystac.SpatialExtent([[-180.0, -90.0, 180.0, 90.0]])
    west, south, east, north = zip(*boxes, strict=True)
    crosses = any(w > e for w, e in zip(west, east, strict=True))
    ends = (-180.0, 180.0) if crosses else (min(west), max(east))
    return pystac.SpatialExtent([[ends[0], min(south), ends[1], max(north)]])


def _temporal(items: list[tuple[str, Mapping[str, Any]]]) -> Any:
    import pystac
    from pystac.utils import str_to_datetime

    times = [
        str_to_datetime(value)
        for _, item in items
        for name in ("datetime", "start_datetime", "end_datetime")
        if (value := item["properties"].get(name))
    ]
    return pystac.TemporalExtent([[min(times, default=None), max(times, default=None)]])
