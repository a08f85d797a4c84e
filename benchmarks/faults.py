"""Faults injected for real: python -m benchmarks.faults [--kills 300] [--seed 1] [--write].

Each case is a copy of this process that runs a command, and somebody who kills it, fills its disk, takes its
folder away or does the same work at the same time. Afterwards every set of products must be whole or absent,
the next run must complete, its products must equal those of an undisturbed run byte for byte, and nothing
else may remain. Mounting small disks needs root; without it those rows are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from p3vae.cli.products.verification import leftovers, verify
from tests.cli.kills import killed_at
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, wavelength_tags
from tests.fuzz.harness import act

RESULTS = Path(__file__).parent / "results"
SAMPLE = next((Path(__file__).parents[1] / "sample_data").glob("PRS_L1*.he5"))


@dataclass
class Row:
    """One line of the table."""

    fault: str
    cases: int = 0
    wrong: list[str] = field(default_factory=list)
    codes: dict[int, int] = field(default_factory=dict)

    def add(self, code: int, *problems: str) -> None:
        self.cases += 1
        self.codes[code] = self.codes.get(code, 0) + 1
        self.wrong += [problem for problem in problems if problem]
        for problem in filter(None, problems):
            print(f"{self.fault}: {problem}", flush=True)


class Bench:
    """A folder with scenes, the calls to disturb, and their undisturbed products."""

    def __init__(self, root: Path, scenes: int) -> None:
        self.root, self.out = root, root / "out"
        image = fixtures.truth(60, 70, len(WAVELENGTHS)).astype(np.float32)
        names = [f"s{number}.tif" for number in range(scenes)]
        tags = wavelength_tags(WAVELENGTHS)
        self.scenes = [str(fixtures.raster(root / name, image, band_tags=tags)) for name in names]
        self.calls = {
            "brightness": ["brightness", *self.scenes, "-o", str(self.out)],
            "invert-methane": ["invert-methane", str(SAMPLE), "--method", "mf", "-o", str(self.out)],
        }
        self.whole = {name: self._undisturbed(call) for name, call in self.calls.items()}
        self.seconds = {name: self._time(call) for name, call in self.calls.items()}

    def _undisturbed(self, call: list[str]) -> dict[str, bytes]:
        self.reset()
        code, said = self.run(call)
        assert code == 0, said
        return self.content()

    def _time(self, call: list[str]) -> float:
        self.reset()
        started = time.monotonic()
        self.run(call)
        return time.monotonic() - started

    def reset(self) -> None:
        shutil.rmtree(self.out, ignore_errors=True)

    def content(self) -> dict[str, bytes]:
        """Every file but manifests, which hold times."""
        files = (path for path in self.out.rglob("*") if path.is_file())
        return {str(p.relative_to(self.out)): p.read_bytes() for p in files if "_p3vae.json" not in p.name}

    def start(self, call: list[str], before: Callable[[], object] = lambda: None) -> int:
        child = os.fork()
        if child == 0:
            before()
            act(call, self.root)
        return child

    def run(self, call: list[str], before: Callable[[], object] = lambda: None) -> tuple[int, str]:
        return self.wait(self.start(call, before))

    def wait(self, child: int) -> tuple[int, str]:
        _, status = os.waitpid(child, 0)
        said = (self.root / "stderr").read_text(errors="replace") if (self.root / "stderr").exists() else ""
        return os.waitstatus_to_exitcode(status), said.strip()

    def judged(self, name: str) -> list[str]:
        """What is wrong now, and after the next undisturbed run."""
        wrong = [f"{found.manifest.name}: {found.problems}" for found in self._verified() if found.problems]
        code, said = self.run(self.calls[name])
        wrong += [f"the next run ended with {code}: {said}"] if code else []
        wrong += (
            ["products differ from those of an undisturbed run"] if self.content() != self.whole[name] else []
        )
        wrong += [f"left: {left.path.name}" for left in leftovers([self.out])]
        return wrong

    def _verified(self) -> list:
        return list(verify([self.out])) if self.out.is_dir() else []

    def nothing_left(self) -> str:
        return "" if not self.out.exists() else f"left: {sorted(p.name for p in self.out.rglob('*'))[:5]}"


def kills_at_random(bench: Bench, count: int, rng: random.Random) -> Row:
    row = Row("SIGKILL at a random moment")
    for _ in range(count):
        name = rng.choice(list(bench.calls))
        bench.reset()
        child = bench.start(bench.calls[name])
        time.sleep(rng.random() * 1.2 * bench.seconds[name])
        os.kill(child, signal.SIGKILL)
        code, _ = bench.wait(child)
        row.add(code, *bench.judged(name))
    return row


def kills_at_moves(bench: Bench) -> Row:
    row = Row("SIGKILL before every rename and removal")
    for name, call in bench.calls.items():
        for overwrite in ([], ["--overwrite"]):
            step = 1
            while True:
                bench.reset()
                if overwrite:
                    bench.run(call)
                if not killed_at(step, lambda call=call, extra=overwrite: act([*call, *extra], bench.root)):
                    break
                row.add(-9, *bench.judged(name))
                step += 1
    return row


def signals(bench: Bench, count: int, rng: random.Random) -> Row:
    row = Row("SIGTERM or SIGINT at a random moment")
    for _ in range(count):
        name = rng.choice(list(bench.calls))
        bench.reset()
        child = bench.start(bench.calls[name])
        time.sleep(rng.random() * bench.seconds[name])
        os.kill(child, rng.choice((signal.SIGTERM, signal.SIGINT)))
        code, said = bench.wait(child)
        problem = "" if code in (0, 1, -15) else f"exit code {code}"
        lines = [line for line in said.splitlines() if " of " not in line]
        row.add(code, problem, "several lines: " + said if len(lines) > 1 else "", *bench.judged(name))
    return row


def full_disks(bench: Bench, count: int) -> Row:
    row = Row("disk full, of many sizes")
    for number in range(count):
        for name in bench.calls:
            bench.reset()
            bench.out.mkdir()
            size = 40_000 + number * 1_200_000 // count
            mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(bench.out)]
            if subprocess.run(mount, capture_output=True, check=False).returncode:
                return row
            try:
                code, said = bench.run(bench.calls[name])
                noise = [line for line in said.splitlines() if "Error: " not in line and " of " not in line]
                bad = [f"{f.manifest.name} {f.problems}" for f in bench._verified() if f.problems]
                left = [str(one.path) for one in leftovers([bench.out])]
                row.add(code, "noise: " + noise[0] if noise else "", *bad, *left)
            finally:
                subprocess.run(["umount", str(bench.out)], check=True)
    return row


def together(bench: Bench, count: int) -> Row:
    row = Row("two runs into one folder at the same time")
    for _ in range(count):
        bench.reset()
        pair = [bench.start(bench.calls["brightness"]) for _ in range(2)]
        codes = [bench.wait(child)[0] for child in pair]
        row.add(max(codes), *bench.judged("brightness"))
    return row


def removed_folder(bench: Bench, count: int, rng: random.Random) -> Row:
    row = Row("output folder removed during the run")
    for _ in range(count):
        name = rng.choice(list(bench.calls))
        bench.reset()
        child = bench.start(bench.calls[name])
        time.sleep(rng.random() * bench.seconds[name])
        bench.reset()
        code, said = bench.wait(child)
        lines = [line for line in said.splitlines() if "Error: " not in line and " of " not in line]
        row.add(code, "noise: " + lines[0] if lines else "", *bench.judged(name))
    return row


def memory_limits(bench: Bench, sizes: list[int]) -> Row:
    row = Row("memory limit (RLIMIT_AS)")
    for name in bench.calls:
        for size in sizes:
            bench.reset()
            limit = _address_space() + size * 2**20
            code, said = bench.run(
                bench.calls[name], lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            )
            wrong = (
                f"{name} with {size} MB more: exit {code}, {said[-200:]}"
                if code < 0 or "Traceback" in said
                else ""
            )
            row.add(code, wrong, *bench.judged(name))
    return row


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/faults.md")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    few = max(2, options.kills // 15)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), scenes=2)
        rows = [
            kills_at_random(bench, options.kills, rng),
            kills_at_moves(bench),
            signals(bench, 3 * few, rng),
            full_disks(bench, few),
            together(bench, few),
            removed_folder(bench, few, rng),
            memory_limits(bench, [8, 32, 128, 512]),
        ]
    report = _report(rows, options)
    print(report)
    if options.write:
        (RESULTS / "faults.md").write_text(report)
        document = [
            {"fault": row.fault, "cases": row.cases, "wrong": row.wrong, "codes": row.codes} for row in rows
        ]
        (RESULTS / "faults.json").write_text(json.dumps(document, indent=1) + "\n")


def _report(rows: list[Row], options: argparse.Namespace) -> str:
    lines = [
        "# Faults",
        "",
        f"`python -m benchmarks.faults --kills {options.kills} --seed {options.seed} --write`",
        "",
        "`brightness` of two scenes and `invert-methane --method mf` of the sample swath. Wrong is: a set",
        "that is neither whole nor absent, a next run that does not complete, products that differ in a byte",
        "from those of an undisturbed run, files left, more than one line, or a crash.",
        "",
        "| Fault | cases | wrong | exit codes |",
        "|---|---|---|---|",
    ]
    for row in rows:
        codes = ", ".join(f"{count} x {code}" for code, count in sorted(row.codes.items()))
        lines.append(f"| {row.fault} | {row.cases} | {len(row.wrong)} | {codes} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
