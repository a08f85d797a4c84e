"""A scene is done only if all files of its inputs, and its products, are what they were."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import geopandas
import numpy as np
import pytest
import shapely

from tests.cli.calls import refusal, run
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import UTM, UTM_TRANSFORM, WAVELENGTHS, envi_list, wavelength_tags

IMAGE = fixtures.truth(24, 20, len(WAVELENGTHS)).astype(np.float32)


@pytest.fixture
def folder(tmp_path) -> Path:
    fixtures.raster(tmp_path / "town.tif", IMAGE, band_tags=wavelength_tags(WAVELENGTHS))
    fields = {"wavelength": envi_list(WAVELENGTHS), "wavelength units": "nm"}
    fixtures.envi(tmp_path / "x.img", IMAGE, "bip", fields)
    left, top = UTM_TRANSFORM @ (2, 2)
    right, bottom = UTM_TRANSFORM @ (12, 12)
    frame = geopandas.GeoDataFrame(
        {"class": ["a"]}, geometry=[shapely.box(left, bottom, right, top)], crs=UTM
    )
    frame.to_file(tmp_path / "m.shp")
    frame.to_file(tmp_path / "m.gdb", driver="OpenFileGDB")
    fixtures.raster(tmp_path / "m.tif", np.ones((24, 20, 1), np.uint8))
    (tmp_path / "m.tif.aux.xml").write_text("<PAMDataset/>")
    return tmp_path


def altered(path: Path, *, keep_time: bool = False) -> None:
    """One byte of the same file is another."""
    before, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    if keep_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    ("mask", "part"),
    [
        ("m.shp", "m.prj"),
        ("m.shp", "m.dbf"),
        ("m.shp", "m.shx"),
        ("m.tif", "m.tif.aux.xml"),
        ("m.gdb", "m.gdb/a00000001.gdbtable"),
    ],
)
def test_a_part_of_the_mask_that_changed_is_told(folder, mask, part):
    call = ("brightness", folder / "town.tif", "--mask", folder / mask, "-o", folder / "out")
    assert run(*call).exit_code == 0
    assert "done already" in run(*call).stderr
    altered(folder / part, keep_time=True)
    assert "lists a run that differs: mask " in refusal(1, *call)


@pytest.mark.parametrize("name", ["x.hdr", "x.img.aux.xml", "x.img.msk", "x.img"])
def test_a_part_of_the_scene_that_changed_is_told(folder, name):
    if name.endswith("xml"):
        (folder / name).write_text("<PAMDataset><!-- a --></PAMDataset>")
    elif name.endswith("msk"):
        shutil.copy(folder / "m.tif", folder / name)
    call = ("brightness", folder / "x.img", "-o", folder / "out")
    done = run(*call)
    assert done.exit_code == 0, done.output
    assert "done already" in run(*call).stderr
    altered(folder / name, keep_time=True)
    assert "the scene has changed since" in refusal(1, *call)


@pytest.mark.parametrize("keep_time", [True, False])
def test_a_product_altered_at_its_size_is_told(folder, keep_time):
    call = ("brightness", folder / "town.tif", "-o", folder / "out")
    assert run(*call).exit_code == 0
    altered(folder / "out" / "town_brightness.tif", keep_time=keep_time)
    assert "town_brightness.tif was changed" in refusal(1, *call)
    assert run(*call, "--resume", "--overwrite").exit_code == 0
    os.utime(folder / "out" / "town_brightness.tif")  # touched, and the same
    assert "done already" in run(*call).stderr
    (folder / "out" / "town_brightness.qml").unlink()
    assert "town_brightness.qml is missing" in refusal(1, *call)


def test_a_product_of_another_command_that_was_altered_is_not_replaced(folder):
    sample = shutil.copy("sample_data/town.tif", folder / "sample.tif")
    assert run("irradiance-map", sample, "-m", "town", "-o", folder / "out").exit_code == 0
    altered(folder / "out" / "sample_irradiance.tif")
    before = (folder / "out" / "sample_irradiance.tif").read_bytes()
    assert "sample_irradiance.tif: exists already" in refusal(
        1, "classify", sample, "-m", "town", "-o", folder / "out"
    )
    assert (folder / "out" / "sample_irradiance.tif").read_bytes() == before
