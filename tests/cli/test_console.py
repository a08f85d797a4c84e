"""Results on stdout, whatever stdout is: closed, full, in ASCII, or read by a program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.calls import run
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, wavelength_tags

PROGRAM = (sys.executable, "-c", "from p3vae.cli.main import main; main(prog_name='p3vae')")


@pytest.fixture
def scene(tmp_path):
    image = fixtures.truth(20, 30, len(WAVELENGTHS)).astype(np.float32)
    return fixtures.raster(tmp_path / "town.tif", image, band_tags=wavelength_tags(WAVELENGTHS))


def call(*arguments, stdout, before=(), **environment):
    """A real call with stdout as a shell would redirect it: its exit code and what stderr says."""
    return subprocess.run(
        [*before, *PROGRAM, *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def test_a_closed_stdout_gets_no_report_and_the_map_is_made(scene, tmp_path):
    closing = ("sh", "-c", 'exec "$@" >&-', "sh")
    done = call("brightness", scene, "-o", tmp_path / "out", before=closing, stdout=None)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out" / "town_brightness.tif").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["info", "brightness", "--help"])
def test_a_full_disk_behind_stdout_is_told_in_one_line(scene, command):
    with Path("/dev/full").open("w") as full:
        done = call(command, *([] if command == "--help" else [scene]), stdout=full)
    assert done.returncode == 1
    assert done.stderr == "Error: stdout cannot be written: No space left on device\n"


def test_signs_that_stdout_does_not_know_are_replaced(tmp_path):
    named = run("simulate", "-o", tmp_path / "t.tif", "--size", "16")
    assert named.exit_code == 0, named.output
    report = tmp_path / "report.txt"
    with report.open("w") as file:
        done = call(
            *("classify", tmp_path / "t.tif", "-m", "town", "-o", tmp_path / "out"),
            stdout=file,
            PYTHONUTF8="0",
            PYTHONIOENCODING="ascii",
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert "? asphalt" in report.read_text("ascii")


def test_brackets_in_names_are_no_markup(scene, tmp_path):
    odd = scene.rename(tmp_path / "a[b]c:car:.tif")
    folder = tmp_path / "x[bold]"
    done = run("brightness", odd, "-o", folder, "--progress", env={"FORCE_COLOR": "1"})
    assert done.exit_code == 0, done.output
    assert str(folder / f"{odd.stem}_brightness.tif") in done.stdout
    assert odd.name in done.stderr
    assert str(odd) in run("info", odd).stdout


def test_a_closed_stdin_lists_no_scene():
    done = call("brightness", "-", before=("sh", "-c", 'exec "$@" <&-', "sh"), stdout=None)
    assert done.returncode == 2 and done.stderr.startswith("Error: no scene given")
