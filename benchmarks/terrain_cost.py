"""What terrain costs: a large scene with and without an elevation model, in the same run.

    python -m benchmarks terrain_cost [--side 5000] [--folder /tmp]

Simulated mountains, mirrored side by side, 50 bands; elevations on the same grid.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import rasterio

from benchmarks.measuring import call, load
from benchmarks.reporting import write

SMALL, BANDS = 250, 50


def main() -> None:
    """Maps of light by two models, with and without."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", type=int, default=5000)
    parser.add_argument("--folder", type=Path, help="where the files are made and deleted")
    parser.add_argument("--models", default="town,earth")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        scene, dem = _large(folder, options.side)
        for model in options.models.split(","):
            for more in ((), ("--dem", dem)):
                words = (
                    "irradiance-map",
                    scene,
                    "-m",
                    model,
                    "-o",
                    folder / "out",
                    "--overwrite",
                    "-q",
                    *more,
                )
                took = call(*words)
                assert took.code == 0, took.said
                rows.append(
                    {
                        "model": model,
                        "dem": bool(more),
                        "cpu_s": round(took.cpu_s, 1),
                        "wall_s": round(took.wall_s, 1),
                        "largest_mb": round(took.largest_mb),
                    }
                )
                print(rows[-1], flush=True)
    write("terrain_cost", {"side": options.side, "rows": rows, "load": load()}, _table(options.side, rows))


def _large(folder: Path, side: int) -> tuple[Path, Path]:
    """A scene of `side` x `side` pixels, and its elevations."""
    made = call(
        *("simulate", "-o", folder / "m.tif", "--relief", "mountains", "--size", f"{SMALL}x{SMALL}"),
        *("--bands", BANDS, "--sun-zenith", 55, "--sun-azimuth", 150),
    )
    assert made.code == 0, made.said
    for small, large in (("m.tif", "scene.tif"), ("m_dem_truth.tif", "dem.tif")):
        with rasterio.open(folder / small) as source:
            block = source.read()
            profile = source.profile | {"width": side, "height": side, "blockxsize": 256, "blockysize": 256}
            profile |= {"compress": "none", "predictor": 1, "tiled": True}
            pair = np.concatenate([block, block[..., ::-1]], 2)
            square = np.concatenate([pair, pair[:, ::-1]], 1)
            with rasterio.open(folder / large, "w", **profile) as target:
                target.update_tags(**source.tags())
                target.scales = source.scales * (target.count // len(source.scales))
                for band in source.indexes:
                    target.update_tags(band, **source.tags(band))
                for row in range(0, side, 2 * SMALL):
                    height = min(2 * SMALL, side - row)
                    across = np.tile(square[:, :height], (1, 1, -(-side // (2 * SMALL))))[..., :side]
                    target.write(across, window=((row, row + height), (0, side)))
    return folder / "scene.tif", folder / "dem.tif"


def _table(side: int, rows: list[dict[str, Any]]) -> str:
    lines = [f"{side} x {side} pixels, {BANDS} bands, `irradiance-map`.", ""]
    lines += ["| model | elevations | CPU [s] | memory [MB] | CPU over without |", "|---|---|---|---|---|"]
    without = {row["model"]: row["cpu_s"] for row in rows if not row["dem"]}
    for row in rows:
        ratio = row["cpu_s"] / without[row["model"]]
        lines.append(
            f"| {row['model']} | {'yes' if row['dem'] else 'no'} | {row['cpu_s']} | {row['largest_mb']} "
            f"| {ratio:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
