"""Streams, handles, memory and blocks at their limits: one line, nothing half-written, no wrong blame."""

from __future__ import annotations

import csv
import os
import re
import resource
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import geopandas
import numpy as np
import pytest
import shapely

from tests.cli.calls import refusal, run
from tests.cli.commands.test_assess import PLACE, UTM, write_raster
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, wavelength_tags

PROGRAM = Path(sys.executable).with_name("p3vae")
TOWN = Path(__file__).parents[3] / "sample_data" / "town.tif"


@pytest.fixture
def scene(tmp_path) -> Path:
    image = fixtures.truth(12, 14, len(WAVELENGTHS)).astype(np.float32)
    return fixtures.raster(tmp_path / "tü.tif", image, band_tags=wavelength_tags(WAVELENGTHS))


def test_a_log_on_a_full_disk_is_one_warning(scene, tmp_path):
    call = [PROGRAM, "brightness", scene, "-o", tmp_path / "out", "-q", "--log-file", "/dev/full"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == "warning: /dev/full cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    "settings",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "ascii:surrogateescape"},
        {"PYTHONIOENCODING": "latin-1"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_a_stream_that_is_not_utf_8_takes_every_line(scene, tmp_path, settings):
    own = TOWN if "LC_ALL" in settings else scene  # in that locale other names cannot be typed
    for call in (["brightness", own, "-o", tmp_path / "out"], ["info", TOWN]):
        environment = {**os.environ, **settings}
        done = subprocess.run([PROGRAM, *call], env=environment, capture_output=True, check=False)
        assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize("handles", range(5, 15))
def test_without_handles_nothing_is_left_and_nothing_else_is_blamed(tmp_path, handles):
    done = subprocess.run(
        [PROGRAM, "classify", TOWN, "-m", "town", "-o", tmp_path / "out", "-q"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (handles, handles)),
    )
    if done.returncode:
        assert not (tmp_path / "out").exists()
        assert done.stderr.startswith("Error: ") and len(done.stderr.strip().splitlines()) == 1
        assert re.search("too many (open files|files are open)", done.stderr.lower()), done.stderr
        assert "is not a complete model" not in done.stderr and "internal" not in done.stderr


def test_a_model_is_not_blamed_for_a_lack_of_memory(scene, tmp_path, monkeypatch):
    """The library that reads models finds no memory, as under a limit."""

    def without_memory(*_args, **_options):
        raise MemoryError

    monkeypatch.setattr("p3vae.models.checkpoint.safe_open", without_memory)
    said = refusal(1, "classify", scene, "-m", "town", "-o", tmp_path / "out")
    assert "needs more memory than there is" in said and "is not a complete model" not in said


def test_a_row_of_two_thousand_million_pixels_in_one_block_is_refused(tmp_path):
    width, pack = 2**31 - 1, zlib.compressobj(9)
    data = pack.compress(bytes(1000)) + pack.flush()
    lines = {256: width, 257: 1, 258: 8, 259: 8, 262: 1, 273: 8, 277: 1, 278: 1, 279: len(data)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in lines.items())
    header = b"II*\0" + struct.pack("<I", 8 + len(data))
    path = tmp_path / "wide.tif"
    path.write_bytes(header + data + struct.pack("<H", len(lines)) + entries + bytes(4))
    call = [PROGRAM, "info", path]
    done = subprocess.run(
        call,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (1_500_000_000, 1_500_000_000)),
    )
    assert done.returncode == 1 and "keeps 2,048 MB in one block" in done.stderr


NAMES = ["=1+1", "@cmd", "+cmd|x", "-2+3", "\t=1", "plain", "-"]


def test_cells_of_tables_are_no_formulas(tmp_path, monkeypatch):
    classes = np.repeat(np.arange(1, 8, dtype=np.uint8), 6).reshape(7, 6)
    write_raster(tmp_path / "a_landcover.tif", classes, dict(enumerate(NAMES, start=1)), nodata=0)
    corners = [(*(PLACE @ (0, row + 1)), *(PLACE @ (6, row))) for row in range(7)]
    zones = geopandas.GeoDataFrame(
        {"name": NAMES}, geometry=[shapely.box(*corner) for corner in corners], crs=UTM
    )
    zones.to_file(tmp_path / "z.gpkg")
    table = tmp_path / "z.csv"
    call = ("stats", tmp_path / "a_landcover.tif", "--zones", tmp_path / "z.gpkg", "--zone-field", "name")
    done = run(*call, "--csv", table)
    assert done.exit_code == 0, done.output
    write_raster(tmp_path / "b.tif", classes, dict(enumerate(NAMES, start=1)), nodata=0)
    assessed = tmp_path / "a.csv"
    done = run("assess", tmp_path / "a_landcover.tif", "--reference", tmp_path / "b.tif", "--csv", assessed)
    assert done.exit_code == 0, done.output
    for path in (table, assessed):
        cells = [cell for row in csv.reader(path.open(encoding="utf-8")) for cell in row]
        assert "'=1+1" in cells and "plain" in cells
        assert not [c for c in cells if c.strip().startswith(("=", "@", "+")) or c in ("-", "-2+3")]
    listed = tmp_path / "=1+1.tif"
    fixtures.raster(listed, np.ones((4, 4, 1), np.uint8))
    monkeypatch.chdir(tmp_path)
    assert "'=1+1.tif" in run("info", "=1+1.tif", "--csv").stdout
