"""Terrain as an observation of light, on simulated mountains whose truth is known.

    python -m benchmarks terrain --seeds 10-12

`light`: z_E by the spectra alone, by the terrain alone and by both, for three suns and elevation models with
errors: mean absolute error, and how often the interval of 95 % holds the truth. `normalisation`: reflectance
on flat ground beside the corrections of textbooks. `classes`: accuracy with and without. `audit`: displaced
elevation models that are found. The models are the shipped `earth` and one taught on other mountains.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from affine import Affine

import p3vae
from benchmarks.reporting import write
from p3vae.cli.simulate.elevations import erroneous
from p3vae.cli.simulate.scene import SimulationRequest, simulate_to_files
from p3vae.physics.illumination import clear_sky_irradiance
from p3vae.physics.spectral_response import Bands
from p3vae.physics.terrain import incidence_cosine, north_up, sky_light, slopes

Array = np.ndarray[Any, Any]

SIZE, PIXEL_M, AZIMUTH = 120, 30.0, 150.0
SUNS = (30.0, 55.0, 70.0)
ERRORS = ((0.0, 0.0), (5.0, 0.0), (10.0, 0.0), (5.0, 15.0))
"""Error of heights, and displacement to the east [m]."""
GROUPS = {"blue": (420, 520), "near infrared": (780, 1300), "shortwave infrared": (1500, 2400)}


def mountains(folder: Path, seed: int, sun: float, noise: float = 0.005) -> Path:
    """A simulated scene; its folder."""
    here = folder / f"{seed}_{sun:g}_{noise:g}"
    if not here.exists():
        here.mkdir(parents=True)
        simulate_to_files(
            SimulationRequest(
                here / "m.tif",
                "geotiff",
                rows=SIZE,
                cols=SIZE,
                seed=seed,
                bands="60",
                sun_zenith_deg=sun,
                sun_azimuth_deg=AZIMUTH,
                noise=noise,
                relief="mountains",
            )
        )
    return here


def elevations(here: Path, seed: int, error: float, east: float, north: float = 0.0) -> Path:
    """The elevation model of a scene with an error and a displacement [m]."""
    path = here / f"dem_{error:g}_{east:g}_{north:g}.tif"
    with rasterio.open(here / "m_dem.tif") as source:
        profile = source.profile | {"transform": Affine.translation(east, north) @ source.transform}
        with rasterio.open(path, "w", **profile) as target:
            target.write(erroneous(source.read(1), error, seed), 1)
    return path


def read(path: Path) -> Array:
    """The first band, or all."""
    with rasterio.open(path) as source:
        found = source.read()
    return np.asarray(found[0] if len(found) == 1 else found)


def lit_by(scene_path: Path, model: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Maps of light, and what the terrain was found to be."""
    from p3vae.cli.landcover.maps import LightMapper
    from p3vae.cli.landcover.settings import IrradianceMapSettings

    with p3vae.open_scene(scene_path) as scene:
        settings = IrradianceMapSettings.of_keywords(options, caller="benchmark")
        mapper = LightMapper(scene, model, settings, "given")
        from p3vae.cli.api import _mapped

        maps = _mapped(scene, mapper)
        return maps, dict(mapper.settings.get("terrain", {}))


def score(found: Array, std: Array, truth: Array) -> dict[str, float]:
    """Error and cover of a map of light."""
    off = found - truth
    return {
        "mae": float(np.abs(off).mean()),
        "cover": float(np.mean(np.abs(off) < 1.96 * std)),
        "r": float(np.corrcoef(found.ravel(), truth.ravel())[0, 1]),
        "slope": float(np.polyfit(truth.ravel(), found.ravel(), 1)[0]),
    }


def light(folder: Path, seed: int, sun: float, models: dict[str, Any]) -> list[dict[str, Any]]:
    """Scores of one scene."""
    here = mountains(folder, seed, sun)
    truth, rows = read(here / "m_irradiance_truth.tif"), []
    for name, model in models.items():
        alone, _ = lit_by(here / "m.tif", model)
        spectra = score(alone["irradiance"], alone["irradiance_std"], truth)
        for error, east in ERRORS:
            dem = elevations(here, seed, error, east)
            maps, said = lit_by(here / "m.tif", model, dem=dem, terrain=True)
            c = maps["terrain_incidence"]
            true_error = float(np.sqrt(np.mean(np.square(c - truth))))
            rows.append(
                {
                    "seed": seed,
                    "sun": sun,
                    "model": name,
                    "error_m": error,
                    "east_m": east,
                    "spectra": spectra,
                    "terrain": score(c, np.full_like(c, said["error"]), truth),
                    "both": score(maps["irradiance"], maps["irradiance_std"], truth),
                    "s": said["error"],
                    "true_s": true_error,
                }
            )
    return rows


