"""Clouds and cirrus that a product flags itself are left out of every map, unless asked for."""

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import rasterio

from tests.cli.calls import refusal, stdout_of, succeed
from tests.cli.scenes import fixtures

SAMPLES = Path(__file__).parents[3] / "sample_data"
TOWN = SAMPLES / "town.tif"
CLOUD, CIRRUS, HAZE = (slice(0, 20), slice(0, 30)), (slice(100, 110), slice(50, 90)), (slice(60, 70),)
ROWS, COLS, WAVES = 12, 9, np.array([450.0, 550.0, 650.0, 850.0])


def layer(image: Path, name: str, *places: tuple, value: int = 1, shape: tuple = (144, 144)) -> Path:
    """A quality layer beside an EnMAP image."""
    flags = np.zeros(shape, np.uint8)
    for place in places:
        flags[place] = value
    path = image.with_name(image.name.replace("SPECTRAL_IMAGE", f"QL_QUALITY_{name}"))
    return fixtures.raster(path, flags[..., None])


@pytest.fixture
def enmap(tmp_path):
    """The town of the samples as EnMAP L2A, with its layers."""
    with rasterio.open(TOWN) as source:
        counts = source.read().transpose(1, 2, 0)
        centres = np.array([float(source.tags(band)["wavelength"]) for band in source.indexes])
    image = fixtures.enmap(tmp_path, "L2A", counts, centres, gain=1e-4, offset=0.0)
    layer(image, "CLOUD", CLOUD)
    layer(image, "CIRRUS", CIRRUS, value=3)
    layer(image, "HAZE", HAZE)
    return image


def empty(path: Path) -> np.ndarray:
    """Where a map has no value."""
    with rasterio.open(path) as source:
        return source.read_masks(1) == 0


def flagged(shape: tuple = (144, 144)) -> np.ndarray:
    found = np.zeros(shape, bool)
    found[CLOUD] = found[CIRRUS] = True
    return found


def test_classes_and_light_have_no_value_under_clouds_of_enmap(enmap, tmp_path):
    for command, product in (("classify", "landcover"), ("irradiance-map", "irradiance")):
        maps, whole = tmp_path / f"{command}_maps", tmp_path / f"{command}_whole"
        succeed(command, enmap, "-m", "town", "-o", maps)
        succeed(command, enmap, "-m", "town", "-o", whole, "--no-quality-mask")
        name = f"{enmap.stem}_{product}.tif"
        np.testing.assert_array_equal(empty(maps / name), flagged())
        assert not empty(whole / name).any()


def test_info_says_what_is_flagged(enmap):
    told = stdout_of("info", enmap)
    assert "cloud and cirrus by the product" in told and f"{flagged().mean():.1%}"[:-1] in told
    assert "Flagged" not in stdout_of("info", TOWN)


def test_a_layer_is_a_file_of_the_scene(enmap, tmp_path):
    succeed("classify", enmap, "-m", "town", "-o", tmp_path / "maps")
    again = succeed("classify", enmap, "-m", "town", "-o", tmp_path / "maps")
    assert "skipped" in again.output
    layer(enmap, "CLOUD", (slice(0, 50),))
    said = refusal(1, "classify", enmap, "-m", "town", "-o", tmp_path / "maps")
    assert "the scene has changed since" in said


def test_a_layer_of_another_scene_is_refused(enmap):
    layer(enmap, "CLOUD", shape=(100, 144))
    assert "QL_QUALITY_CLOUD.TIF: has 144 x 100 pixels, its image 144 x 144" in refusal(1, "info", enmap)


def emit_mask(folder: Path, flags: np.ndarray, names: list[bytes]) -> Path:
    path = folder / fixtures.EMIT_RFL.replace("RFL", "MASK")
    with h5py.File(path, "w") as file:
        file["mask"] = flags.astype(np.float32)
        file["sensor_band_parameters/mask_bands"] = np.array(names)
    return path


