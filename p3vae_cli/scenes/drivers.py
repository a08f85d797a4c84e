"""The kinds of files that are opened, by name: others may refer to any file or host.

GDAL tries every driver it has. Among them are formats that are mere descriptions of other files (VRT, WMS,
STACIT, GDALG), under any file name. A file from somebody else must not decide what is read.
"""

from __future__ import annotations

import json
import sqlite3
import warnings
import zipfile
from collections.abc import Sequence
from contextlib import closing
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import rasterio
from rasterio.errors import NotGeoreferencedWarning, RasterioIOError

from p3vae.cli.base.console import note
from p3vae.cli.base.errors import P3vaeError
from p3vae.cli.scenes.identity import FileIdentity

if TYPE_CHECKING:
    from geopandas import GeoDataFrame

TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
"""First bytes of TIFF files."""
_RASTERS = ("GTiff", "ENVI")
_SIBLINGS = (".msk", ".ovr")
"""Ends of files beside a raster that GDAL opens by itself."""
VECTORS = (
    "GeoPackage, GeoJSON, shapefile (also zipped), FlatGeobuf or file geodatabase: "
    "ogr2ogr polygons.gpkg FILE makes one of KML, GML, CSV and others"
)
"""What polygons are read from."""
_SHAPEFILE_PARTS = (".shp", ".shx", ".dbf", ".prj", ".cpg")
_LARGEST_ZIPPED = 2**29
"""Of a zipped shapefile, which is unpacked in memory [bytes]."""
_SQLITE, _SHAPEFILE, _FLATGEOBUF, _ZIP = b"SQLite format 3\0", b"\0\0\x27\x0a", b"fgb", b"PK\x03\x04"
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


class ForeignFileError(Exception):
    """A file of a kind that is not opened."""


def open_dataset(path: Path, more: Sequence[str] = ()) -> rasterio.DatasetReader:
    """A raster that GDAL opens as GeoTIFF or ENVI, or by a driver that the user has named.

    ForeignFileError for other files; RasterioError for damaged ones.
    """
    FileIdentity.of(path)
    _require_plain_siblings(path)
    drivers = ("GTiff",) if beginning(path).startswith(TIFF) else (*_RASTERS, *more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        for driver in drivers:
            try:
                return rasterio.open(path, driver=driver)
            except RasterioIOError as error:
                if "not recognized" not in str(error):
                    raise
    raise ForeignFileError("is not a raster in GeoTIFF or ENVI format")


def _require_plain_siblings(path: Path) -> None:
    for end in _SIBLINGS:
        beside = path.with_name(path.name + end)
        if beside.exists() and not beginning(beside).startswith(TIFF):
            raise ForeignFileError(f"has {beside.name} beside it, which is no TIFF")


def beginning(path: Path) -> bytes:
    """The first bytes of a regular file."""
    FileIdentity.of(path)
    with path.open("rb") as file:
        return file.read(_BEGINNING)


def read_polygons(path: Path, refused: type[P3vaeError]) -> GeoDataFrame:
    """The geometries of a vector file of a known kind; any failure is a `refused` about it."""
    import geopandas  # slow to import, and most runs have no polygons

    try:
        source = _source(path)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RuntimeWarning)
            frame = geopandas.read_file(source, **({} if source is not path else _layer_of(path)))
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


def _layer_of(path: Path) -> dict[str, str]:
    """The only layer with geometries, which may be beside tables without (QGIS keeps styles in one)."""
    import geopandas

    layers = geopandas.list_layers(path)
    placed = layers["name"][layers["geometry_type"].notna()]
    return {"layer": str(placed.iloc[0])} if len(placed) == 1 < len(layers) else {}


def _source(path: Path) -> Path | BytesIO:
    """What GDAL may open of a vector file."""
    if not path.is_dir() and beginning(path).startswith(_ZIP):
        return _zipped_shapefile(path)
    _require_vector(path)
    return path


def _zipped_shapefile(path: Path) -> BytesIO:
    """The one shapefile in an archive, packed anew without anything else."""
    packed = BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(packed, "w") as shapefile:
        members = {PurePosixPath(member.filename): member for member in archive.infolist()}
        main = [name for name in members if name.suffix.lower() == ".shp" and not name.name.startswith(".")]
        if len(main) != 1:
            raise ForeignFileError(f"is an archive with {len(main)} shapefiles")
        parts = [name for name in members if name.with_suffix("") == main[0].with_suffix("")]
        parts = [name for name in parts if name.suffix.lower() in _SHAPEFILE_PARTS]
        if sum(members[name].file_size for name in parts) > _LARGEST_ZIPPED:
            raise ForeignFileError("is too large an archive to be unpacked in memory; unpack it")
        for name in parts:
            content = archive.read(members[name])
            if name == main[0] and (not content.startswith(_SHAPEFILE) or _REFERENCE in content[:_BEGINNING]):
                raise ForeignFileError(f"holds {name.name}, which is no shapefile")
            shapefile.writestr(f"polygons{name.suffix.lower()}", content)
    packed.seek(0)
    return packed


def _require_vector(path: Path) -> None:
    if path.is_dir():
        if path.suffix.lower() != ".gdb" or not (path / "a00000001.gdbtable").is_file():
            raise ForeignFileError("is a folder, but no file geodatabase")
        return
    start = beginning(path)
    if _REFERENCE in start:
        raise ForeignFileError("refers to other files")
    if start.startswith(_SQLITE):
        _require_plain_tables(path)
    elif start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        _require_geojson(path)
    elif not start.startswith((_SHAPEFILE, _FLATGEOBUF)):
        raise ForeignFileError("is neither a raster nor a known vector format")


def _require_plain_tables(path: Path) -> None:
    """Virtual tables of SQLite may show other files; those of a GeoPackage are indices (rtree)."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as database:
        rows: list[tuple[Any]] = database.execute("SELECT sql FROM sqlite_master").fetchall()
    for (statement,) in rows:
        words = " ".join(str(statement or "").lower().split())
        if words.startswith("create virtual") and " using rtree" not in words:
            raise ForeignFileError("holds virtual tables")


def _require_geojson(path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8-sig"))
    if not isinstance(content, dict) or content.get("type") not in _GEOJSON:
        raise ForeignFileError("is JSON, but no GeoJSON")
    crs = content.get("crs")
    if crs is not None and not (isinstance(crs, dict) and crs.get("type") in ("name", "EPSG")):
        raise ForeignFileError("has a CRS that is not named in the file itself")
