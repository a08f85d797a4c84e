"""Simulated scenes: F1, irradiance, light outside the model's physics, and another sun, for every variant."""

from __future__ import annotations

from typing import Any

import numpy as np
from landcover_common import VARIANTS, parser, scores, settings, train_timed, use_threads, write
from protocols import simulated as sim

from p3vae.models.landcover.types import TrainingSet
from p3vae.physics.illumination import SpectralIrradiance, clear_sky_irradiance
from p3vae.physics.spectral_response import Bands

OUTSIDE = {
    "neighbours": {"neighbours": 0.15},
    "sky colour": {"colour": 0.7},
    "smooth variability": {"smooth": 0.05},
    "three times the noise": {"noise": 3.0},
    "all together": {"neighbours": 0.15, "colour": 0.7, "smooth": 0.05, "noise": 3.0},
}


def training_set(sim: Any, scene: dict[str, np.ndarray]) -> TrainingSet:
    """Labels of the training mask; polygons are its connected parts; everything else is unlabelled."""
    labels = scene["train_gt"]
    group = np.zeros(labels.shape, int)
    for index in range(1, 6):
        parts, _ = sim._regions(labels == index)
        group[labels == index] = parts[labels == index] + 1000 * index
    mask = labels > 0
    return TrainingSet(scene["x"][mask], labels[mask] - 1, group[mask], scene["x"][~mask])


def outside_physics(
    sim: Any,
    data: dict[str, Any],
    count: int,
    seed: int,
    *,
    neighbours: float = 0.0,
    colour: float = 0.0,
    smooth: float = 0.0,
    noise: float = 1.0,
) -> dict[str, np.ndarray]:
    """Random test spectra with what f_E leaves out.

    neighbours: largest share of light sent by one other material; colour: largest exponent of wavelength by
    which skylight departs from the assumed one; smooth: relative deviation along the spectrum; noise: factor.
    """
    rng = np.random.default_rng(seed)
    test = sim.make_test_random(data, n=count, seed=seed, noise={"rho_white": 0, "rho_gain": 0, "sensor": 0})
    size, bands = test["x"].shape
    reflectance = test["x"] / np.maximum(sim.shade(data, test["z"], test["w"]), 1e-6)
    total = data["e_dir"] + data["e_dif"]
    sky = data["e_dif"] / total * (data["wv"] / 0.6) ** -rng.uniform(-colour, colour, (size, 1))
    library = np.concatenate(data["rho"])
    light = test["z"][:, None] * (data["e_dir"] / data["cos0"] / total) + test["w"][:, None] * sky
    light = light + rng.uniform(0, neighbours, (size, 1)) * library[rng.integers(0, len(library), size)]
    position = np.linspace(-1, 1, bands)
    waves = np.stack([np.cos(k * np.pi * (position + 1) / 2) for k in range(1, 5)])
    deviation = np.exp(rng.standard_normal((size, 4)) * (smooth / 2) @ waves)
    levels = sim.NOISE
    reflectance = reflectance * deviation * (1 + levels["rho_gain"] * rng.standard_normal((size, 1)))
    reflectance = reflectance + noise * levels["rho_white"] * rng.standard_normal((size, bands))
    spectra = light * reflectance + noise * levels["sensor"] * rng.standard_normal((size, bands))
    return {**test, "x": np.clip(spectra, 1e-4, None).astype(np.float32)}


