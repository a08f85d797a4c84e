"""Speed of prediction, 230 bands and 8 classes: the exact posterior against the published sampled one.

The published inference comes twice: as the preset runs it, which decodes each class's latent spectra once for
all pixels, and plainly, every class of every draw of every pixel through the networks.
"""

from __future__ import annotations

import resource
import time
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from landcover_common import parser, scores, settings, train_timed, use_threads, write
from landcover_toulouse import polygons
from protocols import toulouse

from p3vae.models.landcover.estimator import light_ratios
from p3vae.models.landcover.model import LandCoverModel
from p3vae.models.landcover.types import TrainingSet
from p3vae.models.landcover.vae.published import PublishedP3VAE
from p3vae.models.metrics import average_f1
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.irradiance import apparent_reflectance, sky_from_sun
from p3vae.physics.spectral_response import Bands

BANDS = 230


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--pixels", type=int, default=300_000)
    asked = options.parse_args()
    use_threads(asked.threads)
    split = toulouse.make_split(asked.data, seed=1)
    chosen = np.linspace(0, len(split["wv"]) - 1, BANDS).round().astype(int)
    bands = Bands.from_centres(split["wv"][chosen].astype(float) * 1000)
    zenith = float(np.degrees(split["theta"]))
    irradiance = SpectralIrradiance(
        bands.wavelength_nm, split["e_dir"][chosen], split["e_dif"][chosen], zenith
    )
    group = polygons(split["x_lab"], asked.data)
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
    # `model` and `rows` are the preset's now
    result["plain"] = plainly(model, relit[rows], truth[rows], irradiance)
    for name in ("paper", "plain"):
        result[f"ratio_to_{name}"] = result["default"]["pixels_per_s"] / result[name]["pixels_per_s"]
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


def plainly(
    model: LandCoverModel,
    spectra: np.ndarray,
    truth: np.ndarray,
    irradiance: SpectralIrradiance,
) -> dict[str, Any]:
    """Speed and F1 of the published inference without any short cut, the best of three."""
    estimator = model.estimator
    assert isinstance(estimator, PublishedP3VAE)
    light = light_ratios(irradiance).float()
    seconds, found = [], torch.empty(0)
    for _ in range(3):
        start = time.perf_counter()
        found = torch.cat(
            [plain_evidence(estimator, x, light) for x in torch.from_numpy(spectra).split(1000)]
        )
        seconds.append(time.perf_counter() - start)
    average = average_f1(truth, found.argmax(1).numpy(), estimator.classes)
    return {"pixels_per_s": len(spectra) / min(seconds), "posterior": {"average": average}}


@torch.no_grad()
def plain_evidence(estimator: PublishedP3VAE, x: torch.Tensor, light: torch.Tensor) -> torch.Tensor:
    """log p(x|y), (pixels, classes), from 5 draws; each decodes every class through the networks."""
    total = []
    for _ in range(estimator.objective.draws):
        drawn = estimator.classifier(x).softmax(1).multinomial(1)[:, 0]
        q = estimator.encode(estimator.embed(x), F.one_hot(drawn, estimator.classes).float()[:, None])
        z = q.rsample()
        sun, mixing = z[:, 0, 0], z[:, 0, 1:]
        misfits = []
        for k in range(estimator.classes):
            y = F.one_hot(torch.full((len(x),), k), estimator.classes).float()
            detail = torch.sigmoid(estimator.decoder.detail(y)).view(len(x), estimator.decoder.mixtures, -1)
            spectra = torch.sigmoid(estimator.decoder.level(y))[:, None] * detail
            reflectance = (mixing[:, :, None] * spectra).sum(1)
            seen = apparent_reflectance(reflectance, sun, sky_from_sun(sun), light[0], light[1])
            misfits.append(estimator.misfit(x, seen[:, None])[:, 0])
        total.append(q.log_ratio(z) - torch.stack(misfits, 1))
    return torch.stack(total).logsumexp(0)


def _table(result: dict[str, Any]) -> str:
    lines = ["| method | pixels/s | F1 on relit spectra (p) |", "|---|---|---|"]
    named = {
        "default": "default",
        "paper": "paper, as the preset runs it",
        "plain": "paper, every class of every draw through the networks",
    }
    for key, name in named.items():
        entry = result[key]
        lines.append(f"| {name} | {entry['pixels_per_s']:,.0f} | {entry['posterior']['average']:.3f} |")
    lines.append(
        f"\nRatio {result['ratio_to_plain']:.0f} to the plain one, {result['ratio_to_paper']:.0f} to the "
        f"preset's, {result['threads']} threads, {result['bands']} bands, 8 classes."
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
