"""How much the pipeline adds to reading, and how much memory it needs.

    python -m benchmarks pipeline_io

For a 1000 x 1000 x 230 cube of uint16 in each layout: time of the whole pipeline with the brightness
map (reading, scaling, masking, computing, writing a COG with style and manifest) divided by the time of
a bare read of the same file in the same windows, which keeps nothing. Both run with a warm file cache;
each is repeated and the best time counts. Then the peak memory of the pipeline, each time in a process
of its own, on this cube and on one with ten times as many pixels (sparse files).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import h5py
import numpy as np
import rasterio
from affine import Affine
from rasterio.windows import Window as RasterioWindow

from p3vae.cli.rasters.files import gdal_environment
from p3vae.cli.run.brightness import Brightness
from p3vae.cli.run.make import Target, make_products
from p3vae.cli.run.settings import OutputSettings
from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.scenes.tiling import Window, tile_pixels, tile_shape, windows
from p3vae.cli.simulate.layouts import Placement
from p3vae.cli.simulate.prisma import write_prisma_l2d

RESULTS = Path(__file__).parent / "results"
BANDS = 230
WAVELENGTHS = np.linspace(420.0, 2450.0, BANDS)
TRANSFORM = Affine(30.0, 0.0, 500_000.0, 0.0, -30.0, 4_800_000.0)
TILE = {"tiled": True, "blockxsize": 256, "blockysize": 256}
GEOTIFFS = {
    "GeoTIFF striped, BAND": {"interleave": "band"},
    "GeoTIFF striped, PIXEL": {"interleave": "pixel"},
    "GeoTIFF tiled 256, BAND": {**TILE, "interleave": "band"},
    "GeoTIFF tiled 256, PIXEL": {**TILE, "interleave": "pixel"},
    "GeoTIFF tiled 256, BAND, DEFLATE": {**TILE, "interleave": "band", "compress": "deflate", "zlevel": 1},
}
ENVI = {"ENVI BSQ": "bsq", "ENVI BIL": "bil", "ENVI BIP": "bip"}
PRISMA = "PRISMA L2D"
LAYOUTS = (*GEOTIFFS, *ENVI, PRISMA)
MEMORY_LAYOUTS = (
    "GeoTIFF striped, BAND",
    "GeoTIFF tiled 256, BAND",
    "GeoTIFF tiled 256, PIXEL",
    "ENVI BSQ",
    "ENVI BIP",
)


@dataclass(frozen=True)
class Timing:
    """Best times of one layout [s]; CPU times are sums over all threads."""

    layout: str
    bare_read_s: float
    bare_read_cpu_s: float
    pipeline_s: float
    pipeline_cpu_s: float

    @property
    def ratio(self) -> float:
        """Pipeline over bare read."""
        return self.pipeline_s / self.bare_read_s


def write_scene(folder: Path, layout: str, height: int, width: int, *, sparse: bool = False) -> Path:
    """Make one scene file; a sparse one holds zeros and takes no room on the disk."""
    if layout in GEOTIFFS:
        return _write_geotiff(folder, GEOTIFFS[layout], height, width, sparse=sparse)
    if layout in ENVI:
        return _write_envi(folder, ENVI[layout], height, width, sparse=sparse)
    return _write_prisma(folder, height, width)


def _line(row: int, width: int) -> np.ndarray:
    """(bands, width) counts with the entropy of a real scene: smooth spectra and noise of a few counts."""
    rng = np.random.default_rng(row)
    level = 1000.0 + 1500.0 * (1.0 + np.sin(np.arange(width) / 40.0 + row / 60.0))
    shape = 1.0 + 0.3 * np.sin(WAVELENGTHS / 200.0)
    noise = rng.integers(0, 16, (BANDS, width))
    return (shape[:, None] * level + noise).astype(np.uint16)


def _write_geotiff(folder: Path, layout: dict, height: int, width: int, *, sparse: bool) -> Path:
    path = folder / "scene.tif"
    profile = {"driver": "GTiff", "height": height, "width": width, "count": BANDS, "dtype": "uint16"}
    profile |= {"crs": "EPSG:32631", "transform": TRANSFORM, "bigtiff": "yes", "sparse_ok": sparse, **layout}
    with rasterio.open(path, "w", **profile) as raster:
        raster.update_tags(reflectance_scale_factor="10000")
        for band, centre in enumerate(WAVELENGTHS, start=1):
            raster.update_tags(band, wavelength=f"{centre:.3f}", wavelength_units="nm", fwhm="10.0")
        for row in range(0, 0 if sparse else height, 256):
            rows = min(256, height - row)
            block = np.stack([_line(row + line, width) for line in range(rows)], axis=1)
            raster.write(block, window=RasterioWindow(0, row, width, rows))
    return path


def _write_envi(folder: Path, interleave: str, height: int, width: int, *, sparse: bool) -> Path:
    path = folder / "scene.img"
    header = [
        "ENVI",
        f"samples = {width}",
        f"lines = {height}",
        f"bands = {BANDS}",
        "data type = 12",
        f"interleave = {interleave}",
        "byte order = 0",
        "header offset = 0",
        "reflectance scale factor = 10000",
        "wavelength units = Nanometers",
        "wavelength = {" + ", ".join(f"{centre:.3f}" for centre in WAVELENGTHS) + "}",
        "map info = {UTM, 1, 1, 500000, 4800000, 30, 30, 31, North, WGS-84, units=Meters}",
    ]
    path.with_suffix(".hdr").write_text("\n".join(header) + "\n")
    if sparse:
        with path.open("wb") as file:
            file.truncate(height * width * BANDS * 2)
        return path
    shape = {"bsq": (BANDS, height, width), "bil": (height, BANDS, width), "bip": (height, width, BANDS)}
    cube = np.memmap(path, np.uint16, "w+", shape=shape[interleave])
    for row in range(height):
        line = _line(row, width)
        if interleave == "bsq":
            cube[:, row] = line
        else:
            cube[row] = line if interleave == "bil" else line.T
    cube.flush()
    return path


def _write_prisma(folder: Path, height: int, width: int) -> Path:
    path = folder / "PRS_L2D_STD_20240601100000_20240601100004_0001.he5"
    placement = Placement(32631, TRANSFORM, datetime(2024, 6, 1, 10, tzinfo=UTC), 30.0, 150.0, 5.0)
    bands = 234
    spectrum = np.linspace(0.1, 0.5, bands, dtype=np.float32)
    brightness = np.linspace(0.5, 1.0, width, dtype=np.float32)
    cube = np.broadcast_to(spectrum * brightness[:, None], (height, width, bands))
    write_prisma_l2d(path, cube, placement)
    return path


def tiles(path: Path) -> list[Window]:
    """The windows that the pipeline reads."""
    with open_scene(path) as scene:
        height, width = scene.grid.height, scene.grid.width
        shape = tile_shape(height, width, scene.block_shape, tile_pixels(len(scene.bands)))
    return list(windows(Window(0, 0, height, width), shape))


def bare_read(path: Path, layout: str, parts: list[Window]) -> None:
    """Read every value once, in windows, and keep none."""
    if layout in GEOTIFFS:
        with gdal_environment(), rasterio.open(path) as raster:
            for window in parts:
                raster.read(window=RasterioWindow(window.col, window.row, window.cols, window.rows))
    elif layout in ENVI:
        for window in parts:
            axes = {"bsq": (1, 2), "bil": (0, 2), "bip": (0, 1)}[ENVI[layout]]
            size = [BANDS, BANDS, BANDS]
            full = parts[-1]
            size[axes[0]], size[axes[1]] = full.row + full.rows, full.col + full.cols
            cube = np.memmap(path, np.uint16, "r", shape=tuple(size))
            index = [slice(None)] * 3
            index[axes[0]], index[axes[1]] = window.slices
            np.array(cube[tuple(index)])
    else:
        with h5py.File(path) as file:
            fields = file["HDFEOS/SWATHS/PRS_L2D_HCO/Data Fields"]
            for window in parts:
                rows, cols = window.slices
                for name in fields:
                    fields[name][rows, :, cols]


def pipeline(path: Path, folder: Path) -> None:
    """The whole way from file to product."""
    with open_scene(path) as scene:
        make_products(scene, Brightness(scene), Target(folder, path.stem), OutputSettings(overwrite=True))


def best(action: Callable[[], None], repeats: int) -> tuple[float, float]:
    """Shortest of several wall times and CPU times [s]."""
    wall, cpu = [], []
    for _ in range(repeats):
        start, cpu_start = time.perf_counter(), time.process_time()
        action()
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - cpu_start)
    return min(wall), min(cpu)


def time_layout(layout: str, size: int, repeats: int) -> Timing:
    """Both times of one layout."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = write_scene(folder, layout, size, size)
        parts = tiles(path)
        bare_read(path, layout, parts)
        bare = best(lambda: bare_read(path, layout, parts), repeats)
        whole = best(lambda: pipeline(path, folder / "out"), repeats)
    return Timing(layout, *bare, *whole)


