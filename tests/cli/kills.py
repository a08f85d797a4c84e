"""A process that is killed at a chosen step of its work with files, for tests of what remains."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

STEPS = ("replace", "unlink")
"""Methods of `Path` that change what a folder holds."""


def killed_at(step: int, act: Callable[[], object]) -> bool:
    """Call `act` in a copy of this process that kills itself (SIGKILL) before its `step`-th change of names.

    False when it ended before that step.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _kill_at(step)
            act()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the work failed by itself"
    return False


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
