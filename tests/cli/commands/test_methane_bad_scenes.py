"""invert-methane on scenes that are broken, or too good to be true."""

from __future__ import annotations

import shutil

import h5py
import numpy as np
import pytest
import rasterio
from affine import Affine

from tests.cli.calls import refusal, run

ROWS, COLS = 70, 60
CUBES = "HDFEOS/SWATHS/PRS_L1_HCO/Data Fields"
NM = np.r_[np.arange(450, 1350, 50.0), np.arange(1450, 1800, 15.0), np.arange(1960, 2450, 8.0)]
METHODS = ("p3vae", "oe", "mf", "mf-log", "mag1c")


def refused(*arguments):
    return refusal(1, "invert-methane", *arguments)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    path = tmp_path_factory.mktemp("bad") / "two.he5"
    done = run("simulate", "-o", path, "--layout", "prisma-l1", "--size", f"{ROWS}x{COLS}",
               "--plume", 20000, "--plumes", 2)  # fmt: skip
    assert done.exit_code == 0, done.output
    return path


def without(source, target, *, cube, deleted):
    shutil.copy(source, target)
    with h5py.File(target, "r+") as file:
        if deleted:
            del file[f"{CUBES}/{cube}"]
        else:
            file[f"{CUBES}/{cube}"][...] = 0
    return target


@pytest.mark.parametrize("deleted", [False, True])
def test_without_the_visible_detector_methane_is_still_seen(scene, tmp_path, deleted):
    broken = without(scene, tmp_path / "two.he5", cube="VNIR_Cube", deleted=deleted)
    done = run("invert-methane", broken, "-o", tmp_path / "maps", "--method", "mf-log")
    assert done.exit_code == 0, done.output
    assert "spectrum: methane" in done.stdout


def test_without_the_short_wave_detector_the_reason_is_said(scene, tmp_path):
    dark = without(scene, tmp_path / "dark.he5", cube="SWIR_Cube", deleted=False)
    assert "no signal beyond 1000 nm" in refused(dark, "-o", tmp_path / "maps")
    gone = without(scene, tmp_path / "gone.he5", cube="SWIR_Cube", deleted=True)
    assert "no band sees methane" in refused(gone, "-o", tmp_path / "maps")
    assert not (tmp_path / "maps").exists()


def write_cube(path, values):
    with rasterio.open(
        path, "w", driver="GTiff", width=values.shape[2], height=values.shape[1], count=len(values),
        dtype="float32", crs="EPSG:32631", transform=Affine(30, 0, 370_000, 0, -30, 4_830_000),
    ) as target:  # fmt: skip
        target.write(values.astype("float32"))
        for index, centre in enumerate(NM, start=1):
            target.update_tags(index, wavelength=str(centre), wavelength_units="Nanometers")
    return path


def ground(kinds, side=70):
    """Radiance (bands, rows, cols) without any noise, of mixtures of some kinds of ground."""
    rng = np.random.default_rng(0)
    light = np.interp(NM, [400, 1000, 1600, 2200, 2500], [500, 230, 70, 22, 12]) / np.pi
    spectra = [0.3 - 0.05 * np.sin(NM / 200), 0.1 + NM / 1e4, 0.2 + 0.1 * np.exp(-(((NM - 2200) / 60) ** 2))]
    mixed = rng.dirichlet(np.ones(kinds), (side, side)) @ np.array(spectra[:kinds])
    return np.moveaxis(mixed * np.exp(0.3 * rng.standard_normal((side, side, 1))) * light, 2, 0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kinds", [1, 3])
def test_radiance_without_noise_gives_a_map_without_methane(tmp_path, method, kinds):
    path = write_cube(tmp_path / "clean.tif", ground(kinds))
    done = run("invert-methane", path, "-o", tmp_path, "--quantity", "radiance", "--sun-zenith", 30,
               "--method", method)  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "no plume found" in done.stdout
    with rasterio.open(tmp_path / "clean_methane.tif") as source:
        found = source.read(1)
    assert (found != -9999.0).mean() > 0.9 and np.isfinite(found).all()
    assert abs(np.median(found[found != -9999.0])) < 100.0


def test_a_scene_of_one_value_is_refused(tmp_path):
    flat = np.broadcast_to(ground(1)[:, :1, :1], (len(NM), 60, 60))
    said = refused(write_cube(tmp_path / "flat.tif", flat), "-o", tmp_path / "maps", "--quantity", "radiance",
                   "--sun-zenith", 30)  # fmt: skip
    assert "no band has signal that changes" in said
    assert not (tmp_path / "maps").exists()
