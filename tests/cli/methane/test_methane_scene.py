"""A scene as the methane methods see it: working bands and columns, smile groups, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from p3vae.cli.errors import BandMismatchError, SceneError
from p3vae.cli.labels import draw_pixels
from p3vae.cli.methane.scene import MethaneScene
from p3vae.cli.scenes.base import Acquisition
from p3vae.physics.methane import MethaneAbsorption
from p3vae.physics.spectral_response import Bands
from tests.cli.fake_scene import MemoryReader, memory_scene

ROWS, COLS = 40, 48
NM = np.arange(620.0, 2460.0, 20.0)
TABLE = MethaneAbsorption.load()
SMILE_NM = np.linspace(-3.0, 3.0, COLS)


def radiance(seed: int = 0) -> np.ndarray:
    """Lit ground [W m-2 sr-1 um-1], (rows, cols, bands)."""
    rng = np.random.default_rng(seed)
    sun = 400.0 * np.exp(-(NM - 600.0) / 500.0)
    return (
        0.1 * sun * rng.uniform(0.5, 1.5, (ROWS, COLS, 1)) * rng.uniform(0.98, 1.02, (ROWS, COLS, 1))
    ).astype(np.float32) * rng.uniform(0.99, 1.01, (ROWS, COLS, len(NM))).astype(np.float32)


def seen(cube: np.ndarray, *, smile: bool = False, nm: np.ndarray = NM, **acquisition) -> MethaneScene:
    scene = replace(
        memory_scene(cube, reader=MemoryReader(cube)),
        bands=Bands.from_centres(nm, np.full(len(nm), 12.0)),
        quantity="radiance",
        acquisition=Acquisition(**{"sun_zenith_deg": 40.0, **acquisition}),
        column_wavelength_nm=nm + SMILE_NM[:, None] if smile else None,
    )
    return MethaneScene.from_scene(scene, draw_pixels(scene, 10_000, 0), TABLE, 5e4)


def used(found: MethaneScene) -> list[float]:
    return found.nominal.tolist()


def test_bands_are_those_with_signal_outside_water_vapour():
    cube = radiance()
    cube[..., 5] = 0.0
    cube[:: ROWS // 2, :, 9] = -0.1  # a twentieth of the pixels
    cube[0, :3, 11] = -0.1  # fewer than one in a hundred
    found = seen(cube)
    moist = ((NM >= 1340.0) & (NM <= 1450.0)) | ((NM >= 1790.0) & (NM <= 1960.0))
    left_out = moist | np.isin(np.arange(len(NM)), [5, 9])
    assert used(found) == NM[~left_out].tolist()
    assert found.bands.tolist() == np.flatnonzero(~left_out).tolist()
    assert found.clear.all() and found.ground == "100 % clear" and not found.dead.any()


@pytest.mark.parametrize(
    ("view", "path"), [(None, 1 / np.cos(np.radians(40.0)) + 1.0), (60.0, 1 / 0.76604444 + 2.0)]
)
def test_light_crosses_the_plume_on_its_way_down_and_up(view, path):
    found = seen(radiance(), view_zenith_deg=view)
    assert found.optics.air_mass_factor == pytest.approx(path)
    assert (found.sun_zenith_deg, found.view_zenith_deg) == (40.0, view)
    assert found.optics.max_ppm_m == 5e4 and found.optics.detector_columns is None
    assert found.groups(np.arange(COLS)) is None


def test_columns_are_dead_that_have_no_signal_or_always_the_same():
    cube = radiance()
    dark, stuck = 7, 30
    cube[:, dark, 70] = 0.0
    cube[:, stuck, 71] = cube[0, stuck, 71]
    found = seen(cube)
    assert np.flatnonzero(found.dead).tolist() == [dark, stuck]
    assert {NM[70], NM[71]} <= {*used(found)}
    spectra = cube[3][:, found.bands]
    assert np.flatnonzero(~found.usable(spectra, np.arange(COLS))).tolist() == [dark, stuck]


def test_a_band_that_is_stuck_everywhere_is_no_fault_of_the_columns():
    cube = radiance()
    cube[..., 70] = 1.5
    found = seen(cube)
    assert not found.dead.any() and NM[70] not in used(found)


def test_a_pixel_needs_signal_in_nine_tenths_of_its_bands():
    found = seen(radiance())
    spectra = np.ones((2, len(found.bands)), np.float32)
    spectra[0, : len(found.bands) // 12] = 0.0
    spectra[1, : len(found.bands) // 8] = 0.0
    assert found.usable(spectra, np.array([0, 1])).tolist() == [True, False]


def test_a_smile_is_averaged_over_neighbouring_columns():
    """Optical depths of a group are those of bands at the mean of its columns' centres."""
    found = seen(radiance(), smile=True)
    groups = found.groups(np.arange(COLS)).tolist()
    parts = np.array_split(np.arange(COLS), 32)
    assert groups == [number for number, part in enumerate(parts) for _ in part]
    assert found.optics.detector_columns == 32
    column = torch.tensor([2e4], dtype=torch.float64)
    for group in (0, 13, 31):
        centres = found.nominal + SMILE_NM[parts[group]].mean()
        alone = TABLE.band_transmittance(Bands.from_centres(centres, np.full(len(centres), 12.0)))
        depth = found.optics.curves.optical_depth(column, torch.tensor([group]))
        torch.testing.assert_close(depth, alone.optical_depth(column), rtol=2e-3, atol=1e-6)


def test_cloud_and_water_are_not_learned_from():
    cube = radiance()
    cube[:10] *= np.float32(0.001)
    found = seen(cube)
    assert found.clear.mean() == pytest.approx(0.75)
    assert found.ground == "75 % clear, 25 % water, deep shadow or snow"


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"sun_zenith_deg": None}, SceneError, "zenith angle is unknown"),
        ({"sun_zenith_deg": 85.0}, SceneError, "the sun stands at 85.0 degrees"),
        ({"view_zenith_deg": 86.0}, SceneError, "the sensor stands at 86.0 degrees"),
        ({"view_zenith_deg": -1.0}, SceneError, "the sensor stands at -1.0 degrees"),
        ({"nm": NM - 200.0}, None, ""),
        ({"nm": np.linspace(400.0, 1000.0, len(NM))}, BandMismatchError, "methane"),
    ],
)
def test_what_cannot_show_methane_is_refused(change, error, words):
    if error is None:
        assert seen(radiance(), **change).optics.absorbing.any()
        return
    with pytest.raises(error, match=words):
        seen(radiance(), **change)


@pytest.mark.parametrize(
    ("spoiled", "words"),
    [
        (np.s_[..., NM > 1000.0], "no signal beyond 1000 nm"),
        (np.s_[..., NM > 1600.0], "no clear ground to learn from: 100 % water"),
    ],
)
def test_a_scene_without_light_in_the_short_wave_infrared_is_refused(spoiled, words):
    cube = radiance()
    cube[spoiled] = 0.0
    with pytest.raises(SceneError, match=words):
        seen(cube)


def test_a_scene_of_one_value_is_refused():
    with pytest.raises(SceneError, match="no band has signal that changes"):
        seen(np.broadcast_to(radiance()[0, 0], (ROWS, COLS, len(NM))).copy())
