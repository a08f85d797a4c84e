"""What invert-methane says of the spectra of its plumes: methane, or ground that a filter takes for it."""

from __future__ import annotations

import json
import shutil

import geopandas
import h5py
import numpy as np
import pytest
import rasterio

from tests.cli.calls import stdout_of, succeed

CUBES = "HDFEOS/SWATHS/PRS_L1_HCO/Data Fields"


def dips(nm, *bands):
    """1 less Gaussian absorption features (centre [nm], full width [nm], depth)."""
    out = np.ones_like(nm)
    for centre, width, depth in bands:
        out -= depth * np.exp(-4 * np.log(2) * ((nm - centre) / width) ** 2)
    return out


SURFACES = {
    # centres and widths after Hunt (1977): CO3 at 2.33 and 2.53 um; Mg-OH at 2.32 um; Fe-OH near 2.26 um
    "carbonate": ((2330, 120, 0.3), (2530, 100, 0.3)),
    "serpentine": ((2320, 110, 0.35), (2110, 80, 0.1)),
    "clay": ((2260, 80, 0.25),),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A scene without plumes."""
    scene = tmp_path_factory.mktemp("vetting") / "none.he5"
    succeed("simulate", "-o", scene, "--layout", "prisma-l1", "--size", "400x60")
    return scene


def painted(source, target, features):
    """The same scene with a field of 8 x 20 pixels whose reflectance has absorption features."""
    shutil.copy(source, target)
    with h5py.File(target, "r+") as file:
        nm = file.attrs["List_Cw_Swir"].astype(float)
        cube = file[f"{CUBES}/SWIR_Cube"]
        field = cube[20:40, :, 200:208].astype(float)
        cube[20:40, :, 200:208] = np.rint(field * dips(nm, *features)[None, :, None]).astype("u2")
    return target


def found(scene, out, *options):
    said = json.loads(stdout_of("invert-methane", scene, "-o", out, "--json", *options))
    tables = [geopandas.read_file(out / f"{scene.stem}_plumes.{end}") for end in ("gpkg", "geojson")]
    for table in tables:
        assert table.spectrum.tolist() == [plume["spectrum"] for plume in said["plumes"]]
        ratios = [plume["methane_log_ratio"] for plume in said["plumes"]]
        assert table.methane_log_ratio.tolist() == pytest.approx(ratios)
    return said["plumes"]


@pytest.mark.parametrize("method", ["p3vae", "mf-log"])
def test_a_plume_has_the_spectrum_of_methane(mapped_plumes, tmp_path, method):
    known = ("-m", mapped_plumes / "ground.p3vae") if method == "p3vae" else ("--method", method)
    first = found(mapped_plumes / "two.he5", tmp_path, *known)[0]
    assert first["spectrum"] == "methane" and first["methane_log_ratio"] > 20.0


@pytest.mark.parametrize("surface", SURFACES)
def test_a_surface_that_a_filter_takes_for_a_plume_is_left_out_and_counted(plain, tmp_path, surface):
    scene = painted(plain, tmp_path / f"{surface}.he5", SURFACES[surface])
    said = json.loads(stdout_of("invert-methane", scene, "-o", tmp_path, "--json", "--method", "mf-log"))
    with rasterio.open(tmp_path / f"{surface}_methane.tif") as source:
        field = source.read(1)[200:208, 20:40]
    assert np.median(field) > 5000.0, "the filter is expected to fall for it"
    assert said["plumes"] == [] and said["rejected_by_spectrum"] == 1


def test_the_spectrum_is_read_where_the_plume_is_on_a_map_grid(mapped_plumes, tmp_path):
    swath = found(mapped_plumes / "two.he5", tmp_path / "swath", "--method", "mf-log")[0]
    utm = found(mapped_plumes / "two.he5", tmp_path / "utm", "--method", "mf-log", "--grid", "utm")[0]
    assert utm["spectrum"] == "methane"
    assert utm["methane_log_ratio"] == pytest.approx(swath["methane_log_ratio"], rel=0.5)


@pytest.mark.parametrize("method", ["mf", "mag1c"])
def test_a_detector_column_that_sees_otherwise_is_judged_by_its_own_pixels(plain, tmp_path, method):
    """One column has a gain that wanders by 3 % along the spectrum, as after a calibration that drifted."""
    striped = tmp_path / "striped.he5"
    shutil.copy(plain, striped)
    with h5py.File(striped, "r+") as file:
        nm = file.attrs["List_Cw_Swir"].astype(float)
        cube = file[f"{CUBES}/SWIR_Cube"]
        gain = 1.0 + 0.03 * np.sin(nm / 25.0)
        cube[20] = np.rint(cube[20] * gain[:, None]).astype("u2")  # stored east to west
    succeed("invert-methane", striped, "-o", tmp_path, "--method", method)
    with rasterio.open(tmp_path / "striped_methane.tif") as source:
        found = np.where(source.read(1) == source.nodata, np.nan, source.read(1))
    column = np.nanmedian(found, axis=0)
    usual = np.nanstd(np.delete(found, 39, axis=1))
    assert abs(column[39]) < 0.5 * usual