def flat_reflectance(folder: Path, seed: int, sun: float) -> Array:
    """True reflectance on flat ground (rows, cols, bands), from a scene without noise and its true light."""
    here = mountains(folder, seed, sun, noise=0.0)
    with p3vae.open_scene(here / "m.tif") as scene:
        bands = scene.bands
        good = np.flatnonzero(bands.good)
    seen = np.moveaxis(read(here / "m.tif"), 0, 2)[..., good] / 10_000.0
    chosen = Bands.from_centres(bands.wavelength_nm[good], bands.fwhm_nm[good])
    irradiance = clear_sky_irradiance(chosen, sun, day_of_year=93)
    z, view = read(here / "m_irradiance_truth.tif"), read(here / "m_sky_view.tif")
    w = sky_light(view, z, float(np.cos(np.radians(sun))))
    light = z[..., None] * irradiance.direct_ratio + w[..., None] * irradiance.diffuse_ratio
    flat = seen / light
    for _ in range(8):
        flat = seen / (light + (1 - view[..., None]) * flat.mean((0, 1)))
    return np.asarray(flat)


def corrections(x: Array, c: Array, slope_cosine: Array, lit: Array, sun: float) -> dict[str, Array]:
    """Cosine (Teillet et al. 1982), C (same), SCS+C (Soenen et al. 2005), Minnaert (Smith et al. 1980).

    Constants by regression over all lit pixels, band by band.
    """
    cos_zenith, found = np.cos(np.radians(sun)), {"none": x}
    c = np.maximum(c, 0.02)
    found["cosine"] = x * (cos_zenith / c)[..., None]
    gain, base = np.linalg.lstsq(np.stack([c[lit], np.ones(lit.sum())], 1), x[lit], rcond=None)[0]
    ratio = base / gain
    found["C"] = x * (cos_zenith + ratio) / (c[..., None] + ratio)
    found["SCS+C"] = x * (slope_cosine[..., None] * cos_zenith + ratio) / (c[..., None] + ratio)
    log_c = np.log(c[lit] * slope_cosine[lit])
    design = np.stack([log_c, np.ones_like(log_c)], 1)
    k = np.linalg.lstsq(design, np.log(np.maximum(x[lit] * slope_cosine[lit][:, None], 1e-4)), rcond=None)[0][
        0
    ]
    found["Minnaert"] = x * slope_cosine[..., None] * (cos_zenith / (c * slope_cosine))[..., None] ** k
    return found


def normalisation(folder: Path, seed: int, sun: float, models: dict[str, Any]) -> list[dict[str, Any]]:
    """Scores of corrections on lit ground, with an elevation model that errs by 5 m."""
    here, error = mountains(folder, seed, sun), 5.0
    dem, classes = elevations(here, seed, error, 0.0), read(here / "m_class.tif")
    true_c = read(here / "m_incidence.tif")
    heights = erroneous(read(here / "m_dem.tif"), error, seed)
    east, north = slopes(heights, north_up(PIXEL_M))
    margin = (len(heights) - SIZE) // 2
    inner = slice(margin, margin + SIZE), slice(margin, margin + SIZE)
    c = incidence_cosine(east, north, sun, AZIMUTH)[inner]
    slope_cosine = (1 / np.sqrt(1 + east**2 + north**2))[inner]
    lit = (read(here / "m_shadow.tif") < 0.01) & (c > 0.1) & (true_c > 0.1)
    with p3vae.open_scene(here / "m.tif") as scene:
        nm = scene.bands.wavelength_nm[scene.bands.good]
        good = np.flatnonzero(scene.bands.good)
    x = np.moveaxis(read(here / "m.tif"), 0, 2)[..., good] / 10_000.0
    truth = flat_reflectance(folder, seed, sun)
    done = corrections(x, c, slope_cosine, lit, sun)
    for name, model in models.items():
        maps, _ = lit_by(here / "m.tif", model, dem=dem, relight=True)
        done[f"p3vae, {name}"] = np.moveaxis(maps["relit"], 0, 2)
    done["truth"] = truth
    rows = []
    for method, values in done.items():
        relations, spreads = [], []
        for (low, high), k in product(GROUPS.values(), np.unique(classes[lit])):
            some = lit & (classes == k)
            if some.sum() < 100:
                continue
            level = values[some][:, (nm >= low) & (nm <= high)].mean(1)
            relations.append(float(np.corrcoef(level, true_c[some])[0, 1]))
            spreads.append(float(level.std() / level.mean()))
        bias = np.abs(values - truth)[lit].mean() / truth[lit].mean()
        rows.append(
            {
                "seed": seed,
                "sun": sun,
                "method": method,
                "r_mean": float(np.mean(np.abs(relations))),
                "r_largest": float(np.max(np.abs(relations))),
                "cv": float(np.mean(spreads)),
                "error": float(bias),
            }
        )
    return rows


