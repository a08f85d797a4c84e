"""A process that is killed at a chosen step of its work with files, for tests of what remains."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path

STEPS = ("mkdir", "replace", "rmdir", "unlink")
"""Methods of `Path` that change what a folder holds."""
LONGEST_S = 300


def killed_at(step: int, act: Callable[[], object]) -> bool:
    """Call `act` in a process that kills itself (SIGKILL) before its `step`-th change of names.

    False when it ended before that step. The process is a fork of a server without threads: those of a test's
    own process would not survive a fork.
    """
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["tests.cli.calls", "torch", "rasterio", "h5py", "geopandas"])
    child = server.Process(target=_act, args=(step, act))
    child.start()
    child.join(LONGEST_S)
    if child.exitcode is None:
        child.kill()
        raise AssertionError(f"still at work after {LONGEST_S} s")
    assert child.exitcode in (0, -signal.SIGKILL), "the work failed by itself"
    return child.exitcode != 0


def _act(step: int, act: Callable[[], object]) -> None:
    os.environ["GDAL_NUM_THREADS"] = "1"
    _kill_at(step)
    act()


def _kill_at(step: int) -> None:
    remaining = step

    def counted(change):
        def changed(self, *args, **kwargs):
            nonlocal remaining
            remaining -= 1
            if remaining == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return change(self, *args, **kwargs)

        return changed

    for name in STEPS:
        setattr(Path, name, counted(getattr(Path, name)))
