"""`p3vae reproduce` behind the scenes: which runs a table needs, running them, writing what they gave."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from p3vae.cli.base.console import StepProgress, note, stderr
from p3vae.cli.base.errors import ExitCode, InterruptedRunError, P3vaeError, ProductError, UsageError
from p3vae.cli.base.signals import hold_signals, interrupt_on_signals
from p3vae.cli.products.staging import writing
from p3vae.cli.reproduce import report
from p3vae.cli.reproduce.runs import LAYOUT, Outcome, Work, keep, kept, perform, require_data, sources_digest
from p3vae.cli.reproduce.tables import NAMES, Table, table

Failure = tuple[Work, Exception]


class SomeRunsFailedError(P3vaeError):
    """Runs that broke down; the others are in the tables."""

    exit_code = ExitCode.SOME_FAILED


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    tables: tuple[str, ...]
    """Names of tables, or `all`."""
    output: Path
    data: Path | None = None
    seeds: int | None = None
    """None: as many as were published, one if quick."""
    quick: bool = False
    models: tuple[str, ...] = ()
    """Run only these, empty for all; tables also show what others gave earlier."""
    jobs: int = 1
    fresh: bool = False
    """Compute what is there already once more."""
    command: str = "p3vae reproduce"
    show_progress: bool | None = None

    @property
    def runs(self) -> Path:
        """Where finished runs are kept."""
        return self.output / "runs"


def reproduce(request: Request) -> list[Path]:
    """Run what is missing, print the tables, write JSON, Markdown and figures; returns their paths.

    An interrupted call still shows what is there.
    """
    tables = _tables(request)
    works = {t.name: _works(t, request) for t in tables}
    every = _chosen(works, request)
    missing = [work for work in every if request.fresh or kept(request.runs, work) is None]
    if len(missing) < len(every):
        note(f"{len(every) - len(missing)} of {len(every)} runs are there already")
    try:
        request.runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProductError(f"cannot be made a folder ({error.strerror})", path=request.runs) from error
    failures: list[Failure] = []
    try:
        with interrupt_on_signals():
            _run(missing, request, failures)
    except KeyboardInterrupt as stop:
        for t in tables:
            _publish(t, works[t.name], request)
        told = "interrupted; finished runs are kept"
        raise InterruptedRunError(told, remedy="the same command goes on") from stop
    written = [path for t in tables for path in _publish(t, works[t.name], request)]
    if failures:
        work, reason = failures[0]
        raise SomeRunsFailedError(f"{len(failures)} of {len(every)} runs failed; {work.title}: {reason}")
    return written


def _chosen(works: Mapping[str, list[Work]], request: Request) -> list[Work]:
    """Every work once, of the models asked for."""
    every = dict.fromkeys(work for mine in works.values() for work in mine)
    chosen = [work for work in every if not request.models or work.model in request.models]
    if not chosen:
        known = sorted({work.model for work in every})
        raise UsageError("no such model in that table", remedy=f"there are {', '.join(known)}")
    return chosen


def _tables(request: Request) -> list[Table]:
    """The tables asked for, as far as their data are at hand."""
    everything = "all" in request.tables
    chosen = [table(name) for name in (NAMES if everything else dict.fromkeys(request.tables))]
    if request.data is not None:
        require_data(request.data, list(dict.fromkeys(e for t in chosen for e in t.experiments)))
        return chosen
    if any(t.name == "real" for t in chosen) and not everything:
        raise UsageError(
            "the table “real” needs the real spectra, which are not part of p3vae",
            remedy=f"give their folder with --data, laid out as {LAYOUT}",
        )
    chosen = [_without_real_rows(t) for t in chosen if t.name != "real"]
    if everything:
        note("Left out without --data: table real, and the real rows of ablation")
    return chosen


def _without_real_rows(t: Table) -> Table:
    return replace(t, rows=tuple(row for row in t.rows if row.experiment != "real"))


def _works(t: Table, request: Request) -> list[Work]:
    seeds = request.seeds or (1 if request.quick else t.seeds)
    data = None if request.data is None else request.data.resolve()
    models = dict.fromkeys((row.experiment, row.model) for row in t.rows)
    return [
        Work(experiment, model, seed, request.quick, data)
        for seed in range(seeds)
        for experiment, model in models
    ]


def _run(works: list[Work], request: Request, failures: list[Failure]) -> None:
    """Run and keep; runs that fail are listed and do not stop the others."""
    with StepProgress("Runs", show=request.show_progress) as progress:
        for done, (work, outcome) in enumerate(_outcomes(works, request.jobs), start=1):
            if isinstance(outcome, Exception):
                failures.append((work, outcome))
                note(f"{work.title}: {outcome}")
            else:
                with writing(request.runs):
                    keep(request.runs, work, outcome)
                if not stderr().is_terminal:
                    note(f"{done}/{len(works)} {work.title}: {outcome.seconds:.0f} s")
            progress.step(done, len(works))


def _outcomes(works: list[Work], jobs: int) -> Iterator[tuple[Work, Outcome | Exception]]:
    """Outcomes as they come in, from this process or from `jobs` others."""
    if jobs == 1 or len(works) < 2:
        yield from ((work, _tried(work)) for work in works)
        return
    pool = ProcessPoolExecutor(
        min(jobs, len(works)),
        multiprocessing.get_context("spawn"),
        # Ctrl-C reaches every process of a terminal; only this one is to say what that means.
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),
    )
    waiting: dict[Future[Outcome | Exception], Work] = {}
    try:
        with hold_signals():  # a process that is half started could not be stopped
            waiting = {pool.submit(_tried, work): work for work in works}
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), _result(future)
    except KeyboardInterrupt:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _result(future: Future[Outcome | Exception]) -> Outcome | Exception:
    try:
        return future.result()
    except BrokenProcessPool:
        return ValueError("a process was killed, perhaps for want of memory; fewer --jobs need less")


def _tried(work: Work) -> Outcome | Exception:
    try:
        return perform(work)
    except Exception as error:  # whatever it is, the other runs are worth having
        # Exceptions with several arguments do not survive the way between processes.
        return ValueError(f"{type(error).__name__}: {error}")


def _publish(t: Table, works: list[Work], request: Request) -> list[Path]:
    """Screen, files and figures of one table."""
    from p3vae.cli.reproduce.figures import draw

    records: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for work in works:
        record = kept(request.runs, work)
        if record is not None:
            records.setdefault((work.experiment, work.model), []).append(record)
    if not records:
        return []
    result = report.fill(t, records, _header(records, request))
    report.show(result)
    with writing(request.output):
        paths = report.write(result, request.output, request.command)
        return paths + draw(t.name, works, request.runs, request.output)


def _header(records: dict[tuple[str, str], list[dict[str, Any]]], request: Request) -> tuple[str, ...]:
    seeds = sorted({len(mine) for mine in records.values()})
    told = [
        "1 seed" if seeds == [1] else f"{' to '.join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))} seeds"
    ]
    told.append("data from files" if request.data is not None else "built-in simulation")
    if request.quick:
        told.append("QUICK: few epochs and little data, which shows that everything runs, not how good it is")
    digests = {record["sources_sha256"] for mine in records.values() for record in mine}
    if digests != {sources_digest()}:
        told.append("some runs are of an earlier state of the program")
    return tuple(told)
