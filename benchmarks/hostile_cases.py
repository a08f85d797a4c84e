"""The cases of `benchmarks.hostile`: what somebody adds to a folder, and the call that then meets it."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sqlite3
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import geopandas
import numpy as np
import shapely

from tests.cli.commands.test_assess import write_raster
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import UTM, UTM_TRANSFORM, WAVELENGTHS, wavelength_tags
from tests.fuzz.samples import CUBE, SWATH, WEIGHTS, wind_field

IMAGE = fixtures.truth(24, 20, len(WAVELENGTHS)).astype(np.float32)
SECRET = b"the content of a foreign file "


@dataclass
class Trial:
    """What a case has: a folder of the user's, chance, and what nobody may touch."""

    folder: Path
    rng: random.Random
    canary: Path
    port: int

    @property
    def place(self) -> str:
        """A file elsewhere, or an address."""
        return self.rng.choice((str(self.canary), f"/vsicurl/http://127.0.0.1:{self.port}/a.geojson"))


def made(folder: Path) -> None:
    """The user's files: a scene, labels in every format, masks, a model, maps, wind, tables, notes."""
    folder.mkdir(parents=True)
    fixtures.raster(folder / "town.tif", IMAGE, band_tags=wavelength_tags(WAVELENGTHS))
    corners = [UTM_TRANSFORM @ corner for corner in ((2, 2), (12, 12), (14, 3), (19, 20))]
    shapes = [shapely.box(*corners[0], *corners[1]), shapely.box(*corners[2], *corners[3])]
    frame = geopandas.GeoDataFrame({"class": ["a", "b"]}, geometry=shapes, crs=UTM)
    for name in ("p.gpkg", "p.geojson", "p.shp"):
        frame.to_file(folder / name)
    fixtures.raster(folder / "mask.tif", np.ones((24, 20, 1), np.uint8))
    classes = np.repeat(np.arange(1, 4, dtype=np.uint8), 160).reshape(24, 20)
    write_raster(folder / "town_landcover.tif", classes, {1: "a", 2: "b", 3: "c"}, nodata=0)
    shutil.copy(WEIGHTS / "town.p3vae", folder / "own.p3vae")
    (folder / "notes.txt").write_text("a year of work\n")
    (folder / "scenes.txt").write_text(f"{folder / 'town.tif'}\n")
    (folder / "run.toml").write_text("tile-size = 8\n")
    wind_field(folder / "wind.nc")
    glt = np.stack(np.meshgrid(np.arange(1, 7), np.arange(1, 9)), axis=-1)
    fixtures.emit(folder, "reflectance", CUBE, glt, np.ones(6)).rename(folder / "emit.nc")
    fixtures.prisma(folder, "1", CUBE, CUBE).rename(folder / "prisma.he5")
    (folder / "link.tif").symlink_to("town.tif")
    os.link(folder / "town.tif", folder / "hard.tif")


# Each of these adds something to the folder and gives the words of a call.


