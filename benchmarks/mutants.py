"""How many one-line mistakes the tests notice: python -m benchmarks.mutants models/methane -n 50 --seed 1.

A mutant is drawn by `mutations.draw`. In a copy of the files that git knows, the tests of its module run
first, then those of its folder, then those of commands that import it, until one fails. The record
out/mutants/NAME.json is kept after every mutant, and a second call goes on where the first one stopped.
`--from RECORD` tests the mutants of a record instead of drawing, `--survivors` only those that survived.
"""

from __future__ import annotations

import argparse
import ast
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
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from benchmarks.mutations import Mutant, draw

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {"p3vae_cli": "p3vae.cli", "models": "p3vae.models", "physics": "p3vae.physics"}
LIBRARIES = (
    "torch",
    "rasterio",
    "h5py",
    "geopandas",
    "sklearn.cluster",
    "scipy.stats",
    "pvlib",
    "hypothesis",
)
"""Loaded once; every run of the tests is a fork."""
BROKEN = 99
"""Exit code of a run that failed before the tests."""
OWN, FAR = 3, 6
"""Test files that run first of those that import the module, and of those that reach it by a command."""
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
    if options.given:
        rows = json.loads(options.given.read_text())
        rows = [row for row in rows if not (options.survivors and row["verdict"] == "killed")]
        wanted = [Mutant(row["file"], row["line"], row["before"], row["after"]) for row in rows]
    else:
        wanted = draw(sorted(_sources(options.paths)), ROOT, options.count, options.seed)
    done = json.loads(record.read_text()) if record.exists() else []
    known = {(row["file"], row["before"], row["after"]) for row in done}
    left = [each for each in wanted if (each.file, each.before, each.after) not in known]
    record.parent.mkdir(parents=True, exist_ok=True)
    tests = {mutant.file: closest_tests(mutant.file) for mutant in left}
    _require_whole(sorted({test for stages in tests.values() for stage in stages for test in stage}))
    for library in LIBRARIES:
        __import__(library)
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(options.jobs, fork) as pool:
        for finished in as_completed(
            [pool.submit(_tried, folder, mutant, tests[mutant.file], options.limit) for mutant in left]
        ):
            row = finished.result()
            done.append(row)
            record.write_text(json.dumps(done, indent=1, ensure_ascii=False) + "\n")
            print(f"{row['verdict']:8} {row['seconds']:5.0f} s  {row['file']}:{row['line']}  {row['by']}")
            print(f"    - {row['before']}\n    + {row['after']}", flush=True)
    print(table(done))


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


def _sources(paths: Iterable[str]) -> Iterator[Path]:
    for path in map(ROOT.joinpath, paths):
        found = [path] if path.is_file() else path.rglob("*.py")
        yield from (each for each in found if "data" not in each.parts)


def _require_whole(tests: list[str]) -> None:
    """Tests that cannot even be collected would kill every mutant."""
    call = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *tests]
    if (
        tests
        and (done := subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False)).returncode
    ):
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
        if code == BROKEN:
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
            "-p",
            "no:xdist",
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


# Which tests are close to a file


@functools.cache
def closest_tests(file: str) -> list[list[str]]:
    """Tests of the module, of its folder, and of commands that import it, the most particular first."""
    module, path = _module(ROOT / file), Path(file)
    folder = (
        ROOT / "tests" / (Path("cli", *path.parts[1:-1]) if path.parts[0] == "p3vae_cli" else path.parent)
    )
    while not folder.is_dir():
        folder = folder.parent
    every = sorted((ROOT / "tests").rglob("test_*.py"))
    reached = {test: _commands(test) for test in every}
    near = [t for t in every if t.is_relative_to(folder)]
    own = [t for t in every if module in _imports(t) or t.stem == f"test_{path.stem}"]
    own.sort(key=lambda test: test not in near)
    using = [
        t for t in every if module in _closure(t) and {"cli", "models"} & set(t.relative_to(ROOT).parts[1:2])
    ]
    calling = [t for t in every if any(module in _closure(command) for command in reached[t])]
    words = {word for part in path.with_suffix("").parts for word in part.split("_")}
    far = sorted(
        {*using, *calling}, key=lambda test: (not words & {*test.stem.split("_")}, len(reached[test]))
    )
    seen: set[Path] = set()
    stages = []
    for stage in (own[:OWN], own[OWN:] + near, far[:FAR], far[FAR:]):
        stages.append(
            [test.relative_to(ROOT).as_posix() for test in dict.fromkeys(stage) if test not in seen]
        )
        seen |= {*stage}
    return stages


def _module(path: Path) -> str:
    folder, *inner = path.relative_to(ROOT).with_suffix("").parts
    return ".".join([FOLDERS.get(folder, folder), *inner]).removesuffix(".__init__")


@functools.cache
def _imports(path: Path) -> frozenset[str]:
    """Modules that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


@functools.cache
def _modules() -> dict[str, Path]:
    return {_module(path): path for path in _sources([*FOLDERS, "tests"])}


@functools.cache
def _closure(path: Path) -> frozenset[str]:
    """Modules that a file imports, and those that these import."""
    seen: set[str] = set()
    ahead = [path]
    while ahead:
        new = (_imports(ahead.pop()) & _modules().keys()) - seen
        seen |= new
        ahead += [_modules()[name] for name in new]
    return frozenset(seen)


@functools.cache
def _commands(test: Path) -> frozenset[Path]:
    """Files of the commands that a test names."""
    words = {node.value for node in ast.walk(ast.parse(test.read_text())) if isinstance(node, ast.Constant)}
    files = (ROOT / "p3vae_cli" / "commands").glob("*.py")
    return frozenset(file for file in files if file.stem.replace("_", "-") in words)


if __name__ == "__main__":
    main()
