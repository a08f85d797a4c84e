"""The land-cover benchmarks: labelled spectra to learn from, and tests that say how well it was done.

Each task is drawn from a seed. Choose settings on seeds below 5; report on the others.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import rasterio
from pvlib.solarposition import get_solarposition
from rasterio.warp import transform

from benchmarks.protocols import real
from p3vae.cli.landcover.irradiance import scene_irradiance
from p3vae.cli.landcover.settings import LightSettings
from p3vae.cli.landcover.train import gather
from p3vae.cli.landcover.train_settings import TrainSettings
from p3vae.cli.run.fitness import fit_bands
from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.scenes.tiling import Window
from p3vae.models.landcover.model import LandCoverModel
from p3vae.models.landcover.types import (
    ClassLegend,
    Prediction,
    Surroundings,
    TrainingSet,
)
from p3vae.paper.reproduce import toulouse, townscape
from p3vae.physics.illumination import SpectralIrradiance, clear_sky_irradiance
from p3vae.physics.spectral_response import Bands

Array = np.ndarray[Any, Any]

P3VAE = str(Path(sys.executable).with_name("p3vae"))
POTSDAM = ("roof", "pavement", "low vegetation", "tree", "soil", "water")
IN_SHADOW = 0.9
"""Shaded fraction of a pixel from which on it counts as shadow."""
_UNLABELLED = 20_000


@dataclass(frozen=True, eq=False)
class Test:
    """Spectra whose class is known."""

    spectra: Array
    truth: Array
    """Index of the class."""
    irradiance: SpectralIrradiance
    z: Array | None = None
    """True δ·cosΘ, where it is known [1]."""
    image: Array | None = None
    """The scene that the spectra lie in, (rows, cols, bands), NaN for nodata; None for loose spectra."""
    mask: Array | None = None
    """Where they lie in it, (rows, cols)."""

    def predicted(self, model: LandCoverModel) -> Prediction:
        """What a map shows of the spectra, with probabilities; by neighbours too where the model says so."""
        if self.image is None or self.mask is None:
            return model.predict(self.spectra, self.irradiance, want_probabilities=True)
        found = model.predict_image(self.image, self.irradiance, want_probabilities=True)
        kept = self.mask.ravel()
        return replace(found, **{name: v[kept] for name, v in vars(found).items() if v is not None})


@dataclass(frozen=True, eq=False)
class Task:
    """What to learn from, and the tests."""

    data: TrainingSet
    bands: Bands
    irradiance: SpectralIrradiance
    legend: ClassLegend
    tests: dict[str, Test]


def legend(names: tuple[str, ...]) -> ClassLegend:
    """A legend with ids from 1."""
    ids = tuple(range(1, len(names) + 1))
    return ClassLegend(ids, names, tuple((40 * i % 256, 90, 160) for i in ids))


def real_scene(name: str, data: Path, seed: int) -> Task:
    """A real scene with spatially disjoint labels (`protocols/real.py`)."""
    scene = _real(name, data)
    train, test = real.split(scene, seed)
    kept = np.unique(train[train > 0])
    good = np.isfinite(scene["x"]).all(2)
    known, tested, rest = (train > 0) & good, (test > 0) & good, (train == 0) & good
    bands = Bands.from_centres(scene["wavelength_nm"])
    light = clear_sky_irradiance(bands, scene["sun_zenith_deg"])
    rng = np.random.default_rng(seed)
    pool = rng.permutation(np.flatnonzero(rest))[:_UNLABELLED]
    drawn = TrainingSet(
        scene["x"][known],
        np.searchsorted(kept, train[known]),
        scene["group"][known].astype(np.int64),
        scene["x"].reshape(-1, len(bands))[pool],
        around=_surroundings(scene["x"], good, known),
    )
    found = Test(
        scene["x"][tested], np.searchsorted(kept, test[tested]), light, image=scene["x"], mask=tested
    )
    names = tuple(scene["name"][c - 1] for c in kept)
    return Task(drawn, bands, light, legend(names), {"test": found})


def _surroundings(image: Array, good: Array, known: Array) -> Surroundings:
    """The 3 × 3 pixels about the labelled ones."""
    row, col = (np.argwhere(known)[:, None] + np.indices((3, 3)).reshape(2, 9).T - 1).transpose(2, 0, 1)
    inside = (row >= 0) & (row < good.shape[0]) & (col >= 0) & (col < good.shape[1])
    place = np.where(inside, row.clip(0, good.shape[0] - 1) * good.shape[1] + col, -1)
    place[inside & ~good.ravel()[place]] = -1
    used, index = np.unique(place, return_inverse=True)
    spectra = image.reshape(-1, image.shape[2])[used[used >= 0]].astype(np.float32)
    return Surroundings(spectra, index.reshape(place.shape) - int(used[0] < 0))


@cache
def _real(name: str, data: Path) -> dict[str, Any]:
    return real.load(name, data)


def potsdam(data: Path, work: Path, seed: int) -> Task:
    """EnMAP Potsdam with its own split, read as the command line does; the seed draws unlabelled pixels."""
    folder = data / "enmap_potsdam"
    path = folder / "enmap_potsdam_mosaic.tif"
    labels, split = (_read(folder / f"enmap_potsdam_{part}.tif").astype(int) for part in ("labels", "split"))
    with rasterio.open(path) as raster:
        profile = raster.profile | {"count": 1, "dtype": "uint8", "nodata": 0}
    zenith = sun_zenith(path)
    training = work / "potsdam_training.tif"
    with rasterio.open(training, "w", **profile) as raster:
        raster.write(np.where(split == 1, labels, 0).astype(np.uint8), 1)
    options = SceneSettings(scale=1e-4, sun_zenith_deg=zenith)
    drawn, bands, light, classes = _gathered(path, training, POTSDAM, options, seed)
    spectra, light = _whole(path, bands, options)
    tested = (labels > 0) & (split == 3) & np.isfinite(spectra).all(2)
    test = Test(
        spectra[tested], np.searchsorted(classes.ids, labels[tested]), light, image=spectra, mask=tested
    )
    return Task(drawn, bands, light, classes, {"test": test})


def sun_zenith(path: Path) -> float:
    """Of the middle of a raster at its `start_time` [degree]."""
    with rasterio.open(path) as raster:
        moment = pd.DatetimeIndex([raster.tags()["start_time"]], tz="UTC")
        x, y = raster.xy(raster.height // 2, raster.width // 2)
        longitude, latitude = transform(raster.crs, "EPSG:4326", [x], [y])
    return float(get_solarposition(moment, latitude[0], longitude[0])["zenith"].iloc[0])


def _gathered(
    path: Path, labels: Path, names: tuple[str, ...], options: SceneSettings, seed: int
) -> tuple[TrainingSet, Bands, SpectralIrradiance, ClassLegend]:
    """What `p3vae train` learns from."""
    asked = TrainSettings((path,), labels, output=Path("unused"), seed=seed, class_names=names)
    return gather(asked, options)


def _whole(path: Path, bands: Bands, options: SceneSettings) -> tuple[Array, SpectralIrradiance]:
    """All spectra of a scene at these bands, (rows, cols, bands), NaN for nodata, and its irradiance."""
    with open_scene(path, options) as scene:
        tile = scene.read(Window(0, 0, scene.grid.height, scene.grid.width))
        spectra = fit_bands(scene, bands, "task")(tile.values.reshape(-1, tile.values.shape[-1]))
        spectra = spectra.reshape(*tile.valid.shape, len(bands)).copy()
        spectra[~tile.valid] = np.nan
        return spectra, scene_irradiance(scene, bands, LightSettings())


def _read(path: Path) -> Array:
    with rasterio.open(path) as raster:
        return np.asarray(raster.read(1))


OUTSIDE: dict[str, dict[str, float]] = {
    "neighbours": {"neighbours": 0.15},
    "sky colour": {"colour": 0.7},
    "smooth variability": {"smooth": 0.05},
    "noise": {"noise": 3.0},
    "outside": {"neighbours": 0.15, "colour": 0.7, "smooth": 0.05, "noise": 3.0},
}
"""Disturbances that the physics layer does not know; the last is all of them."""


def simulated_scene(data: Path, seed: int) -> Task:
    """The paper's simulated scene under its own physics and outside of it."""
    scape = _townscape(data)
    image, known = townscape.acquire(scape, seed), scape.labelled
    drawn = TrainingSet(
        image.cube[known], scape.class_index[known], townscape.polygons(scape)[known], image.cube[~known]
    )
    made = {"random": townscape.random_spectra(scape, 2000, seed + 100)}
    made |= {name: outside_physics(scape, 1000, seed + 7, **how) for name, how in OUTSIDE.items()}
    tests = {name: Test(test.x, test.y, scape.irradiance, test.z) for name, test in made.items()}
    return Task(drawn, scape.bands, scape.irradiance, legend(townscape.CLASSES), tests)


