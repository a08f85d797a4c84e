"""The shipped model `earth` on real scenes it never saw, through the command line.

    python -m benchmarks earth --data DIR --wheel earthlib-1.1.0-py3-none-any.whl

Four broad classes: vegetation (tree, grass, dry), built-up, bare, water. Dry vegetation counts as vegetation;
`dry as bare` gives the accuracy if it counts as bare ground. Each mechanism is left out once: the scene's
gain, the neighbours, the encoder (`decoder alone`), the decoder (`encoder alone`). Beside it, on the same
library and the same scenes: the smallest spectral angle to the mean of a material and the nearest neighbour
by spectral angle; and linear discriminant analysis taught with half of the labelled pixels of the scene,
judged on the other half. Pixels of Toulouse have no place: they are mapped with nodata between them. Houston
has no labels of these classes and is only mapped. Potsdam is also folded to the bands of other sensors.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from rasterio.errors import NotGeoreferencedWarning
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from benchmarks.earth_library.legend import MATERIALS
from benchmarks.earth_library.sources import MaterialSpectra, model_bands, read_spectra
from benchmarks.landcover_tasks import sun_zenith
from benchmarks.protocols import add_data_option, real
from benchmarks.reporting import write
from p3vae.cli.run.model_files import default_land_cover
from p3vae.models.landcover.library.encoder import Encoder
from p3vae.models.landcover.model import load_model, save_model
from p3vae.paper.reproduce import toulouse
from p3vae.physics.spectral_response import Bands, resampling_matrix

P3VAE = str(Path(sys.executable).with_name("p3vae"))
VEGETATION, BUILT, BARE, WATER, OTHER = range(5)
NAMES = ("vegetation", "built-up", "bare", "water")
BROAD = {
    "tree": VEGETATION,
    "grass and low vegetation": VEGETATION,
    "dry vegetation": VEGETATION,
    "green vegetation": VEGETATION,
    "built-up": BUILT,
    "bare ground": BARE,
    "bare ground or dry vegetation": BARE,
    "water": WATER,
}
TOULOUSE = (BUILT, BUILT, VEGETATION, BUILT, WATER, BARE, BUILT, BUILT)
POTSDAM = (BUILT, BUILT, VEGETATION, VEGETATION, BARE, WATER)
JASPER = (VEGETATION, WATER, BARE, BUILT)
FEW_BANDS = {
    "Sentinel-2": ((492, 66), (560, 36), (665, 31), (704, 15), (740, 15), (783, 20), (833, 106), (865, 21),
                   (1614, 91), (2202, 175)),
    "Landsat-8": ((443, 16), (482, 60), (561, 57), (655, 37), (865, 28), (1609, 85), (2201, 187)),
    "blue to near infrared": ((490, 60), (560, 40), (660, 40), (860, 60)),
    "450 to 1000 nm": tuple((nm, 10) for nm in range(450, 1000, 10)),
}  # fmt: skip
"""Centres and widths [nm] of other sensors, to which Potsdam is folded."""
VARIANTS = {
    "p3vae": (),
    "without gain": ("--no-scene-gain",),
    "without neighbours": ("--no-neighbours",),
    "encoder alone": ("--method", "classifier"),
    "decoder alone": (),
}
"""Options of each row."""


@dataclass(frozen=True, eq=False)
class Scene:
    """An image with labels of the four classes, -1 where there is none."""

    name: str
    cube: np.ndarray
    wavelength_nm: np.ndarray
    truth: np.ndarray
    zenith: float


def scenes(data: Path) -> list[Scene]:
    """Toulouse, the same relit, Potsdam, Jasper Ridge and Houston."""
    split = toulouse.read_split(data / "toulouse" / "toulouse.npz", seed=0)
    spectra = np.concatenate([split.labelled, split.test])
    label = np.concatenate([split.labelled_class, split.test_class])
    relit = toulouse.relight(replace(split, test=spectra, test_class=label), copies=3, seed=0)
    nm, zenith = split.bands.wavelength_nm, toulouse.SUN_ZENITH_DEG
    found = [
        _apart("toulouse", spectra, nm, np.take(TOULOUSE, label), zenith),
        _apart("toulouse relit", relit.x, nm, np.take(TOULOUSE, relit.y), zenith),
        _potsdam(data / "enmap_potsdam"),
    ]
    for name, classes in (("jasper", JASPER), ("houston", ())):
        d = real.load(name, data)
        truth = np.full(d["label"].shape, -1)
        if classes:
            truth[d["label"] > 0] = np.take(classes, d["label"][d["label"] > 0] - 1)
        found.append(Scene(name, d["x"], d["wavelength_nm"], truth, d["sun_zenith_deg"]))
    return found


def folded(scene: Scene) -> list[Scene]:
    """The scene as other sensors would see it."""
    own = Bands.from_centres(scene.wavelength_nm)
    found = []
    for name, bands in FEW_BANDS.items():
        nm, width = np.transpose(bands).astype(float)
        weights = resampling_matrix(own, Bands.from_centres(nm, width))
        found.append(Scene(f"{scene.name}, {name}", scene.cube @ weights, nm, scene.truth, scene.zenith))
    return found


def _apart(name: str, spectra: np.ndarray, nm: np.ndarray, truth: np.ndarray, zenith: float) -> Scene:
    """Pixels without a place, with nodata between them: none is another's neighbour."""
    side = int(np.ceil(np.sqrt(len(spectra))))
    cube = np.full((2 * side, 2 * side, spectra.shape[1]), np.nan, np.float32)
    label = np.full(cube.shape[:2], -1)
    rows, cols = np.divmod(np.random.default_rng(0).permutation(len(spectra)), side)
    cube[2 * rows, 2 * cols], label[2 * rows, 2 * cols] = spectra, truth
    return Scene(name, cube, nm, label, zenith)


