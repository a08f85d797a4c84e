"""A wind field whose references are damaged, on which the HDF5 library waits for ever or crashes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.calls import refusal
from tests.fuzz.samples import wind_field

SAMPLE = next((Path(__file__).parents[3] / "sample_data").glob("PRS_L1*.he5"))


def references(content: bytes) -> list[slice]:
    """Where the references to the axes lie, each behind 16 bytes about it."""
    heap = content.index(b"GCOL") + 16
    return [slice(start + 16, start + 24) for start in range(heap, heap + 24 * 12, 24)]


@pytest.mark.parametrize("value", [bytes(8), b"\xff" * 8, (96).to_bytes(8, "little"), None])
def test_references_that_lead_nowhere_are_refused(tmp_path, value):
    path = wind_field(tmp_path / "wind.nc")
    content = bytearray(path.read_bytes())
    for number, place in enumerate(references(content)):
        mixed = bytes(8) if number % 2 else b"\xff" * 8
        content[place] = mixed if value is None else value
    path.write_bytes(content)
    program, started = Path(sys.executable).with_name("p3vae"), time.monotonic()
    call = [program, "invert-methane", SAMPLE, "--method", "mf", "--wind", path, "-o", tmp_path / "out"]
    done = subprocess.run(call, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert done.stderr.startswith(f"Error: {path}: ") and len(done.stderr.strip().splitlines()) == 1
    assert time.monotonic() - started < 25 and not (tmp_path / "out").exists()


def test_a_crash_of_the_library_is_a_refusal(tmp_path, monkeypatch):
    """The subprocess imports an h5py that ends it with SIGSEGV."""
    path = wind_field(tmp_path / "wind.nc")
    (tmp_path / "h5py.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    said = refusal(2, "invert-methane", SAMPLE, "--method", "mf", "--wind", path, "-o", tmp_path / "out")
    assert "wind.nc: is damaged: the HDF5 library crashes on it" in said


def test_no_module_of_the_folder_is_run(tmp_path, monkeypatch):
    path = wind_field(tmp_path / "wind.nc")
    (tmp_path / "json.py").write_text("raise SystemExit(1)\n")
    monkeypatch.chdir(tmp_path)
    said = refusal(2, "invert-methane", SAMPLE, "--method", "mf", "--wind", path, "-o", tmp_path / "out")
    assert "does not cover" in said
