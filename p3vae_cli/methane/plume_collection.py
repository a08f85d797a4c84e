"""The plumes of many scenes in one GeoPackage, made anew from those of the single scenes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import geopandas

from p3vae.cli.errors import ProductError
from p3vae.cli.methane.plume_table import FIELDS
from p3vae.cli.rasters.vectors import write_geopackage
from p3vae.cli.records.manifest import read_manifest
from p3vae.cli.records.staging import Staging, writing
from p3vae.cli.records.transactions import BusyError
from p3vae.cli.scenes.vectors import read_polygons
from p3vae.cli.styles.vectors import plume_style

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

COLLECTION = "p3vae_plumes.gpkg"
_END, _LAYER, _CRS = "_plumes.gpkg", "plumes", "EPSG:4326"
_OURS = frozenset(("id", "scene", "ime_kg"))
"""Columns without which a table is not ours."""
_PATIENCE_S, _PAUSE_S = 600.0, 0.2
"""How long to wait for another run that makes the same file, and between looks at it [s]."""


def collect_plumes(home: Path, folders: Iterable[Path]) -> tuple[Path, int, int]:
    """Write all plumes of the scenes mapped into `folders` to one file in `home`.

    Returns its path, and how many plumes and scenes it holds. It is made from what lies there now, so that
    runs side by side, the last of which sees the products of all, end with the same file.
    """
    path, until = home / COLLECTION, time.monotonic() + _PATIENCE_S
    while True:
        try:
            with Staging(home, [COLLECTION], COLLECTION, overwrite=True) as staging:
                _require_ours(path)
                tables = [read_polygons(source, ProductError) for source in _sources(folders)]
                frame = _together(tables)
                staged = staging.path(COLLECTION)
                with writing(path):
                    write_geopackage(staged, frame, _LAYER)
                    staging.path(f"{path.stem}.qml").write_bytes(plume_style())
                    if not path.exists() or path.read_bytes() != staged.read_bytes():
                        staging.commit()
            return path, len(frame), len(tables)
        except BusyError:
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE_S)


def _sources(folders: Iterable[Path]) -> Iterator[Path]:
    """The GeoPackages of scenes that manifests list, by name."""
    for folder in sorted(set(folders)):
        for path in sorted(folder.glob(f"*{_END}")):
            record = read_manifest(path.with_name(f"{path.name.removesuffix(_END)}_p3vae.json")) or {}
            earlier = record.get("earlier_runs")
            runs = [record, *(earlier if isinstance(earlier, list) else [])]
            listed = {p.get("file") for run in runs if isinstance(run, dict) for p in run.get("products", ())}
            if path.name in listed:
                yield path


def _together(tables: Iterable[GeoDataFrame]) -> GeoDataFrame:
    """One table in longitude and latitude; plumes of scenes that are nowhere on Earth have no outline."""
    rows: list[dict[str, Any]] = []
    shapes: list[Any] = []
    for table in tables:
        rows += table.drop(columns="geometry").to_dict("records")
        shapes += [None] * len(table) if table.crs is None else list(table.geometry.to_crs(_CRS))
    return geopandas.GeoDataFrame(rows, columns=[*FIELDS, "geometry"], geometry=shapes, crs=_CRS)


def _require_ours(path: Path) -> None:
    """Refuse to replace a file of that name that is something else."""
    if not path.exists():
        return
    try:
        fields = set(read_polygons(path, ProductError).columns)
    except ProductError:
        fields = set()
    if not fields >= _OURS:
        raise ProductError("is not a table of plumes that p3vae wrote", path=path, remedy="rename it first")
