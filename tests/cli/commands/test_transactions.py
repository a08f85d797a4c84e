"""One run, one transaction: its products are complete or absent, and the next run completes."""

from __future__ import annotations

import itertools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from p3vae.cli.records.manifest import sha256
from p3vae.cli.records.transactions import claim, hidden_folder, leave
from tests.cli.calls import refusal, run
from tests.cli.kills import killed_at
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, wavelength_tags


def town(folder: Path, level: float = 1.0) -> Path:
    image = level * fixtures.truth(20, 30, len(WAVELENGTHS)).astype(np.float32)
    return fixtures.raster(folder / "town.tif", image, band_tags=wavelength_tags(WAVELENGTHS))


def content(folder: Path) -> dict[str, bytes]:
    """Every file but the manifest, which holds times."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith("_p3vae.json")
    }


def is_complete(manifest: Path) -> bool:
    """True for a set with all its files, False without a manifest; nothing between is allowed."""
    if not manifest.exists():
        return False
    for product in json.loads(manifest.read_text())["products"]:
        assert sha256(manifest.parent / product["file"]) == product["sha256"]
        assert all((manifest.parent / name).exists() for name in product.get("side_files", ()))
    return True


@pytest.mark.parametrize("earlier", [False, True], ids=["new", "overwrite"])
def test_a_run_killed_at_any_move_leaves_a_complete_set_or_none(tmp_path, earlier):
    out, undisturbed = tmp_path / "out", tmp_path / "undisturbed"
    town(tmp_path)
    call = ("brightness", tmp_path / "town.tif", *(["--overwrite"] if earlier else []))
    assert run(*call, "-o", undisturbed).exit_code == 0
    for step in itertools.count(1):
        shutil.rmtree(out, ignore_errors=True)
        if earlier:
            town(tmp_path, 0.5)
            assert run("brightness", tmp_path / "town.tif", "-o", out).exit_code == 0
            town(tmp_path)
        if not killed_at(step, partial(run, *call, "-o", out)):
            break
        is_complete(out / "town_p3vae.json")
        assert run(*call, "-o", out).exit_code == 0
        assert is_complete(out / "town_p3vae.json")
        assert content(out) == {
            name: data.replace(b"/undisturbed", b"/out") for name, data in content(undisturbed).items()
        }
    assert step > 5


def test_methane_maps_and_plumes_are_one_set(tmp_path):
    sample = next(Path("sample_data").glob("PRS_L1*.he5"))
    scene = shutil.copy(sample, tmp_path / "swath.he5")
    call = ("invert-methane", scene, "--method", "mf", "-o", tmp_path / "out")
    step = 1
    while killed_at(step, partial(run, *call)):
        is_complete(tmp_path / "out" / "swath_p3vae.json")
        step += 5
    manifest = tmp_path / "out" / "swath_p3vae.json"
    assert is_complete(manifest) and step > 10
    listed = {product["file"] for product in json.loads(manifest.read_text())["products"]}
    assert {"swath_methane.tif", "swath_plume_mask.tif", "swath_plumes.gpkg"} <= listed
    assert not list((tmp_path / "out").glob(".*"))


def test_the_next_run_removes_what_a_killed_one_left_and_nothing_else(tmp_path):
    scene, out = town(tmp_path), tmp_path / "out"
    out.mkdir()
    for name in ("town", "village"):
        os.close(claim(out, f"{name}_p3vae.json"))
        (hidden_folder(out, f"{name}_p3vae.json") / "new" / f".working-{name}.tif").write_bytes(b"half")
    assert run("brightness", scene, "-o", out).exit_code == 0
    assert not hidden_folder(out, "town_p3vae.json").exists()
    assert hidden_folder(out, "village_p3vae.json").exists()


def test_two_runs_do_not_make_the_same_products(tmp_path):
    scene, out = town(tmp_path), tmp_path / "out"
    out.mkdir()
    handle = claim(out, "town_p3vae.json")
    try:
        assert "another run is making it now" in refusal(1, "brightness", scene, "-o", out)
    finally:
        leave(out, "town_p3vae.json", handle)
    assert run("brightness", scene, "-o", out).exit_code == 0


@pytest.mark.parametrize("name", ["town_brightness.qml", "town_p3vae.json", "town_brightness.tif.aux.xml"])
def test_a_users_own_file_is_not_replaced(tmp_path, name):
    scene, out = town(tmp_path), tmp_path / "out"
    out.mkdir()
    (out / name).write_text("my own")
    assert f"{name}: exists already" in refusal(1, "brightness", scene, "-o", out)
    assert [path.name for path in out.iterdir()] == [name] and (out / name).read_text() == "my own"
    assert run("brightness", scene, "-o", out, "--overwrite").exit_code == 0


CHANGED = """
import os, sys, shutil
from pathlib import Path
from p3vae.cli.main import main
from p3vae.cli.scenes.base import Scene
scene, other, how = sys.argv[1:4]
read = Scene.read
def changing(self, window):
    tile = read(self, window)
    if how == "replaced":
        shutil.copy(other, scene + ".new"); os.replace(scene + ".new", scene)
    elif how == "overwritten":
        Path(scene).write_bytes(Path(other).read_bytes())
    elif how == "removed":
        Path(scene).unlink(missing_ok=True)
    return tile
