"""Draws `readme.png`: a town mapped by a random forest and by p3vae from the same polygons; a real scene.

    python docs/pictures/draw.py --data FOLDER

FOLDER holds the EnMAP scene of Potsdam (EnMAP data © DLR 2022) as `enmap_potsdam/enmap_potsdam_mosaic.tif`,
with labels and a split of them as `..._labels.tif` and `..._split.tif` (1 is for training).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import rasterio

import p3vae

HERE = Path(__file__).resolve().parent
SAMPLES = HERE.parents[1] / "sample_data"
RED_GREEN_BLUE_NM = (650.0, 550.0, 470.0)
TOWN = (slice(8, 104), slice(28, 124))
POTSDAM = (slice(66, 190), slice(36, 160))
"""Rows and columns that are drawn."""
IN_SHADOW = 0.5
"""Shaded share of a pixel from which its accuracy counts as one in shadow."""
CLASSES = {"roof": "#c81e1e", "pavement": "#8c8c8c", "low vegetation": "#a5d45b"}
CLASSES |= {"tree": "#1e6e28", "soil": "#b98b56", "water": "#2a6fd6"}


def natural_colours(scene: p3vae.Scene) -> np.ndarray:
    """(rows, columns, 3) in 0-1: the square root of reflectance, as eyes see it; white without data."""
    cube = p3vae.scene_to_xarray(scene).values
    numbers = [int(np.abs(scene.bands.wavelength_nm - nm).argmin()) for nm in RED_GREEN_BLUE_NM]
    colours = cube[..., numbers]
    darkest, brightest = np.nanpercentile(colours, (1, 98), axis=(0, 1))
    darkest = np.minimum(darkest, brightest / 10)
    return np.nan_to_num(np.sqrt(np.clip((colours - darkest) / (brightest - darkest), 0, 1)), nan=1.0)


def class_colours(values: np.ndarray, colours: dict[int, str]) -> np.ndarray:
    """(rows, columns, 3); white where there is no class."""
    image = np.ones((*values.shape, 3))
    for value, colour in colours.items():
        image[values == value] = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    return image


def read(path: Path) -> np.ndarray:
    with rasterio.open(path) as source:
        return source.read(1)


def town_panels(folder: Path) -> list[tuple[str, np.ndarray]]:
    """The scene and its two maps, with their accuracy in shadow."""
    with rasterio.open(SAMPLES / "town_class.tif") as source:
        truth = source.read(1)
        colours = {value: "#{:02x}{:02x}{:02x}".format(*c[:3]) for value, c in source.colormap(1).items()}
    shade = read(SAMPLES / "town_shadow.tif") > IN_SHADOW
    labels = SAMPLES / "town_labels.gpkg"
    with p3vae.open_scene(SAMPLES / "town.tif") as scene:
        panels = [("a simulated town", natural_colours(scene))]
        for name in ("random-forest", "p3vae"):
            model = p3vae.train(SAMPLES / "town.tif", labels, folder / f"{name}.p3vae", model=name)
            found = p3vae.classify(scene, model)["landcover"]
            right = 100 * np.mean((found == truth)[shade])
            label = f"{name.replace('-', ' ')}: {right:.0f} % right in shadow"
            panels.append((label, class_colours(found, colours)))
    return [(title, image[TOWN]) for title, image in panels]


def potsdam_panels(data: Path, folder: Path) -> list[tuple[str, np.ndarray]]:
    """The EnMAP scene, and the map of p3vae from the training part of its labels."""
    start = data / "enmap_potsdam"
    with rasterio.open(start / "enmap_potsdam_labels.tif") as source:
        values, profile = source.read(1), source.profile
    values[read(start / "enmap_potsdam_split.tif") != 1] = 0
    with rasterio.open(folder / "labels.tif", "w", **profile) as made:
        made.write(values, 1)
    path = start / "enmap_potsdam_mosaic.tif"
    options = p3vae.SceneSettings(scale=1e-4)
    model = p3vae.train(
        path,
        folder / "labels.tif",
        folder / "potsdam.p3vae",
        class_names=list(CLASSES),
        scene_options=options,
    )
    with p3vae.open_scene(path, options) as scene:
        maps = p3vae.classify(scene, model)
        colours = {value: CLASSES[name] for value, name in maps.legend.items() if name in CLASSES}
        image = class_colours(maps["landcover"], colours)
        panels = [
            ("a real scene: EnMAP, Potsdam", natural_colours(scene)),
            ("its land cover by p3vae", image),
        ]
    return [(title, image[POTSDAM]) for title, image in panels]


def main(data: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        panels = [*town_panels(Path(folder)), *potsdam_panels(data, Path(folder))]
    plt.rcParams["image.interpolation"] = "none"
    figure, axes = plt.subplots(1, len(panels), figsize=(13.5, 3.15))
    figure.subplots_adjust(left=0.003, right=0.997, top=0.92, bottom=0.09, wspace=0.03)
    for axis, (title, image) in zip(axes, panels, strict=True):
        axis.imshow(image)
        axis.set_title(title, fontsize=10)
        axis.set_axis_off()
    credit = {"transform": axes[-1].transAxes, "fontsize": 7, "ha": "right", "va": "top"}
    axes[-1].text(1, -0.015, "EnMAP data © DLR 2022", **credit)
    for place, (name, colour) in enumerate(CLASSES.items()):
        at = {"transform": axes[-2].transAxes, "fontsize": 7, "va": "top"}
        across, down = 0.34 * (place % 3), -0.015 - 0.05 * (place // 3)
        axes[-2].text(across, down, "■", color=colour, **at)
        axes[-2].text(across + 0.06, down, name, **at)
    figure.savefig(HERE / "readme.png", dpi=90, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    main(parser.parse_args().data)
