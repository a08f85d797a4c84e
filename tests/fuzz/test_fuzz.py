"""A short run of damaged files; `make fuzz` is the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_damaged_files_are_refused_in_one_line():
    """In a process of its own, whose copies are cheap and have no threads of other tests."""
    command = [sys.executable, "-m", "benchmarks", "fuzz", "--cases", "60", "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "foreign file read): none. Requests to a server on this machine: 0." in done.stdout, done.stdout