def classes(folder: Path, seed: int, sun: float, model: Any) -> list[dict[str, Any]]:
    """Accuracy by how ground is lit, with an elevation model that errs by 5 m."""
    here = mountains(folder, seed, sun)
    dem, truth = elevations(here, seed, 5.0, 0.0), read(here / "m_class.tif")
    c, shadow = read(here / "m_incidence.tif"), read(here / "m_shadow.tif")
    cos_zenith = np.cos(np.radians(sun))
    parts = {
        "towards the sun": (shadow < 0.5) & (c >= cos_zenith),
        "away from the sun": (shadow < 0.5) & (c < cos_zenith),
        "shadow": shadow >= 0.5,
    }
    relit, _ = lit_by(here / "m.tif", model, dem=dem, relight=True)
    flat = relit.save(here / "relit", overwrite=True)
    found = {}
    with p3vae.open_scene(here / "m.tif") as scene:
        found["without"] = p3vae.classify(scene, model)["landcover"]
        found["with --dem"] = p3vae.classify(scene, model, dem=dem)["landcover"]
    cube = next(path for path in flat if path.name.endswith("_relit.tif"))
    with p3vae.open_scene(cube, quantity="reflectance", sun_zenith=sun) as scene:
        found["normalised first"] = p3vae.classify(scene, model)["landcover"]
    names = dict(zip(model.legend.ids, model.legend.names, strict=True))
    from p3vae.physics.simulation.materials import LAND_COVER

    number = {cover.name: k for k, cover in enumerate(LAND_COVER, start=1)}
    to = np.zeros(256, np.uint8)
    for value, name in names.items():
        to[value] = number[name]
    return [
        {
            "seed": seed,
            "sun": sun,
            "method": method,
            **{
                part: float(np.mean((to[ids] == truth)[where]))
                for part, where in parts.items()
                if where.any()
            },
        }
        for method, ids in found.items()
    ]


def audit(folder: Path, seed: int, sun: float, model: Any) -> list[dict[str, Any]]:
    """What is said of right and of displaced elevation models that err by 5 m."""
    here, rows = mountains(folder, seed, sun), []
    sides = ((30.0, 0.0), (0.0, 60.0)) if seed % 2 else ((0.0, -30.0), (-60.0, 0.0))
    for east, north in ((0.0, 0.0), *sides):
        dem = elevations(here, seed, 5.0, east, north)
        _, said = lit_by(here / "m.tif", model, dem=dem, audit=True)
        expected = [round(-east / PIXEL_M), round(-north / PIXEL_M)]
        rows.append(
            {
                "seed": seed,
                "pixels": max(map(abs, expected)),
                "right": said["fits_better_by_pixels"] == expected,
            }
        )
    return rows


def mean(rows: list[dict[str, Any]], *path: str) -> float:
    """Of a number in all rows."""
    values = []
    for row in rows:
        value: Any = row
        for key in path:
            value = value.get(key, float("nan"))
        values.append(value)
    return float(np.nanmean(values)) if values else float("nan")


