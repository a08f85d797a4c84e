"""A trained model on scenes that saw the same ground otherwise, through the command line on written files.

    python -m benchmarks other_scenes --data DIR --seeds 70-71

`changes`: a real scene is changed as another date, correction or sensor would do; accuracy and expected
calibration error of p3vae, the same without the latents of the scene, accuracy of LDA and of a random forest,
all taught on the unchanged scene. `sun`: a synthetic town at 30 degrees to learn from, another one at 55
degrees that is changed as well; mean absolute error of z_E. `sensors`: a town in 96 bands to learn from,
another one in the bands of other sensors; accuracy beside that of a model taught on that sensor.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from affine import Affine

from benchmarks.protocols import add_data_option, real
from benchmarks.reporting import write
from p3vae.models.metrics import calibration_error
from p3vae.physics.spectral_response import Bands, resampling_matrix

Array = np.ndarray[Any, Any]

P3VAE = str(Path(sys.executable).with_name("p3vae"))
PLACE = {"crs": "EPSG:32631", "transform": Affine(5, 0, 0, 0, -5, 0)}
SCENES = ("houston", "indian_pines", "crowns", "jasper")
SENSORS = {
    "PRISMA": np.r_[np.arange(407, 1000, 9.7), np.arange(1000, 2497, 8.8)],
    "EnMAP": np.r_[np.arange(420, 1000, 6.5), np.arange(1005, 2445, 10.9)],
    "EMIT": np.arange(381, 2493, 7.4),
    "to 1000 nm": np.linspace(420, 1000, 60),
}
"""Band centres [nm], as these sensors have them but for a fraction of a band."""


def haze(amount: float) -> Callable[[Array, Array, Any], Array]:
    """Path reflectance that falls off from the blue."""
    return lambda x, nm, rng: x + amount * np.exp(-(nm - 400) / 150)


def noise(std: float) -> Callable[[Array, Array, Any], Array]:
    """White noise [reflectance]."""
    return lambda x, nm, rng: x + rng.normal(0, std, x.shape)


def stripes(share: float) -> Callable[[Array, Array, Any], Array]:
    """A gain of its own for every column and band."""
    return lambda x, nm, rng: x * (1 + share * rng.standard_normal((1, *x.shape[1:])))


def _position(nm: Array) -> Array:
    return np.asarray((nm - nm.min()) / np.ptp(nm))


def _shifted(x: Array, nm: Array, by: Array | float) -> Array:
    return np.stack([np.interp(nm + by, nm, one) for one in x.reshape(-1, len(nm))]).reshape(x.shape)


def _smile(x: Array, nm: Array, rng: Any) -> Array:
    """One nanometre at the edges of the swath, none in the middle."""
    bend = np.square(np.linspace(-1, 1, x.shape[1]))
    return np.stack([_shifted(x[:, col], nm, bend[col]) for col in range(x.shape[1])], 1)


def _half(x: Array, nm: Array, rng: Any) -> Array:
    """All of it at half strength together."""
    seen = haze(0.015)(1.05 * x * (1 + 0.075 * (_position(nm) - 0.5)), nm, rng)
    seen = seen * (1 + 0.01 * np.cos(5 * np.pi * _position(nm) + 1))
    return np.asarray(noise(0.003)(_shifted(seen, nm, 1.0), nm, rng))


CHANGES: dict[str, Callable[[Array, Array, Any], Array]] = {
    "as it is": lambda x, nm, rng: x,
    "10 % brighter": lambda x, nm, rng: 1.1 * x,
    "slope 15 %": lambda x, nm, rng: x * (1 + 0.15 * (_position(nm) - 0.5)),
    "haze .01": haze(0.01),
    "haze .03": haze(0.03),
    "haze .05": haze(0.05),
    "waves 2 %": lambda x, nm, rng: x * (1 + 0.02 * np.cos(5 * np.pi * _position(nm) + 1)),
    "2 nm shift": lambda x, nm, rng: _shifted(x, nm, 2.0),
    "smile 1 nm": _smile,
    "noise .002": noise(0.002),
    "noise .006": noise(0.006),
    "noise .015": noise(0.015),
    "stripes 1 %": stripes(0.01),
    "stripes 3 %": stripes(0.03),
    "half of all": _half,
}


def run(*words: object) -> None:
    """A command of the program."""
    subprocess.run(
        [P3VAE, *map(str, words)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def write_cube(path: Path, x: Array, nm: Array, zenith: float, fwhm: Array | None = None) -> None:
    """A GeoTIFF of reflectance (rows, cols, bands), NaN for nodata."""
    profile: dict[str, Any] = {"driver": "GTiff", "height": x.shape[0], "width": x.shape[1], "count": len(nm)}
    profile |= {
        "dtype": "float32",
        "nodata": np.nan,
        "crs": "EPSG:32631",
        "transform": Affine(5, 0, 0, 0, -5, 0),
    }
    with rasterio.open(path, "w", **profile) as raster:
        raster.write(np.moveaxis(x, 2, 0).astype(np.float32))
        raster.update_tags(sun_zenith_deg=zenith)
        for band, centre in enumerate(nm, 1):
            raster.update_tags(band, wavelength=repr(float(centre)), wavelength_units="nm")
            if fwhm is not None:
                raster.update_tags(band, fwhm=repr(float(fwhm[band - 1])))


def write_ids(path: Path, ids: Array) -> None:
    """A label raster on the grid of `write_cube`."""
    profile: dict[str, Any] = {"driver": "GTiff", "height": ids.shape[0], "width": ids.shape[1], "count": 1}
    profile |= {"dtype": "uint8", "nodata": 0, **PLACE}
    with rasterio.open(path, "w", **profile) as raster:
        raster.write(ids.astype(np.uint8), 1)


def read(path: Path) -> Array:
    """The first band, or all."""
    with rasterio.open(path) as raster:
        found = raster.read()
        return np.asarray(found[0] if len(found) == 1 else found)


def classified(scene: Path, model: Path, out: Path, *more: object) -> tuple[Array, Array]:
    """Class ids (rows, cols) and probabilities (classes, rows, cols) of a map."""
    run("classify", scene, "-m", model, "-o", out, "--overwrite", "-q", "--probabilities", *more)
    return read(out / f"{scene.stem}_landcover.tif"), read(out / f"{scene.stem}_probabilities.tif")


def changes(name: str, data: Path, work: Path, seed: int) -> dict[str, dict[str, float]]:
    """Scores of all methods on every change of one real scene."""
    scene = real.load(name, data)
    train, test = real.split(scene, seed)
    x, nm, zenith = scene["x"], scene["wavelength_nm"], scene["sun_zenith_deg"]
    good = np.isfinite(x).all(2)
    home, labels, model = work / f"{name}.tif", work / f"{name}_labels.tif", work / f"{name}.p3vae"
    write_cube(home, x, nm, zenith)
    write_ids(labels, train)
    sun = ("--sun-zenith", zenith)
    run("train", home, "--labels", labels, "-o", model, "--overwrite", "--seed", seed, "-q", *sun)
    known, tested, ids = (train > 0) & good, (test > 0) & good, np.unique(train[(train > 0) & good])
    rivals = fitted_rivals(x[known], train[known], seed)
    truth, found = np.searchsorted(ids, test[tested]), {}
    for kind, change in CHANGES.items():
        seen = change(x.astype(np.float64), nm, np.random.default_rng(seed))
        path = work / f"{name}_changed.tif"
        write_cube(path, seen, nm, zenith)
        scores: dict[str, float] = {}
        for way, more in (("p3vae", ()), ("without", ("--no-scene-gain",))):
            _, chance = classified(path, model, work / "maps", *sun, *more)
            probability = np.moveaxis(chance, 0, -1)[tested]
            scores[way] = float((probability.argmax(1) == truth).mean())
            scores[f"{way}_ece"] = calibration_error(truth, probability)
        for rival, fitted in rivals.items():
            scores[rival] = float((fitted.predict(seen[tested]) == test[tested]).mean())
        found[kind] = scores
    return found


def fitted_rivals(x: Array, y: Array, seed: int) -> dict[str, Any]:
    """LDA and a random forest."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import RandomForestClassifier

    return {
        "lda": LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(x, y),
        "forest": RandomForestClassifier(300, random_state=seed, n_jobs=1).fit(x, y),
    }


