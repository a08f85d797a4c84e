"""One model of one experiment trained and scored with one seed: the unit that is run, saved and resumed."""

from __future__ import annotations

import hashlib
import json
import math
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from p3vae.cli.errors import UsageError

_OURS = ("p3vae", "p3vae-no-physics")
_PUBLISHED = ("p3vae-paper", "p3vae-paper-no-sg")
PROTOCOLS = {
    **{("simulated", model): 2 for model in _PUBLISHED},
    **{("real", model): 3 for model in _PUBLISHED},
    **{(experiment, model): 7 for experiment in ("simulated", "real") for model in _OURS},
    ("methane", "p3vae"): 2,
}
"""By experiment and model, 1 unless said; raised when a model or the meaning of a stored number changes, so
that older runs are not taken for current ones."""

LAYOUT = "DIR/simulated/simulated.npz, DIR/toulouse/toulouse.npz, DIR/methane/*.csv"
FILES = {
    "simulated": ("simulated/simulated.npz",),
    "real": ("toulouse/toulouse.npz",),
    "methane": (
        "toulouse/toulouse.npz",
        "simulated/simulated.npz",
        "methane/prisma_fwhm.csv",
        "methane/H2O_transmittance.csv",
        "methane/CH4_transmittance.csv",
        "methane/CH4_absorption.csv",
    ),
    "pendulum": (),
}
"""What each experiment reads of the folder given by --data."""
_ARRAYS = ("wavelength_um", "good_band", "irradiance_direct", "irradiance_diffuse")
"""What every archive of spectra has."""
_HOMES = {
    "simulated": ("landcover_study", "simulated_run"),
    "real": ("landcover_study", "real_run"),
    "methane": ("methane_study", "methane_run"),
    "pendulum": ("pendulum_study", "pendulum_run"),
}


@dataclass(frozen=True)
class RunSpec:
    """What is to be done; everything a result depends on but the code."""

    experiment: str
    """A key of `FILES`."""
    model: str
    seed: int
    quick: bool = False
    data: Path | None = None
    """Folder of the paper's data, or the built-in simulation."""

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.experiment}: {self.model}, seed {self.seed}"

    @property
    def key(self) -> str:
        """Digest of the settings, the data and the version of the program."""
        protocol = PROTOCOLS.get((self.experiment, self.model), 1)
        reported = asdict(self) | {"data": _fingerprint(self.experiment, self.data), "protocol": protocol}
        return hashlib.sha256(json.dumps(reported | {"p3vae": version("p3vae")}).encode()).hexdigest()[:12]

    @property
    def stem(self) -> str:
        """Of the files that keep its result."""
        return f"{self.experiment}-{self.model}-{self.seed}-{self.key}"


@dataclass(frozen=True, eq=False)
class RunResult:
    """What came out of it."""

    scores: Mapping[str, float]
    """By name, for example `grid.p.f1`; what is not finite is not saved."""
    arrays: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    """For the figures; only the first seed gives any."""
    seconds: float = 0.0


Runner = Callable[[RunSpec], RunResult]


def perform(spec: RunSpec) -> RunResult:
    """Train and score, with one thread: the same numbers however many runs go on beside it."""
    import torch

    torch.set_num_threads(1)
    module, name = _HOMES[spec.experiment]
    run: Runner = getattr(import_module(f"p3vae.paper.reproduce.{module}"), name)
    start = time.perf_counter()
    result = run(spec)
    return RunResult(result.scores, result.arrays, time.perf_counter() - start)


def save(folder: Path, spec: RunSpec, result: RunResult) -> None:
    """Write a result; the JSON file comes last and says that everything is there."""
    folder.mkdir(parents=True, exist_ok=True)
    if result.arrays:
        arrays: dict[str, Any] = dict(result.arrays)
        np.savez_compressed(folder / f"{spec.stem}.npz", **arrays)
    record = {
        "experiment": spec.experiment,
        "model": spec.model,
        "seed": spec.seed,
        "quick": spec.quick,
        "data": "built-in" if spec.data is None else "files",
        "p3vae": version("p3vae"),
        "sources_sha256": sources_digest(),
        "seconds": result.seconds,
        "scores": {name: value for name, value in result.scores.items() if math.isfinite(value)},
    }
    unfinished = folder / f".{spec.stem}.json"
    unfinished.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n")
    unfinished.replace(folder / f"{spec.stem}.json")


def saved(folder: Path, spec: RunSpec) -> dict[str, Any] | None:
    """The record of a result saved earlier, None if there is none that can be read."""
    try:
        record = json.loads((folder / f"{spec.stem}.json").read_text())
    except (OSError, ValueError):
        return None
    whole = isinstance(record, dict) and isinstance(record.get("scores"), dict) and "sources_sha256" in record
    return record if whole else None


def saved_arrays(folder: Path, spec: RunSpec) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a result saved earlier; empty if it has none that can be read."""
    try:
        with (folder / f"{spec.stem}.npz").open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error):
        return {}


def require_data(folder: Path, experiments: list[str]) -> None:
    """Complain about files that are missing, before any work."""
    if not folder.is_dir():
        raise UsageError("no such folder", path=folder, remedy=f"--data expects {LAYOUT}")
    needed = list(dict.fromkeys(name for e in experiments for name in FILES[e]))
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        raise UsageError(f"lacks {', '.join(missing)}", path=folder, remedy=f"--data expects {LAYOUT}")
    for name in needed:
        if name.endswith(".npz"):
            _require_arrays(folder / name)


def _require_arrays(path: Path) -> None:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            missing = [name for name in _ARRAYS if name not in file.files]
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise UsageError("is damaged, or no NumPy archive", path=path) from error
    if missing:
        raise UsageError(f"lacks the arrays {', '.join(missing)}", path=path)


@lru_cache
def sources_digest() -> str:
    """SHA-256 of the program's own sources: says whether two records came from the same code."""
    names = ("cli", "models", "physics", "paper")
    packages = [Path(str(import_module(f"p3vae.{name}").__file__)).parent for name in names]
    digest = hashlib.sha256()
    for source in sorted(path for package in packages for path in package.rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


@lru_cache
def _fingerprint(experiment: str, folder: Path | None) -> str:
    if folder is None or not FILES[experiment]:
        return "built-in"
    digest = hashlib.sha256()
    for name in FILES[experiment]:
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()
