"""Polygons and points from a vector file: what is checked here, byte by byte, is all that GDAL gets to see.

The name and the neighbours of a file decide nothing: its first bytes say what it is, and its content is
packed in memory under a fixed name, which admits one driver of GDAL only.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
import warnings
import zipfile
from collections.abc import Mapping
from contextlib import closing
from io import BytesIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from p3vae.cli.console import note
from p3vae.cli.errors import P3vaeError
from p3vae.cli.scenes.drivers import ForeignFileError, beginning
from p3vae.cli.scenes.identity import FileIdentity

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

VECTORS = (
    "GeoPackage, GeoJSON, shapefile (also zipped), FlatGeobuf or file geodatabase: "
    "ogr2ogr polygons.gpkg FILE makes one of KML, GML, CSV and others"
)
"""What polygons are read from."""
_SHAPEFILE_PARTS = (".shp", ".shx", ".dbf", ".prj", ".cpg")
_LARGEST = 2**29
"""Of what is read into memory [bytes]."""
_LONGEST_S = 15.0
"""That statements on a GeoPackage may take [s]."""
_SQLITE, _SHAPEFILE, _FLATGEOBUF, _ZIP = b"SQLite format 3\0", b"\0\0\x27\x0a", b"fgb", b"PK\x03\x04"
_JOURNALS = ("-wal", "-journal")
"""Ends of files beside a SQLite database that hold changes of it."""
_GEOJSON = (
    "FeatureCollection",
    "Feature",
    "GeometryCollection",
    "Polygon",
    "MultiPolygon",
    "Point",
    "MultiPoint",
)
_REFERENCE = b"<OGRVRT"
"""What GDAL looks for, anywhere in a file's beginning, to take it for a description of other files."""
_BEGINNING = 2**16
_GEODATABASE_FILE = re.compile(r"a[0-9a-f]{8}\.[a-z_0-9]+|gdb|timestamps")
"""Names in a file geodatabase; others (locks) are left out."""
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9_]*(\([0-9]+\))?")
"""Of a column."""
_CONTENTS = ("gpkg_contents", "gpkg_spatial_ref_sys", "gpkg_geometry_columns")
_DRIVERS = {
    ".gpkg": "GPKG",
    ".geojson": "GeoJSON",
    ".fgb": "FlatGeobuf",
    ".shp": "ESRI Shapefile",
    ".gdb": "OpenFileGDB",
}