def _potsdam(folder: Path) -> Scene:
    path = folder / "enmap_potsdam_mosaic.tif"
    with rasterio.open(path) as raster:
        cube = np.moveaxis(raster.read(), 0, -1) * 1e-4
        nm = np.array([float(raster.tags(band)["wavelength"]) for band in raster.indexes])
    cube[cube < -1] = np.nan
    order = np.argsort(nm, kind="stable")
    order = order[np.append(True, np.diff(nm[order]) > 0)]
    with rasterio.open(folder / "enmap_potsdam_labels.tif") as raster:
        label = raster.read(1)
    truth = np.full(label.shape, -1)
    truth[label > 0] = np.take(POTSDAM, label[label > 0] - 1)
    usable = np.isfinite(cube[label > 0]).mean(0) > 0.5
    order = order[usable[order]]
    return Scene("potsdam", cube[..., order], nm[order], truth, sun_zenith(path))


def classify(scene: Scene, model: str, folder: Path, more: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """Probabilities, names of the classes, and irradiance, by the command line."""
    path = folder / f"{scene.name.replace(' ', '_').replace(',', '')}.tif"
    rows, cols, bands = scene.cube.shape
    with rasterio.open(path, "w", driver="GTiff", height=rows, width=cols, count=bands, dtype="float32",
                       nodata=-9999) as raster:  # fmt: skip
        values = np.where(np.isfinite(scene.cube), scene.cube, -9999)
        raster.write(np.moveaxis(values, -1, 0).astype(np.float32))
        for band, nm in enumerate(scene.wavelength_nm, start=1):
            raster.update_tags(band, wavelength=repr(float(nm)), wavelength_units="nm")
    command = [P3VAE, "classify", str(path), "-m", model, "-o", str(folder)]
    command += ["--sun-zenith", str(scene.zenith)]
    command += ["--quantity", "reflectance", "--scale", "1", "--probabilities", "-q", *more]
    command += ["--overwrite"]
    subprocess.run(command, check=True)
    with rasterio.open(folder / f"{path.stem}_probabilities.tif") as raster:
        probability, names = np.moveaxis(raster.read(), 0, -1), raster.descriptions
    with rasterio.open(folder / f"{path.stem}_irradiance.tif") as raster:
        irradiance = raster.read(1)
    return {"probability": probability, "names": np.array(names), "irradiance": irradiance}


def broad(probability: np.ndarray, names: Any, *, dry: int = VEGETATION) -> np.ndarray:
    """Probabilities of the four classes and of all others, (..., 5)."""
    index = [dry if name == "dry vegetation" else BROAD.get(name, OTHER) for name in names]
    return probability @ np.eye(5)[index]


def score(truth: np.ndarray, probability: np.ndarray) -> dict[str, Any]:
    """Accuracy, recall of each class and ECE of probabilities (pixels, 5)."""
    found = probability.argmax(1)
    return {
        "accuracy": float((found == truth).mean()),
        "recall": {NAMES[k]: float((found[truth == k] == k).mean()) for k in range(4) if (truth == k).any()},
        "confidence": float(probability.max(1).mean()),
        "ece": real.score(truth, found, probability.max(1))["ece"],
    }


def rivals(
    scene: Scene, spectra: list[MaterialSpectra], seed: int
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Truth and probabilities of the broad classes of labelled pixels by three other methods."""
    own, nm = model_bands(), scene.wavelength_nm
    near = np.abs(nm[:, None] - own.wavelength_nm).min(1) <= 10
    bands = Bands.from_centres(nm[near])
    to_scene = resampling_matrix(own, bands)
    pixels = scene.cube[scene.truth >= 0][:, near]
    library = np.concatenate([one.reflectance for one in spectra]) @ to_scene
    owner = np.array([BROAD.get(MATERIALS[one.material], OTHER) for one in spectra for _ in one.reflectance])
    means = np.stack([one.reflectance.mean(0) for one in spectra]) @ to_scene
    mean_owner = np.array([BROAD.get(MATERIALS[one.material], OTHER) for one in spectra])
    kept = np.isfinite(pixels).all(1)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(kept))
    taught, judged = np.array_split(order, 2)
    truth = scene.truth[scene.truth >= 0]
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    chance = np.zeros((len(judged), 5))
    known = lda.fit(pixels[taught], truth[taught])
    chance[:, known.classes_] = known.predict_proba(pixels[judged])
    return {
        "spectral angle": (truth, np.eye(5)[mean_owner[_nearest(pixels, means)]]),
        "nearest neighbour": (truth, np.eye(5)[owner[_nearest(pixels, library)]]),
        "LDA, half of the labels": (truth[judged], chance),
    }


def _nearest(pixels: np.ndarray, library: np.ndarray) -> np.ndarray:
    """Index of the library spectrum at the smallest angle."""
    unit = library / np.linalg.norm(library, axis=1, keepdims=True)
    return np.concatenate([(part @ unit.T).argmax(1) for part in np.array_split(pixels, 20)])


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_data_option(options)
    options.add_argument("--wheel", type=Path, required=True, help="of earthlib 1.1.0, for the other methods")
    options.add_argument("--model", default="earth", help="another model")
    options.add_argument("--name", default="earth", help="name of the result files")
    asked = options.parse_args()
    warnings.simplefilter("ignore", NotGeoreferencedWarning)
    spectra = read_spectra(asked.data / "spectra", asked.wheel)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = folder / "decoder.p3vae"
        whole = load_model(default_land_cover() if asked.model == "earth" else Path(asked.model))
        estimator: Any = whole.estimator
        save_model(alone, replace(whole, estimator=replace(estimator, encoder=Encoder(()))))
        made = scenes(asked.data)
        made += folded(next(scene for scene in made if scene.name == "potsdam"))
        few = {"houston", *(scene.name for scene in made if "," in scene.name)}
        for scene in made:
            for method, more in VARIANTS.items():
                model = str(alone) if method == "decoder alone" else asked.model
                if method == "p3vae" or scene.name not in few:
                    rows.append(_row(scene, method, classify(scene, model, folder, more)))
            others = rivals(scene, spectra, 0) if scene.name not in few else {}
            for method, (truth, chance) in others.items():
                rows.append({"scene": scene.name, "method": method} | score(truth, chance))
    write(asked.name, {"rows": rows, "card": _card(rows)}, _table(rows))


def _row(scene: Scene, method: str, found: dict[str, np.ndarray]) -> dict[str, Any]:
    """Scores of one map; shares of classes where there are no labels."""
    row = {"scene": scene.name, "method": method}
    if scene.name == "houston":
        index = found["probability"].argmax(-1)
        share = np.bincount(index.ravel(), minlength=len(found["names"])) / index.size
        named = {str(n): round(float(s), 3) for n, s in zip(found["names"], share, strict=True)}
        return row | {"shares": named}
    labelled = scene.truth >= 0
    truth, probability = scene.truth[labelled], found["probability"][labelled]
    known = np.isfinite(probability).all(1)
    probability[~known] = 0
    row |= score(truth, broad(probability, found["names"]))
    land = known & (truth != WATER)
    return row | {
        "accuracy_dry_as_bare": score(truth, broad(probability, found["names"], dry=BARE))["accuracy"],
        "median_irradiance": float(np.median(found["irradiance"][labelled][land])),
        "cos_zenith": float(np.cos(np.radians(scene.zenith))),
    }


def _card(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Figures for the model card."""
    mine = [row for row in rows if row["method"] == "p3vae" and "accuracy" in row]
    return {
        row["scene"]: f"accuracy {row['accuracy']:.3f} in four broad classes, ECE {row['ece']:.3f}"
        for row in mine
    }


def _table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "Zero-shot, four broad classes. Recall: vegetation / built-up / bare / water.",
        "",
        "| scene | method | accuracy | dry as bare | recall | ECE | median z_E of land, cosΘ0 |",
        "|---|---|---:|---:|---|---:|---|",
    ]
    for row in rows:
        if "shares" in row:
            lines.append(f"| {row['scene']} | {row['method']} | mapped: {row['shares']} | | | | |")
            continue
        recall = " / ".join(f"{row['recall'][k]:.2f}" if k in row["recall"] else "–" for k in NAMES)
        dry = f"{row['accuracy_dry_as_bare']:.3f}" if "accuracy_dry_as_bare" in row else ""
        light = f"{row['median_irradiance']:.2f}, {row['cos_zenith']:.2f}" if "cos_zenith" in row else ""
        ece = f"{row['ece']:.3f}" if "nearest" not in row["method"] and "angle" not in row["method"] else ""
        lines.append(
            f"| {row['scene']} | {row['method']} | {row['accuracy']:.3f} "
            f"| {dry} | {recall} | {ece} | {light} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