Scene.read = changing
main(["brightness", scene, "-o", sys.argv[4]])
"""


@pytest.mark.parametrize("how", ["replaced", "overwritten", "removed"])
def test_a_scene_that_changes_while_it_is_read_gives_no_product(tmp_path, how):
    other = town(tmp_path, 0.5).rename(tmp_path / "other.tif")
    scene = town(tmp_path)
    command = [sys.executable, "-c", CHANGED, scene, other, how, tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {scene}: was changed while it was read")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["sigterm", "ctrl-c"])
@pytest.mark.parametrize("delay", [0.7, 1.2, 1.7, 2.5])
def test_a_signal_at_any_stage_leaves_all_or_nothing(tmp_path, number, delay):
    sample = next(Path("sample_data").glob("PRS_L1*.he5"))
    program = Path(sys.executable).with_name("p3vae")
    command = [program, "invert-methane", sample, "--method", "mf", "-o", tmp_path / "out"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(delay)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode in (0, 130, -number)
    assert "Traceback" not in said and len(said.strip().splitlines()) <= 1
    if os.path.lexists(tmp_path / "out"):  # struck when the products were in place
        assert is_complete(tmp_path / "out" / f"{sample.stem}_p3vae.json")
        assert not list((tmp_path / "out").glob(".*"))


@pytest.mark.parametrize("size", [20_000, 300_000, 900_000])
def test_a_write_that_fails_anywhere_is_one_line(tmp_path, size):
    """Files may not grow beyond `size`, as on a full disk; libtiff would print a line for every try."""
    sample = next(Path("sample_data").glob("PRS_L1*.he5"))
    program = Path(sys.executable).with_name("p3vae")
    command = [program, "invert-methane", sample, "--method", "mf", "-o", tmp_path / "out"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ") and len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


STRUCK_IMPORT = """
import os, signal
try:
    os.kill(os.getpid(), signal.{name})
    for _ in range(1_000_000):
        pass
except KeyboardInterrupt as stop:
    raise ImportError("initialization failed") from stop
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_while_a_library_is_imported_is_one_line(tmp_path, name):
    """As compiled modules do: the interrupt of their imports becomes an ImportError."""
    (tmp_path / "pvlib").mkdir()
    (tmp_path / "pvlib" / "__init__.py").write_text(STRUCK_IMPORT.format(name=name))
    sample = next(Path("sample_data").glob("PRS_L1*.he5"))
    program = Path(sys.executable).with_name("p3vae")
    command = [program, "invert-methane", sample, "--method", "mf", "-o", tmp_path / "out"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr == "Error: stopped (no product is half-written; the same line goes on)\n"
    assert not os.path.lexists(tmp_path / "out")


LEAVING = """
import atexit, os, signal, sys
from p3vae.cli.main import main
atexit.register(lambda: os.kill(os.getpid(), signal.{name}))
main(["info", sys.argv[1]])
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_after_all_is_done_changes_nothing(tmp_path, name):
    command = [sys.executable, "-c", LEAVING.format(name=name), town(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
