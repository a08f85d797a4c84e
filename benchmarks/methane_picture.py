"""The picture of the manual: a scene of an independent gas, with plumes and without, beside the truth.

    python -m benchmarks methane_picture --data DIR

Colours are those of the style that `invert-methane` writes: transparent below two standard deviations of a
usual pixel, the same scale for every scene. The scene (seed 72) was used in development.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib as mpl
import numpy as np
import rasterio
from matplotlib.colors import ListedColormap

from benchmarks.methane_scenes import P3VAE
from benchmarks.protocols import add_data_option
from benchmarks.protocols import methane_scenes as protocol

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "methane.png"
STEPS = 256


def main() -> None:
    """Build two scenes, invert them, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_data_option(parser)
    parser.add_argument("--output", type=Path, default=PICTURE)
    options = parser.parse_args()
    protocol.PEAKS = {"medium": protocol.PEAKS["medium"]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        protocol.build(folder, P3VAE, "potsdam", 300, 72, options.data)
        scenes = sorted(folder.glob("*.he5"), reverse=True)  # none, then medium
        for method in ("p3vae", "mf-log"):
            asked = ["--method", method, "--no-quality-mask", "-o", folder / method, "-q"]
            subprocess.run([P3VAE, "invert-methane", *scenes, *asked], check=True)
        draw(folder, scenes, options.output)


def draw(folder: Path, scenes: list[Path], output: Path) -> None:
    """One row per scene: truth, p3VAE, matched filter."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(2, 3, figsize=(8.4, 5.6), layout="constrained", facecolor="white")
    for row, scene in zip(panels, scenes, strict=True):
        truth = np.load(folder / f"{scene.stem}_truth.npz")["truth"][:, ::-1]
        colours, top = ramp(folder / "p3vae" / f"{scene.stem}_methane.qml")
        maps = {"truth": truth}
        for method, title in (("p3vae", "p3vae"), ("mf-log", "matched filter")):
            with rasterio.open(folder / method / f"{scene.stem}_methane.tif") as source:
                maps[title] = np.ma.masked_equal(source.read(1), source.nodata)
        for panel, (title, values) in zip(row, maps.items(), strict=True):
            panel.set_facecolor("#e8e8e8")
            drawn = panel.imshow(values, cmap=colours, vmin=0.0, vmax=top, interpolation="nearest")
            panel.set(xticks=[], yticks=[])
            if scene == scenes[0]:
                panel.set_title(title)
        row[0].set_ylabel("without plume" if truth.max() == 0 else "with two plumes")
    figure.colorbar(drawn, ax=panels, shrink=0.7, label="methane enhancement [ppm m]")
    figure.savefig(output, dpi=85)


def ramp(style: Path) -> tuple[ListedColormap, float]:
    """Colours of a QGIS style from zero to its highest value."""
    items = [item.attrib for item in ET.parse(style).iter("item") if "alpha" in item.attrib]
    value = [float(item["value"]) for item in items]
    channels = [
        [int(item["color"][i : i + 2], 16) / 255 for i in (1, 3, 5)] + [int(item["alpha"]) / 255]
        for item in items
    ]
    at = np.linspace(0.0, value[-1], STEPS)
    colours = np.column_stack([np.interp(at, value, part) for part in np.array(channels).T])
    return ListedColormap(colours), value[-1]


if __name__ == "__main__":
    main()
