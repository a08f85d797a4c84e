"""`p3vae reproduce` behind the scenes: which runs a table needs, running them, writing what they gave."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from p3vae.cli.console import StepProgress, note, stderr
from p3vae.cli.errors import ExitCode, InterruptedRunError, P3vaeError, ProductError, UsageError
from p3vae.cli.records.staging import writing
from p3vae.cli.signals import hold_signals, interrupt_on_signals
from p3vae.paper.reproduce import report
from p3vae.paper.reproduce.runs import (
    LAYOUT,
    RunResult,
    RunSpec,
    perform,
    require_data,
    save,
    saved,
    sources_digest,
)
from p3vae.paper.reproduce.tables import NAMES, Table, table

Failure = tuple[RunSpec, Exception]

EXTRA = ("matplotlib", "torchdiffeq")
"""What the extra `reproduce` installs."""


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
    _require_extra()
    tables = _tables(request)
    specs = {t.name: _works(t, request) for t in tables}
    every = _chosen(specs, request)
    missing = [spec for spec in every if request.fresh or saved(request.runs, spec) is None]
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
            _publish(t, specs[t.name], request)
        reported = "interrupted; finished runs are kept"
        raise InterruptedRunError(reported, remedy="the same command goes on") from stop
    written = [path for t in tables for path in _publish(t, specs[t.name], request)]
    if failures:
        spec, reason = failures[0]
        raise SomeRunsFailedError(f"{len(failures)} of {len(every)} runs failed; {spec.title}: {reason}")
    return written


def _require_extra() -> None:
    """Figures and pendulums need libraries that no other command does: say so before hours of runs."""
    absent = [name for name in EXTRA if find_spec(name) is None]
    if absent:
        raise UsageError(
            f"{' and '.join(absent)} {'is' if len(absent) == 1 else 'are'} not installed",
            remedy="pip install 'p3vae[reproduce]'",
        )


def _chosen(specs: Mapping[str, list[RunSpec]], request: Request) -> list[RunSpec]:
    """Every work once, of the models asked for."""
    every = dict.fromkeys(spec for mine in specs.values() for spec in mine)
    chosen = [spec for spec in every if not request.models or spec.model in request.models]
    if not chosen:
        known = sorted({spec.model for spec in every})
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


def _works(t: Table, request: Request) -> list[RunSpec]:
    seeds = request.seeds or (1 if request.quick else t.seeds)
    data = None if request.data is None else request.data.resolve()
    models = dict.fromkeys((row.experiment, row.model) for row in t.rows)
    return [
        RunSpec(experiment, model, seed, request.quick, data)
        for seed in range(seeds)
        for experiment, model in models
    ]


def _run(specs: list[RunSpec], request: Request, failures: list[Failure]) -> None:
    """Run and save; runs that fail are listed and do not stop the others."""
    with StepProgress("Runs", show=request.show_progress) as progress:
        for done, (spec, outcome) in enumerate(_outcomes(specs, request.jobs), start=1):
            if isinstance(outcome, Exception):
                failures.append((spec, outcome))
                note(f"{spec.title}: {outcome}")
            else:
                with writing(request.runs):
                    save(request.runs, spec, outcome)
                if not stderr().is_terminal:
                    note(f"{done}/{len(specs)} {spec.title}: {outcome.seconds:.0f} s")
            progress.step(done, len(specs))


def _outcomes(specs: list[RunSpec], jobs: int) -> Iterator[tuple[RunSpec, RunResult | Exception]]:
    """Outcomes as they come in, from this process or from `jobs` others."""
    if jobs == 1 or len(specs) < 2:
        yield from ((spec, _tried(spec)) for spec in specs)
        return
    pool = ProcessPoolExecutor(
        min(jobs, len(specs)),
        multiprocessing.get_context("spawn"),
        # Ctrl-C reaches every process of a terminal; only this one is to say what that means.
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),
    )
    waiting: dict[Future[RunResult | Exception], RunSpec] = {}
    try:
        with hold_signals():  # a process that is half started could not be stopped
            waiting = {pool.submit(_tried, spec): spec for spec in specs}
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), _result(future)
    except KeyboardInterrupt:
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _result(future: Future[RunResult | Exception]) -> RunResult | Exception:
    try:
        return future.result()
    except BrokenProcessPool:
        return ValueError("a process was killed, perhaps for want of memory; fewer --jobs need less")


def _tried(spec: RunSpec) -> RunResult | Exception:
    try:
        return perform(spec)
    except Exception as error:  # whatever it is, the other runs are worth having
        # Exceptions with several arguments do not survive the way between processes.
        return ValueError(f"{type(error).__name__}: {error}")


def _publish(t: Table, specs: list[RunSpec], request: Request) -> list[Path]:
    """Screen, files and figures of one table."""
    from p3vae.paper.reproduce.figures import draw

    records: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for spec in specs:
        record = saved(request.runs, spec)
        if record is not None:
            records.setdefault((spec.experiment, spec.model), []).append(record)
    if not records:
        return []
    result = report.fill(t, records, _header(records, request))
    report.show(result)
    with writing(request.output):
        paths = report.write(result, request.output, request.command)
        return paths + draw(t.name, specs, request.runs, request.output)


def _header(records: dict[tuple[str, str], list[dict[str, Any]]], request: Request) -> tuple[str, ...]:
    seeds = sorted({len(mine) for mine in records.values()})
    reported = [
        "1 seed" if seeds == [1] else f"{' to '.join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))} seeds"
    ]
    reported.append("data from files" if request.data is not None else "built-in simulation")
    if request.quick:
        reported.append(
            "QUICK: few epochs and little data, which shows that everything runs, not how good it is"
        )
    digests = {record["sources_sha256"] for mine in records.values() for record in mine}
    if digests != {sources_digest()}:
        reported.append("some runs are of an earlier state of the program")
    return tuple(reported)
