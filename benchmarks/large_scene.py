"""Very large files: python -m benchmarks large_scene [--gigabytes 10] [--folder /tmp].

An ENVI file of float32 reflectance in 400 bands is made of the sample town, classified, and deleted.
A sparse TIFF of 1e6 x 1e6 pixels and 300 bands is described by `info`.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import rasterio

from benchmarks.measuring import call, load
from benchmarks.reporting import write
from p3vae.cli.rasters.grids import whole
from p3vae.cli.scenes.opening import open_scene

TOWN = Path(__file__).parents[1] / "sample_data" / "town.tif"
BANDS = np.linspace(410.0, 2440.0, 400)
SAMPLES = 144 * 17


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--folder", type=Path, help="where the files are made and deleted")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        large = _envi(folder / "large.img", options.gigabytes)
        size, pixels = large.stat().st_size, large.stat().st_size // (4 * len(BANDS))
        mapped = call(
            "classify",
            large,
            "-m",
            "town",
            "--sun-zenith",
            43,
            "-o",
            folder / "out",
            "--mem-limit",
            "900MB",
            "-q",
        )
        assert mapped.code == 0, mapped.said
        checked = call("verify", folder / "out", "-q")
        large.unlink()
        sparse = _sparse(folder / "sparse.tif")
        inspected = call("info", sparse)
        assert inspected.code == 0, inspected.said
    result = {
        "classify": {
            "bytes": size,
            "pixels": pixels,
            "bands": len(BANDS),
            "wall_s": round(mapped.wall_s, 1),
            "cpu_s": round(mapped.cpu_s, 1),
            "largest_mb": round(mapped.largest_mb),
            "verified": checked.code == 0,
        },
        "info_sparse": {
            "wall_s": round(inspected.wall_s, 2),
            "cpu_s": round(inspected.cpu_s, 2),
            "largest_mb": round(inspected.largest_mb),
        },
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "load": load(),
    }
    print(json.dumps(result))
    write("large_scene", result, _table(result))


def _envi(path: Path, gigabytes: float) -> Path:
    """Band-interleaved by line, written line by line."""
    with open_scene(TOWN) as scene:
        spectra = scene.read(whole(scene.grid)).values[..., scene.bands.good]
        centres = scene.bands.wavelength_nm[scene.bands.good]
    fine = np.empty((*spectra.shape[:2], len(BANDS)), np.float32)
    for place in np.ndindex(spectra.shape[:2]):
        fine[place] = np.interp(BANDS, centres, spectra[place])
    lines = np.ascontiguousarray(np.moveaxis(np.tile(fine, (1, SAMPLES // fine.shape[1], 1)), 2, 1))
    count = int(gigabytes * 1e9 / (4 * len(BANDS) * SAMPLES))
    with path.open("wb") as file:
        for line in range(count):
            lines[line % len(lines)].tofile(file)
    path.with_suffix(".hdr").write_text(
        f"ENVI\nsamples = {SAMPLES}\nlines = {count}\nbands = {len(BANDS)}\nheader offset = 0\n"
        f"data type = 4\ninterleave = bil\nbyte order = 0\nwavelength units = nm\n"
        f"wavelength = {{{', '.join(map(str, BANDS))}}}\n"
        "map info = {UTM, 1, 1, 373000, 4830000, 1, 1, 31, North, WGS-84}\n"
    )
    return path


def _sparse(path: Path) -> Path:
    side, wavelengths = 1_000_000, np.linspace(400, 2500, 300)
    shape = {"width": side, "height": side, "count": 300, "dtype": "uint16", "tiled": True}
    place = {"crs": "EPSG:32631", "transform": rasterio.Affine(1, 0, 0, 0, -1, 5e6)}
    layout = {"blockxsize": 512, "blockysize": 512, "bigtiff": "YES", "sparse_ok": True}
    with rasterio.open(path, "w", driver="GTiff", **shape, **place, **layout) as raster:
        for band, centre in enumerate(wavelengths, start=1):
            raster.update_tags(band, wavelength=str(centre), wavelength_units="nm")
    return path


def _table(result: dict) -> str:
    mapped, inspected = result["classify"], result["info_sparse"]
    return "\n".join(
        [
            f"One thread, load of the machine {result['load']} on {os.cpu_count()} cores.",
            "",
            "| Call | wall [s] | CPU [s] | largest resident size [MB] |",
            "|---|---|---|---|",
            f"| `classify` of {mapped['bytes'] / 1e9:.1f} GB ({mapped['pixels'] / 1e6:.1f}e6 pixels, "
            f"{mapped['bands']} bands, ENVI float32), `--mem-limit 900MB` "
            f"| {mapped['wall_s']} | {mapped['cpu_s']} | {mapped['largest_mb']} |",
            f"| `info` of a sparse TIFF, 1e6 x 1e6 pixels, 300 bands "
            f"| {inspected['wall_s']} | {inspected['cpu_s']} | {inspected['largest_mb']} |",
        ]
    )


if __name__ == "__main__":
    main()