@cache
def _townscape(data: Path) -> townscape.Townscape:
    return townscape.from_file(data / "simulated" / "simulated.npz")


def outside_physics(
    scape: townscape.Townscape,
    per_class: int,
    seed: int,
    *,
    neighbours: float = 0.0,
    colour: float = 0.0,
    smooth: float = 0.0,
    noise: float = 1.0,
) -> townscape.Spectra:
    """Random test spectra with what f_E leaves out.

    neighbours: largest share of light sent by one other material; colour: largest exponent of wavelength by
    which skylight departs from the assumed one; smooth: relative deviation along the spectrum; noise: factor.
    """
    rng = np.random.default_rng(seed)
    test = townscape.random_spectra(scape, per_class, seed)
    size, bands = test.x.shape
    of_class = [test.y == index for index in range(len(scape.spectra))]
    reflectance = np.concatenate(
        [
            townscape.mixed(spectra, test.eta[mine], test.alpha[mine])
            for spectra, mine in zip(scape.spectra, of_class, strict=True)
        ]
    )
    sun, wavelength_um = scape.irradiance, scape.bands.wavelength_nm / 1000
    sky = sun.diffuse_ratio * (wavelength_um / 0.6) ** -rng.uniform(-colour, colour, (size, 1))
    library = np.concatenate(scape.spectra)
    light = test.z[:, None] * sun.direct_ratio + test.w[:, None] * sky
    light = light + rng.uniform(0, neighbours, (size, 1)) * library[rng.integers(0, len(library), size)]
    position = np.linspace(-1, 1, bands)
    waves = np.stack([np.cos(k * np.pi * (position + 1) / 2) for k in range(1, 5)])
    deviation = np.exp(rng.standard_normal((size, 4)) * (smooth / 2) @ waves)
    reflectance = reflectance * deviation * (1 + townscape.GAIN_NOISE * rng.standard_normal((size, 1)))
    reflectance = reflectance + noise * townscape.MATERIAL_NOISE * rng.standard_normal((size, bands))
    spectra = light * reflectance + noise * townscape.SENSOR_NOISE * rng.standard_normal((size, bands))
    return replace(test, x=np.clip(spectra, 1e-4, None).astype(np.float32))


