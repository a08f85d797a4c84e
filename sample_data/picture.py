"""Draws `town_maps.png`, the picture of the README.

p3vae classify sample_data/town.tif -o demo --overwrite
p3vae irradiance-map sample_data/town.tif --relight -o demo --overwrite
python sample_data/picture.py demo
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import rasterio

from p3vae import open_scene

HERE = Path(__file__).resolve().parent
RED_GREEN_BLUE_NM = (650.0, 550.0, 470.0)
BRIGHTEST = 0.35
"""Reflectance drawn as white; square roots are drawn, as eyes see it."""


def natural_colours(path: Path) -> np.ndarray:
    """(rows, columns, 3) in 0-1."""
    with open_scene(path) as scene:
        wavelength = scene.bands.wavelength_nm
    numbers = [int(np.abs(wavelength - nm).argmin()) + 1 for nm in RED_GREEN_BLUE_NM]
    with rasterio.open(path) as raster:
        reflectance = raster.read(numbers).transpose(1, 2, 0) * raster.scales[0]
    return np.sqrt(np.clip(reflectance / BRIGHTEST, 0, 1))


def main(maps: Path) -> None:
    """Scene, relit scene, land cover and irradiance side by side."""
    titles = ("the scene", "relit: flat and sunlit", "land cover", "irradiance δ·cosΘ")
    plt.rcParams["image.interpolation"] = "none"
    figure, axes = plt.subplots(1, 4, figsize=(11, 2.8), layout="constrained")
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title)
        axis.set_axis_off()
    axes[0].imshow(natural_colours(HERE / "town.tif"))
    axes[1].imshow(natural_colours(maps / "town_relit.tif"))
    with rasterio.open(maps / "town_landcover.tif") as raster:
        palette = np.array(list(raster.colormap(1).values()), np.uint8)
        axes[2].imshow(palette[raster.read(1)])
    with rasterio.open(maps / "town_irradiance.tif") as raster:
        image = axes[3].imshow(raster.read(1), cmap="inferno", vmin=0, vmax=1)
    figure.colorbar(image, ax=axes[3], shrink=0.8)
    figure.savefig(HERE / "town_maps.png", dpi=100, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
