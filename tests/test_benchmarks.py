"""Every benchmark is started in the same way, and can be."""

import subprocess
import sys
from pathlib import Path

from benchmarks.__main__ import benchmarks

ROOT = Path(__file__).parents[1]


def started(*words):
    call = [sys.executable, "-m", "benchmarks", *words]
    return subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)


def test_all_are_listed_with_a_line():
    listed = started().stdout.splitlines()
    known = benchmarks()
    assert {"ablate", "methane_protocol", "earth_library", "fuzz", "mutants"} <= set(known)
    for name, line in known.items():
        assert line and any(text.split() == [name, *line.split()] for text in listed)


def test_one_is_started_by_its_name():
    done = started("few_labels", "--help")
    assert done.returncode == 0 and "usage: python -m benchmarks few_labels" in done.stdout, done
    done = started("asess")
    assert done.returncode == 1 and "no benchmark is called 'asess'" in done.stderr
    assert "assess_coverage" in done.stderr


def test_all_can_be_imported():
    names = [f"benchmarks.{name}" for name in benchmarks() if name != "collect"]
    script = f"from importlib import import_module\nfor name in {names}: import_module(name)"
    call = [sys.executable, "-c", script]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
