"""invert-methane as a user calls it, on small simulated PRISMA L1 files with plumes of known mass."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import geopandas
import h5py
import numpy as np
import pytest
import rasterio
import shapely
from affine import Affine

from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.scenes.tiling import Window
from p3vae.models.checkpoint import read_model_file, write_model_file
from tests.cli.calls import refusal, run, stdout_of, succeed
from tests.cli.kills import killed_at

ROWS, COLS = 120, 90
MAPS = ("methane", "methane_std", "methane_sensitivity")


def fail(code, *arguments):
    return refusal(code, "invert-methane", *arguments)


def read(path):
    with rasterio.open(path) as source:
        return source.read(1)


@pytest.fixture(scope="module")
def folder(mapped_plumes):
    """The swath, its maps and its background."""
    return mapped_plumes


@pytest.fixture(scope="module")
def truth(folder):
    return read(folder / "two_methane_truth.tif")


@pytest.fixture(scope="module")
def cube(folder):
    """Radiance (bands, rows, cols) of the SWIR detector, centres [nm] and the sun's zenith [degree]."""
    with open_scene(folder / "two.he5") as scene:
        used = scene.bands.good & (scene.bands.wavelength_nm > 1400)
        values = scene.read(Window(0, 0, ROWS, COLS)).values[..., used]
        zenith = scene.acquisition.sun_zenith_deg
        return values.transpose(2, 0, 1), scene.bands.wavelength_nm[used], zenith


def write_cube(path, values, wavelength_nm, *, placed=True):
    profile = {"crs": "EPSG:32631", "transform": Affine(30, 0, 370_000, 0, -30, 4_830_000)} if placed else {}
    with rasterio.open(
        path, "w", driver="GTiff", width=values.shape[2], height=values.shape[1], count=len(values),
        dtype="float32", nodata=-9999.0, **profile,
    ) as target:  # fmt: skip
        target.write(np.where(np.isnan(values), -9999.0, values).astype("float32"))
        for index, centre in enumerate(wavelength_nm, start=1):
            target.update_tags(index, wavelength=str(centre), wavelength_units="Nanometers")
    return path


@pytest.fixture(scope="module")
def plain(cube, tmp_path_factory):
    """The same radiance as a GeoTIFF that says nothing but its wavelengths."""
    return write_cube(tmp_path_factory.mktemp("plain") / "plain.tif", *cube[:2])


def test_products_say_what_they_are_and_stay_on_the_detector_grid(folder):
    with open_scene(folder / "two.he5") as scene:
        points = [(point.row, point.col, point.x, point.y) for point in scene.grid.gcps]
    for name in MAPS:
        with rasterio.open(folder / "maps" / f"two_{name}.tif") as source:
            assert (source.height, source.width) == (ROWS, COLS)
            assert source.nodata == -9999.0 and source.dtypes == ("float32",)
            assert source.units == ("1" if name.endswith("sensitivity") else "ppm m",)
            found = [(point.row, point.col, point.x, point.y) for point in source.gcps[0]]
            tags = source.tags()
        np.testing.assert_allclose(found, points, atol=1e-7)
        assert any(key.startswith("P3VAE_") for key in tags)
    manifest = json.loads((folder / "maps" / "two_p3vae.json").read_text())
    assert "air_mass_factor" in json.dumps(manifest)
    with rasterio.open(folder / "maps" / "two_plume_mask.tif") as source:
        assert source.shape == (ROWS, COLS) and len(source.gcps[0]) == len(points)


def test_methane_agrees_with_the_truth_within_its_own_uncertainty(folder, truth):
    found, std, sensitivity = (read(folder / "maps" / f"two_{name}.tif") for name in MAPS)
    reported = found != -9999.0
    assert reported.mean() > 0.9
    assert (np.abs(found - truth) < 1.96 * std)[reported].mean() > 0.9
    strong = reported & (truth > 3000)
    assert found[strong].mean() == pytest.approx(truth[strong].mean(), rel=0.1)
    assert ((sensitivity[reported] >= 0) & (sensitivity[reported] <= 1)).all()