def remains(trial: Trial) -> list[str]:
    rng, folder = trial.rng, trial.folder
    mark = rng.choice(
        ("town_p3vae.json", "report.html", "p3vae.qgz", "s.tif", "s.gpkg", "backup", "town_landcover.tif")
    )
    hidden = folder / f".p3vae-{mark}"
    how = rng.choice(("lists", "deep", "whole", "old", "token", "fifo", "dangling", "link", "file", "own"))
    if how == "link":
        shutil.copytree(folder, folder / "linked", symlinks=True)
        hidden.symlink_to(folder / "linked")
    elif how == "file":
        hidden.write_text("mine")
    else:
        hidden.mkdir()
    others = rng.sample(["town.tif", "notes.txt", "own.p3vae", "p.gpkg", "../notes.txt", "mask.tif"], 2)
    if how in ("lists", "deep"):
        deep = "[" * rng.choice((10, 100_000))
        (hidden / "moves.json").write_text(deep if how == "deep" else json.dumps([*others[:1], mark]))
        (hidden / "removals.json").write_text(json.dumps(others[1:]))
        for name in (Path(others[0]).name, mark):
            (hidden / name).write_text("not yours")
    elif how in ("whole", "old", "token"):
        state = hidden / rng.choice(("new", "whole", "old"))
        state.mkdir()
        name = Path(others[0]).name
        if rng.random() < 0.5:
            os.link(folder / name, state / name)
        else:
            (state / name).write_text("not yours")
        inode = hidden.stat().st_ino + rng.choice((-1, 1, 7))
        number = 0 if how != "token" else inode
        (hidden / "lock").write_text("" if how == "old" else f"p3vae {number} {inode + 1}\n{mark}")
    elif how == "fifo":
        os.mkfifo(hidden / rng.choice(("lock", "moves.json")))
    elif how == "dangling":
        (hidden / "lock").symlink_to(folder.parent / "made")
    elif how == "own":
        (hidden / "thesis.txt").write_text("mine")
    calls = (
        ["brightness", "town.tif", *rng.choice(([], ["--overwrite"], ["--report", "--qgis"]))],
        ["smooth", "town_landcover.tif", "-o", "s.tif"],
        ["sample", "town_landcover.tif", "-n", "9", "--minimum", "2", "-o", "s.gpkg"],
        ["polygons", "town_landcover.tif", "-o", "s.gpkg"],
        ["clean", "."],
        ["clean", ".", "--dry-run"],
        ["verify", "."],
    )
    return list(rng.choice(calls))


def with_labels(trial: Trial, path: str) -> list[str]:
    """A call that reads polygons."""
    calls = (
        ["brightness", "town.tif", "-o", "out", "--mask", path],
        ["stats", "town_landcover.tif", "--zones", path],
        ["assess", "town_landcover.tif", "--reference", path],
        ["train", "town.tif", "--labels", path, "--model", "lda", "-o", "m.p3vae"],
    )
    return list(trial.rng.choice(calls))


def vrt(place: str) -> str:
    return (
        f'<OGRVRTDataSource><OGRVRTLayer name="a"><SrcDataSource relativeToVRT="0">{place}</SrcDataSource>'
        "</OGRVRTLayer></OGRVRTDataSource>"
    )


def polyglots(trial: Trial) -> list[str]:
    rng, folder = trial.rng, trial.folder
    source = rng.choice(("p.gpkg", "p.geojson", "p.shp", "mask.tif", "notes.txt"))
    packed = BytesIO((folder / source).read_bytes())
    packed.seek(0, os.SEEK_END)
    with zipfile.ZipFile(packed, "a") as archive:
        inner = rng.choice(("a.vrt", "a.shp", "a.gpkg", "doc.kml", "../a.vrt", "x/a.vrt"))
        archive.writestr(inner, vrt(trial.place))
        if rng.random() < 0.3:
            archive.write(folder / "p.shp", "b.shp")
    content = packed.getvalue()
    if rng.random() < 0.3:
        content = vrt(trial.place).encode() + content
    name = rng.choice(("l.zip", "l.gpkg", "l.shp.zip", "l.gpkg.zip", "l.kmz", "l.vrt", "l.shz", "l.gdb.zip"))
    (folder / name).write_bytes(content)
    return with_labels(trial, name)


_ENDLESS = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS fid, geom, class FROM n, p"
)


