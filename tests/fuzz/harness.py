"""Runs one damaged file in a process of its own and judges what happens."""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from tests.fuzz.mutations import damaged
from tests.fuzz.samples import SWATH, Sample, make_samples

LONGEST_S = 10.0
"""Of a core."""
LONGEST_WAIT_S = 120.0
"""By the clock, on a machine that others use too: whoever waits for ever is stopped."""
MOST_MEMORY = 1.5e9
"""Resident [bytes]."""


@dataclass(frozen=True)
class Verdict:
    """What became of one case."""

    number: int
    kind: str
    call: str
    code: int
    """Exit code, or minus the signal that ended it."""
    seconds: float
    """Of a core."""
    memory: float
    """Largest resident size [bytes]."""
    said: str
    """The end of stderr."""
    fault: str
    """What must not happen; empty where all is well."""


def cases(root: Path, numbers: range, seed: int, tokens: tuple[str, ...]) -> Iterator[Verdict]:
    """Cases of a seed, in order; `tokens` are a path and an address that nobody may look at."""
    samples = make_samples(root / "samples")
    warm_up()
    for number in numbers:
        yield _case(samples, root, number, seed, tokens)


_NEEDED = (
    *("torch", "rasterio", "geopandas", "pyogrio", "h5py", "pvlib", "scipy.ndimage", "scipy.stats"),
    *("p3vae.cli.run.brightness", "p3vae.cli.report.inventory", "p3vae.cli.run.batch"),
    *("p3vae.cli.landcover.maps", "p3vae.cli.methane.retrieval"),
    *("p3vae.models.landcover.library.materials", "p3vae.models.landcover.model"),
)


def warm_up() -> None:
    """Import what the calls need, so that each case is a quick copy of this process.

    Nothing is called: threads of GDAL and torch do not survive in a copy, and their locks would.
    """
    for name in _NEEDED:
        import_module(name)


def _case(samples: list[Sample], root: Path, number: int, seed: int, tokens: tuple[str, ...]) -> Verdict:
    rng = random.Random(f"{seed}-{number}")
    sample = rng.choice(samples)
    work = root / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(sample.path.parent, work / "input")
    path, out = work / "input" / sample.path.name, work / "out"
    damaged(path, rng, tokens)
    town = next(one.path for one in samples if one.kind == "geotiff")
    words = {"@": str(path), "@@": f"@{path}", "TOWN": str(town), "SWATH": str(SWATH), "OUT": str(out)}
    call = [words.get(word, word) for word in rng.choice(sample.calls)]
    before = _listing(work)
    code, seconds, memory = _run(call, work)
    said = (work / "stderr").read_text(errors="replace").strip()
    fault = _fault(code, seconds, memory, said)
    if not fault and code not in (0, 3) and out.exists():  # 3: some scenes of a list are done
        fault = "output left"
    if not fault and _listing(work) - before - {work / "stderr", work / "stdout", out}:
        fault = "file outside the output folder"
    return Verdict(number, sample.kind, " ".join(call), code, seconds, memory, said[-500:], fault)


def _listing(work: Path) -> set[Path]:
    return {path for path in work.rglob("*") if (work / "out") not in path.parents}


def _fault(code: int, seconds: float, memory: float, said: str) -> str:
    if seconds > LONGEST_S:
        return "slow"
    if code == -signal.SIGKILL:
        return "hang"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    if "Traceback" in said or "internal error" in said:
        return "traceback"
    if memory > MOST_MEMORY:
        return "memory"
    if code not in (0, 1, 2, 3):
        return f"exit code {code}"
    passed_over = re.compile(r"warning:|\d+ of \d+:|Usage:|Try ")
    errors = [line for line in said.splitlines() if not passed_over.match(line)]
    some = re.search(r"(\d+) of \d+ scenes failed|all (\d+) scenes failed", errors[-1] if errors else "")
    expected = 1 + int(some[1] or some[2]) if some else 1  # a line per scene, and one in the end
    if code and len(errors) != expected:
        return f"{len(errors)} lines"
    return ""


def _run(call: list[str], work: Path) -> tuple[int, float, float]:
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        act(call, work)
    while time.monotonic() - started < LONGEST_WAIT_S:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.005)
    else:
        os.kill(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024.0


def act(call: list[str], work: Path, typed: list[str] | None = None) -> None:
    """The life of the child: the call, and the code it ends with; `typed` is what products say of it."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        os.dup2(os.open(work / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", errors="backslashreplace")
    sys.argv = ["p3vae", *(typed or call)]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    code = 1
    try:
        code = _call(call)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _call(call: list[str]) -> int:
    from p3vae.cli.main import main

    if call[0] == "labels":
        return _labels(*call[1:])
    try:
        main(call)
    except SystemExit as leave:
        return int(leave.code or 0)
    return 0


def _labels(path: str, scene: str) -> int:
    from p3vae.cli.errors import P3vaeError
    from p3vae.cli.labels import read_labels
    from p3vae.cli.scenes.opening import open_scene

    try:
        with open_scene(scene) as opened:
            read_labels(Path(path), opened.grid)
    except P3vaeError as error:
        print(f"Error: {error}", file=sys.stderr)
        return int(error.exit_code)
    return 0