def under_another_sun(
    sim: Any, data: dict[str, Any], bands: Bands, zenith: float, seed: int
) -> tuple[dict[str, np.ndarray], SpectralIrradiance]:
    """Test spectra under a sun of another zenith, with the irradiance of that sun."""
    there = clear_sky_irradiance(bands, zenith)
    moved = {
        **data,
        "e_dir": there.direct,
        "e_dif": there.diffuse,
        "cos0": float(np.cos(np.radians(zenith))),
    }
    return sim.make_test_random(moved, n=2000, seed=seed), there


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--inits", type=int, default=2)
    options.add_argument("--test-size", type=int, default=10_000, help="spectra per class")
    options.add_argument("--other-sun", action="store_true", help="train at 30 degrees, classify at 55")
    asked = options.parse_args()
    use_threads(asked.threads)
    data = sim.load_material(asked.data)
    bands = Bands.from_centres(data["wv"] * 1000)
    irradiance = SpectralIrradiance(bands.wavelength_nm, data["e_dir"], data["e_dif"], 30.0)
    test = sim.make_test_random(data, n=asked.test_size, seed=1)
    grid = sim.make_test_grid(data, n=asked.test_size)
    odd = {name: outside_physics(sim, data, 1000, 7, **kw) for name, kw in OUTSIDE.items()}
    far, far_light = under_another_sun(sim, data, bands, 55.0, 3)
    clear = clear_sky_irradiance(bands, 30.0)
    near_data = {**data, "e_dir": clear.direct, "e_dif": clear.diffuse}
    runs: list[dict[str, Any]] = []
    for variant in asked.variant or VARIANTS:
        for scene_seed in range(asked.seeds):
            data_set = training_set(sim, sim.make_scene(data, scene_seed))
            for init in range(asked.inits):
                how = settings(variant, init, asked.paper_epochs)
                model, seconds = train_timed(data_set, bands, irradiance, sim.CLASSES, how)
                run = {
                    "variant": variant,
                    "scene": scene_seed,
                    "init": init,
                    "seconds": seconds,
                    "restarts": model.summary.restarts,
                    "random": scores(model, test["x"], test["y"], irradiance, test["z"]),
                    "grid": scores(model, grid["x"], grid["y"], irradiance, grid["z"]),
                    "outside": {n: scores(model, t["x"], t["y"], irradiance, t["z"]) for n, t in odd.items()},
                }
                if asked.other_sun and init == 0:
                    sun = training_set(sim, sim.make_scene(near_data, scene_seed))
                    other, _ = train_timed(sun, bands, clear, sim.CLASSES, how)
                    run["sun_55"] = scores(other, far["x"], far["y"], far_light, far["z"])
                runs.append(run)
                write(asked.name or "landcover_simulated", {"runs": runs}, _table(runs))


def _table(runs: list[dict[str, Any]]) -> str:
    lines = [
        "| variant | runs | random p (std, lowest class) | random q (lowest run) | grid p / q "
        "| z MAE, bias, corr | within 1, 1.96 std | outside: "
        + ", ".join(OUTSIDE)
        + " (p) | all together q | 30° → 55° p / q | training s |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for variant in dict.fromkeys(run["variant"] for run in runs):
        mine = [run for run in runs if run["variant"] == variant]

        def mean(*path: str, rows: list[dict[str, Any]] = mine) -> float:
            values = [_dig(run, path) for run in rows if path[0] in run]
            return float(np.mean(values)) if values else float("nan")

        f1 = [run["random"]["posterior"]["average"] for run in mine]
        lowest = min(run["random"]["posterior"]["lowest"] for run in mine)
        worst_q = min(run["random"]["classifier"]["average"] for run in mine)
        z = ("random", "z")
        outside = ", ".join(f"{mean('outside', name, 'posterior', 'average'):.3f}" for name in OUTSIDE)
        far = (mean("sun_55", m, "average") for m in ("posterior", "classifier"))
        lines.append(
            f"| {variant} | {len(mine)} | {np.mean(f1):.4f} ({np.std(f1):.4f}, {lowest:.3f}) "
            f"| {mean('random', 'classifier', 'average'):.4f} ({worst_q:.3f}) "
            f"| {mean('grid', 'posterior', 'average'):.3f} / {mean('grid', 'classifier', 'average'):.3f} "
            f"| {mean(*z, 'mae'):.3f}, {mean(*z, 'bias'):+.3f}, {mean(*z, 'correlation'):.3f} "
            f"| {mean(*z, 'within_one_std'):.2f}, {mean(*z, 'within_95'):.2f} "
            f"| {outside} | {mean('outside', 'all together', 'classifier', 'average'):.3f} "
            f"| {' / '.join(f'{value:.3f}' for value in far)} | {mean('seconds'):.0f} |"
        )
    return "\n".join(lines)


def _dig(run: dict[str, Any], path: tuple[str, ...]) -> float:
    value: Any = run
    for key in path:
        value = value[key]
    return float(value)


if __name__ == "__main__":
    main()
