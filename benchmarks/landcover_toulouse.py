"""Real spectra of Toulouse: spatial splits, as they are and relit, for every variant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from landcover_common import VARIANTS, parser, scores, settings, train_timed, use_threads, write
from protocols import toulouse

from p3vae.models.landcover.types import TrainingSet
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands

_METHODS = ("posterior", "classifier")


def polygons(spectra: np.ndarray, folder: Path) -> np.ndarray:
    """The connected component each labelled spectrum came from, found by its values."""
    data = np.load(folder / "toulouse" / "toulouse.npz")
    rows = {row.tobytes(): i for i, row in enumerate((data["spectra"] / 1e4).astype(np.float32))}
    component = np.zeros(len(data["label"]), int)
    offset = 0
    for label in range(1, 9):
        for image in np.unique(data["image"][data["label"] == label]):
            mask = (data["label"] == label) & (data["image"] == image)
            component[mask] = (
                toulouse.components(np.stack([data["row"][mask], data["col"][mask]], 1)) + offset
            )
            offset = component.max() + 1
    return np.array([component[rows[row.tobytes()]] for row in spectra])


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--first", type=int, default=0, help="first split")
    asked = options.parse_args()
    use_threads(asked.threads)
    runs: list[dict[str, Any]] = []
    for variant in asked.variant or VARIANTS:
        for seed in range(asked.first, asked.first + asked.seeds):
            split = toulouse.make_split(asked.data, seed=seed)
            bands = Bands.from_centres(split["wv"].astype(float) * 1000)
            zenith = float(np.degrees(split["theta"]))
            irradiance = SpectralIrradiance(bands.wavelength_nm, split["e_dir"], split["e_dif"], zenith)
            group = polygons(split["x_lab"], asked.data)
            data = TrainingSet(split["x_lab"], split["y_lab"], group, split["x_unl"])
            how = settings(variant, seed, asked.paper_epochs)
            model, seconds = train_timed(data, bands, irradiance, toulouse.CLASSES, how)
            relit, truth, z, _ = toulouse.relight(split, split["x_test"], split["y_test"], copies=3)
            runs.append(
                {
                    "variant": variant,
                    "split": seed,
                    "seconds": seconds,
                    "validation_f1": model.summary.average_f1,
                    "estimator": model.estimator.metadata(),
                    "test": scores(model, split["x_test"], split["y_test"], irradiance),
                    "relit": scores(model, relit, truth, irradiance, z),
                }
            )
            write(asked.name or "landcover_toulouse", {"runs": runs}, _table(runs))


def _table(runs: list[dict[str, Any]]) -> str:
    lines = [
        "| variant | split | test p / q | relit p / q | relit z MAE, corr "
        "| called unknown, of wrong / of right test pixels | training s |",
        "|---|---|---|---|---|---|---|",
    ]
    for variant in dict.fromkeys(run["variant"] for run in runs):
        mine = [run for run in runs if run["variant"] == variant]
        for run in mine:
            lines.append(_row(f"| {variant} | {run['split']} |", [run]))
        lines.append(_row(f"| **{variant}** | mean of {len(mine)} |", mine))
    return "\n".join(lines)


def _row(start: str, runs: list[dict[str, Any]]) -> str:
    def mean(values: list[float | None], form: str) -> str:
        met = [value for value in values if value is not None]
        return f"{np.mean(met):{form}}" if met else "–"

    def f1(part: str) -> str:
        return " / ".join(mean([run[part][by]["average"] for run in runs], ".3f") for by in _METHODS)

    def light(key: str, form: str) -> str:
        return mean([run["relit"].get("z", {}).get(key) for run in runs], form)

    def unknown(kind: str) -> str:
        return mean([run["test"].get(f"unknown_of_{kind}") for run in runs], ".2f")

    return (
        f"{start} {f1('test')} | {f1('relit')} | {light('mae', '.3f')}, {light('correlation', '.2f')} "
        f"| {unknown('wrong')} / {unknown('right')} | {mean([run['seconds'] for run in runs], '.0f')} |"
    )


if __name__ == "__main__":
    main()