def town(work: Path, name: str, seed: int, zenith: int, bands: int) -> Path:
    """A synthetic town."""
    path = work / f"{name}.tif"
    how = ("--size", "128x128", "--noise", "0.005", "--bands", bands)
    run("simulate", "-o", path, *how, "--seed", seed, "--sun-zenith", zenith, "--overwrite")
    return path


def cube(path: Path) -> tuple[Array, Array]:
    """Reflectance (rows, cols, bands) and wavelengths [nm] of a town."""
    with rasterio.open(path) as raster:
        nm = np.array([float(raster.tags(band)["wavelength"]) for band in raster.indexes])
        return np.moveaxis(raster.read() * raster.scales[0], 0, -1), nm


def sun(work: Path, seed: int) -> dict[str, dict[str, float]]:
    """z_E of a town under another sun, changed as well."""
    known, other = town(work, "known", 2 * seed, 30, 96), town(work, "other", 2 * seed + 1, 55, 96)
    model = work / "sun.p3vae"
    run("train", known, "--labels", work / "known_labels.gpkg", "-o", model, "--overwrite", "-q")
    (x, nm), z, found = cube(other), read(work / "other_irradiance_truth.tif"), {}
    truth = read(work / "other_class.tif")
    for kind in ("as it is", "slope 15 %", "haze .03", "waves 2 %", "noise .006", "half of all"):
        path = work / "changed.tif"
        write_cube(path, CHANGES[kind](x, nm, np.random.default_rng(seed)), nm, 55)
        ids, _ = classified(path, model, work / "maps", "--sun-zenith", 55)
        mae = np.nanmean(np.abs(read(work / "maps" / "changed_irradiance.tif") - z))
        found[kind] = {"z_mae": float(mae), "p3vae": float((ids == truth)[truth > 0].mean())}
    return found