def test_mask_and_mass_agree_with_the_truth(folder, truth):
    mask = read(folder / "maps" / "two_plume_mask.tif") == 2
    true_plume = truth > 500
    assert 2 * (mask & true_plume).sum() / (mask.sum() + true_plume.sum()) > 0.8
    plumes = geopandas.read_file(folder / "maps" / "two_plumes.gpkg")
    pixel_m2 = plumes.area_m2.sum() / plumes.pixels.sum()
    assert pixel_m2 == pytest.approx(900.0, rel=0.01)
    assert plumes.ime_kg.sum() == pytest.approx(truth[mask].sum() * 900.0 * 7.16e-7, rel=0.1)


def test_polygons_lie_on_the_true_plume(folder, truth):
    """Longitude and latitude of the strongest true pixels, by the control points, fall into the polygons."""
    plumes = geopandas.read_file(folder / "maps" / "two_plumes.gpkg")
    with rasterio.open(folder / "two_methane_truth.tif") as source:
        gcps, crs = source.gcps
    assert plumes.crs == crs
    to_ground = rasterio.transform.GCPTransformer(gcps)
    row, col = np.nonzero(truth > 8000)
    points = shapely.points(np.column_stack(to_ground.xy(row, col)))
    assert shapely.contains(plumes.union_all(), points).mean() > 0.95
    row, col = np.nonzero(truth == 0)
    points = shapely.points(np.column_stack(to_ground.xy(row, col)))
    assert shapely.contains(plumes.union_all(), points).mean() < 0.01


def test_emission_rate_follows_the_stated_formula(folder):
    plumes = geopandas.read_file(folder / "maps" / "two_plumes.gpkg")
    assert len(plumes) >= 1
    speed = 0.34 * 4.0 + 0.44
    np.testing.assert_allclose(plumes.q_kg_h, 3600 * speed * plumes.ime_kg / np.sqrt(plumes.area_m2))
    from_wind = 3600 * 0.34 * 1.5 * plumes.ime_kg / np.sqrt(plumes.area_m2)
    from_mass = 3600 * speed * plumes.ime_std_kg / np.sqrt(plumes.area_m2)
    np.testing.assert_allclose(plumes.q_std_kg_h, np.hypot(from_wind, from_mass))
    assert set(plumes.wind_m_s) == {4.0} and set(plumes.ueff_a) == {0.34} and set(plumes.ueff_b) == {0.44}


def test_the_report_names_plumes_control_and_missing_pixels(folder):
    said = (folder / "said.txt").read_text()
    missing = int((read(folder / "maps" / "two_methane.tif") == -9999.0).sum())
    assert "control (sign-flipped map): 0 plumes" in said
    assert f"{missing:,} pixels without a result" in said
    assert "plume 1: " in said and "kg/h" in said


def test_a_saved_background_gives_the_same_map(folder, tmp_path):
    succeed("invert-methane", folder / "two.he5", "-o", tmp_path, "-m", folder / "ground.p3vae",
            "--ueff-a", 0.5, "--ueff-b", 0.1, "--wind", 2, "--wind-uncertainty", 0)  # fmt: skip
    again, first = read(tmp_path / "two_methane.tif"), read(folder / "maps" / "two_methane.tif")
    np.testing.assert_allclose(again, first, atol=30.0)
    plumes = geopandas.read_file(tmp_path / "two_plumes.gpkg")
    np.testing.assert_allclose(plumes.q_kg_h, 3600 * 1.1 * plumes.ime_kg / np.sqrt(plumes.area_m2))


@pytest.mark.parametrize("method", ["oe", "mf", "mf-log", "mag1c"])
def test_every_baseline_sees_the_plumes(folder, truth, tmp_path, method):
    succeed("invert-methane", folder / "two.he5", "-o", tmp_path, "--method", method)
    found = read(tmp_path / "two_methane.tif")
    reported = found != -9999.0
    assert reported.mean() > 0.9
    reported &= read(folder / "two_shadow.tif") < 0.5
    assert np.corrcoef(found[reported], truth[reported])[0, 1] > 0.7
    assert found[reported & (truth > 5000)].mean() == pytest.approx(truth[truth > 5000].mean(), rel=0.5)
    manifest = json.loads((tmp_path / "two_p3vae.json").read_text())
    assert f'"{method}"' in json.dumps(manifest)


