"""Faults injected for real: python -m benchmarks faults [--kills 300] [--seed 1] [--only NAME ...] [--write].

Each case is a copy of this process that runs a command, and somebody who kills it, fills its disk, takes its
folder away or does the same work at the same time. Afterwards every set of products must be whole or absent,
the next run must complete, its products must equal those of an undisturbed run byte for byte, and nothing
else may remain. Mounting small disks needs root, moving the clock needs the program faketime; without them
those rows are left out. With --only, other rows of an earlier table stay.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.fault_bench import SAMPLES, Bench, Row, noise, small_disk
from benchmarks.fault_cluster import lost_workers
from benchmarks.fault_gdal import rasterio_full_disks, rasterio_kills
from tests.cli.kills import killed_at
from tests.cli.scenes import fixtures
from tests.fuzz.harness import act, warm_up

RESULTS = Path(__file__).parent / "results"


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
                if not killed_at(step, partial(act, [*call, *overwrite], bench.root, call)):
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
        problem = "" if code in (0, 130, -15) else f"exit code {code}"
        lines = [line for line in said.splitlines() if " of " not in line]
        several = f"several lines: {said}" if len(lines) > 1 else ""
        row.add(code, problem, several, *bench.judged(name))
    return row


def full_disks(bench: Bench, count: int) -> Row:
    row = Row("disk full, of many sizes")
    for number in range(count):
        for call in bench.calls.values():
            bench.reset()
            with small_disk(bench.out, f"size={40_000 + number * 1_200_000 // count}") as mounted:
                if not mounted:
                    return row
                code, said = bench.run(call)
                row.add(code, *noise(said), *bench.damaged(), *bench.littered())
    return row


def read_only(bench: Bench) -> Row:
    row = Row("output folder on a read-only file system")
    for call in bench.calls.values():
        bench.reset()
        with small_disk(bench.out, "ro") as mounted:
            if not mounted:
                return row
            code, said = bench.run(call)
            row.add(code, *noise(said), "" if code == 1 else f"exit code {code}")
    return row


def temporary_folders(bench: Bench) -> Row:
    """Of which a packed PRISMA file needs some; the other calls need none."""
    row = Row("TMPDIR full, read-only or missing; HOME missing; other locale")
    packed = fixtures.zipped(
        Path(shutil.copy(next(SAMPLES.glob("PRS_L1*.he5")), bench.root / "swath.he5")), 8
    )
    calls = {**bench.calls, "zip": ["brightness", str(packed), "-o", str(bench.out)]}
    place = bench.root / "tmp"
    for name, call in calls.items():
        for setting, options in (
            ("TMPDIR", "size=64k"),
            ("TMPDIR", "ro"),
            ("TMPDIR", ""),
            ("HOME", ""),
            ("LC_ALL", ""),
        ):
            bench.reset()
            value = {"LC_ALL": "C"}.get(setting, str(place if options else bench.root / "none"))
            with small_disk(place, options or "size=64k") as mounted:
                if not mounted:
                    return row
                code, said = bench.program(call, **{setting: value})
            good = bench.content() == bench.whole[name] if name in bench.whole else True
            needs = name == "zip" and setting == "TMPDIR" and options
            wrong = (
                "" if (code == 0 and good) or (needs and code == 1) else f"{name} {setting}: {code}, {said}"
            )
            row.add(code, *noise(said), wrong, *bench.damaged(), *bench.littered())
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
        row.add(code, *noise(said), *bench.judged(name))
    return row


def changed_scenes(bench: Bench, count: int, rng: random.Random) -> Row:
    """The scene is replaced, overwritten, truncated or removed: whole products of what it was, or none."""
    row, scene = Row("scene replaced, overwritten, truncated or removed during the run"), bench.scenes[0]
    content, status = scene.read_bytes(), scene.stat()
    other = bench.scene("other.tif", 0.5).read_bytes()
    for _ in range(count):
        bench.reset()
        child = bench.start(bench.calls["brightness"])
        time.sleep(rng.random() * bench.seconds["brightness"])
        how = rng.choice(("replace", "overwrite", "truncate", "remove"))
        if how == "replace":
            (bench.root / "new").write_bytes(other)
            (bench.root / "new").replace(scene)
        elif how == "remove":
            scene.unlink()
        else:
            scene.write_bytes(other if how == "overwrite" else content[: len(content) // 2])
        code, said = bench.wait(child)
        made = {k: v for k, v in bench.content().items() if k.startswith("s0_")}
        same = {k: v for k, v in bench.whole["brightness"].items() if k.startswith("s0_")}
        of_other = code == 0 and made != same
        if how in ("replace", "overwrite") and of_other:  # it was read after the change: all of the new one
            bench.reset()
            bench.run(bench.calls["brightness"])
            of_other = {k: v for k, v in bench.content().items() if k.startswith("s0_")} != made
        wrong = [f"{how}: mixed products"] if of_other else []
        wrong += [f"exit code {code}"] if code not in (0, 1, 3) else []
        row.add(code, *wrong, *noise(said), *bench.damaged(), *bench.littered())
        scene.write_bytes(content)
        os.utime(scene, ns=(status.st_atime_ns, status.st_mtime_ns))
    return row


def moved_clocks(bench: Bench, rng: random.Random) -> Row:
    """A run with a clock years away, killed, is continued by one with the right clock, and the other way."""
    row = Row("clock 10 years back or ahead, runs killed before and after")
    program = shutil.which("faketime")
    if program is None:
        return row
    for name in ("brightness", "classify"):
        for offset in ("-10y", "+10y"):
            for first in ("wrong", "right"):
                bench.reset()
                child = bench.start(bench.calls[name])
                time.sleep(rng.random() * bench.seconds[name])
                os.kill(child, signal.SIGKILL)
                bench.wait(child)
                clock = {"LD_PRELOAD": _faketime(program), "FAKETIME": offset, "DONT_FAKE_MONOTONIC": "1"}
                order = [clock, {}] if first == "wrong" else [{}, clock]
                codes = [bench.program(bench.calls[name], **settings) for settings in order]
                wrong = [f"{name} {offset}: {code}, {said}" for code, said in codes if code]
                row.add(max(code for code, _ in codes), *wrong, *bench.judged(name))
    return row


def _faketime(program: str) -> str:
    return str(next(Path(program).parents[1].glob("lib/*/faketime/libfaketime.so.1")))


def memory_limits(bench: Bench, sizes: list[int]) -> Row:
    row = Row("memory limit (RLIMIT_AS) on every command that opens a scene")
    town, out = str(SAMPLES / "town.tif"), str(bench.out)
    labels = ["--labels", str(SAMPLES / "town_labels.gpkg")]
    calls = {
        **bench.calls,
        "info": ["info", town],
        "irradiance-map": ["irradiance-map", town, "-m", "town", "-o", out],
        "train": ["train", town, *labels, "--model", "lda", "-o", f"{out}.p3vae"],
    }
    for name, call in calls.items():
        for size in sizes:
            bench.reset()
            limit = _address_space() + size * 2**20
            code, said = bench.run(
                call, lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            )
            bad = code < 0 or "Traceback" in said
            wrong = f"{name} with {size} MB more: exit {code}, {said[-300:]}" if bad else ""
            again = bench.judged(name) if name in bench.whole else [*bench.damaged(), *bench.littered()]
            row.add(code, wrong, *again)
            Path(f"{out}.p3vae").unlink(missing_ok=True)
    return row


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", help="names of rows")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/faults.md")
    options = parser.parse_args()
    few = max(2, options.kills // 15)
    warm_up()
    with tempfile.TemporaryDirectory() as folder:
        bench, rows = Bench(Path(folder), scenes=2), dict[str, list[Row]]()
        for name, make in _rows(bench, options.kills, few).items():
            if not options.only or name in options.only:
                bench.reset()
                made = make(random.Random(f"{options.seed}-{name}"))
                rows[name] = made if isinstance(made, list) else [made]
                _finish(rows, options)
    print(_report(_finish(rows, options), options))


def _rows(bench: Bench, kills: int, few: int) -> dict[str, Callable[[random.Random], Row | list[Row]]]:
    return {
        "kills": lambda rng: kills_at_random(bench, kills, rng),
        "moves": lambda rng: kills_at_moves(bench),
        "signals": lambda rng: signals(bench, 3 * few, rng),
        "disk": lambda rng: full_disks(bench, few),
        "read-only": lambda rng: read_only(bench),
        "temporary": lambda rng: temporary_folders(bench),
        "together": lambda rng: together(bench, few),
        "removed": lambda rng: removed_folder(bench, few, rng),
        "changed": lambda rng: changed_scenes(bench, 2 * few, rng),
        "clock": lambda rng: moved_clocks(bench, rng),
        "memory": lambda rng: memory_limits(bench, [8, 32, 128, 512]),
        "dask": lambda rng: lost_workers(bench, max(1, few // 4), rng),
        "rasterio": lambda rng: [
            rasterio_kills(bench, 3 * few, rng),
            rasterio_full_disks(bench, few),
        ],
    }


def _finish(rows: dict[str, list[Row]], options: argparse.Namespace) -> dict[str, list[dict]]:
    """All rows as JSON, those of an earlier table in their place; written as they come."""
    path = RESULTS / "faults.json"
    before = json.loads(path.read_text()) if options.only and path.exists() else {}
    made = {name: [vars(row) for row in given] for name, given in rows.items()}
    document = {**before, **made}
    if options.write:
        path.write_text(json.dumps(document, indent=1) + "\n")
        (RESULTS / "faults.md").write_text(_report(document, options))
    return document


def _report(document: dict[str, list[dict]], options: argparse.Namespace) -> str:
    lines = [
        "# Faults",
        "",
        f"`python -m benchmarks faults --kills {options.kills} --seed {options.seed} --write`",
        "",
        "`brightness --stac` of two scenes, `classify --stac` of the sample town and `invert-methane`",
        "`--method mf` of the sample swath; `brightness` of 60 scenes on Dask. Wrong is: a set that is",
        "neither whole nor absent, a next run that does not complete, products that differ in a byte from",
        "those of an undisturbed run, files left, more than one line, or a crash.",
        "",
        "| Fault | cases | wrong | exit codes |",
        "|---|---|---|---|",
    ]
    for row in (row for rows in document.values() for row in rows):
        codes = ", ".join(f"{count} x {code}" for code, count in sorted(row["codes"].items(), key=str))
        lines.append(f"| {row['fault']} | {row['cases']} | {len(row['wrong'])} | {codes} |")
    return "\n".join(
        [
            *lines,
            "",
            "The script with rasterio writes the mean of a GeoTIFF straight to its final name, as a COG.",
            "Wrong there is a file under its final name that does not hold all pixels.",
            "",
        ]
    )


if __name__ == "__main__":
    main()