@pytest.mark.parametrize("kind", ["reflectance", "radiance"])
@pytest.mark.parametrize(
    "names",
    [
        [b"Cloud flag", b"Cirrus flag", b"Water flag", b"AOD550"],
        [b"Cirrus Flag", b"Water Flag", b"SpecTf-Cloud Probability", b"SpecTf-Cloud Flag"],
    ],
)
def test_emit_has_its_flags_in_a_file_beside_it(tmp_path, kind, names):
    swath = fixtures.truth(ROWS, COLS, len(WAVES))
    col, row = np.meshgrid(np.arange(COLS) + 1, np.arange(ROWS) + 1)
    glt = np.stack([col[:, ::-1], row[:, ::-1]], axis=2)  # the map mirrors the swath
    scene = fixtures.emit(tmp_path, kind, swath, glt, np.ones(len(WAVES)), wavelengths=WAVES)
    fixtures.emit_observation(tmp_path, 30.0, 150.0, 5.0)
    flags = np.zeros((ROWS, COLS, 4))
    for place, name in enumerate(names):
        if b"Probability" in name or b"AOD" in name:
            flags[..., place] = 0.4
    clouds = next(place for place, name in enumerate(names) if b"loud" in name and b"lag" in name)
    cirrus, water = (
        next(place for place, name in enumerate(names) if word in name) for word in (b"Cirrus", b"Water")
    )
    flags[2:4, 1:3, clouds], flags[7, 5, cirrus], flags[9, 6, water] = 1, 1, 1
    emit_mask(tmp_path, flags, names)
    succeed("brightness", scene, "-o", tmp_path / "maps")
    found = empty(tmp_path / "maps" / f"{scene.stem}_brightness.tif")
    wanted = (flags[..., clouds] > 0) | (flags[..., cirrus] > 0)
    np.testing.assert_array_equal(found, wanted[:, ::-1])


def test_a_mask_of_another_emit_granule_is_refused(tmp_path):
    col, row = np.meshgrid(np.arange(COLS) + 1, np.arange(ROWS) + 1)
    swath = fixtures.truth(ROWS, COLS, len(WAVES))
    glt, good = np.stack([col, row], axis=2), np.ones(len(WAVES))
    scene = fixtures.emit(tmp_path, "reflectance", swath, glt, good, wavelengths=WAVES)
    mask = emit_mask(tmp_path, np.zeros((5, 5, 1)), [b"Cloud flag"])
    assert mask.name in refusal(1, "brightness", scene, "-o", tmp_path / "maps", "--sun-zenith", 30)
    assert not list((tmp_path / "maps").glob("*"))


@pytest.mark.parametrize("ortho", [False, True])
def test_tanager_flags_are_left_out_and_fill_is_none(tmp_path, ortho):
    scene = fixtures.tanager(tmp_path, fixtures.truth(ROWS, COLS, len(WAVES)), WAVES, ortho=ortho)
    with h5py.File(scene, "a") as file:
        data = file[f"HDFEOS/{'GRIDS' if ortho else 'SWATHS'}/HYP/Data Fields"]
        data["beta_cloud_mask"][3, 4] = 1
        data["beta_cloud_mask"][5, 4] = 255
        data["beta_cirrus_mask"] = np.eye(ROWS, COLS, dtype=np.uint8)
    succeed("brightness", scene, "-o", tmp_path / "maps")
    found = empty(tmp_path / "maps" / f"{scene.stem}_brightness.tif")
    wanted = np.eye(ROWS, COLS, dtype=bool)
    wanted[3, 4] = wanted[:, 0] = True
    np.testing.assert_array_equal(found, wanted)


def test_methane_has_no_value_under_the_clouds_of_prisma(tmp_path):
    name = "PRS_L1_STD_OFFL_20240402102837_20240402102837_0001"
    scene = tmp_path / f"{name}.he5"
    shutil.copy(SAMPLES / scene.name, scene)
    with h5py.File(scene, "a") as file:
        mask = file["HDFEOS/SWATHS/PRS_L1_HCO/Data Fields/Cloud_Mask"]
        across, along = mask.shape
        mask[:5, :7] = 1  # the eastern side, in the north
        mask[-3:, -2:] = 10  # none of the classes of the product
    clear = ("invert-methane", scene, "--method", "mf", "-o")
    succeed(*clear, tmp_path / "maps")
    succeed(*clear, tmp_path / "whole", "--no-quality-mask")
    masked, every = (empty(tmp_path / folder / f"{name}_methane.tif") for folder in ("maps", "whole"))
    assert masked.shape == (along, across)
    assert masked[:7, -5:].all() and not every[:7, -5:].any()
    assert not masked[-2:, :3].any() and not masked[7:30, 5:].all()
