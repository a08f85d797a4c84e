"""Faults of a Dask cluster of separate processes: a worker, all workers, the scheduler."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.fault_bench import PROGRAM, Bench, Row

SCENES = 60
PORT = 28786
"""Always the same: products name the command that made them."""


@contextmanager
def process(*words: object) -> Iterator[subprocess.Popen[bytes]]:
    """A part of a cluster, which ends with the block."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{words[0]}", *map(str, words[1:])]
    quiet = subprocess.DEVNULL
    started = subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True)
    try:
        yield started
    finally:
        kill(started)


def kill(started: subprocess.Popen[bytes]) -> None:
    """End a process with all its children, as a machine that is switched off."""
    if started.poll() is None:
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()


@contextmanager
def scheduler(folder: Path, port: int = PORT) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Address and process of a scheduler."""
    file = folder / f"scheduler-{time.monotonic_ns()}.json"
    words = ("--port", port, "--no-dashboard", "--host", "127.0.0.1", "--scheduler-file", file)
    with process("scheduler", *words) as started:
        until = time.monotonic() + 60
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.1)
        yield json.loads(file.read_text())["address"], started


def worker(address: str, folder: Path, *words: object) -> contextmanager:
    """A process with one thread that maps scenes."""
    folder.mkdir(parents=True, exist_ok=True)
    place = ("--no-dashboard", "--no-nanny", "--local-directory", folder)
    return process("worker", address, "--nthreads", 1, *place, *words)


class Archive:
    """Scenes for a cluster, and the products of an undisturbed run."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.call = ["brightness", *(str(bench.scene(f"c{number}.tif")) for number in range(SCENES))]
        self.call += ["-o", str(bench.out), "--stac", "--worker-timeout", "20"]
        with scheduler(bench.root) as (address, _), worker(address, bench.root / "first"):
            said = self.start(address).communicate(timeout=300)
        self.whole = bench.content()
        assert not self.judged(), said

    def start(self, address: str) -> subprocess.Popen[str]:
        self.bench.reset()
        command = [PROGRAM, *self.call, "--scheduler", address]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_for(self, done: int) -> None:
        """Until some scenes have their manifest."""
        until = time.monotonic() + 120
        while len(list(self.bench.out.glob("*_p3vae.json"))) < done and time.monotonic() < until:
            time.sleep(0.01)

    def judged(self) -> list[str]:
        return [
            *self.bench.damaged(),
            *self.bench.littered(),
            *(["products differ"] if self.bench.content() != self.whole else []),
        ]


def lost_workers(bench: Bench, count: int, rng: random.Random) -> list[Row]:
    """One of two workers is killed; both are killed and one is added; the scheduler is killed."""
    archive = Archive(bench)
    rows = [Row("Dask: one of two workers killed"), Row("Dask: all workers killed, one added")]
    for _ in range(count):
        for number, row in enumerate(rows):
            with ExitStack() as parts, scheduler(bench.root) as (address, _started):
                workers = [parts.enter_context(worker(address, bench.root / f"w{k}")) for k in range(2)]
                run = archive.start(address)
                archive.wait_for(rng.randrange(1, SCENES // 2))
                for one in workers[: 1 + number]:
                    kill(one)
                if number:
                    parts.enter_context(worker(address, bench.root / "w2"))
                _, said = run.communicate(timeout=300)
                wrong = f"exit code {run.returncode}: {said[-300:]}" if run.returncode else ""
                row.add(run.returncode, wrong, *archive.judged())
    return [*rows, _lost_scheduler(archive, count, rng)]


def _lost_scheduler(archive: Archive, count: int, rng: random.Random) -> Row:
    row, bench = Row("Dask: scheduler killed, then the same line with another"), archive.bench
    for _ in range(count):
        with scheduler(bench.root) as (address, started), worker(address, bench.root / "w0"):
            run = archive.start(address)
            archive.wait_for(rng.randrange(1, SCENES // 2))
            kill(started)
            _, said = run.communicate(timeout=300)
        errors = [line for line in said.splitlines() if " of " not in line]
        wrong = [f"exit code {run.returncode}"] if run.returncode not in (1, 3, 130) else []
        wrong += [f"{len(errors)} lines: {said[-600:]}"] if len(errors) != 1 else []
        with scheduler(bench.root) as (address, _), worker(address, bench.root / "w1"):
            code, said = bench.program([*archive.call, "--scheduler", address])
        row.add(run.returncode, *wrong, *(["next run: " + said[-300:]] if code else []), *archive.judged())
    return row
