"""The same run on a Dask cluster of separate processes, also when workers die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from p3vae.cli.records.manifest import command_line
from tests.cli.calls import refusal, run
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, wavelength_tags

pytest.importorskip("distributed")

POISON = """
import os, signal
from p3vae.cli.run import task
opened = task.open_scene
def open_scene(path, options):
    if path.name == "poison.tif":
        os.kill(os.getpid(), signal.SIGKILL)
    return opened(path, options)
def dask_setup(worker):
    task.open_scene = open_scene
"""


@contextmanager
def process(*words: object):
    """A process with its children, which end with the block."""
    started = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_" + str(words[0]), *map(str, words[1:])],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    try:
        yield started
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()


@contextmanager
def new_scheduler(file: Path):
    """Address and process."""
    place = ("--port", 0, "--no-dashboard", "--host", "127.0.0.1", "--scheduler-file", file)
    with process("scheduler", *place) as started:
        wait_for(file.exists)
        yield json.loads(file.read_text())["address"], started


def wait_for(there) -> None:
    until = time.monotonic() + 60
    while not there() and time.monotonic() < until:
        time.sleep(0.05)


@pytest.fixture
def scheduler(tmp_path):
    with new_scheduler(tmp_path / "scheduler.json") as (address, _):
        yield address


def worker(address: str, folder: Path):
    folder.mkdir()
    preload = folder / "poison.py"
    preload.write_text(POISON)
    return process(
        "worker",
        address,
        "--nthreads",
        1,
        "--no-dashboard",
        "--local-directory",
        folder,
        "--preload",
        preload,
    )


@pytest.fixture
def archive(tmp_path):
    image = fixtures.truth(12, 14, len(WAVELENGTHS)).astype(np.float32)
    tags = wavelength_tags(WAVELENGTHS)
    return [fixtures.raster(tmp_path / f"{name}.tif", image, band_tags=tags) for name in "abcdef"]


def test_a_cluster_gives_the_same_files_and_names_what_kills_its_workers(scheduler, archive, tmp_path):
    poison = archive[2].rename(tmp_path / "poison.tif")
    scenes = [*archive[:2], poison, *archive[3:]]
    call = ("brightness", *scenes, "--json", "--worker-timeout", 100)
    with worker(scheduler, tmp_path / "w"), worker(scheduler, tmp_path / "x"):
        done = run(*call, "-o", tmp_path / "out", "--scheduler", scheduler)
    lines = {Path(record["scene"]).name: record for record in map(json.loads, done.stdout.splitlines())}
    assert done.exit_code == 3, done.output
    made = {name for name, record in lines.items() if record["status"] in ("done", "skipped")}
    assert made == {path.name for path in scenes if path != poison}
    assert "every worker that tried it alone died" in lines["poison.tif"]["error"]
    made = json.loads((tmp_path / "out" / "a_p3vae.json").read_text())
    assert made["command"] == command_line()
    again = run(*call, "-o", tmp_path / "out")
    assert again.exit_code == 0 and again.stdout.count('"skipped"') == 5


def test_a_scheduler_that_is_lost_is_one_line_and_the_next_run_goes_on(archive, tmp_path):
    out, program = tmp_path / "out", Path(sys.executable).with_name("p3vae")
    many = [
        os.link(archive[0], tmp_path / f"m{number}.tif") or tmp_path / f"m{number}.tif"
        for number in range(150)
    ]
    with new_scheduler(tmp_path / "s") as (address, started), worker(address, tmp_path / "w"):
        call = [program, "brightness", *many, "-o", out, "-q", "--scheduler", address]
        run_ = subprocess.Popen(call, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: list(out.glob("*_p3vae.json")))
        os.killpg(started.pid, signal.SIGKILL)
        _, said = run_.communicate(timeout=60)
    assert run_.returncode == 1 and len(said.splitlines()) == 1
    assert said.startswith("Error: ") and "is gone" in said
    again = run("brightness", *many, "-o", out, "--json")
    assert again.exit_code == 0 and '"skipped"' in again.stdout
    assert not list(out.glob(".p3vae-*"))


def test_a_shipped_model_is_known_to_workers_by_its_name(scheduler, tmp_path):
    town = Path(__file__).resolve().parents[3] / "sample_data" / "town.tif"
    with worker(scheduler, tmp_path / "w"):
        call = ("classify", town, "-m", "town", "-o", tmp_path / "out", "--worker-timeout", 100)
        assert run(*call, "--scheduler", scheduler).exit_code == 0


def test_no_scheduler_and_no_worker_are_reported(scheduler, archive, tmp_path):
    call = ("brightness", archive[0], "-o", tmp_path / "out", "--worker-timeout", 2)
    assert "dask worker" in refusal(1, *call, "--scheduler", scheduler)
    assert "dask scheduler" in refusal(1, *call, "--scheduler", "tcp://127.0.0.1:9")
