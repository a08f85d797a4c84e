"""The figures of the paper, from arrays that the runs of the first seed kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from p3vae.paper.pendulum.physics import OBSERVED_STEPS, TIME_STEP_S
from p3vae.paper.reproduce.runs import RunSpec, saved_arrays
from p3vae.paper.reproduce.townscape import CLASSES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Arrays = Mapping[str, npt.NDArray[Any]]

TITLES = {
    "p3vae": "p3VAE, ours",
    "p3vae-paper": "p3VAE as published",
    "p3vae-published": "p3VAE as published",
    "p3vae-no-physics": "ours, no physics",
    "p3vae-paper-no-sg": "published, no stop-gradient",
    "cnn": "CNN",
    "cnn-all-labels": "CNN, all labels",
    "random-forest": "random forest",
    "ss-infogan": "ssInfoGAN",
    "gaussian-vae": "Gaussian VAE",
    "guided-vae": "physics-guided VAE",
    "optimal-estimation": "optimal estimation",
    "matched-filter": "matched filter",
    "log-matched-filter": "matched filter, log",
    "vae-ode": "VAE + ODE",
    "phi-vae": "φ-VAE",
}
_BLUE, _ORANGE, _GREY = "#2b6cb0", "#dd6b20", "#8a8f98"
_GAP_NM = 30.0
_FEWEST = 10
"""Predictions without which a point of a calibration curve is chance."""


def draw(table: str, specs: list[RunSpec], runs: Path, folder: Path) -> list[Path]:
    """Figures of one table as PNG files; those whose runs kept nothing are left out."""
    found = [(spec.model, saved_arrays(runs, spec)) for spec in specs if spec.seed == 0]
    # A model may have runs of two experiments in one table, of which one keeps nothing.
    arrays: dict[str, Arrays] = {model: mine for model, mine in found if mine}
    painters: dict[str, tuple[tuple[str, Callable[[dict[str, Arrays]], Figure | None]], ...]] = {
        "simulated": (
            ("latent_spectra", latent_spectra),
            ("irradiance", irradiance),
            ("calibration", calibration),
        ),
        "disentanglement": (("along_latents", along_latents),),
        "ablation": (("ablation_spectra", latent_spectra),),
        "methane": (("concentrations", concentrations),),
        "pendulum": (("swings", swings),),
    }
    paths = []
    for name, paint in painters.get(table, ()):
        figure = paint(arrays)
        if figure is not None:
            paths.append(folder / f"{name}.png")
            figure.savefig(paths[-1], dpi=130)
    return paths


def _figure(rows: int, cols: int, width: float, height: float, **kwargs: Any) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * cols + 0.6, height * rows + 0.6), layout="constrained")
    axes = figure.subplots(rows, cols, squeeze=False, **kwargs)
    for axis in axes.ravel():
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _name_columns(axes: Any, names: Sequence[str], quantity: str) -> None:
    """Titles above the first row, the shared quantity under the last."""
    for index, name in enumerate(names):
        axes[0, index].set_title(name, fontsize=10)
        axes[-1, index].set_xlabel(quantity, fontsize=9)


def _spectrum(axis: Axes, wavelength: npt.NDArray[Any], values: npt.NDArray[Any], **style: Any) -> None:
    """A line that is broken where bands are missing."""
    cuts = np.flatnonzero(np.diff(wavelength) > _GAP_NM) + 1
    axis.plot(
        np.insert(wavelength, cuts, np.nan) / 1000.0, np.insert(values.astype(float), cuts, np.nan), **style
    )


def latent_spectra(arrays: dict[str, Arrays]) -> Figure | None:
    """Latent reflectance spectra of each class, one model per row, with the true materials."""
    models = {name: mine for name, mine in arrays.items() if "latent.0" in mine}
    if not models:
        return None
    figure, axes = _figure(len(models), len(CLASSES), 2.5, 1.9, sharex=True, sharey="col")
    for line, (model, mine) in zip(axes, models.items(), strict=True):
        for index, axis in enumerate(line):
            for number, spectrum in enumerate(mine[f"latent.{index}"]):
                label = "latent" if number == 0 else None
                _spectrum(axis, mine["wavelength_nm"], spectrum, color=_BLUE, lw=1.0, label=label)
            for number, spectrum in enumerate(mine[f"truth.{index}"]):
                label = "truth" if number == 0 else None
                style = {"color": "black", "lw": 0.9, "ls": (0, (3, 2)), "label": label}
                _spectrum(axis, mine["wavelength_nm"], spectrum, **style)
        line[0].set_ylabel(f"{TITLES.get(model, model)}\nreflectance", fontsize=9)
    _name_columns(axes, CLASSES, "wavelength [µm]")
    for axis in axes[0]:
        axis.set_ylim(bottom=0.0)
    axes[0, 0].legend(fontsize=8, frameon=False)
    return figure


def irradiance(arrays: dict[str, Arrays]) -> Figure | None:
    """z_E against the true δ·cosΘ per class; the larger a point, the less sure."""
    models = {name: mine for name, mine in arrays.items() if "z.mean" in mine}
    if not models:
        return None
    figure, axes = _figure(len(models), len(CLASSES), 2.3, 2.2, sharex=True, sharey=True)
    for line, (model, mine) in zip(axes, models.items(), strict=True):
        for index, axis in enumerate(line):
            axis.plot([0, 1], [0, 1], color=_GREY, lw=0.8)
            for right, colour, label in ((True, _BLUE, "class right"), (False, _ORANGE, "class wrong")):
                chosen = (mine["z.class"] == index) & (mine["z.right"] == right)
                size = 3.0 + 160.0 * mine["z.std"][chosen]
                place = mine["z.truth"][chosen], mine["z.mean"][chosen]
                axis.scatter(*place, s=size, color=colour, alpha=0.45, lw=0, label=label)
            axis.set(xlim=(0, 1), ylim=(0, 1))
        line[0].set_ylabel(f"{TITLES.get(model, model)}\n$z_E$", fontsize=9)
    _name_columns(axes, CLASSES, "true δ·cosΘ")
    for mark in axes[0, 0].legend(fontsize=7, frameon=False, loc="upper left").legend_handles:
        mark.set_sizes([15.0])
    return figure


def calibration(arrays: dict[str, Arrays]) -> Figure | None:
    """How often predictions of a given confidence are right, by classifier and by posterior."""
    if not arrays:
        return None
    from matplotlib import colormaps

    figure, axes = _figure(1, 2, 3.6, 3.4, sharex=True, sharey=True)
    for axis, letter in zip(axes[0], "qp", strict=True):
        axis.plot([0, 1], [0, 1], color=_GREY, lw=0.8)
        for number, (model, mine) in enumerate(arrays.items()):
            if f"reliability.{letter}" not in mine:
                continue
            confidence, accuracy, count = mine[f"reliability.{letter}"]
            met = count >= _FEWEST
            style = {"marker": "o", "ms": 3, "lw": 1.3, "color": colormaps["tab10"](number % 10)}
            label = TITLES.get(model, model) if letter == "q" else None
            axis.plot(confidence[met], accuracy[met], label=label, **style)
        axis.set(xlim=(0, 1.02), ylim=(0, 1.02), title=f"{letter}(y|x)")
        axis.set_xlabel("confidence", fontsize=9)
    axes[0, 0].set_ylabel("share of right predictions", fontsize=9)
    figure.legend(fontsize=8, frameon=False, loc="outside right center")
    return figure


def along_latents(arrays: dict[str, Arrays]) -> Figure | None:
    """What each model changes in a spectrum when only its light code moves, and when only the others do."""
    models = {name: mine for name, mine in arrays.items() if any(k.startswith("along.") for k in mine)}
    if not models:
        return None
    from matplotlib import colormaps

    first = next(iter(models.values()))
    columns = [key for key in first if key.startswith("along.")]
    figure, axes = _figure(len(models), len(columns), 2.5, 1.9, sharex=True, sharey="col")
    for line, (model, mine) in zip(axes, models.items(), strict=True):
        for axis, key in zip(line, columns, strict=True):
            for step, curve in enumerate(mine[key]):
                colour = colormaps["viridis"](0.9 * step / (len(mine[key]) - 1))
                _spectrum(axis, mine["wavelength_nm"], curve, color=colour, lw=1.1)
        line[0].set_ylabel(f"{TITLES.get(model, model)}\nreflectance", fontsize=9)
    for axis in axes[0]:
        axis.set_ylim(bottom=0.0)
    kinds = {"light": "first code ($z_E$)", "mixing": "others ($v$)"}
    parts = [key.split(".") for key in columns]
    _name_columns(axes, [f"{CLASSES[int(k)]}, {kinds[kind]}" for _, kind, k in parts], "wavelength [µm]")
    return figure


def concentrations(arrays: dict[str, Arrays]) -> Figure | None:
    """Predicted against true path-integrated concentration."""
    if not arrays:
        return None
    figure, axes = _figure(1, len(arrays), 2.4, 2.6, sharex=True, sharey=True)
    for axis, (model, mine) in zip(axes[0], arrays.items(), strict=True):
        truth, mean = mine["truth"] / 1000.0, mine["mean"] / 1000.0
        axis.plot([0, 105], [0, 105], color=_GREY, lw=0.8)
        axis.scatter(truth, mean, s=5, color=_BLUE, alpha=0.45, lw=0)
        error = np.abs(mine["mean"] - mine["truth"]).mean()
        axis.set_title(f"{TITLES.get(model, model)}\nMAE {error:,.0f} ppm m", fontsize=9)
        axis.set(xlim=(0, 105), ylim=(-5, 125))
        axis.set_xlabel("true [1000 ppm m]", fontsize=9)
    axes[0, 0].set_ylabel("predicted [1000 ppm m]", fontsize=9)
    return figure


def swings(arrays: dict[str, Arrays]) -> Figure | None:
    """Test swings: what was seen, what followed, and what each model expected."""
    if not arrays:
        return None
    first = next(iter(arrays.values()))
    figure, axes = _figure(len(arrays), len(first["xi"]), 2.9, 1.5, sharex=True, sharey="col")
    for line, (model, mine) in zip(axes, arrays.items(), strict=True):
        time = np.arange(mine["clean"].shape[1]) * TIME_STEP_S
        for index, axis in enumerate(line):
            axis.axvspan(0, OBSERVED_STEPS * TIME_STEP_S, color="#e8eaed", lw=0, label="observed")
            axis.plot(time, mine["clean"][index], color="black", lw=0.9, label="truth")
            axis.plot(time, mine["predicted"][index], color=_ORANGE, lw=1.1, label="predicted")
            reach = 1.3 * np.abs(mine["clean"][index]).max()
            axis.set(xlim=(0, time[-1]), ylim=(-reach, reach))
        line[0].set_ylabel(f"{TITLES.get(model, model)}\nangle [rad]", fontsize=9)
    truth = zip(first["omega"], first["xi"], strict=True)
    _name_columns(axes, [f"ω = {omega:.1f} s⁻¹, ξ = {xi:.2f} s⁻¹" for omega, xi in truth], "time [s]")
    axes[0, -1].legend(fontsize=7, frameon=False, loc="upper right")
    return figure
