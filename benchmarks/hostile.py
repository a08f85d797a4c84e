"""Files, folders and names made to do harm: python -m benchmarks hostile [--cases 2400] [--seed 1] [--write].

Each case is a folder of a user's files to which somebody has added something, and one call, in a process of
its own. Wrong is: a file of the user's that changed or went, a read of a file that was not given, a request,
a crash, a traceback, or more than 20 s of a core. --before keeps the counts as those of an earlier program.
"""

from __future__ import annotations

import argparse
import json
import os
import pkgutil
import random
import shutil
import signal
import socket
import tempfile
import threading
import time
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from benchmarks.fuzz import listen
from benchmarks.hostile_cases import KINDS, SECRET, Trial, made
from p3vae import cli
from tests.fuzz.harness import act, warm_up

RESULTS = Path(__file__).parent / "results"
LONGEST_S = 20.0
"""Of a core."""
LONGEST_WAIT_S = 60.0
"""By the clock, on a machine that others use too."""


@dataclass
class Row:
    """What became of the cases of one kind."""

    cases: int = 0
    wrong: dict[str, int] = field(default_factory=dict)
    slowest_s: float = 0.0


def content(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every entry below a folder: bytes of files, targets of links, what else it is."""
    found: dict[str, tuple[object, ...]] = {}
    for path in folder.rglob("*"):
        if path.is_symlink():
            found[str(path)] = ("link", str(path.readlink()))
        elif path.is_file():
            found[str(path)] = ("file", path.read_bytes())
        else:
            found[str(path)] = ("other",)
    return found


def judged(
    trial: Trial, work: Path, call: list[str], requests: list[bytes], wait: float
) -> tuple[str, float]:
    """What is wrong, "" for nothing, and seconds of a core."""
    before, asked = content(trial.folder), len(requests)
    os.utime(trial.canary, ns=(0, time.time_ns()))
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        os.chdir(trial.folder)
        act(call, work)
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        waited = time.monotonic() - started
        if done or waited > wait:
            break
        time.sleep(0.004)
    if not done:
        os.kill(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
    code, seconds = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
    said = (work / "stderr").read_text(errors="replace")
    after = content(trial.folder)
    if not done or seconds > LONGEST_S:
        return "hang", seconds
    if code < 0 or code not in (0, 1, 2, 3):
        return "crash", seconds
    if "Traceback" in said or "internal error" in said:
        return "traceback", seconds
    if any(after.get(path) != entry for path, entry in before.items()):
        return "file changed", seconds
    if len(requests) > asked:
        return "request", seconds
    made_now = [entry for path, entry in after.items() if path not in before]
    shown = any(SECRET in entry[1] for entry in made_now if isinstance(entry[-1], bytes))
    if trial.canary.stat().st_atime_ns or shown:
        return "foreign file read", seconds
    return "", seconds


def run(options: argparse.Namespace) -> dict[str, Row]:
    rows = {name: Row() for name in KINDS}
    order = [name for name, (share, _) in KINDS.items() for _ in range(share)]
    with tempfile.TemporaryDirectory() as root, socket.create_server(("127.0.0.1", 0)) as listener:
        requests: list[bytes] = []
        threading.Thread(target=listen, args=(listener, requests), daemon=True).start()
        work, user, kept = Path(root, "work"), Path(root, "work", "user"), Path(root, "kept")
        work.mkdir()
        made(user)  # at the place of every case: lists hold paths
        shutil.copytree(user, kept, symlinks=True)
        canary = Path(root, "canary.geojson")
        canary.write_bytes(SECRET * 1000)
        warm_up()
        for module in pkgutil.walk_packages(cli.__path__, f"{cli.__name__}."):
            import_module(module.name)
        for number in range(options.first, options.first + options.cases):
            rng = random.Random(f"{options.seed}-{number}")
            name = order[number % len(order)]
            if options.only and name not in options.only:
                continue
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            shutil.copytree(kept, user, symlinks=True)
            (user / "hard.tif").unlink()
            os.link(user / "town.tif", user / "hard.tif")
            trial = Trial(user, rng, canary, listener.getsockname()[1])
            call = KINDS[name][1](trial)
            wrong, seconds = judged(trial, work, call, requests, options.wait)
            row = rows[name]
            row.cases, row.slowest_s = row.cases + 1, max(row.slowest_s, round(seconds, 2))
            if wrong:
                row.wrong[wrong] = row.wrong.get(wrong, 0) + 1
                said = (work / "stderr").read_text(errors="replace").strip()[-300:]
                print(f"{number} {name}: {wrong}: {call}\n{said}", flush=True)
            if options.write and number % 50 == 49:
                _write(rows, options)
    return rows


def _write(rows: dict[str, Row], options: argparse.Namespace) -> None:
    """Keep the counts of these cases, beside those of cases with other numbers."""
    path = RESULTS / "hostile.json"
    document = json.loads(path.read_text()) if path.exists() else {}
    when = "before" if options.before else "after"
    document.setdefault(when, {})[str(options.first)] = {n: vars(row) for n, row in rows.items() if row.cases}
    draft = path.with_suffix(f".{options.first}")
    draft.write_text(json.dumps(document, indent=1) + "\n")
    draft.replace(path)
    (RESULTS / "hostile.md").write_text(report(document, options))


def report(document: dict[str, dict[str, dict[str, dict]]], options: argparse.Namespace) -> str:
    """The table, before and after."""
    before, after = (_together(document.get(when, {})) for when in ("before", "after"))
    number = sum(row.cases for row in after.values())
    lines = [
        "# Files, folders and names made to do harm",
        "",
        f"`python -m benchmarks hostile --cases {number} --seed {options.seed} --write`",
        "",
        "Wrong is: a file of the user's that changed or went, a read of a file that was not given,",
        "a request, a crash, a traceback, or more than 20 s of a core. Before is the program in front",
        "of the change, on fewer cases and stopped after 8 s.",
        "",
        "| Added by somebody | cases before | wrong before | cases | wrong | slowest [CPU s] |",
        "|---|---|---|---|---|---|",
    ]
    for name in KINDS:
        cells = [cell for rows in (before, after) for cell in (str(rows[name].cases), _faults(rows[name]))]
        lines.append(f"| {name} | {' | '.join(cells)} | {after[name].slowest_s} |")
    return "\n".join([*lines, ""])


def _faults(row: Row) -> str:
    return ", ".join(f"{count} {what}" for what, count in row.wrong.items()) or "0"


def _together(parts: dict[str, dict[str, dict]]) -> dict[str, Row]:
    rows = {name: Row() for name in KINDS}
    for part in parts.values():
        for name, row in part.items():
            whole = rows[name]
            whole.cases += row["cases"]
            whole.slowest_s = max(whole.slowest_s, row["slowest_s"])
            for what, count in row["wrong"].items():
                whole.wrong[what] = whole.wrong.get(what, 0) + count
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=2400)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wait", type=float, default=LONGEST_WAIT_S, help="longest by the clock [s]")
    parser.add_argument("--only", nargs="+", help="kinds")
    parser.add_argument("--before", action="store_true", help="keep the counts as those of before")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/hostile.md")
    options = parser.parse_args()
    rows = run(options)
    print({name: (row.cases, row.wrong) for name, row in rows.items()})
    if options.write:
        _write(rows, options)


if __name__ == "__main__":
    main()