def test_a_plain_radiance_cube_needs_wavelengths_quantity_and_sun(plain, cube, folder, truth, tmp_path):
    succeed("invert-methane", plain, "-o", tmp_path, "--method", "mf-log", "--quantity", "radiance",
            "--sun-zenith", cube[2])  # fmt: skip
    found = read(tmp_path / "plain_methane.tif")
    lit = (found != -9999.0) & (read(folder / "two_shadow.tif") < 0.5)
    assert np.corrcoef(found[lit], truth[lit])[0, 1] > 0.8
    with rasterio.open(tmp_path / "plain_methane.tif") as source:
        assert source.crs.to_epsg() == 32631
    plumes = geopandas.read_file(tmp_path / "plain_plumes.gpkg")
    assert plumes.crs.to_epsg() == 32631
    assert plumes.area_m2.sum() == pytest.approx(plumes.area.sum(), rel=1e-6)


def test_plume_masks_as_raster_and_as_polygons_agree(folder, truth, tmp_path):
    with rasterio.open(folder / "two_methane_truth.tif") as source:
        gcps, crs = source.gcps
    with rasterio.open(
        tmp_path / "where.tif", "w", driver="GTiff", width=COLS, height=ROWS, count=1, dtype="uint8",
        gcps=gcps, crs=crs,
    ) as target:  # fmt: skip
        target.write((truth > 200).astype("uint8"), 1)
    reported = {}
    for mask in (tmp_path / "where.tif", folder / "maps" / "two_plumes.gpkg"):
        out = tmp_path / mask.suffix[1:]
        succeed("invert-methane", folder / "two.he5", "-o", out, "--method", "mf-log", "--plume-mask", mask)
        reported[mask.suffix] = read(out / "two_methane.tif")
    strong = (truth > 3000) & (reported[".tif"] != -9999.0)
    for found in reported.values():
        assert found[strong].mean() == pytest.approx(truth[strong].mean(), rel=0.25)


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_without_a_place_masses_need_the_size_of_a_pixel(cube, tmp_path):
    scene = write_cube(tmp_path / "nowhere.tif", *cube[:2], placed=False)
    asked = ("invert-methane", scene, "-o", tmp_path / "maps", "--method", "mf-log", "--quantity", "radiance",
             "--sun-zenith", cube[2], "--wind", 4, "--overwrite", "--json")  # fmt: skip
    reported = json.loads(stdout_of(*asked))
    assert reported["plumes"] and all(plume["ime_kg"] is None for plume in reported["plumes"])
    assert all(plume["q_kg_h"] is None for plume in reported["plumes"])
    reported = json.loads(stdout_of(*asked, "--ground-sampling", 30))
    for plume in reported["plumes"]:
        assert plume["area_m2"] == plume["pixels"] * 900.0
        assert plume["ime_kg"] == pytest.approx(plume["mean_ppm_m"] * plume["area_m2"] * 7.16e-7, rel=1e-5)


def test_a_band_stuck_everywhere_is_left_out_and_no_column_with_it(cube, tmp_path):
    values, wavelength, zenith = cube
    stuck = values.copy()
    stuck[np.abs(wavelength - 2300.0).argmin()] = 4.0
    scene = write_cube(tmp_path / "stuck.tif", stuck, wavelength)
    said = stdout_of("invert-methane", scene, "-o", tmp_path / "maps", "--method", "mf-log", "--quantity",
                   "radiance", "--sun-zenith", zenith)  # fmt: skip
    assert "dead detector columns" not in said
    assert (read(tmp_path / "maps" / "stuck_methane.tif") != -9999.0).mean() > 0.9


@pytest.mark.parametrize(
    ("options", "words"),
    [(("--sun-zenith", 85), "85.0"), (("--sun-zenith", 30, "--view-zenith", 85), "--view-zenith")],
)
def test_angles_at_the_limit_are_refused_with_a_line(plain, tmp_path, options, words):
    assert words in fail(1, plain, "-o", tmp_path, "--quantity", "radiance", *options)


