"""What `benchmarks.faults` disturbs: scenes, calls, their undisturbed products, and a judge."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from p3vae.cli.records.verification import leftovers, verify
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, wavelength_tags
from tests.fuzz.harness import act

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "sample_data"
PROGRAM = Path(sys.executable).with_name("p3vae")


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
        self.scenes = [self.scene(f"s{number}.tif") for number in range(scenes)]
        swath, town, out = next(SAMPLES.glob("PRS_L1*.he5")), SAMPLES / "town.tif", ["-o", str(self.out)]
        self.calls = {
            "brightness": ["brightness", *map(str, self.scenes), "--stac", *out],
            "invert-methane": ["invert-methane", str(swath), "--method", "mf", *out],
            "classify": ["classify", str(town), "-m", "town", "--stac", *out],
        }
        self.whole: dict[str, dict[str, bytes]] = {}
        self.seconds: dict[str, float] = {}
        for name, call in self.calls.items():
            self._undisturbed(name, call)

    def scene(self, name: str, level: float = 1.0) -> Path:
        """A small GeoTIFF."""
        image = level * fixtures.truth(60, 70, len(WAVELENGTHS)).astype(np.float32)
        return fixtures.raster(self.root / name, image, band_tags=wavelength_tags(WAVELENGTHS))

    def _undisturbed(self, name: str, call: list[str]) -> None:
        self.reset()
        started = time.monotonic()
        code, said = self.run(call)
        assert code == 0, said
        self.seconds[name], self.whole[name] = time.monotonic() - started, self.content()

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

    def program(self, call: list[str], **settings: str) -> tuple[int, str]:
        """The installed program with other variables of the environment."""
        environment = {**os.environ, **settings}
        done = subprocess.run(
            [PROGRAM, *call], env=environment, capture_output=True, check=False, cwd=self.root
        )
        return done.returncode, done.stderr.decode(errors="replace").strip()

    def judged(self, name: str) -> list[str]:
        """What is wrong now, and after the next undisturbed run."""
        wrong = self.damaged()
        code, said = self.run(self.calls[name])
        wrong += [f"the next run ended with {code}: {said}"] if code else []
        wrong += (
            ["products differ from those of an undisturbed run"] if self.content() != self.whole[name] else []
        )
        wrong += [f"left: {left.path.name}" for left in leftovers([self.out])]
        return wrong

    def damaged(self) -> list[str]:
        """Sets that are neither whole nor absent."""
        found = list(verify([self.out])) if self.out.is_dir() else []
        return [f"{one.manifest.name}: {one.problems}" for one in found if one.problems]

    def littered(self) -> list[str]:
        """Hidden folders."""
        return [f"left: {one.path}" for one in leftovers([self.out])] if self.out.is_dir() else []


def noise(said: str) -> list[str]:
    """Lines that are neither errors of ours nor news of scenes."""
    lines = [line for line in said.splitlines() if not line.startswith(("Error: ", "Aborted!", "warning: "))]
    return [f"noise: {line}" for line in lines if " of " not in line][:1]


@contextmanager
def small_disk(place: Path, *options: str) -> Iterator[bool]:
    """A tmpfs at `place`; False where mounting is not allowed."""
    place.mkdir(exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(place)]
    mounted = subprocess.run(words, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(place)], check=True)
