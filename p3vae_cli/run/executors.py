"""Scenes one after the other in this process, or side by side in several."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

from p3vae.cli.errors import P3vaeError
from p3vae.cli.run.clusters import on_cluster
from p3vae.cli.run.outcomes import Outcome
from p3vae.cli.run.task import SceneTask, quiet
from p3vae.cli.signals import hold_signals

_THREADS = ("OMP_NUM_THREADS", "GDAL_NUM_THREADS")
"""Variables by which libraries know how many threads to use."""
_GRACE_S = 20.0
"""How long a process that was asked to stop may clean up [s]."""


def outcomes_of(task: SceneTask, paths: Sequence[Path]) -> Generator[Outcome, None, None]:
    """The outcome of each scene, as they come; closing the iterator stops what is under way."""
    outputs = task.outputs
    if outputs.scheduler is not None:
        return on_cluster(task, paths, outputs.scheduler, outputs.worker_patience_s)
    if min(outputs.jobs, len(paths)) > 1:
        return in_processes(task, paths, outputs.jobs)
    return here(task, paths)


def here(task: SceneTask, paths: Sequence[Path]) -> Generator[Outcome, None, None]:
    """One scene after the other."""
    for number, path in enumerate(paths, 1):
        yield task(path, f"{number} of {len(paths)}: {path.name}" if len(paths) > 1 else path.name)


def in_processes(task: SceneTask, paths: Sequence[Path], jobs: int) -> Generator[Outcome, None, None]:
    """Scenes side by side; a process that dies takes its own scene with it and is replaced."""
    waiting: deque[Path] = deque()
    for path in paths:
        done = task.done(path)
        if done is None:
            waiting.append(path)
        else:
            yield done
    workers: list[_Worker] = []
    try:
        for number in range(min(jobs, len(waiting))):
            workers.append(_Worker.start(quiet(task), number, jobs))
        for worker in workers:
            worker.give(waiting)
        while busy := [worker for worker in workers if worker.scene is not None]:
            ready = wait([worker.connection for worker in busy])
            for worker in [one for one in busy if one.connection in ready]:
                yield worker.outcome()
                place = workers.index(worker)
                if worker.died:
                    workers[place] = _Worker.start(quiet(task), place, jobs)
                workers[place].give(waiting)
    finally:
        _stop(workers)


@dataclass(eq=False)
class _Worker:
    """A process that maps scenes; it ends when its connection does."""

    process: SpawnProcess
    connection: Connection
    scene: Path | None = None
    died: bool = False

    @classmethod
    def start(cls, task: SceneTask, number: int, jobs: int) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        shared = {name: os.environ.get(name) for name in _THREADS}
        threads = str(max(1, (os.cpu_count() or 1) // jobs))
        process = context.Process(target=_work, args=(theirs, task, number), daemon=True)
        try:
            os.environ |= {name: value or threads for name, value in shared.items()}
            with hold_signals():  # a process that is half started could not be stopped
                process.start()
        finally:
            for name, value in shared.items():
                if value is None:
                    os.environ.pop(name, None)
        theirs.close()
        return cls(process, ours)

    def give(self, waiting: deque[Path]) -> None:
        """Let it have the next scene, if there is one."""
        self.scene = waiting.popleft() if waiting else None
        if self.scene is not None:
            with suppress(BrokenPipeError):  # it died: its connection says so
                self.connection.send(self.scene)

    def outcome(self) -> Outcome:
        """What became of its scene, also if the process died of it."""
        assert self.scene is not None
        try:
            outcome: Outcome = self.connection.recv()
            return outcome
        except (EOFError, ConnectionResetError):
            self.died = True
            self.process.join(_GRACE_S)
            return Outcome(self.scene, "failed", error=_died(self.scene, self.process.exitcode))


def _died(scene: Path, code: int | None) -> P3vaeError:
    how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
    return P3vaeError(
        f"the process that mapped it died ({how})",
        path=scene,
        remedy="run it alone; SIGKILL often means too little memory: give a --mem-limit",
    )


def _work(connection: Connection, task: SceneTask, number: int) -> None:
    """The life of a process: scenes come, outcomes go, until the connection ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who started it decides
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    own = replace(task, settings=task.settings.for_worker(number))
    with suppress(EOFError, BrokenPipeError, KeyboardInterrupt, P3vaeError):
        while True:
            connection.send(own(connection.recv()))


def _stop(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        worker.connection.close()
        if worker.scene is not None:
            worker.process.terminate()
    for worker in workers:
        worker.process.join(_GRACE_S)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
