"""Whether two versions of the program make the same products: every raster, table and manifest compared.

    python -m benchmarks.same_products --before OLD/bin/p3vae --after NEW/bin/p3vae [--potsdam MOSAIC]

Rasters and tables are compared by their content: values, georeference, band names and tags, of which the
version and the command line may differ. Manifests are compared without version, times, command and hashes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import rasterio

ROOT = Path(__file__).resolve().parents[1]
TOWN = ROOT / "sample_data" / "town.tif"
FREE = {"P3VAE_VERSION", "P3VAE_COMMAND", "P3VAE_MODEL_SHA256"}
UNSTABLE = {
    "p3vae_version",
    "command",
    "time",
    "seconds",
    "modified",
    "modified_ns",
    "sha256",
    "size",
    "version",
}

SIMULATED = (
    ("simulate", "-o", "prisma_l1.he5", "--layout", "prisma-l1", "--size", "150x160", "--plume", "20000"),
    ("simulate", "-o", "prisma_l2d.he5", "--layout", "prisma-l2d", "--size", "80x90"),
    ("simulate", "-o", "envi.img", "--layout", "envi", "--size", "90x80"),
)
COMMANDS = (
    ("classify", TOWN, "-m", "town", "--probabilities", "--unknown", "--smooth", "2", "--polygons"),
    ("classify", TOWN, "--materials", "--fractions"),
    ("classify", "prisma_l2d.he5", "--grid", "utm"),
    ("classify", "envi.img", "-m", "town", "--no-neighbours", "--bbox", "{bbox}"),
    ("irradiance-map", TOWN, "-m", "town", "--relight"),
    ("invert-methane", "prisma_l1.he5", "--wind", "4", "--control"),
    ("invert-methane", "prisma_l1.he5", "--method", "mag1c", "--bad-bands", "1300-1450"),
    ("brightness", "envi.img", TOWN),
)
REAL = (
    ("classify", "{potsdam}", "--scale", "1e-4"),
    ("irradiance-map", "{potsdam}", "--scale", "1e-4"),
)


def make(program: Path, folder: Path, inputs: Path, potsdam: Path | None) -> None:
    """Run every command, its products in a folder of its own."""
    folder.mkdir()
    with rasterio.open(inputs / "envi.img") as scene:
        left, bottom, right, top = scene.bounds
    values = {
        "bbox": f"{left + 5},{bottom + 5},{(left + right) / 2},{top - 5}",
        "potsdam": str(potsdam),
    }
    for number, command in enumerate((*COMMANDS, *(REAL if potsdam else ()))):
        words = [str(word).format(**values) for word in command]
        words = [str(inputs / word) if (inputs / word).is_file() else word for word in words]
        subprocess.run([program, *words, "-o", folder / f"{number}", "-q"], check=True)


def content(path: Path) -> Any:
    """What is compared of a file."""
    if path.suffix == ".tif":
        with rasterio.open(path) as raster:
            tags = {k: v for k, v in raster.tags().items() if k not in FREE}
            return (
                raster.read().tobytes(),
                raster.profile["transform"],
                str(raster.crs),
                raster.descriptions,
                tags,
            )
    if path.suffix == ".gpkg":
        return geopandas.read_file(path).to_json()
    if path.name.endswith("_p3vae.json"):
        return stable(json.loads(path.read_text()))
    return path.read_bytes()


def stable(record: Any) -> Any:
    """A JSON value without what may differ between two runs."""
    if isinstance(record, dict):
        return {key: stable(value) for key, value in record.items() if key not in UNSTABLE}
    return [stable(value) for value in record] if isinstance(record, list) else record


def differences(before: Path, after: Path) -> Iterator[str]:
    """Files that one has and the other has not, or that differ."""
    names = {file.relative_to(root) for root in (before, after) for file in root.rglob("*") if file.is_file()}
    for name in sorted(names):
        if not ((before / name).is_file() and (after / name).is_file()):
            yield f"{name}: only {'before' if (before / name).is_file() else 'after'}"
            continue
        first, second = content(before / name), content(after / name)
        if first != second:
            yield f"{name}: {_where(first, second)}"


def _where(first: Any, second: Any) -> str:
    """The first place in which two contents differ."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in sorted({*first, *second}):
            if first.get(key) != second.get(key):
                return f"{key} > {_where(first.get(key), second.get(key))}"
    if isinstance(first, tuple) and first[0] != second[0]:
        one, other = (np.frombuffer(values[0], np.uint8) for values in (first, second))
        return f"{(one != other).mean():.2%} of the bytes" if one.shape == other.shape else "another shape"
    return f"{first!s:.80} | {second!s:.80}"


def main() -> None:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True)
    parser.add_argument("--after", type=Path, required=True)
    parser.add_argument("--potsdam", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        inputs = Path(root, "inputs")
        inputs.mkdir()
        for command in SIMULATED:
            subprocess.run([options.before, *command], check=True, cwd=inputs, stdout=subprocess.DEVNULL)
        for name in ("before", "after"):
            make(getattr(options, name).absolute(), Path(root, name), inputs, options.potsdam)
        found = list(differences(Path(root, "before"), Path(root, "after")))
        files = sum(file.is_file() for file in Path(root, "before").rglob("*"))
    print("\n".join(found) or f"{files} files are the same")


if __name__ == "__main__":
    main()
