"""Calls of the installed program, with the time and memory that they took."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("p3vae")


@dataclass(frozen=True)
class Call:
    """What a call took, with all processes that it started."""

    code: int
    said: str
    wall_s: float
    cpu_s: float
    largest_mb: float
    """Resident size of the largest process."""


def call(*words: object) -> Call:
    """Run `p3vae WORDS` and wait for it."""
    before, started = os.times(), time.monotonic()
    command = [str(PROGRAM), *map(str, words)]
    largest = 0.0
    with tempfile.TemporaryFile("w+") as stderr:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=stderr) as process:
            while process.poll() is None:
                largest = max(largest, peak_mb(process.pid))
                time.sleep(0.02)
        wall = time.monotonic() - started
        stderr.seek(0)
        said = stderr.read()
    after = os.times()
    return Call(process.returncode, said, wall, sum(after[2:4]) - sum(before[2:4]), largest)


def peak_mb(process: int) -> float:
    """Largest resident size that a process, or one that it started, had so far."""
    found = 0.0
    with suppress(OSError):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        found = next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        found = max([found, *(peak_mb(int(child)) for child in children)])
    return found


def load() -> float:
    """Processes that wanted a core, on average over the last minute."""
    return round(os.getloadavg()[0], 1)
