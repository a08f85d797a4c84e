"""Bands of known multispectral sensors by name, for stacks that carry no wavelengths."""

import json

import numpy as np
import pytest
import rasterio

from tests.cli.calls import refusal, stdout_of, succeed
from tests.cli.scenes import fixtures

ASK = ("--quantity", "reflectance", "--scale", "1e-4", "--sun-zenith", "35")


def stack(folder, bands):
    counts = np.round(fixtures.truth(20, 24, bands) * 1e4).astype(np.uint16)
    return fixtures.raster(folder / "stack.tif", counts)


@pytest.mark.parametrize(
    ("sensor", "bands", "first", "last", "width"),
    [
        ("sentinel-2", 13, 442.7, 2202.4, 175),
        ("sentinel-2", 12, 442.7, 2202.4, 175),
        ("sentinel-2", 10, 492.4, 2202.4, 175),
        ("landsat-8", 7, 443.0, 2200.7, 187),
        ("landsat-9", 6, 482.0, 2200.7, 187),
        ("landsat-7", 6, 485, 2220, 260),
        ("landsat-5", 6, 485, 2215, 270),
    ],
)
def test_a_stack_has_the_bands_of_its_sensor(tmp_path, sensor, bands, first, last, width):
    told = json.loads(stdout_of("info", "--json", stack(tmp_path, bands), "--wavelengths", sensor, *ASK))
    found = [band["wavelength_nm"] for band in told["bands"]]
    assert len(found) == bands and found == sorted(found)
    assert (found[0], found[-1]) == (pytest.approx(first, abs=0.1), pytest.approx(last, abs=0.1))
    assert told["bands"][-1]["fwhm_nm"] == pytest.approx(width, abs=1)
    assert 1373.5 not in found or bands == 13


def test_a_stack_of_sentinel_2_is_classified_by_the_shipped_model(tmp_path):
    scene = stack(tmp_path, 10)
    succeed("classify", scene, "--wavelengths", "sentinel-2", *ASK, "-o", tmp_path / "maps")
    with rasterio.open(tmp_path / "maps" / "stack_landcover.tif") as source:
        assert source.shape == (20, 24) and (source.read(1) > 0).all()
    again = succeed("classify", scene, "--wavelengths-file", "sentinel-2", *ASK, "-o", tmp_path / "maps")
    assert "skipped" in again.output


def test_a_stack_of_another_size_is_refused(tmp_path):
    said = refusal(2, "info", stack(tmp_path, 5), "--wavelengths", "sentinel-2", *ASK)
    assert "--wavelengths sentinel-2 is for stacks of 10 or 12 or 13 bands, not 5" in said


def test_an_unknown_sensor_is_refused_with_those_there_are(tmp_path):
    said = refusal(1, "info", stack(tmp_path, 5), "--wavelengths", "sentinel-4", *ASK)
    assert "sentinel-4: no such file" in said and "landsat-9" in said


def test_a_file_of_that_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scene = stack(tmp_path, 2)
    (tmp_path / "landsat-8").write_text("wavelength_nm\n500\n600\n")
    told = json.loads(stdout_of("info", "--json", scene, "--wavelengths", "landsat-8", *ASK))
    assert len(told["bands"]) == 2