def toulouse_spectra(data: Path, seed: int) -> Task:
    """Real spectra of Toulouse, split as for the paper's table, as they are and relit."""
    split = toulouse.read_split(data / "toulouse" / "toulouse.npz", seed)
    drawn = TrainingSet(split.labelled, split.labelled_class, split.polygon, split.unlabelled)
    relit = toulouse.relight(split, copies=3, seed=0)
    tests = {
        "test": Test(split.test, split.test_class, split.irradiance),
        "relit": Test(relit.x, relit.y, split.irradiance, relit.z),
    }
    return Task(drawn, split.bands, split.irradiance, legend(toulouse.CLASSES), tests)


def town(work: Path, seed: int) -> Task:
    """A synthetic town at 30 degrees to learn from, and another one to map at 30 and at 55 degrees."""
    known = _simulated_town(work, 30, 2 * seed)
    labels = known.with_name(f"{known.stem}_labels.gpkg")
    data, bands, light, classes = _gathered(known, labels, (), SceneSettings(), seed)
    tests = {}
    for zenith in (30, 55):
        path = _simulated_town(work, zenith, 2 * seed + 1)
        spectra, there = _whole(path, bands, SceneSettings())
        truth = _read(path.with_name(f"{path.stem}_class.tif")).astype(int)
        z = _read(path.with_name(f"{path.stem}_irradiance_truth.tif")).astype(float)
        shadow = _read(path.with_name(f"{path.stem}_shadow.tif")) > IN_SHADOW
        index = np.searchsorted(classes.ids, truth)
        for name, mask in (("", truth > 0), (" shadow", (truth > 0) & shadow)):
            tests[f"{zenith}°{name}"] = Test(spectra[mask], index[mask], there, z[mask], spectra, mask)
    return Task(data, bands, light, classes, tests)


def _simulated_town(work: Path, zenith: int, seed: int) -> Path:
    path = work / f"town_{seed}_{zenith}.tif"
    if not path.exists():
        options = ["--size", "160x160", "--noise", "0.005", "--seed", str(seed), "--sun-zenith", str(zenith)]
        subprocess.run([P3VAE, "simulate", "-o", str(path), *options], check=True, stdout=subprocess.DEVNULL)
    return path


def tasks(data: Path, work: Path) -> dict[str, Callable[[int], Task]]:
    """Every task by name: a function of the seed. `work` keeps simulated towns."""
    found: dict[str, Callable[[int], Task]] = {name: partial(real_scene, name, data) for name in real.SCENES}
    return found | {
        "potsdam": partial(potsdam, data, work),
        "simulated": partial(simulated_scene, data),
        "toulouse": partial(toulouse_spectra, data),
        "town": partial(town, work),
    }