def test_an_unknown_view_is_told_and_a_known_one_changes_the_path(plain, cube, tmp_path):
    asked = (plain, "--method", "mf-log", "--quantity", "radiance", "--sun-zenith", cube[2])
    said = stdout_of("invert-methane", *asked, "-o", tmp_path / "down")
    assert "view zenith is unknown" in said
    said = stdout_of("invert-methane", *asked, "-o", tmp_path / "aside", "--view-zenith", 30)
    assert "view zenith is unknown" not in said
    factor = {}
    for name in ("down", "aside"):
        manifest = (tmp_path / name / "plain_p3vae.json").read_text()
        factor[name] = float(manifest.split('"air_mass_factor": ')[1].split(",")[0])
    sun = 1 / np.cos(np.radians(cube[2]))
    assert factor["down"] == pytest.approx(sun + 1)
    assert factor["aside"] == pytest.approx(sun + 1 / np.cos(np.radians(30)))


def test_info_knows_whether_a_saved_background_fits(folder, plain):
    said = stdout_of("info", folder / "two.he5", "-m", folder / "ground.p3vae")
    assert "methane, bands match" in said
    said = stdout_of("info", plain, "-m", folder / "ground.p3vae", "--quantity", "radiance")
    assert "bands are not the scene's" in said


def test_plumes_and_models_of_others_are_not_replaced(folder, tmp_path):
    (tmp_path / "two_plumes.gpkg").write_text("mine")
    said = fail(1, folder / "two.he5", "-o", tmp_path, "--method", "mf")
    assert "two_plumes.gpkg: exists already" in said
    assert [path.name for path in tmp_path.iterdir()] == ["two_plumes.gpkg"]
    scene = shutil.copy(folder / "two.he5", tmp_path / "two.he5")
    before = scene.read_bytes()
    said = fail(1, scene, "-o", tmp_path / "maps", "--save-model", scene, "--overwrite")
    assert "is an input" in said and scene.read_bytes() == before
    said = fail(1, scene, "-o", tmp_path / "maps", "--save-model", tmp_path / "none" / "m.p3vae")
    assert "folder does not exist" in said and not (tmp_path / "maps").exists()


@pytest.mark.parametrize("option", ["--max-ppm-m", "--plume-mask", "--save-model"])
def test_what_is_for_learning_is_not_ignored_beside_a_model(folder, tmp_path, option):
    said = fail(2, folder / "two.he5", "-o", tmp_path, "-m", folder / "ground.p3vae", option, 9000)
    assert option in said


def test_a_small_range_does_not_push_plume_free_ground_above_zero(tmp_path):
    small = ("--layout", "prisma-l1", "--size", "60x60", "--plume", 20000)
    succeed("simulate", "-o", tmp_path / "one.he5", *small)
    succeed("invert-methane", tmp_path / "one.he5", "-o", tmp_path, "--max-ppm-m", 4000)
    found, truth = read(tmp_path / "one_methane.tif"), read(tmp_path / "one_methane_truth.tif")
    lit = (found != -9999.0) & (truth < 1.0) & (read(tmp_path / "one_shadow.tif") < 0.1)
    assert lit.sum() > 1000
    assert abs(found[lit].mean()) < 150.0


