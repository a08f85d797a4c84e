"""Archives: python -m benchmarks archive [--only rates processes dask] [--folder DIR].

rates: pixels and values per second of one core, and memory, of every mapping command.
processes: scenes per hour of one process, of a call per scene, and of `-j 2`.
dask: 300 scenes on a Dask cluster of separate processes, one worker killed, one scene that kills its worker.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import rasterio

from benchmarks.measuring import PROGRAM, Call, call, load, peak_mb
from benchmarks.reporting import RESULTS, write
from p3vae.cli.rasters.grids import whole
from p3vae.cli.scenes.opening import open_scene

TOWN = Path(__file__).parents[1] / "sample_data" / "town.tif"
SCENES, POISONED = 300, 150
POISON = """
import os, signal
from p3vae.cli.run import mapping
opened = mapping.open_scene
def open_scene(path, options):
    if path.name == "s150.tif":
        os.kill(os.getpid(), signal.SIGKILL)
    return opened(path, options)
def dask_setup(worker):
    mapping.open_scene = open_scene
"""
Result = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", default=["rates", "processes", "dask"])
    parser.add_argument("--folder", type=Path, help="where scenes are made and deleted")
    options = parser.parse_args()
    parts: dict[str, Callable[[Path], Result]] = {"rates": rates, "processes": processes, "dask": dask}
    path = RESULTS / "archive.json"
    result: Result = json.loads(path.read_text()) if path.exists() else {}
    for name in options.only:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            result[name] = parts[name](Path(folder)) | {"load": load()}
        result.pop("command", None)
        write("archive", result, _table(result))


def rates(folder: Path) -> Result:
    """CPU time of a large scene less that of a small one: without what a call costs anyway."""
    bands = np.linspace(410.0, 2440.0, 230)
    pairs = {
        "reflectance": [_reflectance(folder / f"r{side}.tif", side, bands) for side in (100, 800)],
        "radiance": [_radiance(folder / f"l{side}.he5", side) for side in (100, 400)],
    }
    found = {}
    for name, kind, words in (
        ("brightness", "reflectance", ["brightness"]),
        ("classify, town", "reflectance", ["classify", "-m", "town"]),
        ("classify, earth", "reflectance", ["classify"]),
        ("irradiance-map", "reflectance", ["irradiance-map", "-m", "town"]),
        ("invert-methane, mf", "radiance", ["invert-methane", "--method", "mf"]),
        ("invert-methane", "radiance", ["invert-methane"]),
    ):
        small, large = (_timed(words, scene, folder / "out") for scene in pairs[kind])
        with open_scene(pairs[kind][1]) as scene:
            pixels, count = scene.grid.width * scene.grid.height, len(scene.bands)
        with open_scene(pairs[kind][0]) as scene:
            more = pixels - scene.grid.width * scene.grid.height
        per_s = more / max(large.cpu_s - small.cpu_s, 1e-9)
        found[name] = {
            "pixels_per_core_s": round(per_s),
            "bands": count,
            "values_per_core_s": round(per_s * count),
            "start_cpu_s": round(max(small.cpu_s - (pixels - more) / per_s, 0.0), 2),
            "largest_mb": round(large.largest_mb),
        }
        print(name, found[name], flush=True)
    return found


def _timed(words: list[str], scene: Path, out: Path) -> Call:
    done = call(words[0], scene, *words[1:], "-o", out, "-q", "--overwrite", *_sun(scene))
    assert done.code == 0, done.said
    return done


def _sun(scene: Path) -> list[str]:
    return ["--sun-zenith", "43"] if scene.suffix == ".tif" else []


def _reflectance(path: Path, side: int, bands: np.ndarray) -> Path:
    """The sample town in other bands, side by side, as counts of 1e-4."""
    with open_scene(TOWN) as scene:
        spectra, centres = scene.read(whole(scene.grid)).values, scene.bands.wavelength_nm
        spectra, centres = spectra[..., scene.bands.good], centres[scene.bands.good]
    fine = np.empty((*spectra.shape[:2], len(bands)), np.float32)
    for place in np.ndindex(spectra.shape[:2]):
        fine[place] = np.interp(bands, centres, spectra[place])
    times = -(-side // fine.shape[0])
    counts = np.tile(np.round(fine * 1e4).astype(np.uint16), (times, times, 1))[:side, :side]
    place = {"crs": "EPSG:32631", "transform": rasterio.Affine(1, 0, 373000, 0, -1, 4830000)}
    shape = {"width": side, "height": side, "count": len(bands), "dtype": "uint16", "tiled": True}
    with rasterio.open(path, "w", driver="GTiff", interleave="band", **shape, **place) as raster:
        raster.write(np.moveaxis(counts, -1, 0))
        raster.scales = [1e-4] * len(bands)
        for band, centre in enumerate(bands, start=1):
            raster.update_tags(band, wavelength=str(centre), wavelength_units="nm")
    return path


def _radiance(path: Path, side: int) -> Path:
    made = call("simulate", "-o", path, "--layout", "prisma-l1", "--size", f"{side}x{side}")
    assert made.code == 0, made.said
    return path


def _archive(folder: Path, count: int, side: int) -> list[Path]:
    """Equal scenes under many names."""
    first = _reflectance(folder / "s0.tif", side, np.linspace(410.0, 2440.0, 60))
    more = [folder / f"s{number}.tif" for number in range(1, count)]
    for path in more:
        os.link(first, path)
    return [first, *more]


def processes(folder: Path) -> Result:
    """`classify` of scenes of 64 x 64 pixels and 60 bands, and of few of 1200 x 1200."""
    scenes = _archive(folder, 100, 64)
    words = ["classify", "-m", "town", "--sun-zenith", "43", "-q", "-o"]
    one = call(*words, folder / "one", *scenes)
    loop = [call(*words, folder / f"loop{number}", scene) for number, scene in enumerate(scenes[:5])]
    again = call(*words, folder / "one", *scenes)
    (folder / "large").mkdir()
    large = _archive(folder / "large", 4, 1200)
    jobs = {jobs: call(*words, folder / f"j{jobs}", *large, "-j", jobs) for jobs in (1, 2)}
    assert not any(done.code for done in (one, again, *loop, *jobs.values()))
    return {
        "one process, 100 scenes": _numbers(one, len(scenes)),
        "a call per scene, 5 measured": _numbers(_sum(loop), len(loop)),
        "again, all skipped": _numbers(again, len(scenes)),
        "4 scenes of 1200 x 1200, -j 1": _numbers(jobs[1], len(large)),
        "4 scenes of 1200 x 1200, -j 2": _numbers(jobs[2], len(large)),
    }


def _sum(calls: list[Call]) -> Call:
    wall, cpu = sum(one.wall_s for one in calls), sum(one.cpu_s for one in calls)
    return Call(0, "", wall, cpu, max(one.largest_mb for one in calls))


def _numbers(done: Call, scenes: int) -> Result:
    return {
        "wall_s": round(done.wall_s, 1),
        "cpu_s": round(done.cpu_s, 1),
        "cpu_s_per_scene": round(done.cpu_s / scenes, 3),
        "scenes_per_core_hour": round(3600 * scenes / done.cpu_s),
        "largest_mb": round(done.largest_mb),
    }


def dask(folder: Path) -> Result:
    """Faults first; then the same scenes but one, undisturbed, against `-j 2`."""
    scenes = _archive(folder, SCENES, 64)
    words = ["classify", "-m", "town", "--sun-zenith", "43", "-o"]
    with _cluster(folder, poisoned=True) as (address, workers):
        command = [str(PROGRAM), *words, str(folder / "faults"), *map(str, scenes)]
        command += ["--scheduler", address, "--json", "-q"]
        with (folder / "lines").open("w") as lines:
            run = subprocess.Popen(command, stdout=lines, stderr=subprocess.PIPE, text=True)
            while len(list((folder / "faults").glob("*_p3vae.json"))) < SCENES // 5 and run.poll() is None:
                time.sleep(0.05)
            os.killpg(workers[0].pid, signal.SIGKILL)
            said = run.communicate()[1]
    records = [json.loads(line) for line in (folder / "lines").read_text().splitlines()]
    failed = [record for record in records if record["status"] == "failed"]
    good = [scene for scene in scenes if scene.name != f"s{POISONED}.tif"]
    with _cluster(folder, poisoned=False) as (address, workers):
        started, before = time.monotonic(), sum(_cpu(worker.pid) for worker in workers)
        cluster = call(*words, folder / "cluster", *good, "--scheduler", address, "-q")
        of_workers = sum(_cpu(worker.pid) for worker in workers) - before
        wall, memory = time.monotonic() - started, max(peak_mb(worker.pid) for worker in workers)
    jobs = call(*words, folder / "jobs", *good, "-j", 2, "-q")
    assert cluster.code == jobs.code == 0, cluster.said + jobs.said
    return {
        "with faults": {
            "exit_code": run.returncode,
            "done": sum(record["status"] in ("done", "skipped") for record in records),
            "failed": [record["error"].replace(f"{folder}/", "") for record in failed],
            "lines": len(said.strip().splitlines()),
        },
        "undisturbed, 2 workers": {
            "wall_s": round(wall, 1),
            "cpu_s": round(cluster.cpu_s + of_workers, 1),
            "cpu_s_of_client": round(cluster.cpu_s, 1),
            "largest_mb": round(memory),
        },
        "-j 2": {key: value for key, value in _numbers(jobs, len(good)).items() if "per" not in key},
    }


@contextmanager
def _cluster(folder: Path, *, poisoned: bool) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and two workers with one thread each, started anew by their nannies when they die."""
    preload, file = folder / "poison.py", folder / f"scheduler-{poisoned}.json"
    preload.write_text(POISON)
    with ExitStack() as parts:
        parts.enter_context(_part("scheduler", "--port", 0, "--host", "127.0.0.1", "--scheduler-file", file))
        while not file.exists():
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        more = ("--preload", preload) if poisoned else ("--no-nanny",)
        place = ("--nthreads", 1, "--local-directory", folder)
        workers = [parts.enter_context(_part("worker", address, *place, *more)) for _ in range(2)]
        yield address, workers


@contextmanager
def _part(*words: object) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        sys.executable,
        "-m",
        f"distributed.cli.dask_{words[0]}",
        *map(str, words[1:]),
        "--no-dashboard",
    ]
    quiet = subprocess.DEVNULL
    started = subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True)
    try:
        yield started
    finally:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


def _cpu(process: int) -> float:
    """CPU time of a process with its children that have ended [s]."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _table(result: Result) -> str:
    """One table per part."""
    blocks = []
    for name, part in result.items():
        rows = {key: value for key, value in part.items() if key != "load"}
        columns = list(dict.fromkeys(column for row in rows.values() for column in row))
        lines = [f"## {name}", "", f"Load of the machine (2 cores, used by others too): {part['load']}.", ""]
        lines += ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
        lines += [
            f"| {key} | " + " | ".join(str(row.get(c, "")) for c in columns) + " |"
            for key, row in rows.items()
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


if __name__ == "__main__":
    main()
