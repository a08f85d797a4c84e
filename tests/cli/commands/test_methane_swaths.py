"""invert-methane on EMIT, Tanager and EnMAP L1B, whose radiance is that of one simulated PRISMA scene."""

from __future__ import annotations

import json
from pathlib import Path

import geopandas
import h5py
import numpy as np
import pytest
import rasterio
from scipy.spatial import cKDTree

from p3vae.cli.rasters.grids import whole
from p3vae.cli.rasters.pictures import scene_picture
from p3vae.cli.rasters.resample import swath_map
from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.scenes.tiling import Window
from tests.cli.calls import refusal, run
from tests.cli.scenes import fixtures

ROWS, COLS = 90, 80
ANGLES = ("--sun-zenith", 30, "--view-zenith", 5)


def read(path):
    with rasterio.open(path) as source:
        return source.read(1)


def invert(scene, out, *options):
    done = run("invert-methane", scene, "-o", out, "--method", "mf-log", "--json", *ANGLES, *options)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def prisma(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("swaths") / "one.he5"
    done = run("simulate", "-o", path, "--layout", "prisma-l1", "--size", f"{ROWS}x{COLS}", "--plume", 20000)
    assert done.exit_code == 0, done.output
    return path


@pytest.fixture(scope="module")
def radiance(prisma):
    """Radiance (rows, cols, bands), centres [nm], longitude and latitude [degree]."""
    with open_scene(prisma) as scene:
        good = scene.bands.good
        whole = Window(0, 0, ROWS, COLS)
        return scene.read(whole).values[..., good], scene.bands.wavelength_nm[good], scene.geolocation(whole)


def table(location, step):
    """North-west corner, and the pixel (column, line, from 1) nearest to each map pixel; 0 for none."""
    lon, lat = location
    west, north = lon.min() - step, lat.max() + step
    x = np.arange(west + step / 2, lon.max() + step, step)
    y = np.arange(north - step / 2, lat.min() - step, -step)
    places = np.column_stack([lon.ravel(), lat.ravel()])
    spacing = np.hypot(lon[0, 1] - lon[0, 0], lat[0, 1] - lat[0, 0])
    far, nearest = cKDTree(places).query(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2))
    line, column = np.divmod(nearest, lon.shape[1])
    glt = np.stack([column + 1, line + 1], axis=-1)
    glt[far > 0.75 * spacing] = 0
    return (west, north), glt.reshape(len(y), len(x), 2)


def emit(folder, radiance, step):
    values, centres, location = radiance
    corner, glt = table(location, step)
    path = fixtures.emit(folder, "radiance", values[::-1] / 10.0, glt_of_reversed(glt), np.ones(len(centres)),
                         wavelengths=centres, corner=corner, step=step,
                         location=tuple(part[::-1] for part in location))  # fmt: skip
    return path, glt


def glt_of_reversed(glt):
    """The table of the same ground for a swath that was flown from south to north."""
    turned = glt.copy()
    turned[..., 1] = np.where(glt[..., 1] > 0, ROWS + 1 - glt[..., 1], 0)
    return turned


@pytest.fixture(scope="module")
def granule(radiance, tmp_path_factory):
    """An EMIT granule on a map of about its own pixel size, its products, and its table."""
    folder = tmp_path_factory.mktemp("emit")
    path, glt = emit(folder, radiance, 0.00035)
    return path, glt, invert(path, folder / "maps", "--wind", 4), folder / "maps"


def test_emit_products_are_maps_of_what_the_detector_grid_gives(granule, radiance, tmp_path):
    path, glt, _, maps = granule
    values, centres, location = radiance
    with rasterio.open(maps / f"{path.stem}_methane.tif") as source:
        found, transform = source.read(1), source.transform
        assert source.crs.to_epsg() == 4326 and not source.gcps[0]
        assert found.shape == glt.shape[:2]
    with open_scene(path) as scene:
        assert transform == scene.ortho.grid.transform
    swath = fixtures.tanager(tmp_path, values, centres, located=location)  # stays on its detector grid
    invert(swath, tmp_path / "maps")
    on_swath = read(tmp_path / "maps" / f"{swath.stem}_methane.tif")
    shown = (glt > 0).all(axis=2) & (glt[..., 0] > 1)  # the first column of Tanager lies beyond its footprint
    expected = on_swath[glt[shown][:, 1] - 1, glt[shown][:, 0] - 1]
    both = (expected != -9999) & (found[shown] != -9999)
    assert both.mean() > 0.8
    assert np.corrcoef(expected[both], found[shown][both])[0, 1] > 0.97  # its bands are wider
    assert (found[~(glt > 0).all(axis=2)] == -9999).all()