def test_dead_and_saturated_columns_are_nodata_and_change_nothing_else(folder, tmp_path):
    broken = tmp_path / "two.he5"
    shutil.copy(folder / "two.he5", broken)
    with h5py.File(broken, "r+") as file:
        fields = file["HDFEOS/SWATHS/PRS_L1_HCO/Data Fields"]
        fields["SWIR_Cube"][10, :, :] = 0  # stored east to west: image column COLS - 1 - 10
        fields["SWIR_Cube"][20, 40, :] = 3000
        fields["SWIR_PIXEL_SAT_ERR_MATRIX"][30, :, :] = 1
        fields["SWIR_PIXEL_SAT_ERR_MATRIX"][35, 40:70, 50] = 1
    said = stdout_of("invert-methane", broken, "-o", tmp_path / "maps", "--method", "mf-log")
    succeed("invert-methane", folder / "two.he5", "-o", tmp_path / "whole", "--method", "mf-log")
    found, whole = read(tmp_path / "maps" / "two_methane.tif"), read(tmp_path / "whole" / "two_methane.tif")
    columns = [COLS - 1 - stored for stored in (10, 20, 30)]
    assert (found[:, columns] == -9999.0).all()
    quality = read(tmp_path / "maps" / "two_quality.tif")
    assert (quality[:, columns[:2]] == 0).all()
    saturated = np.zeros((ROWS, COLS), bool)
    saturated[:, columns[2]] = saturated[50, COLS - 1 - 35] = True
    np.testing.assert_array_equal(quality == 5, saturated)
    assert found[50, COLS - 1 - 35] == -9999.0
    assert f"2 dead detector columns left out: {columns[1]}, {columns[0]}" in said
    both = (found != -9999.0) & (whole != -9999.0)
    assert both.mean() > 0.9
    both &= read(folder / "two_shadow.tif") < 0.5
    assert np.abs(found - whole)[both].mean() < 200.0


def test_reflectance_is_refused(tmp_path):
    succeed("simulate", "-o", tmp_path / "town.tif", "--size", "24x24", "--bands", "40")
    assert "radiance" in fail(1, tmp_path / "town.tif", "-o", tmp_path)
    assert not list(tmp_path.glob("*methane*"))


def test_without_short_wave_infrared_there_is_no_methane(folder, tmp_path):
    said = fail(1, folder / "two.he5", "-o", tmp_path / "maps", "--bad-bands", "1000-2600")
    assert "nm" in said
    assert not (tmp_path / "maps").exists() or not any((tmp_path / "maps").iterdir())


@pytest.mark.parametrize(("options", "words"), [((), "--sun-zenith"), (("--sun-zenith", 86), "86.0 degrees")])
def test_the_sun_must_be_known_and_high(plain, tmp_path, options, words):
    assert words in fail(1, plain, "-o", tmp_path, "--quantity", "radiance", *options)


def test_a_mask_of_another_grid_is_refused(folder, tmp_path):
    with rasterio.open(
        tmp_path / "other.tif", "w", driver="GTiff", width=7, height=9, count=1, dtype="uint8",
        crs="EPSG:4326", transform=Affine(0.1, 0, 1, 0, -0.1, 44),
    ) as target:  # fmt: skip
        target.write(np.ones((1, 9, 7), "uint8"))
    said = fail(2, folder / "two.he5", "-o", tmp_path, "--plume-mask", tmp_path / "other.tif")
    assert "7 x 9" in said and f"{COLS} x {ROWS}" in said


def test_too_few_plume_free_pixels_says_how_many_are_needed(plain, cube, folder, tmp_path):
    small = write_cube(tmp_path / "small.tif", cube[0][:, :8, :8], cube[1])
    sun = ("--quantity", "radiance", "--sun-zenith", cube[2])
    said = fail(1, small, "-o", tmp_path, *sun)
    assert "plume-free pixels are needed" in said and int(said.split(": ")[2].split()[0]) > 64
    with rasterio.open(
        tmp_path / "all.tif", "w", driver="GTiff", width=COLS, height=ROWS, count=1, dtype="uint8",
        crs="EPSG:32631", transform=Affine(30, 0, 370_000, 0, -30, 4_830_000),
    ) as target:  # fmt: skip
        target.write(np.ones((1, ROWS, COLS), "uint8"))
    said = fail(1, plain, "-o", tmp_path, *sun, "--plume-mask", tmp_path / "all.tif")
    assert "plume-free pixels are needed" in said and ", 0 were found" in said


@pytest.mark.parametrize("text", ["", "wavelength,a\n1,2\n", "wavelength_nm,absorption\n2300,strong\n"])
def test_a_malformed_absorption_table_is_refused(folder, tmp_path, text):
    table = tmp_path / "ch4.csv"
    table.write_text(text)
    said = fail(2, folder / "two.he5", "-o", tmp_path, "--absorption", table)
    assert "absorption table" in said and "wavelength_nm" in said