def table(found: dict[str, list[dict[str, Any]]]) -> str:
    """All tables."""
    lines = [
        "Mean absolute error of z / share of intervals of 95 % that hold the truth; s found and true.",
        "",
    ]
    lines += [
        "| model | sun | error of heights, displacement [m] | spectra | terrain | both | s found / true |"
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    names = sorted({row["model"] for row in found["light"]})
    for name, sun, (error, east) in product(names, SUNS, ERRORS):
        some = [
            row
            for row in found["light"]
            if (row["model"], row["sun"], row["error_m"], row["east_m"]) == (name, sun, error, east)
        ]
        cells = [
            f"{mean(some, k, 'mae'):.3f} / {mean(some, k, 'cover'):.2f}"
            for k in ("spectra", "terrain", "both")
        ]
        lines.append(
            f"| {name} | {sun:g}° | {error:g}, {east:g} | {' | '.join(cells)} | "
            f"{mean(some, 's'):.3f} / {mean(some, 'true_s'):.3f} |"
        )
    lines += ["", "z by the spectra alone against the truth, without any elevation model.", ""]
    lines += ["| model | sun | r | slope | error |", "|---|---|---|---|---|"]
    for name, sun in product(names, SUNS):
        some = [row for row in found["light"] if (row["model"], row["sun"]) == (name, sun)]
        cells = (mean(some, "spectra", key) for key in ("r", "slope", "mae"))
        lines.append(f"| {name} | {sun:g}° | " + " | ".join(f"{value:.3f}" for value in cells) + " |")
    lines += [
        "",
        "Reflectance on flat ground, heights with an error of 5 m; within classes and groups of bands.",
        "",
    ]
    lines += [
        "| correction | sun | mean \\|r\\| with cos i | largest | coefficient of variation | relative error |"
    ]
    lines += ["|---|---|---|---|---|---|"]
    methods = list(dict.fromkeys(row["method"] for row in found["normalisation"]))
    for sun, method in product(SUNS, methods):
        some = [r for r in found["normalisation"] if (r["method"], r["sun"]) == (method, sun)]
        cells = (mean(some, key) for key in ("r_mean", "r_largest", "cv", "error"))
        lines.append(f"| {method} | {sun:g}° | " + " | ".join(f"{value:.3f}" for value in cells) + " |")
    lines += ["", "Accuracy of classes by the model taught on other mountains.", ""]
    parts = ("towards the sun", "away from the sun", "shadow")
    lines += [f"| | sun | {' | '.join(parts)} |", "|---|---|---|---|---|"]
    for sun, method in product(SUNS, list(dict.fromkeys(row["method"] for row in found["classes"]))):
        some = [r for r in found["classes"] if (r["method"], r["sun"]) == (method, sun)]
        lines.append(f"| {method} | {sun:g}° | " + " | ".join(f"{mean(some, p):.3f}" for p in parts) + " |")
    lines += [
        "",
        "Displacements of the elevation model that were found to the pixel.",
        "",
        "| pixels | right | scenes |",
        "|---|---|---|",
    ]
    for pixels in (0, 1, 2):
        some = [row for row in found["audit"] if row["pixels"] == pixels]
        lines.append(f"| {pixels} | {sum(row['right'] for row in some)} | {len(some)} |")
    return "\n".join(lines)


def main() -> None:
    """All parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="10-12")
    parser.add_argument("--audit-seeds", default="20-39")
    args = parser.parse_args()
    first, last = map(int, args.seeds.split("-"))
    from_seed, to_seed = map(int, args.audit_seeds.split("-"))
    found: dict[str, list[dict[str, Any]]] = {"light": [], "normalisation": [], "classes": [], "audit": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        taught = mountains(folder, 0, 40.0)
        own = p3vae.train(taught / "m.tif", taught / "m_labels.gpkg", taught / "m.p3vae")
        models = {"earth": p3vae.load_model(None, "cpu"), "taught": own}
        for seed, sun in product(range(first, last + 1), SUNS):
            print(seed, sun, flush=True)
            found["light"] += light(folder, seed, sun, models)
            found["normalisation"] += normalisation(folder, seed, sun, models)
            found["classes"] += classes(folder, seed, sun, own)
        for seed in range(from_seed, to_seed + 1):
            found["audit"] += audit(folder, seed, (35.0, 50.0, 65.0)[seed % 3], own)
    write("terrain", found, table(found))


if __name__ == "__main__":
    main()