def databases(trial: Trial) -> list[str]:
    rng, folder = trial.rng, trial.folder
    path = folder / "p.gpkg"
    how = rng.choice(("view", "virtual", "trigger", "computed", "journal", "bytes", "schema", "contents"))
    with sqlite3.connect(path) as database:
        if how == "view":
            database.execute(f"CREATE VIEW q AS {_ENDLESS}")
            if rng.random() < 0.6:
                for table in ("gpkg_contents", "gpkg_geometry_columns"):
                    names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
                    values = ", ".join("'q'" if n in ("table_name", "identifier") else n for n in names)
                    database.execute(f"INSERT INTO {table} SELECT {values} FROM {table}")
        elif how in ("virtual", "schema"):
            module = rng.choice(("VirtualOGR", "VirtualShape", "csv", "fts5", "rtree /*", "zipfile"))
            sql = f"CREATE VIRTUAL TABLE v USING {module}('{trial.place}')"
            if how == "schema":
                sql = rng.choice((f"{sql} -- using rtree", "CREATE TABLE v(" * 50, _ENDLESS))
            database.execute("PRAGMA writable_schema = 1")
            database.execute("INSERT INTO sqlite_master VALUES ('table', 'v', 'v', 0, ?)", [sql])
        elif how == "trigger":
            event = rng.choice(("INSERT", "UPDATE", "DELETE"))
            database.execute(f"CREATE TRIGGER t AFTER {event} ON p BEGIN DELETE FROM p; END")
        elif how == "computed":
            column = rng.choice(
                ("hex(zeroblob(900000000))", "printf('%.*c', 900000000, 'x')", "load_extension('x')")
            )
            database.execute("PRAGMA writable_schema = 1")
            database.execute(
                "UPDATE sqlite_master SET sql = replace(sql, ')', ?) WHERE name = 'p'",
                [f", z AS ({column}))"],
            )
        elif how == "contents":
            name = rng.choice(("sqlite_master", 'p"; DROP TABLE p; --', "main.p", "pragma_database_list", ""))
            database.execute("UPDATE gpkg_contents SET table_name = ?", [name])
    database.close()
    if how == "journal":
        other = folder / "q.gpkg"
        shutil.copy(path, other)
        changed = sqlite3.connect(other)
        changed.execute("PRAGMA journal_mode = WAL")
        changed.execute("CREATE TABLE more (x)")
        changed.commit()
        end = rng.choice(("-wal", "-shm", "-journal"))
        shutil.copy(folder / "q.gpkg-wal", folder / f"p.gpkg{end}")
        changed.close()
        for left in folder.glob("q.gpkg*"):
            left.unlink()
    elif how == "bytes":
        content = bytearray(path.read_bytes())
        for _ in range(rng.randint(1, 30)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(content)
    return with_labels(trial, "p.gpkg")


def names(trial: Trial) -> list[str]:
    rng, folder, port = trial.rng, trial.folder, trial.port
    here = f"127.0.0.1:{port}"
    name = rng.choice(
        (
            *(f"http:{here}?t", f"https:{here}", f"zip+http:{here}", "s3:b", "gs:b", "az:b", "WFS:x"),
            *("PG:dbname=x", "MYSQL:x", "WMS:x", "GTIFF_DIR:1:town", "NETCDF:town", "vsicurl"),
            *("-o", "--overwrite", "-", "a\nb", "a\tb", " a", "a!b", "a?b", "a#b", "%2e", "n" * 231),
            *("\udcff", "town.tif.aux", "vsizip", "..a", "~a", "$HOME", "`a`", "<a>", "a;b", "a|b"),
        )
    )
    end = rng.choice((".tif", ".gpkg", ".geojson", ".img"))
    if end in (".tif", ".img"):
        shutil.copy(folder / "town.tif", os.fsencode(folder) + b"/" + os.fsencode(f"{name}{end}"))
        given = f"{name}{end}"
        calls: tuple[list[str], ...] = (
            ["brightness", "-o", "out", "--", given],
            ["brightness", "--", given],
            ["info", "--", given],
            ["brightness", "-o", "out", f"--mask={given}", "town.tif"],
            ["brightness", "-o", "out", "--", "*" + end],
            ["info", "--", f"/vsicurl/http://127.0.0.1:{port}/a.tif"],
            ["info", "--", f"http://127.0.0.1:{port}/a.tif"],
            ["brightness", "-o", f"http:127.0.0.1:{port}", "--", given],
        )
        return list(rng.choice(calls))
    shutil.copy(folder / f"p{end}", os.fsencode(folder) + b"/" + os.fsencode(f"{name}{end}"))
    call = with_labels(trial, f"{name}{end}")
    place = call.index(f"{name}{end}")
    return [*call[: place - 1], f"{call[place - 1]}={call[place]}", *call[place + 1 :]]


def references(trial: Trial) -> list[str]:
    rng, folder = trial.rng, trial.folder
    name = rng.choice(("wind.nc", "wind.nc", "emit.nc", "prisma.he5"))
    path = folder / name
    content = bytearray(path.read_bytes())
    marks = re.compile(rb"GCOL|OHDR|TREE|DIMENSION_LIST")
    heaps = [found.start() for found in marks.finditer(content)]
    for _ in range(rng.randint(1, 3)):
        start = (rng.choice(heaps) if heaps else 0) + 16
        how = rng.choice(("byte", "zeros", "ones", "elsewhere"))
        for number in range(rng.randint(1, 12)):
            place = min(start + 24 * number + 16, len(content) - 8)
            if how == "byte":
                content[min(start + rng.randrange(300), len(content) - 1)] = rng.randrange(256)
            elif how == "elsewhere":
                content[place : place + 8] = rng.randrange(len(content)).to_bytes(8, "little")
            else:
                content[place : place + 8] = (b"\0" if how == "zeros" else b"\xff") * 8
    path.write_bytes(content)
    if name == "wind.nc":
        return ["invert-methane", str(SWATH), "--method", "mf", "-o", "out", "--wind", name]
    return list(rng.choice((["info", name], ["brightness", name, "-o", "out"])))


def outputs(trial: Trial) -> list[str]:
    rng = trial.rng
    name = rng.choice(
        (
            *("town.tif", "link.tif", "hard.tif", "own.p3vae", "p.shp", "p.dbf", "p.shx", "p.prj", "p.gpkg"),
            *("mask.tif", "scenes.txt", "run.toml", "town_landcover.tif", "notes.txt"),
        )
    )
    mapping = ["brightness", "@scenes.txt", "--mask", "mask.tif", "--config", "run.toml", "-o", "out"]
    calls = (
        [*mapping, "--log-file", name],
        [*mapping, "--overwrite", "--log-file", name],
        ["train", "town.tif", "--labels", "p.shp", "--model", "lda", "--from", "own.p3vae", "-o", name],
        ["train", "town.tif", "--labels", "p.shp", "--model", "lda", "-o", name],
        ["explain", "town.tif", "-m", "own.p3vae", "--pixel", "3,3", "-o", name],
        ["suggest", "town.tif", "-m", "own.p3vae", "-o", name],
        ["stats", "town_landcover.tif", "--zones", "p.shp", "--csv", name],
        ["assess", "town_landcover.tif", "--reference", "p.gpkg", rng.choice(("--csv", "--html")), name],
        ["spectra", "own.p3vae", "-o", name],
        ["smooth", "town_landcover.tif", "-o", name],
        ["report", ".", "-o", name],
        ["info", "own.p3vae", "--stac", name],
    )
    call = list(rng.choice(calls))
    given = " ".join(call[:-1])
    reads = {
        "town.tif": ("town.tif", "link.tif", "hard.tif", "scenes.txt"),
        "p.shp": ("p.dbf", "p.shx", "p.prj"),
    }
    is_input = name in given or any(one in given and name in more for one, more in reads.items())
    may_overwrite = is_input and call[0] not in ("info", "brightness")
    return [*call, "--overwrite"] if may_overwrite else call


KINDS: dict[str, tuple[int, Callable[[Trial], list[str]]]] = {
    "planted remains": (4, remains),
    "files of two formats": (4, polyglots),
    "objects of GeoPackages": (4, databases),
    "names": (5, names),
    "references of NetCDF and HDF5": (3, references),
    "outputs over inputs": (4, outputs),
}
"""How many of 24 cases, and what makes one."""
