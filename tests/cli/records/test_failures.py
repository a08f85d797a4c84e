"""Runs that cannot end well leave nothing behind and lose nothing that was there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import rasterio
from affine import Affine

from p3vae.cli.errors import ProductError
from p3vae.cli.run.brightness import Brightness
from tests.cli.fake_scene import FunctionMapper, MemoryReader, make, memory_scene, random_cube

ROOT = Path(__file__).resolve().parents[3]

# Stands for a long run: reads slowly, says when it has begun, and is stopped by signals.
LONG_RUN = """
import sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
from p3vae.cli.run.brightness import Brightness
from p3vae.cli.errors import InterruptedRunError
from tests.cli.fake_scene import FunctionMapper, MemoryReader, make, memory_scene, random_cube

class SlowReader(MemoryReader):
    def read(self, window, bands):
        if window.row:
            print("reading", flush=True)
            time.sleep(0.2)
        return super().read(window, bands)

cube = random_cube(400, 30)
scene = memory_scene(cube, reader=SlowReader(cube))
try:
    make(scene, Brightness(scene), Path(sys.argv[1]), overwrite=True, tile_size=16)
except InterruptedRunError as error:
    sys.exit(f"Error: {{error}}")
"""


def brightness(scene, folder, **options):
    return make(scene, Brightness(scene), folder, **options)


def snapshot(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def earlier(tmp_path):
    """A folder with the products of an earlier run, and what they look like."""
    brightness(memory_scene(random_cube(400, 30)), tmp_path)
    return tmp_path, snapshot(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_signal_stops_the_run_and_keeps_the_earlier_product(earlier, number):
    folder, before = earlier
    script = LONG_RUN.format(root=str(ROOT))
    with subprocess.Popen(
        [sys.executable, "-c", script, folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "reading\n"
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert said.strip().splitlines() == [
        f"Error: stopped by {number.name} (no product is half-written; run it again)"
    ]
    assert snapshot(folder) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_the_command_stops_cleanly_too(tmp_path, number):
    scene = tmp_path / "large.tif"
    profile = {"driver": "GTiff", "width": 4000, "height": 6000, "count": 40, "dtype": "uint16"}
    profile |= {"crs": "EPSG:32631", "transform": Affine(30, 0, 500_000, 0, -30, 4_800_000)}
    with rasterio.open(scene, "w", sparse_ok=True, bigtiff="yes", **profile) as raster:
        for band in range(1, 41):
            raster.update_tags(band, wavelength=str(400.0 + 10 * band), wavelength_units="nm")
    out = tmp_path / "out"
    command = [Path(sys.executable).with_name("p3vae"), "brightness", scene, "-o", out, "--scale", "1e-4"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not list(out.glob(".p3vae-*/*")):
            time.sleep(0.01)
        process.send_signal(number)
        reported, said = process.communicate(timeout=60)
    assert (process.returncode, reported) == (130, "")
    assert f"stopped by {number.name}" in said
    assert len(said.strip().splitlines()) == 1
    assert not out.exists()


def test_a_failing_function_leaves_nothing(tmp_path):
    scene = memory_scene(random_cube())
    out = tmp_path / "new" / "folder"

    def broken(tile):
        if tile.window.row:
            raise ZeroDivisionError
        return {"brightness": tile.values[..., 0]}

    with pytest.raises(ZeroDivisionError):
        make(scene, FunctionMapper(broken, Brightness(scene).specs), out, tile_size=20)
    assert not list(tmp_path.iterdir())


class NeverRead(MemoryReader):
    """A cube nobody may touch."""

    def read(self, window, bands):
        raise AssertionError("work started before the outputs were checked")


def test_an_existing_product_is_an_error_before_any_work(earlier):
    folder, before = earlier
    cube = random_cube()
    with pytest.raises(ProductError, match=r"town_brightness\.tif: exists already \(use --overwrite"):
        brightness(memory_scene(cube, reader=NeverRead(cube)), folder)
    assert snapshot(folder) == before


def test_overwriting_drops_what_other_programs_noted_about_the_old_file(earlier):
    folder, before = earlier
    stale = folder / "town_brightness.tif.aux.xml"
    stale.write_text("<PAMDataset/>")
    brightness(memory_scene(random_cube(30, 40)), folder, overwrite=True)
    assert not stale.exists()
    assert snapshot(folder)["town_brightness.tif"] != before["town_brightness.tif"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("in the way")
    with pytest.raises(ProductError, match=r"file/out: cannot write into this folder: Not a directory"):
        brightness(memory_scene(random_cube()), file / "out")
    assert snapshot(tmp_path) == {"file": b"in the way"}


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 512 kB, where the system lets us mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", disk]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a small file system needs root")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_read_only_folder_is_named(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(ProductError, match="cannot write into this folder: Read-only file system"):
        brightness(memory_scene(random_cube()), small_disk)


def test_a_disk_too_small_is_noticed_before_any_work(small_disk):
    cube = random_cube(600, 600)
    with pytest.raises(ProductError, match=r"the disk has 0.5 MB free and the products need 1.37 MB"):
        brightness(memory_scene(cube, reader=NeverRead(cube)), small_disk)
    assert not list(small_disk.iterdir())


@pytest.mark.parametrize("free", [150_000, 310_000, 420_000])
def test_a_disk_that_fills_up_while_writing_leaves_nothing(small_disk, free):
    """The room shrinks after the first look: at the working file, or at the final one."""
    cube = random_cube(256, 256, holes=False)

    class Filler(MemoryReader):
        def read(self, window, bands):
            ballast = small_disk / "ballast"
            if not ballast.exists():
                usage = os.statvfs(small_disk)
                ballast.write_bytes(bytes(max(0, usage.f_bavail * usage.f_frsize - free)))
            return super().read(window, bands)

    scene = memory_scene(cube, reader=Filler(cube))
    with pytest.raises(ProductError, match=r"town_brightness\.tif: (the disk is full|.* lost while writing)"):
        brightness(scene, small_disk, tile_size=32)
    assert [path.name for path in small_disk.iterdir()] == ["ballast"]


FILE_TOO_LARGE = """
import resource, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from p3vae.cli.run.brightness import Brightness
from p3vae.cli.errors import ProductError
from tests.cli.fake_scene import make, memory_scene, random_cube

scene = memory_scene(random_cube(600, 600))
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    make(scene, Brightness(scene), Path(sys.argv[1]))
except ProductError as error:
    sys.exit(f"Error: {{error}}")
"""


def test_a_file_that_may_not_grow_leaves_nothing(tmp_path):
    script = FILE_TOO_LARGE.format(root=str(ROOT))
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "town_brightness.tif" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_values_survive_a_full_round_after_a_failure(tmp_path):
    """Nothing of the failed run is in the way of the next."""
    scene = memory_scene(random_cube())
    with pytest.raises(KeyError):
        make(scene, FunctionMapper(lambda _: {}, Brightness(scene).specs), tmp_path)
    summary = brightness(scene, tmp_path)
    assert np.isfinite(summary.statistics["brightness"][0].mean)
