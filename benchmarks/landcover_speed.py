"""Speed of prediction, 230 bands and 8 classes: the exact posterior against the published sampled one."""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np
from landcover_common import parser, protocol, scores, settings, train_timed, use_threads, write
from landcover_toulouse import polygons

from p3vae.models.landcover import LandCoverModel, TrainingSet
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands

BANDS = 230


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--pixels", type=int, default=300_000)
    asked = options.parse_args()
    use_threads(asked.threads)
    toulouse = protocol(asked.protocols, "toulouse")
    split = toulouse.make_split(seed=1)
    chosen = np.linspace(0, len(split["wv"]) - 1, BANDS).round().astype(int)
    bands = Bands.of(split["wv"][chosen].astype(float) * 1000)
    zenith = float(np.degrees(split["theta"]))
    irradiance = SpectralIrradiance(
        bands.wavelength_nm, split["e_dir"][chosen], split["e_dif"][chosen], zenith
    )
    group = polygons(toulouse, split["x_lab"], toulouse.DATA)
    data = TrainingSet(split["x_lab"][:, chosen], split["y_lab"], group, split["x_unl"][:, chosen])
    copies = -(-asked.pixels // len(split["x_test"]))
    relit, truth, _, _ = toulouse.relight(split, split["x_test"], split["y_test"], copies=copies)
    relit = np.ascontiguousarray(relit[: asked.pixels, chosen])
    truth = truth[: asked.pixels]
    result: dict[str, Any] = {"pixels": len(relit), "bands": BANDS, "threads": asked.threads}
    for variant, count in (("default", len(relit)), ("paper", 5000)):
        how = settings(variant, 0, asked.paper_epochs)
        model, seconds = train_timed(data, bands, irradiance, toulouse.CLASSES, how)
        rows = np.random.default_rng(0).permutation(len(relit))[:count]
        result[variant] = {
            "training_s": seconds,
            "pixels_per_s": pixels_per_second(model, relit[rows], irradiance),
            **scores(model, relit[rows[:5000]], truth[rows[:5000]], irradiance),
        }
    ratio = result["default"]["pixels_per_s"] / result["paper"]["pixels_per_s"]
    result["ratio"] = ratio
    result["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    write(asked.name or "landcover_speed", result, _table(result))


def pixels_per_second(model: LandCoverModel, spectra: np.ndarray, irradiance: SpectralIrradiance) -> float:
    """All default maps, after one call that fills the tables; the best of three."""
    model.predict(spectra[:4096], irradiance)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        model.predict(spectra, irradiance)
        seconds.append(time.perf_counter() - start)
    return len(spectra) / min(seconds)


def _table(result: dict[str, Any]) -> str:
    lines = ["| method | pixels/s | F1 on relit spectra (p) |", "|---|---|---|"]
    for name in ("default", "paper"):
        entry = result[name]
        lines.append(f"| {name} | {entry['pixels_per_s']:,.0f} | {entry['posterior']['average']:.3f} |")
    lines.append(
        f"\nRatio {result['ratio']:.0f}, {result['threads']} threads, {result['bands']} bands, 8 classes."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
