"""How many one-line mistakes the tests notice: python -m benchmarks mutants models/methane -n 50 --seed 1.

A mutant is drawn by `mutations.draw`. In a copy of the files that git knows, the tests of its module run
first, then those of its folder, then those of commands that import it, until one fails. The record
out/mutants/NAME.json is kept after every mutant, and a second call goes on where the first one stopped.
`--from RECORD` tests the mutants of a record instead of drawing, `--survivors` only those that survived.
"""

from __future__ import annotations

import argparse
import compileall
import functools
import json
import math
import multiprocessing
import os
import py_compile
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from benchmarks.mutant_tests import FOLDERS, ROOT, closest_tests, sources
from benchmarks.mutations import Mutant, draw

LIBRARIES = (
    "torch",
    "rasterio",
    "h5py",
    "geopandas",
    "sklearn.cluster",
    "scipy.stats",
    "pvlib",
)
"""Loaded once; every run of the tests is a fork."""
BROKEN = 99
"""Exit code of a run that failed before pytest; its own 3 and 4 are errors inside it and wrong usage."""
TEST_S = 60
"""A test that takes longer has noticed a mutant [s of a core]."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs="*", default=[*FOLDERS], help="files and folders to draw from")
    parser.add_argument("-n", "--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=int, default=120, help="of a mutant [s of a core]: it has survived")
    parser.add_argument("--from", dest="given", type=Path, metavar="RECORD")
    parser.add_argument("--survivors", action="store_true")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    name = "-".join(path.strip("/").replace("/", ".") for path in options.paths)
    record = options.output or ROOT / "out" / "mutants" / f"{name}-{options.count}-{options.seed}.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    done = json.loads(record.read_text()) if record.exists() else []
    known = {(row["file"], row["before"], row["after"]) for row in done}
    for row in _run([m for m in _wanted(options) if (m.file, m.before, m.after) not in known], options):
        done.append(row)
        record.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n")
        print(f"{row['verdict']:8} {row['seconds']:5.0f} s  {row['file']}:{row['line']}  {row['by']}")
        print(f"    - {row['before']}\n    + {row['after']}", flush=True)
    print(table(done))


def _wanted(options: argparse.Namespace) -> list[Mutant]:
    if options.given is None:
        return draw(sorted(sources(options.paths)), ROOT, options.count, options.seed)
    rows = json.loads(options.given.read_text())
    chosen = [row for row in rows if not (options.survivors and row["verdict"] == "killed")]
    return [Mutant(row["file"], row["line"], row["before"], row["after"]) for row in chosen]


def _run(mutants: list[Mutant], options: argparse.Namespace) -> Iterator[dict]:
    """What became of each, as they come."""
    tests = {mutant.file: closest_tests(mutant.file) for mutant in mutants}
    _require_whole(sorted({test for stages in tests.values() for stage in stages for test in stage}))
    for library in LIBRARIES:
        __import__(library)
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(options.jobs, fork) as pool:
        waiting = [pool.submit(_tried, folder, each, tests[each.file], options.limit) for each in mutants]
        for finished in as_completed(waiting):
            yield finished.result()


def table(rows: list[dict]) -> str:
    """Mutants and those that a test noticed, by folder."""
    folders = defaultdict(list)
    for row in rows:
        folders["/".join(row["file"].split("/")[:2] if "/" in row["file"] else "")].append(
            row["verdict"] == "killed"
        )
    folders["together"] = [killed for each in list(folders.values()) for killed in each]
    lines = ["| Folder | Mutants | Killed | |", "|---|---|---|---|"]
    for folder, killed in folders.items():
        share = f"{100 * sum(killed) / max(len(killed), 1):.0f} %"
        lines.append(f"| {folder} | {len(killed)} | {sum(killed)} | {share} |")
    return "\n".join(lines)


def _require_whole(tests: list[str]) -> None:
    """Tests that cannot even be collected would kill every mutant."""
    call = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)
    if tests and done.returncode:
        raise SystemExit(done.stdout[-2000:])


# The copy and the tests of one mutant


@functools.cache
def _copy(folder: str) -> Path:
    """A copy for this process, compiled in a way that the time of a file does not matter."""
    copy = Path(tempfile.mkdtemp(dir=folder))
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (source := ROOT / name).exists() or source.is_symlink():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy / name, follow_symlinks=False)
    hashed = py_compile.PycInvalidationMode.CHECKED_HASH
    for part in FOLDERS:
        compileall.compile_dir(copy / part, quiet=2, invalidation_mode=hashed)
    return copy


def _tried(folder: str, mutant: Mutant, tests: list[list[str]], limit_s: int) -> dict:
    started, copy = time.monotonic(), _copy(folder)
    file = copy / mutant.file
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    changed = mutant.source(text)
    verdict, by = "gone", ""
    if changed is not None:
        file.write_text(changed, encoding="utf-8")
        try:
            verdict, by = _tested(copy, tests, limit_s)
        finally:
            file.write_text(text, encoding="utf-8")
    return asdict(mutant) | {"verdict": verdict, "by": by, "seconds": round(time.monotonic() - started, 1)}


def _tested(copy: Path, stages: list[list[str]], limit_s: int) -> tuple[str, str]:
    """Verdict, and the test that failed; tests of a later stage are not even collected before."""
    left = float(limit_s)
    for tests in filter(None, stages):
        log = copy.with_suffix(".log")
        child = os.fork()
        if child == 0:
            _run_tests(copy, tests, max(1, math.ceil(left)), log)
        _, status, used = os.wait4(child, 0)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what a test has left behind
        code, said = os.waitstatus_to_exitcode(status), log.read_text(errors="replace")
        if code in (BROKEN, 3, 4):
            raise RuntimeError(said)
        left -= used.ru_utime + used.ru_stime
        if code == -signal.SIGXCPU or (code == 0 and left <= 0):
            return "survived", f"stopped after {limit_s} s"
        if code != 0:
            failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)
            return "killed", failed[0] if failed else f"exit code {code}"
    return "survived", ""


def _run_tests(copy: Path, tests: list[str], limit_s: int, log: Path) -> None:
    """In a fork: pytest on the copy; never returns."""
    code = BROKEN
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 10))
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background of a shell
        os.chdir(copy)
        stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        os.environ |= {"PYTHONPATH": str(copy / ".imports"), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True
        sys.path = [str(copy), str(copy / ".imports"), *(p for p in sys.path if p not in ("", str(ROOT)))]
        import pytest

        base = copy.with_suffix(".tmp")
        words = [
            "-x",
            "-q",
            "-Wignore::pytest.PytestAssertRewriteWarning",
            "-p",
            "no:cacheprovider",
            f"--basetemp={base}",
            *tests,
        ]
        code = pytest.main(words, plugins=[_Limit()])
        sys.stdout.flush()
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


class _Limit:
    """Ends a test that takes too long."""

    def pytest_runtest_logstart(self) -> None:
        signal.signal(signal.SIGPROF, _too_long)
        signal.setitimer(signal.ITIMER_PROF, TEST_S)

    def pytest_runtest_logfinish(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _too_long(*_: object) -> None:
    raise TimeoutError(f"a test took more than {TEST_S} s")


if __name__ == "__main__":
    main()