def test_emit_plumes_lie_where_the_gas_is(granule, prisma):
    path, _, said, maps = granule
    first = said["plumes"][0]
    with rasterio.open(prisma.with_name("one_methane_truth.tif")) as source:
        truth, to_ground = source.read(1), rasterio.transform.GCPTransformer(source.gcps[0])
        x, y = to_ground.xy(*np.unravel_index(truth.argmax(), truth.shape))
    assert first["source_lon"] == pytest.approx(x, abs=0.003)
    assert first["source_lat"] == pytest.approx(y, abs=0.003)
    plumes = geopandas.read_file(maps / f"{path.stem}_plumes.gpkg")
    assert plumes.crs.to_epsg() == 4326
    with rasterio.open(maps / f"{path.stem}_plume_mask.tif") as source:
        mask, to_map = source.read(1) == 2, source.transform
        inside = rasterio.features.geometry_mask(plumes.geometry, mask.shape, to_map, invert=True)
    np.testing.assert_array_equal(mask, inside)


@pytest.mark.parametrize("step", [0.00012, 0.0006])
def test_pixels_that_a_table_repeats_or_leaves_out_change_no_mass(granule, radiance, tmp_path, step):
    said = granule[2]
    path, other = emit(tmp_path, radiance, step)
    shown = len(np.unique(other[(other > 0).all(axis=2)], axis=0))
    repeats = (other > 0).all(axis=2).sum() / shown
    assert repeats > 4 or shown < 0.7 * ROWS * COLS
    again = invert(path, tmp_path / "maps", "--wind", 4)
    found = read(tmp_path / "maps" / f"{path.stem}_methane.tif")[(other > 0).all(axis=2)]
    _, pixel = np.unique(other[(other > 0).all(axis=2)], axis=0, return_inverse=True)
    first = np.zeros(shown)
    first[pixel] = found
    np.testing.assert_array_equal(first[pixel], found)  # all repetitions of a pixel have its one value
    kept = ("pixels", "area_m2", "ime_kg", "ime_std_kg", "q_kg_h", "peak_lon", "source_lat")
    for before, after in zip(said["plumes"], again["plumes"], strict=True):
        assert [after[name] for name in kept] == pytest.approx([before[name] for name in kept], rel=1e-6)


def test_a_part_of_a_granule_is_a_part_of_its_map(granule, tmp_path):
    path, _, _, maps = granule
    with rasterio.open(maps / f"{path.stem}_methane.tif") as source:
        west, south, east, north = source.bounds
    middle = f"{west + 0.01},{south + 0.006},{east - 0.006},{north - 0.006}"
    invert(path, tmp_path, "--bbox", middle)
    with rasterio.open(tmp_path / f"{path.stem}_methane.tif") as part:
        assert part.transform.a == pytest.approx(0.00035)
        assert west < part.bounds.left < west + 0.01 + 0.002 and part.bounds.right < east
        offset = (part.bounds.left - west) / 0.00035
        assert offset == pytest.approx(round(offset), abs=1e-6)


def test_emit_on_a_utm_grid(granule, tmp_path):
    path, _, said, _ = granule
    again = invert(path, tmp_path, "--grid", "utm", "--wind", 4)
    with rasterio.open(tmp_path / f"{path.stem}_methane.tif") as source:
        assert source.crs.is_projected
    assert again["plumes"][0]["ime_kg"] == pytest.approx(said["plumes"][0]["ime_kg"])


