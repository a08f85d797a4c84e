"""`p3vae simulate` through the shell: what it writes is what was simulated, where it was."""

import ast
import hashlib
import re
from pathlib import Path

import geopandas
import h5py
import numpy as np
import pytest
import rasterio
from pyproj import Transformer

from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.scenes.tiling import Window
from p3vae.physics.simulation.materials import LAND_COVER
from p3vae.physics.simulation.scene import SimulationSettings, simulate_radiance, simulate_reflectance
from p3vae.physics.spectral_response import adapt_bands
from tests.cli.calls import run

ROWS, COLS = 48, 60
LAYOUTS = {
    "geotiff": "town.tif",
    "envi": "town.img",
    "prisma-l2d": "PRS_L2D_STD_",
    "prisma-l1": "PRS_L1_STD_OFFL_",
}


def simulate(*args):
    return run("simulate", *args)


def simulated(folder, layout, *args):
    result = simulate("-o", folder, "--layout", layout, "--size", f"{ROWS}x{COLS}", "--bands", "24", *args)
    assert result.exit_code == 0, result.output
    (scene,) = [
        file for file in folder.iterdir() if re.fullmatch(LAYOUTS[layout] + r"(|[\d_]+\.he5)", file.name)
    ]
    return scene


def settings_of(scene):
    """The settings that the truth raster says the scene was made with."""
    with rasterio.open(scene.with_name(scene.stem + "_class.tif")) as truth:
        tags = truth.tags()
    fields = {k.removeprefix("SIMULATED_").lower(): v for k, v in tags.items() if k.startswith("SIMULATED_")}
    del fields["layout"]
    return SimulationSettings(**{name: ast.literal_eval(value) for name, value in fields.items()})


def truth(scene, name):
    with rasterio.open(scene.with_name(f"{scene.stem}_{name}.tif")) as raster:
        return raster.read(1)


@pytest.fixture(scope="module", params=LAYOUTS)
def layout_and_scene(request, tmp_path_factory):
    return request.param, simulated(tmp_path_factory.mktemp(request.param), request.param, "--seed", 5)


def test_read_back_equals_what_was_simulated(layout_and_scene):
    layout, path = layout_and_scene
    settings = settings_of(path)
    with open_scene(path) as scene:
        tile = scene.read(Window(0, 0, ROWS, COLS))
        make = simulate_radiance if layout == "prisma-l1" else simulate_reflectance
        if layout.startswith("prisma"):
            everything = _prisma_cube(make, settings, scene.bands)
        else:
            everything = make(scene.bands, settings).cube
    good = scene.bands.good
    expected = everything[tile.valid][:, good]
    step = {"prisma-l1": 0.0051, "prisma-l2d": 2e-5}.get(layout, 5.1e-5)
    clipped = np.maximum(expected, 0.0) if layout == "prisma-l1" else expected
    assert np.abs(tile.values[tile.valid][:, good] - clipped).max() < step
    assert tile.valid.mean() > 0.75
    assert (layout == "prisma-l2d") == (not tile.valid.all())


def _prisma_cube(make, settings, bands):
    """PRISMA files are simulated on all 234 bands, of which a reader keeps 230: pick those."""
    from p3vae.cli.simulate.prisma import prisma_all_bands

    all_bands = prisma_all_bands()[0]
    columns = [int(np.argmin(np.abs(all_bands.wavelength_nm - centre))) for centre in bands.wavelength_nm]
    return make(all_bands, settings).cube[..., columns]


def test_wavelengths_sun_and_time_survive(layout_and_scene):
    layout, path = layout_and_scene
    with open_scene(path) as scene:
        assert scene.quantity == ("radiance" if layout == "prisma-l1" else "reflectance")
        assert scene.acquisition.sun_zenith_deg == pytest.approx(43.13, abs=0.02)
        assert scene.acquisition.sun_azimuth_deg == pytest.approx(146.5, abs=0.1)
        assert scene.acquisition.time.isoformat() == "2024-04-02T10:28:37.932000+00:00"
        if layout.startswith("prisma"):
            assert len(scene.bands) == 230
            assert scene.bands.wavelength_nm[[0, -1]] == pytest.approx([406.9, 2497.1], abs=1e-3)
        else:
            np.testing.assert_allclose(scene.bands.wavelength_nm, np.linspace(420, 2450, 24), atol=6e-4)
            water = (scene.bands.wavelength_nm > 1340) & (scene.bands.wavelength_nm < 1450)
            assert not scene.bands.good[water].any()
            assert scene.bands.good.mean() > 0.8
        assert adapt_bands(scene.bands, scene.bands.select(scene.bands.good)).is_exact


