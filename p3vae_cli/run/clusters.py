"""The same run on a Dask cluster that the user has: one task per scene, as in the processes of one machine.

A worker opens the scene, maps it and writes its products itself; paths and options go there, a small record
comes back. Scenes, models and the output folder must have the same paths on all machines.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import logging
import time
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from p3vae.cli.errors import P3vaeError, UsageError
from p3vae.cli.run.model_files import find_model
from p3vae.cli.run.outcomes import Outcome
from p3vae.cli.run.task import SceneTask, quiet

PER_WORKER = 2
"""Scenes that are sent ahead for every worker: more would only fill the scheduler."""
_POLL_S = 2.0


def on_cluster(
    task: SceneTask, paths: Sequence[Path], address: str, patience_s: float
) -> Generator[Outcome, None, None]:
    """The outcome of each scene, as they come; an error when no worker is there for `patience_s` seconds."""
    cluster = _Cluster(address, patience_s)
    try:
        yield from cluster.run(task, paths)
    finally:
        cluster.close()


class _Cluster:
    """A connection to a scheduler."""

    def __init__(self, address: str, patience_s: float) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise UsageError(
                "--scheduler needs the library distributed", remedy="pip install 'p3vae[distributed]'"
            ) from error
        for name in ("distributed", "distributed.client"):  # what happens is reported by us, once
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._address, self._patience_s = address, patience_s
        try:
            self._client = Client(address, timeout=patience_s, set_as_default=False)
        except (OSError, ValueError) as error:
            raise P3vaeError(
                f"no scheduler answers at {address}", remedy="start one with: dask scheduler"
            ) from error

    def close(self) -> None:
        """Give up what is not done yet."""
        self._client.close(timeout=10)

    def run(self, task: SceneTask, paths: Sequence[Path]) -> Generator[Outcome, None, None]:
        """A few scenes per worker; those whose workers died too often are tried again, each alone."""
        sent = _absolute(quiet(task))
        suspects: list[Path] = []
        yield from self._run(sent, paths, suspects)
        for suspect in suspects:
            again: list[Path] = []
            yield from self._run(sent, [suspect], again)
            for path in again:
                yield Outcome(path, "failed", error=_fatal_scene(path))

    def _run(
        self, task: SceneTask, paths: Sequence[Path], suspects: list[Path]
    ) -> Generator[Outcome, None, None]:
        """Keep a few scenes per worker under way; a worker that is lost has its scenes done by others."""
        version = importlib.metadata.version("p3vae")
        waiting, under_way = deque(paths), dict[Any, Path]()
        while waiting or under_way:
            for _ in range(PER_WORKER * self._workers() - len(under_way)):
                if waiting:
                    path, key = waiting.popleft(), f"p3vae-{uuid4().hex}"
                    slim = _slim(task, path)
                    future = self._client.submit(map_on_worker, slim, path.absolute(), version, key=key)
                    under_way[future] = path
            for future in self._finished(under_way):
                path = under_way.pop(future)
                try:
                    outcome = _outcome(future, path)
                except OSError as error:  # the connection broke while the record came
                    raise self._gone() from error
                if outcome is None:
                    suspects.append(path)
                else:
                    yield outcome

    def _workers(self) -> int:
        """How many there are; waits for the first."""
        until = time.monotonic() + self._patience_s
        while time.monotonic() < until:
            try:
                count = len(self._client.scheduler_info(n_workers=-1)["workers"])
            except OSError:
                count = 0
            self._require_scheduler()
            if count:
                return count
            time.sleep(min(_POLL_S, self._patience_s / 10))
        raise P3vaeError(
            f"no worker has been at {self._address} for {self._patience_s:g} s",
            remedy=f"start some with: dask worker {self._address} --nthreads 1; the same line goes on",
        )

    def _require_scheduler(self) -> None:
        if self._client.status != "running":
            raise self._gone()

    def _gone(self) -> P3vaeError:
        return P3vaeError(
            f"the scheduler at {self._address} is gone",
            remedy="start it and its workers again; the same line goes on",
        )

    def _finished(self, under_way: dict[Any, Path]) -> list[Any]:
        from distributed import CancelledError, wait

        try:
            with self._client.as_current():
                done = wait(list(under_way), timeout=_POLL_S, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            return []
        except CancelledError:
            self._require_scheduler()
            done = {future for future in under_way if future.cancelled()}
        return sorted(done, key=lambda future: str(under_way[future]))


def _outcome(future: Any, path: Path) -> Outcome | None:
    """What became of a scene; None if the workers died on which it was."""
    from distributed import CancelledError, KilledWorker

    try:
        outcome: Outcome = future.result()
        return replace(outcome, scene=path)
    except KilledWorker:
        return None
    except CancelledError:
        reason = P3vaeError("the scheduler dropped it", path=path, remedy="the same line goes on")
        return Outcome(path, "failed", error=reason)
    finally:
        future.release()


def _fatal_scene(path: Path) -> P3vaeError:
    return P3vaeError(
        "every worker that tried it alone died",
        path=path,
        remedy="map it on one machine; often it needs more memory than a worker has",
    )


def map_on_worker(task: SceneTask, path: Path, version: str) -> Outcome:
    """The task of a worker; its model stays in memory from scene to scene."""
    own = importlib.metadata.version("p3vae")
    if own != version:
        error = P3vaeError(
            f"a worker has p3vae {own}, and this is {version}", remedy="install the same version everywhere"
        )
        return Outcome(path, "failed", error=error, fatal=True)
    return task(path)


def _slim(task: SceneTask, path: Path) -> SceneTask:
    """The task with those inputs only that lie where the products of a scene go."""
    folder = task.outputs.manifest_of(path.absolute()).parent
    near = tuple(other for other in task.inputs if other.parent == folder)
    return replace(task, inputs=near)


def _absolute(value: Any) -> Any:
    """The same value with absolute paths in all fields: a worker runs in another folder."""
    if isinstance(value, Path):
        return value.absolute()
    if isinstance(value, tuple):
        return tuple(_absolute(item) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        named = {"model"} if _is_shipped(given.get("model")) else set()
        return replace(value, **{name: _absolute(given[name]) for name in given.keys() - named})
    return value


def _is_shipped(model: Any) -> bool:
    """Whether it is the name of a model that every worker has."""
    return isinstance(model, Path) and find_model(model) != model