def test_a_mask_on_the_map_grid_is_laid_on_the_swath(granule, tmp_path):
    path, glt, _, maps = granule
    with rasterio.open(maps / f"{path.stem}_methane.tif") as source:
        profile, middle = source.profile, source.width // 2
    mask = np.ones(glt.shape[:2], np.uint8)
    mask[:, :middle] = 0
    with rasterio.open(
        tmp_path / "mask.tif", "w", **(profile | {"dtype": "uint8", "nodata": None})
    ) as target:
        target.write(mask, 1)
    invert(path, tmp_path / "maps", "--mask", tmp_path / "mask.tif")
    found = read(tmp_path / "maps" / f"{path.stem}_methane.tif")
    assert (found[:, : middle - 2] == -9999).all()
    assert (found[:, middle + 2 :] != -9999).mean() > 0.5


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_a_mask_of_the_swath_itself_is_taken_pixel_by_pixel(granule, tmp_path):
    path = granule[0]
    with open_scene(path) as scene:
        mask = np.zeros((scene.grid.height, scene.grid.width), np.uint8)
    mask[: len(mask) // 2] = 1
    profile = {"driver": "GTiff", "height": len(mask), "width": mask.shape[1], "count": 1, "dtype": "uint8"}
    with rasterio.open(tmp_path / "mask.tif", "w", **profile) as target:
        target.write(mask, 1)
    valid = []
    for words in ((), ("--mask", tmp_path / "mask.tif")):
        done = run("brightness", path, "-o", tmp_path / f"maps{len(words)}", "--json", *words)
        assert done.exit_code == 0, done.output
        valid.append(json.loads(done.stdout)["valid_pixels"])
    assert valid[1] == pytest.approx(valid[0] / 2, rel=0.02)


def test_emit_in_python_gives_the_same_map(granule):
    import p3vae

    path, _, _, maps = granule
    with p3vae.open_scene(path) as scene:
        found = p3vae.invert_methane(scene, method="mf-log")
    assert found.grid.transform is not None
    assert found["methane"].shape == read(maps / f"{path.stem}_methane.tif").shape


def test_a_granule_of_the_night_side_is_refused_for_that(granule, tmp_path):
    night = tmp_path / granule[0].name
    night.write_bytes(granule[0].read_bytes())
    with h5py.File(night, "r+") as file:
        file.attrs["time_coverage_start"] = "2023-08-15T23:20:30+0000"
    said = refusal(1, "invert-methane", night, "-o", tmp_path / "maps")
    assert "the sun stands at 1" in said and "degrees from the zenith" in said
    assert not (tmp_path / "maps").exists()


def test_info_says_where_the_products_of_a_granule_will_lie(granule):
    said = run("info", granule[0]).stdout
    height, width = granule[1].shape[:2]
    assert f"swath, its products on a map grid of {width} x {height} pixels" in " ".join(said.split())


def test_the_quick_look_of_a_granule_is_its_map(granule):
    path, glt, _, maps = granule
    with open_scene(path) as scene:
        area = whole(scene.grid)
        onto = swath_map(scene, area, scene.grid, utm=False, pixel_size=None)
        image = scene_picture(scene, max(glt.shape), area, onto)
    shown = (glt > 0).all(axis=2)
    np.testing.assert_array_equal(image[..., 3] > 0, shown)
    assert len(np.unique(np.column_stack([glt[shown], image[shown]]), axis=0)) == len(
        np.unique(glt[shown], axis=0)
    )
    assert run("report", maps, "-o", maps.parent / "page.html").exit_code == 0
    assert "No quick-look" not in (maps.parent / "page.html").read_text()


def test_tanager_finds_the_plume(radiance, tmp_path):
    values, centres, location = radiance
    said = invert(
        fixtures.tanager(tmp_path, values, centres, located=location), tmp_path / "maps", "--wind", 4
    )
    assert said["plumes"][0]["sensor"] == "Tanager" and said["plumes"][0]["q_kg_h"] > 0
    assert said["plumes"][0]["time_utc"] == "2025-04-23T13:40:21+00:00"


def test_a_prisma_file_with_one_detector_works_or_says_what_is_missing(prisma, tmp_path):
    for missing in ("VNIR", "SWIR"):
        path = tmp_path / f"no_{missing}.he5"
        path.write_bytes(prisma.read_bytes())
        with h5py.File(path, "r+") as file:
            del file[f"HDFEOS/SWATHS/PRS_L1_HCO/Data Fields/{missing}_Cube"]
    done = run("invert-methane", tmp_path / "no_VNIR.he5", "-o", tmp_path / "maps", "--method", "mf-log")
    assert done.exit_code == 0, done.output
    assert "plume 1: " in done.stdout and "cloud cannot be separated from bright ground" in done.stdout
    said = refusal(1, "invert-methane", tmp_path / "no_SWIR.he5", "-o", tmp_path / "none")
    assert "no band sees methane" in said and "1620" in said


def test_the_short_wave_infrared_alone_is_enough_and_the_visible_alone_is_not(radiance, tmp_path):
    values, centres, _ = radiance
    longer = centres > 950
    gain, offset = 1e-5, -1e-4
    counts = [np.round((values[..., part] / 1000.0 - offset) / gain) for part in (~longer, longer)]
    vnir, swir = fixtures.enmap_l1b(tmp_path, *(part.astype("uint16") for part in counts), gain=gain,
                                    offset=offset, centres=(centres[~longer], centres[longer]))  # fmt: skip
    done = run("invert-methane", swir, "-o", tmp_path / "maps", "--method", "mf-log", *ANGLES)
    assert done.exit_code == 0, done.output
    assert "plume 1: " in done.stdout and "cloud cannot be separated from bright ground" in done.stdout
    said = refusal(1, "invert-methane", vnir, "-o", tmp_path / "vnir", *ANGLES)
    assert "no band sees methane" in said and "1620" in said
    assert not (tmp_path / "vnir").exists()
