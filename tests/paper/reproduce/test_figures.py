"""Figures are drawn from whatever the runs kept, and left out where they kept nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from p3vae.paper.reproduce.figures import draw
from p3vae.paper.reproduce.runs import RunResult, RunSpec, save, saved, saved_arrays

BANDS = np.linspace(400.0, 2400.0, 20)


def land_cover() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {"wavelength_nm": BANDS, "reliability.q": rng.random((3, 10)) * 40}
    for index in range(5):
        arrays |= {f"truth.{index}": rng.random((2, 20)), f"latent.{index}": rng.random((3, 20))}
    arrays |= {"along.light.0": rng.random((9, 20)), "along.mixing.0": rng.random((9, 20))}
    light = {f"z.{name}": rng.random(50) for name in ("truth", "mean", "std")}
    return arrays | light | {"z.class": np.arange(50) % 5, "z.right": rng.random(50) > 0.3}


def swings() -> dict[str, np.ndarray]:
    angle = np.sin(np.arange(400) / 9.0)[None].repeat(4, axis=0)
    return {"clean": angle, "predicted": 0.9 * angle, "omega": np.arange(4.0), "xi": np.arange(4.0)}


ARRAYS = {
    ("simulated", "simulated", "p3vae"): land_cover,
    ("disentanglement", "simulated", "p3vae"): land_cover,
    ("ablation", "simulated", "p3vae"): land_cover,
    ("methane", "methane", "p3vae"): lambda: {"truth": np.arange(9.0) * 1e4, "mean": np.arange(9.0) * 1.1e4},
    ("pendulum", "pendulum", "p3vae"): swings,
}
FIGURES = {
    "simulated": {"latent_spectra.png", "irradiance.png", "calibration.png"},
    "disentanglement": {"along_latents.png"},
    "ablation": {"ablation_spectra.png"},
    "methane": {"concentrations.png"},
    "pendulum": {"swings.png"},
}


@pytest.mark.parametrize("place", ARRAYS)
def test_every_figure_is_a_picture(tmp_path: Path, place: tuple[str, str, str]) -> None:
    table, experiment, model = place
    spec = RunSpec(experiment, model, 0)
    save(tmp_path / "runs", spec, RunResult({"f1": 1.0}, ARRAYS[place]()))
    paths = draw(table, [spec, RunSpec(experiment, "cnn", 0)], tmp_path / "runs", tmp_path)
    assert {path.name for path in paths} == FIGURES[table]
    assert all(path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 5000 for path in paths)


def test_runs_of_another_experiment_do_not_hide_a_figure(tmp_path: Path) -> None:
    """The table of ablations has rows of the simulated and of the real scene, and only the former draw."""
    simulated, real = RunSpec("simulated", "p3vae", 0), RunSpec("real", "p3vae", 0)
    save(tmp_path / "runs", simulated, RunResult({"f1": 1.0}, land_cover()))
    save(tmp_path / "runs", real, RunResult({"f1": 1.0}))
    for specs in ([simulated, real], [real, simulated]):
        paths = draw("ablation", specs, tmp_path / "runs", tmp_path)
        assert {path.name for path in paths} == FIGURES["ablation"]


@pytest.mark.parametrize("table", FIGURES)
def test_without_arrays_there_is_no_figure(tmp_path: Path, table: str) -> None:
    assert draw(table, [RunSpec("simulated", "cnn", 0)], tmp_path, tmp_path) == []


def test_arrays_come_back_as_they_were_kept(tmp_path: Path) -> None:
    spec = RunSpec("pendulum", "p3vae", 0)
    save(tmp_path, spec, RunResult({"in_mae": 1.0, "gap": float("nan")}, swings()))
    back = saved_arrays(tmp_path, spec)
    assert back.keys() == swings().keys()
    assert all(np.array_equal(back[name], values) for name, values in swings().items())


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"{", b"[]", b'{"scores": {}}'])
def test_a_record_that_cannot_be_read_counts_as_none(tmp_path: Path, content: bytes) -> None:
    spec = RunSpec("pendulum", "p3vae", 0)
    (tmp_path / f"{spec.stem}.json").write_bytes(content)
    assert saved(tmp_path, spec) is None


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_arrays_that_cannot_be_read_give_no_figure(tmp_path: Path, share: float) -> None:
    spec = RunSpec("pendulum", "p3vae", 0)
    save(tmp_path, spec, RunResult({"in_mae": 1.0}, swings()))
    path = tmp_path / f"{spec.stem}.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    assert saved_arrays(tmp_path, spec) == {}