def test_an_absorption_of_no_gas_is_refused(folder, tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("wavelength_nm,absorption\n2100,1e-6\n2300,1e200\n2500,1e-6\n")
    for options in (("--absorption", table), ("--absorption-scale", 1e300)):
        said = fail(2, folder / "two.he5", "-o", tmp_path / "maps", "--method", "mf", *options)
        assert "no gas absorbs" in said and "--absorption" in said


def test_halving_the_absorption_doubles_what_is_found(folder, tmp_path):
    found = {}
    for scale in (1.0, 0.5):
        succeed("invert-methane", folder / "two.he5", "-o", tmp_path / f"{scale}", "--method", "mf-log",
                "--absorption-scale", scale)  # fmt: skip
        values = read(tmp_path / f"{scale}" / "two_methane.tif")
        found[scale] = values[values != -9999.0]
    np.testing.assert_allclose(np.percentile(found[0.5], 99), 2 * np.percentile(found[1.0], 99), rtol=0.15)


@pytest.mark.parametrize("option", ["--save-model", "--model"])
def test_options_of_the_p3vae_are_not_ignored_by_its_baselines(folder, tmp_path, option):
    said = fail(2, folder / "two.he5", "-o", tmp_path, "--method", "mf", option, Path(tmp_path / "x.p3vae"))
    assert option in said


def test_a_model_of_an_earlier_version_is_refused(folder, tmp_path):
    file = read_model_file(folder / "ground.p3vae", kind="methane")
    old = {name: tensor for name, tensor in file.tensors.items() if not name.endswith("brightness_bands")}
    write_model_file(tmp_path / "old.p3vae", replace(file, tensors=old))
    said = " ".join(
        fail(1, folder / "two.he5", "-o", tmp_path / "maps", "-m", tmp_path / "old.p3vae").split()
    )
    assert "old.p3vae" in said and "learn it again" in said
    assert not (tmp_path / "maps").exists() or not list((tmp_path / "maps").iterdir())


def test_json_lists_the_plumes_as_the_polygons_do(folder, tmp_path):
    said = json.loads(stdout_of("invert-methane", folder / "two.he5", "-o", tmp_path,
                              "-m", folder / "ground.p3vae", "--wind", 4, "--control", "--json"))  # fmt: skip
    plumes = geopandas.read_file(tmp_path / "two_plumes.gpkg")
    assert [plume["ime_kg"] for plume in said["plumes"]] == pytest.approx(plumes.ime_kg.tolist())
    assert [plume["q_kg_h"] for plume in said["plumes"]] == pytest.approx(plumes.q_kg_h.tolist())
    assert said["control_plumes"] == 0


def test_one_negative_band_costs_no_pixel(cube, tmp_path):
    values = cube[0].copy()
    values[5, 30, 30:40] = -0.01
    noisy = write_cube(tmp_path / "noisy.tif", values, cube[1])
    succeed("invert-methane", noisy, "-o", tmp_path, "--method", "mf-log", "--quantity", "radiance",
            "--sun-zenith", cube[2])  # fmt: skip
    assert (read(tmp_path / "noisy_methane.tif")[30, 30:40] != -9999.0).all()


def test_a_background_is_not_kept_without_its_maps(folder, tmp_path):
    """Killed while the maps are moved into place; then complete, but for the background."""
    scene, kept, maps = folder / "two.he5", tmp_path / "ground.p3vae", tmp_path / "maps"
    call = ("invert-methane", scene, "-o", maps, "--save-model", kept)
    assert killed_at(5, partial(run, *call))
    assert not kept.exists()


def test_a_background_that_was_not_kept_is_noticed(folder, tmp_path):
    scene, kept = folder / "two.he5", tmp_path / "ground.p3vae"
    shutil.copytree(folder / "maps", tmp_path / "maps")
    call = (scene, "-o", tmp_path / "maps", "--wind", 4, "--control", "--save-model", kept)
    assert "ground.p3vae: was not written by the run that made the maps" in fail(1, *call)
    shutil.copy(folder / "ground.p3vae", kept)
    assert "skipped" in run("invert-methane", *call).stderr
    other = shutil.copy(scene, tmp_path / "other.he5")
    assert "can be made of one scene" in fail(2, other, *call)