def peak_memory(layout: str, height: int, width: int) -> float:
    """Peak resident memory of the pipeline in a new process [MB]."""
    with tempfile.TemporaryDirectory() as name:
        path = write_scene(Path(name), layout, height, width, sparse=True)
        command = [sys.executable, __file__, "--memory-of", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout)


def _report_own_peak(path: Path) -> None:
    pipeline(path, path.parent / "out")
    # Not getrusage: its peak is inherited from the process that started this one.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(int(status["VmHWM"].split()[0]) / 1024)


def _markdown(record: dict) -> str:
    lines = [
        "# Pipeline against bare reading",
        "",
        f"`{record['command']}` on {record['machine']}, {record['time']},",
        f"load average {record['load']:.1f} (above the number of cores, trust CPU times only).",
        "",
        f"Cube of {record['size']}² pixels, {BANDS} bands, uint16; best of {record['repeats']}.",
        "",
        "| Layout | bare read [s] | pipeline [s] | ratio | bare read, CPU [s] | pipeline, CPU [s] |",
        "|---|---:|---:|---:|---:|---:|",
        *(
            f"| {row['layout']} | {row['bare_read_s']:.2f} | {row['pipeline_s']:.2f} | {row['ratio']:.2f} "
            f"| {row['bare_read_cpu_s']:.2f} | {row['pipeline_cpu_s']:.2f} |"
            for row in record["timings"]
        ),
        "",
        "| Layout | peak memory [MB] | ten times the pixels [MB] |",
        "|---|---:|---:|",
        *(f"| {row['layout']} | {row['small_mb']:.0f} | {row['large_mb']:.0f} |" for row in record["memory"]),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run everything and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--layout", action="append", choices=LAYOUTS)
    parser.add_argument("--no-save", action="store_true")
    parser.add_argument("--memory-of", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory_of:
        _report_own_peak(arguments.memory_of)
        return
    timings, memory = [], []
    for layout in arguments.layout or LAYOUTS:
        timing = time_layout(layout, arguments.size, arguments.repeats)
        print(
            f"{layout}: {timing.bare_read_s:.2f} s, {timing.pipeline_s:.2f} s, {timing.ratio:.2f}", flush=True
        )
        timings.append({**timing.__dict__, "ratio": timing.ratio})
    for layout in arguments.layout or MEMORY_LAYOUTS:
        if layout in MEMORY_LAYOUTS:
            small = peak_memory(layout, arguments.size, arguments.size)
            large = peak_memory(layout, 5 * arguments.size, 2 * arguments.size)
            print(f"{layout}: {small:.0f} MB, {large:.0f} MB", flush=True)
            memory.append({"layout": layout, "small_mb": small, "large_mb": large})
    if arguments.no_save:
        return
    record = {
        "command": "python -m benchmarks pipeline_io",
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": os.getloadavg()[1],
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "size": arguments.size,
        "repeats": arguments.repeats,
        "timings": timings,
        "memory": memory,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "pipeline_io.json").write_text(json.dumps(record, indent=2) + "\n")
    (RESULTS / "pipeline_io.md").write_text(_markdown(record))


if __name__ == "__main__":
    main()
