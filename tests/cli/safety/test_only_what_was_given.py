"""A file's name, its neighbours, and what else its bytes could mean, make nobody read or ask for more."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
import zipfile
from io import BytesIO
from pathlib import Path

import geopandas
import numpy as np
import pytest
import shapely

from tests.cli.calls import refusal, run
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import UTM, UTM_TRANSFORM, WAVELENGTHS, wavelength_tags
from tests.cli.scenes.test_closed import canary, server  # noqa: F401 - fixtures

IMAGE = fixtures.truth(24, 20, len(WAVELENGTHS)).astype(np.float32)


def town(path: Path) -> Path:
    return fixtures.raster(path, IMAGE, band_tags=wavelength_tags(WAVELENGTHS))


def polygons(path: Path, **options: str) -> Path:
    left, top = UTM_TRANSFORM @ (2, 2)
    right, bottom = UTM_TRANSFORM @ (12, 12)
    shape = shapely.box(left, bottom, right, top)
    geopandas.GeoDataFrame({"class": ["a"]}, geometry=[shape], crs=UTM).to_file(path, **options)
    return path


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def with_zip(path: Path, source: str) -> Path:
    """A GeoPackage that is also an archive with a description of another file."""
    packed = BytesIO(path.read_bytes())
    packed.seek(0, os.SEEK_END)
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr(
            "a.vrt",
            f'<OGRVRTDataSource><OGRVRTLayer name="a"><SrcDataSource>{source}</SrcDataSource>'
            "</OGRVRTLayer></OGRVRTDataSource>",
        )
    path.unlink()
    made = path.with_suffix(".zip")
    made.write_bytes(packed.getvalue())
    return made


def test_a_geopackage_that_is_an_archive_too_is_a_geopackage(tmp_path, canary, server):  # noqa: F811
    url, requests = server
    scene = town(tmp_path / "town.tif")
    expected = None
    for number, source in enumerate((canary, f"/vsicurl/{url}/a.geojson")):
        labels = with_zip(polygons(tmp_path / f"labels{number}.gpkg"), str(source))
        out = tmp_path / f"out{number}"
        done = run("brightness", scene, "--mask", labels, "-o", out)
        assert done.exit_code == 0, done.output
        expected = expected or content(out)
    plain = polygons(tmp_path / "plain.gpkg")
    assert run("brightness", scene, "--mask", plain, "-o", tmp_path / "plain").exit_code == 0
    read = geopandas.read_file(plain)
    assert len(read) == 1 and requests == []


def test_the_journal_of_a_geopackage_is_not_obeyed(tmp_path):
    scene, labels = town(tmp_path / "town.tif"), polygons(tmp_path / "labels.gpkg")
    database = sqlite3.connect(shutil.copy(labels, tmp_path / "edited.gpkg"))
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("CREATE TABLE more (x)")
    database.commit()
    shutil.copy(tmp_path / "edited.gpkg-wal", tmp_path / "labels.gpkg-wal")
    before = content(tmp_path)
    said = refusal(2, "brightness", scene, "--mask", labels, "-o", tmp_path / "out")
    assert "labels.gpkg: is being edited: labels.gpkg-wal holds changes" in said
    assert content(tmp_path) == before
    (tmp_path / "labels.gpkg-wal").unlink()
    (tmp_path / "labels.gpkg").write_bytes((tmp_path / "edited.gpkg").read_bytes())  # closed in that mode
    assert run("brightness", scene, "--mask", labels, "-o", tmp_path / "out").exit_code == 0
    database.close()


ENDLESS = (
    "WITH RECURSIVE n(fid) AS (SELECT 1 UNION ALL SELECT fid + 1 FROM n) SELECT n.fid AS fid, geom, class "
    "FROM n, {}"
)


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("name", ["endless", "labels"])
def test_a_view_is_never_computed(tmp_path, listed, name):
    scene, labels = town(tmp_path / "town.tif"), polygons(tmp_path / "labels.gpkg")
    with sqlite3.connect(labels) as database:
        if name == "labels":
            database.execute("ALTER TABLE labels RENAME TO hidden")
            listed = True
        source = "hidden" if name == "labels" else "labels"
        database.execute(f"CREATE VIEW {name} AS {ENDLESS.format(source)}")
        if listed and name != "labels":
            for table in ("gpkg_contents", "gpkg_geometry_columns"):
                columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
                values = ", ".join("'endless'" if c in ("table_name", "identifier") else c for c in columns)
                database.execute(f"INSERT INTO {table} SELECT {values} FROM {table}")
    command = [
        Path(sys.executable).with_name("p3vae"),
        "brightness",
        scene,
        "--mask",
        labels,
        "-o",
        tmp_path / "out",
    ]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert time.monotonic() - started < 20
    assert (done.returncode == 2 and "is a view" in done.stderr) if listed else done.returncode == 0


def test_computed_columns_and_triggers_are_left_out(tmp_path):
    scene, labels = town(tmp_path / "town.tif"), polygons(tmp_path / "labels.gpkg")
    with sqlite3.connect(labels) as database:
        database.execute("ALTER TABLE labels ADD COLUMN big AS (hex(zeroblob(900000000)))")
    assert run("brightness", scene, "--mask", labels, "-o", tmp_path / "out").exit_code == 0


NAMES = [
    "http:127.0.0.1:PORT?t",
    "https:b",
    "s3:b",
    "gs:b",
    "-o",
    "--overwrite",
    "a\nb",
    "WMS:x",
    "zip+http:b",
    "a!b",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("command", [("brightness",), ("info",), ("mask",), ("labels",)])
def test_a_name_is_not_a_location(tmp_path, monkeypatch, server, name, command):  # noqa: F811
    url, requests = server
    name = name.replace("PORT", url.rpartition(":")[2])
    monkeypatch.chdir(tmp_path)
    scene = Path(f"{name}.tif")
    town(tmp_path / "real.tif")
    shutil.copy(tmp_path / "real.tif", tmp_path / scene)
    polygons(tmp_path / "p.gpkg").rename(tmp_path / f"{name}.gpkg")
    if command == ("mask",):
        done = run("brightness", "-o", "out", "real.tif", f"--mask={name}.gpkg")
    elif command == ("labels",):
        done = run("train", "real.tif", f"--labels={name}.gpkg", "--model", "lda", "-o", "m.p3vae")
        assert done.exit_code in (0, 1)
        assert "No such file" not in done.output and requests == []
        return
    else:
        done = run(*command, *(["-o", "out"] if command == ("brightness",) else []), "--", str(scene))
    assert done.exit_code == 0, done.output
    assert requests == []


@pytest.mark.parametrize("kind", ["gpkg", "geojson"])
def test_a_mask_whose_name_is_not_utf_8_is_read(tmp_path, kind):
    scene = town(tmp_path / "town.tif")
    mask = os.fsencode(tmp_path / "m") + b"\xff." + kind.encode()
    polygons(tmp_path / f"p.{kind}").rename(os.fsdecode(mask))
    call = [os.fsencode(Path(sys.executable).with_name("p3vae")), b"brightness", os.fsencode(scene)]
    call += [b"--mask", mask, b"-o", os.fsencode(tmp_path / "out")]
    for said in (b"", b"done already"):
        done = subprocess.run(call, capture_output=True, check=False)
        assert done.returncode == 0 and said in done.stderr, done.stderr


def test_products_of_such_a_name_go_into_a_folder_of_such_a_name(tmp_path, monkeypatch, server):  # noqa: F811
    url, requests = server
    monkeypatch.chdir(tmp_path)
    scene = f"http:127.0.0.1:{url.rpartition(':')[2]}?t.tif"
    town(tmp_path / scene)
    out = f"http:127.0.0.1:{url.rpartition(':')[2]}"
    for more in (["--report", "--qgis"], []):
        done = run("brightness", scene, "-o", out, *more)
        assert done.exit_code == 0, done.output
    assert (tmp_path / out / "report.html").exists() and requests == []
    assert run("verify", out).exit_code == 0


def test_a_geodatabase_is_a_mask_as_the_help_says(tmp_path):
    scene = town(tmp_path / "town.tif")
    polygons(tmp_path / "p.gdb", driver="OpenFileGDB")
    polygons(tmp_path / "p.gpkg")
    made = []
    for name in ("p.gdb", "p.gpkg"):
        done = run("brightness", scene, "--mask", tmp_path / name, "-o", tmp_path / f"out-{name}")
        assert done.exit_code == 0, done.output
        made.append((tmp_path / f"out-{name}" / "town_brightness.qml").read_bytes())
    assert made[0] == made[1]
    said = refusal(2, "brightness", scene, "--mask", tmp_path, "-o", tmp_path / "out")
    assert "is a folder, but no file geodatabase" in said


@pytest.mark.parametrize("end", [".ovr.msk", ".OVR", ".msk.ovr", ".MSK"])
def test_a_description_beside_a_description_is_not_opened(tmp_path, end):
    scene = town(tmp_path / "town.tif")
    scene.with_name(f"town.tif{end}").write_text("<VRTDataset/>")
    assert f"town.tif{end}" in refusal(1, "brightness", scene, "-o", tmp_path / "out")


def test_an_overview_that_lies_elsewhere_is_not_read(tmp_path, server):  # noqa: F811
    url, requests = server
    scene = town(tmp_path / "town.tif")
    scene.with_name("town.tif.aux.xml").write_text(
        '<PAMDataset><Metadata domain="OVERVIEWS"><MDI key="OVERVIEW_FILE">'
        f"/vsicurl/{url}/a.tif</MDI></Metadata></PAMDataset>"
    )
    out = tmp_path / "out"
    run("brightness", scene, "-o", out, "--report", "--qgis")
    (out / "town_brightness.tif.aux.xml").write_bytes((tmp_path / "town.tif.aux.xml").read_bytes())
    run("report", out, "--overwrite")
    run("qgis", out)
    run("info", scene)
    run("verify", out)
    assert requests == []
