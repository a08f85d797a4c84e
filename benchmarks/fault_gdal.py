"""The same faults on a plain script with rasterio: a mean over bands, written straight to its final name."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import numpy as np
import rasterio
import rasterio.shutil

from benchmarks.fault_bench import Bench, Row, small_disk

PROFILE = {"driver": "GTiff", "count": 1, "dtype": "float32", "tiled": True, "compress": "deflate"}


def write_mean(scene: Path, target: Path) -> None:
    """What such scripts do: a GeoTIFF, block by block, then a COG of it."""
    plain = target.with_suffix(".plain.tif")
    with rasterio.open(scene) as source:
        shape = {
            "width": source.width,
            "height": source.height,
            "crs": source.crs,
            "transform": source.transform,
        }
        with rasterio.open(plain, "w", **PROFILE, **shape, blockxsize=256, blockysize=256) as raster:
            for _, window in raster.block_windows(1):
                raster.write(source.read(window=window).mean(0, dtype=np.float32), 1, window=window)
    rasterio.shutil.copy(plain, target, driver="COG")
    plain.unlink()


def rasterio_kills(bench: Bench, count: int, rng: random.Random) -> Row:
    """Wrong is a product under its final name that is not whole, which a next run would take for done."""
    row = Row("SIGKILL at a random moment, rasterio script")
    scene, out = _scene(bench), bench.root / "plain"
    out.mkdir()
    started = time.monotonic()
    _child(scene, out / "whole.tif")
    seconds, whole = time.monotonic() - started, _values(out / "whole.tif")
    for number in range(count):
        target = out / f"{number}.tif"
        child = _start(scene, target)
        time.sleep(rng.random() * seconds)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        broken = target.exists() and not _equal(target, whole)
        row.add(os.waitstatus_to_exitcode(status), "broken product" if broken else "")
    return row


def rasterio_full_disks(bench: Bench, count: int) -> Row:
    """Wrong is exit code 0, or a product that is not whole."""
    row = Row("disk full, of many sizes, rasterio script")
    scene, out = _scene(bench), bench.root / "small"
    _child(scene, bench.root / "w.tif")
    whole = _values(bench.root / "w.tif")
    for number in range(count):
        with small_disk(out, f"size={60_000 + number * 12_000_000 // count}") as mounted:
            if not mounted:
                return row
            code = _child(scene, out / "a.tif")
            broken = (out / "a.tif").exists() and not _equal(out / "a.tif", whole)
            row.add(code, "broken product" if broken else "", "exit code 0" if broken and code == 0 else "")
    return row


def _scene(bench: Bench) -> Path:
    """Large enough for a kill to hit the writing."""
    path = bench.root / "noise.tif"
    if not path.exists():
        values = np.random.default_rng(1).random((4, 1024, 1024), dtype=np.float32)
        shape = {
            "width": 1024,
            "height": 1024,
            "crs": "EPSG:32631",
            "transform": rasterio.Affine(30, 0, 5e5, 0, -30, 5e6),
        }
        with rasterio.open(path, "w", **{**PROFILE, "count": 4}, **shape) as raster:
            raster.write(values)
    return path


def _start(scene: Path, target: Path) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            write_mean(scene, target)
            code = 0
        finally:
            os._exit(code)
    return child


def _child(scene: Path, target: Path) -> int:
    _, status = os.waitpid(_start(scene, target), 0)
    return os.waitstatus_to_exitcode(status)


def _values(path: Path) -> np.ndarray:
    with rasterio.open(path) as raster:
        return raster.read(1)


def _equal(path: Path, whole: np.ndarray) -> bool:
    try:
        return np.array_equal(_values(path), whole)
    except rasterio.errors.RasterioError:
        return False