def sensors(work: Path, seed: int) -> dict[str, dict[str, float]]:
    """Accuracy on a town in the bands of other sensors."""
    known, other = town(work, "known", 2 * seed, 30, 96), town(work, "other", 2 * seed + 1, 30, 96)
    model, found = work / "ours.p3vae", {}
    labels = ("--labels", work / "known_labels.gpkg")
    run("train", known, *labels, "-o", model, "--overwrite", "-q")
    truth = read(work / "other_class.tif")
    (x_known, nm), (x_other, _) = cube(known), cube(other)
    with rasterio.open(known) as raster:
        place = {"crs": raster.crs, "transform": raster.transform}
    for name, centres in SENSORS.items():
        inside = centres[(centres > nm[0]) & (centres < nm[-1])]
        width = np.full(len(inside), 12.0)
        weights = resampling_matrix(Bands.from_centres(nm), Bands.from_centres(inside, width))
        for path, x in ((work / "s_known.tif", x_known), (work / "s_other.tif", x_other)):
            write_cube(path, x @ weights, inside, 30, width)
            with rasterio.open(path, "r+") as raster:
                raster.crs, raster.transform = place["crs"], place["transform"]
        sun_ = ("--sun-zenith", 30)
        own = work / "own.p3vae"
        run("train", work / "s_known.tif", *labels, "-o", own, "--overwrite", "-q", *sun_)
        found[name] = {}
        for way, taught in (("p3vae", model), ("own", own)):
            ids, _ = classified(work / "s_other.tif", taught, work / "maps", *sun_)
            found[name][way] = float((ids == truth)[truth > 0].mean())
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_data_option(options)
    options.add_argument("--seeds", default="70-71", help="first-last; 60-64 chose the settings")
    asked = options.parse_args()
    first, last = map(int, asked.seeds.split("-"))
    rows: dict[str, dict[str, list[dict[str, float]]]] = {}
    for seed in range(first, last + 1):
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            parts = {"town under another sun": sun(work, seed), "town in other bands": sensors(work, seed)}
            parts |= {name: changes(name, asked.data, work, seed) for name in SCENES}
        for part, found in parts.items():
            for kind, scores in found.items():
                rows.setdefault(part, {}).setdefault(kind, []).append(scores)
        means = {part: {kind: _mean(runs) for kind, runs in kinds.items()} for part, kinds in rows.items()}
        write("other_scenes", {"seeds": f"{first}-{seed}", "means": means}, _table(means))


def _mean(runs: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(float(np.mean([run[key] for run in runs])), 4) for key in runs[0]}


def _table(means: dict[str, dict[str, dict[str, float]]]) -> str:
    columns = ("p3vae", "p3vae_ece", "without", "without_ece", "lda", "forest", "own", "z_mae")
    lines = [
        "| scene | change | p3vae | ECE | --no-scene-gain | ECE | LDA | forest | taught there | z MAE |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for part, kinds in means.items():
        for kind, scores in kinds.items():
            cells = [f"{scores[key]:.3f}" if key in scores else "–" for key in columns]
            lines.append(f"| {part} | {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