def test_a_pixel_lies_where_it_should(layout_and_scene):
    """Pixel (7, 41) by hand from the corner; the swath's image is turned by 12 degrees."""
    layout, path = layout_and_scene
    step = 30.0 if layout.startswith("prisma") else 1.0
    right, down = step * 41.5, step * 7.5
    turn = np.radians(12.0) if layout == "prisma-l1" else 0.0
    x = 373_000 + right * np.cos(turn) - down * np.sin(turn)
    y = 4_830_000 - right * np.sin(turn) - down * np.cos(turn)
    with open_scene(path) as scene:
        if scene.grid.transform is not None:
            assert scene.grid.crs.to_epsg() == 32631
            assert scene.grid.transform @ (41.5, 7.5) == pytest.approx((x, y), abs=1e-3)
            return
        lon, lat = scene.geolocation(Window(7, 41, 1, 1))
    to_utm = Transformer.from_crs(4326, 32631, always_xy=True)
    assert to_utm.transform(lon[0, 0], lat[0, 0]) == pytest.approx((x, y), abs=0.05)


def test_truth_lies_on_the_grid_of_the_scene(layout_and_scene):
    _, path = layout_and_scene
    with open_scene(path) as scene:
        grid, valid = scene.grid, scene.read(Window(0, 0, ROWS, COLS)).valid
    for name in ("class", "irradiance_truth", "sky_view", "shadow"):
        with rasterio.open(path.with_name(f"{path.stem}_{name}.tif")) as raster:
            assert (raster.height, raster.width) == (ROWS, COLS)
            assert raster.transform == grid.transform or grid.transform is None
            points, _ = raster.gcps
            assert [(p.row, p.col) for p in points] == [(p.row, p.col) for p in grid.gcps]
            np.testing.assert_array_equal(raster.read_masks(1) > 0, valid)
    lit = valid & (truth(path, "shadow") == 0)
    assert np.median(truth(path, "irradiance_truth")[lit]) == pytest.approx(
        np.cos(np.radians(43.13)), abs=0.06
    )


def test_stored_axes_of_prisma_l1_are_across_westward_band_and_along(tmp_path):
    path = simulated(tmp_path, "prisma-l1", "--noise", 0)
    with h5py.File(path) as file, open_scene(path) as scene:
        cube = file["HDFEOS/SWATHS/PRS_L1_HCO/Data Fields/SWIR_Cube"]
        assert cube.shape == (COLS, 173, ROWS)
        assert cube.chunks is None
        centres = file.attrs["List_Cw_Swir"]
        assert np.all(np.diff(centres[:-2]) < 0)
        assert np.all(centres[-2:] == 0)
        assert np.all(file.attrs["List_Cw_Vnir"][:3] == 0)
        band = int(np.argmin(np.abs(centres - 2200)))
        found = scene.read(Window(7, 41, 1, 1)).values[0, 0]
        nearest = int(np.argmin(np.abs(scene.bands.wavelength_nm - centres[band])))
        assert found[nearest] == pytest.approx(cube[COLS - 1 - 41, band, 7] / 100.0)
        matrix = file["KDP_AUX/Cw_Swir_Matrix"][:]
        used = matrix[:, np.all(matrix > 0, axis=0)]
        assert used.shape == (COLS, 171)
        np.testing.assert_allclose(scene.column_wavelength_nm[:, -1], used[::-1].max(axis=1))
        assert 1.0 < np.ptp(scene.column_wavelength_nm[:, -1]) < 4.0
        latitude = file["HDFEOS/SWATHS/PRS_L1_HCO/Geolocation Fields/Latitude_SWIR"]
        assert latitude[0, 0] > latitude[0, -1]
        assert file["HDFEOS/SWATHS/PRS_L1_HCO/Geolocation Fields/Longitude_SWIR"][0, 0] > 1.43


def test_labels_are_sunlit_pure_and_right(layout_and_scene):
    layout, path = layout_and_scene
    labels = geopandas.read_file(path.with_name(path.stem + "_labels.gpkg"))
    classes, shadow = truth(path, "class"), truth(path, "shadow")
    with open_scene(path) as scene:
        grid = scene.grid
    assert {"class", "class_id", "color"} <= set(labels.columns)
    assert labels.crs == grid.crs.to_wkt()
    colors = {cover.name: cover.color for cover in LAND_COVER}
    lit_polygons = 0
    if grid.transform is None:
        labels = labels.to_crs(32631)
    for _, label in labels.iterrows():
        inside = _pixels_in(label.geometry, grid, layout)
        assert np.all(classes[inside] == label["class_id"])
        assert label["color"] == colors[label["class"]]
        lit_polygons += bool(np.all(shadow[inside] < 0.05))
    assert labels["class"].nunique() >= 4
    assert lit_polygons >= len(labels) - 2