def read_polygons(path: Path, refused: type[P3vaeError]) -> GeoDataFrame:
    """The geometries of a vector file of a known kind; any failure is a `refused` about it."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RuntimeWarning)
            frame = _geodatabase(path) if path.is_dir() else _frame(_packed(_content(path)), _kind(path))
        for text in sorted({str(warning.message) for warning in caught}):
            note(f"warning: {path}: {text}")
        return frame
    except P3vaeError:
        raise
    except ForeignFileError as error:
        raise refused(str(error), path=path, remedy=f"give a {VECTORS}") from error
    except Exception as error:  # of GDAL, GEOS, PROJ and the decoding of text, each with a family of its own
        reason = " ".join(str(error).split())[:200]
        raise refused(f"cannot be read: {reason}", path=path, remedy=f"give a {VECTORS}") from error


def _kind(path: Path) -> str:
    """The end of the name under which GDAL gets a file, by the beginning of its content."""
    start = beginning(path)
    if start.startswith(_ZIP):
        return ".shp"
    if _REFERENCE in start:
        raise ForeignFileError("refers to other files")
    for magic, end in ((_SQLITE, ".gpkg"), (_SHAPEFILE, ".shp"), (_FLATGEOBUF, ".fgb")):
        if start.startswith(magic):
            return end
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return ".geojson"
    raise ForeignFileError("is neither a raster nor a known vector format")


def _content(path: Path) -> dict[str, bytes]:
    """What GDAL gets of a file, by the ends of names."""
    end = _kind(path)
    if beginning(path).startswith(_ZIP):
        return _zipped_shapefile(path)
    if end == ".shp":
        beside = {part: path.with_suffix(case) for part in _SHAPEFILE_PARTS for case in (part.upper(), part)}
        return {
            part: _bytes(path if part == end else file)
            for part, file in beside.items()
            if part == end or file.is_file()
        }
    content = _bytes(path)
    if end == ".geojson":
        _require_geojson(content)
    return {end: _plain_tables(path, content) if end == ".gpkg" else content}


def _bytes(path: Path) -> bytes:
    if FileIdentity.of(path).size > _LARGEST:
        raise ForeignFileError(f"is larger than {_LARGEST / 2**20:.0f} MB; cut it to the scene")
    return path.read_bytes()


def _packed(content: Mapping[str, bytes]) -> BytesIO:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for end, data in content.items():
            archive.writestr(f"polygons{end}", data)
    packed.seek(0)
    return packed


def _geodatabase(path: Path) -> GeoDataFrame:
    """The geometries of a folder that is a file geodatabase, of which GDAL gets a copy."""
    if path.suffix.lower() != ".gdb" or not (path / "a00000001.gdbtable").is_file():
        raise ForeignFileError("is a folder, but no file geodatabase")
    with TemporaryDirectory() as folder:
        copy = Path(folder, "polygons.gdb")
        copy.mkdir()
        total = 0
        for file in path.iterdir():
            if _GEODATABASE_FILE.fullmatch(file.name):
                content = _bytes(file)
                total += len(content)
                if total > _LARGEST:
                    raise ForeignFileError(f"is larger than {_LARGEST / 2**20:.0f} MB; cut it to the scene")
                (copy / file.name).write_bytes(content)
        return _frame(copy, ".gdb")


def _frame(source: Path | BytesIO, end: str) -> GeoDataFrame:
    """The only layer with geometries, which may be beside tables without (QGIS keeps styles in one)."""
    import geopandas  # slow to import, and most runs have no polygons
    import pyogrio

    layers = geopandas.list_layers(source)
    placed = layers["name"][layers["geometry_type"].notna()]
    layer = {"layer": str(placed.iloc[0])} if len(placed) == 1 < len(layers) else {}
    if pyogrio.read_info(source, **layer)["driver"] != _DRIVERS[end]:
        raise ForeignFileError("is not what its beginning says")
    return geopandas.read_file(source, **layer)


def _zipped_shapefile(path: Path) -> dict[str, bytes]:
    """The parts of the one shapefile in an archive, and nothing else of it."""
    with zipfile.ZipFile(path) as archive:
        members = {PurePosixPath(member.filename): member for member in archive.infolist()}
        main = [name for name in members if name.suffix.lower() == ".shp" and not name.name.startswith(".")]
        if len(main) != 1:
            raise ForeignFileError(f"is an archive with {len(main)} shapefiles")
        parts = [name for name in members if name.with_suffix("") == main[0].with_suffix("")]
        parts = [name for name in parts if name.suffix.lower() in _SHAPEFILE_PARTS]
        if sum(members[name].file_size for name in parts) > _LARGEST:
            raise ForeignFileError("is too large an archive to be unpacked in memory; unpack it")
        content = {name.suffix.lower(): archive.read(members[name]) for name in parts}
    if not content[".shp"].startswith(_SHAPEFILE) or _REFERENCE in content[".shp"][:_BEGINNING]:
        raise ForeignFileError(f"holds {main[0].name}, which is no shapefile")
    return content


def _plain_tables(path: Path, content: bytes) -> bytes:
    """A GeoPackage of the tables of another: without views, virtual tables, triggers, indices and journals.

    Views may compute for ever, and virtual tables show other files.
    """
    for journal in (path.with_name(path.name + end) for end in _JOURNALS):
        if journal.exists() and journal.stat().st_size:
            raise ForeignFileError(f"is being edited: {journal.name} holds changes; save and close it first")
    until = time.monotonic() + _LONGEST_S
    with closing(sqlite3.connect(":memory:")) as database:
        database.set_progress_handler(lambda: time.monotonic() > until, 10_000)
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("ATTACH ':memory:' AS given")
        write_ahead = bytes((1, 1))  # the journal that a database in memory cannot have
        database.deserialize(content[:18] + write_ahead + content[20:], name="given")
        select = "SELECT name, type, sql FROM given.sqlite_master WHERE type IN ('table', 'view')"
        made = {
            name: (kind, " ".join(str(sql).lower().split())) for name, kind, sql in database.execute(select)
        }
        if any(sql.startswith("create virtual") and " using rtree" not in sql for _, sql in made.values()):
            raise ForeignFileError("holds virtual tables")
        listed = [str(row[0]) for row in database.execute("SELECT table_name FROM given.gpkg_contents")]
        for name in dict.fromkeys((*_CONTENTS, *listed)):
            if name in made and made[name][0] != "table":
                raise ForeignFileError(f"has a layer {name} that is a view, not a table")
            if name in made:
                _copy_table(database, name)
        database.execute("PRAGMA main.application_id = 0x47504B47")
        database.execute("PRAGMA main.user_version = 10300")
        database.commit()
        return database.serialize(name="main")


def _copy_table(database: sqlite3.Connection, name: str) -> None:
    """Copy the stored columns of a table; those that are computed are left out."""
    rows = database.execute(
        "SELECT name, type, pk FROM pragma_table_xinfo(?, 'given') WHERE hidden = 0", [name]
    )
    columns = [(_quoted(str(column)), str(kind), bool(key)) for column, kind, key in rows]
    keys = sum(key for *_, key in columns)
    defined = ", ".join(
        f"{column} {kind if _TYPE.fullmatch(kind) else ''}{' PRIMARY KEY' if key and keys == 1 else ''}"
        for column, kind, key in columns
    )
    names = ", ".join(column for column, *_ in columns)
    database.execute(f"CREATE TABLE main.{_quoted(name)} ({defined})")
    database.execute(
        f"INSERT INTO main.{_quoted(name)} ({names}) SELECT {names} FROM given.{_quoted(name)}"  # noqa: S608
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _require_geojson(content: bytes) -> None:
    document = json.loads(content.decode("utf-8-sig"))
    if not isinstance(document, dict) or document.get("type") not in _GEOJSON:
        raise ForeignFileError("is JSON, but no GeoJSON")
    crs = document.get("crs")
    if crs is not None and not (isinstance(crs, dict) and crs.get("type") in ("name", "EPSG")):
        raise ForeignFileError("has a CRS that is not named in the file itself")