def _pixels_in(polygon, grid, layout):
    transform = grid.transform
    if transform is None:
        turn = rasterio.Affine.rotation(-12.0)
        transform = rasterio.Affine.translation(373_000, 4_830_000) @ turn @ rasterio.Affine.scale(30, -30)
    return rasterio.features.geometry_mask([polygon], (ROWS, COLS), transform, invert=True)


def test_plume_darkens_methane_bands_only_and_its_truth_is_written(tmp_path):
    clear = simulated(tmp_path / "clear", "prisma-l1", "--noise", 0, "--smile", 0)
    gas = simulated(tmp_path / "gas", "prisma-l1", "--noise", 0, "--smile", 0, "--plume", 30000)
    ppm_m = truth(gas, "methane_truth")
    assert 10_000 < ppm_m.max() <= 30_000
    with open_scene(clear) as without, open_scene(gas) as with_plume:
        whole = Window(0, 0, ROWS, COLS)
        ratio = with_plume.read(whole).values / np.maximum(without.read(whole).values, 0.01)
        nm = with_plume.bands.wavelength_nm
    heavy = ppm_m > 0.6 * ppm_m.max()
    methane, blind = int(np.argmin(np.abs(nm - 2350))), int(np.argmin(np.abs(nm - 2130)))
    assert ratio[heavy][:, methane].mean() < 0.85
    assert ratio[heavy][:, blind].mean() > 0.97
    np.testing.assert_allclose(ratio[ppm_m == 0][:, methane], 1.0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_equal_commands_give_equal_bytes(layout, tmp_path):
    plume = ("--plume", "9000", "--plumes", "2", "--size", "24x10") if layout == "prisma-l1" else ()
    digests = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        simulated(folder, layout, *plume)
        digests.append({f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in folder.iterdir()})
    assert digests[0] == digests[1]


def test_the_sun_can_be_given_and_the_layout_follows_the_name(tmp_path):
    path = tmp_path / "afternoon.img"
    result = simulate(
        "-o", path, "--size", "20", "--bands", "prisma", "--sun-zenith", 62.5, "--sun-azimuth", 265
    )
    assert result.exit_code == 0, result.output
    assert str(path) in result.stdout.splitlines()
    with open_scene(path) as scene:
        assert scene.product == "ENVI"
        assert len(scene.bands) == 230
        assert (scene.acquisition.sun_zenith_deg, scene.acquisition.sun_azimuth_deg) == (62.5, 265.0)


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("--size", "4x4"), 2, "at least 8 x 8"),
        (("--size", "big"), 2, "ROWSxCOLS"),
        (("--bands", "many"), 2, "--bands many"),
        (("--plume", "1e4"), 2, "--layout prisma-l1"),
        (("--time", "yesterday"), 2, "no ISO time"),
        (("--layout", "prisma-l1"), 2, "does not fit"),
        (("--time", "2024-04-02T23:00"), 2, "sun"),
    ],
)
def test_wrong_usage_is_told_in_one_line_and_leaves_nothing(tmp_path, args, code, message):
    result = simulate("-o", tmp_path / "new" / "scene.tif", *args)
    assert result.exit_code == code
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_existing_output_is_kept_unless_overwrite(tmp_path):
    path = tmp_path / "scene.tif"
    (tmp_path / "scene_labels.gpkg").write_text("mine")
    result = simulate("-o", path, "--size", "16", "--bands", "5")
    assert result.exit_code == 1
    assert "scene_labels.gpkg: exists already" in result.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["scene_labels.gpkg"]
    assert simulate("-o", path, "--size", "16", "--bands", "5", "--overwrite").exit_code == 0
    assert path.exists()


def test_sample_scenes_open_and_are_those_of_their_commands():
    samples = Path(__file__).parents[3] / "sample_data"
    script = (samples / "make_samples.sh").read_text()
    for scene in (samples / "town.tif", *samples.glob("PRS_L1_*_0001.he5")):
        settings = settings_of(scene)
        assert f"--size {settings.rows}x{settings.cols}" in script
        assert f"--seed {settings.seed}" in script
        with open_scene(scene) as opened:
            assert (opened.grid.height, opened.grid.width) == (settings.rows, settings.cols)
            assert opened.read(Window(0, 0, 16, 16)).valid.all()
        labels = geopandas.read_file(scene.with_name(scene.stem + "_labels.gpkg"))
        assert labels["class"].nunique() == len(LAND_COVER)
