"""`p3vae info` on rasters that do not say what their numbers mean."""

from __future__ import annotations

import json

import numpy as np
import pytest
import rasterio
from affine import Affine

from tests.cli.calls import refusal, run


def write_cube(path, values, *, nodata=None, wavelengths=True):
    """A cube (bands, rows, cols) whose bands may name their wavelength."""
    profile = {"driver": "GTiff", "count": len(values), "height": values.shape[1], "width": values.shape[2]}
    place = {"crs": "EPSG:32631", "transform": Affine(30, 0, 5e5, 0, -30, 4.8e6)}
    with rasterio.open(path, "w", **profile, **place, dtype=values.dtype, nodata=nodata) as made:
        made.write(values)
        for number in range(len(values)):
            if wavelengths:
                made.set_band_description(number + 1, f"{450 + 10 * number} nm")
    return path


@pytest.fixture
def scaled():
    """Reflectance times 10,000, a third of it the undeclared mark -9999."""
    values = np.random.default_rng(1).integers(500, 4000, (20, 48, 40)).astype(np.int16)
    values[:, :16] = -9999
    return values


def test_what_is_stored_and_which_option_is_missing(tmp_path, scaled) -> None:
    path = write_cube(tmp_path / "cube.tif", scaled)
    shown = run("info", path)
    assert shown.exit_code == 0 and max(map(len, shown.stdout.splitlines())) < 200
    text = " ".join(shown.stdout.split())
    assert "int16" in text and "--scale 1e-4" in text and "--nodata -9999" in text
    found = json.loads(run("info", path, "--json").stdout)
    assert found["minimum"] == -9999 and 500 <= found["median"] <= 4000 and found["bands"] == 20
    assert run("info", path, "--scale", "1e-4", "--nodata", -9999, "--sun-zenith", 30).exit_code == 0


def test_percent_and_declared_nodata(tmp_path, scaled) -> None:
    percent = np.where(scaled < 0, -1, scaled / 100).astype(np.float32)
    found = json.loads(run("info", write_cube(tmp_path / "a.tif", percent, nodata=-1), "--json").stdout)
    assert "--scale 0.01" in found["looks_like"] and "--nodata" not in found["looks_like"]
    assert found["minimum"] >= 5 and found["nodata"] == -1


def test_missing_wavelengths_and_single_bands(tmp_path, scaled) -> None:
    plain = write_cube(tmp_path / "plain.tif", scaled[:, 16:] / np.float32(1e4), wavelengths=False)
    text = " ".join(run("info", plain).stdout.split())
    assert "reflectance from 0 to 1" in text and "--wavelengths" in text
    one = json.loads(run("info", "sample_data/town_class.tif", "--json").stdout)
    assert "one band" in one["looks_like"] and one["bands"] == 1


def test_the_inventory_lists_them_apart(tmp_path, scaled) -> None:
    path = write_cube(tmp_path / "cube.tif", scaled)
    heading, line = run("info", path, "--csv").stdout.splitlines()
    row = dict(zip(heading.split(","), line.split(","), strict=False))
    assert row["status"] == "incomplete" and "no scale is given" in line


def test_what_is_no_raster_is_refused(tmp_path) -> None:
    (tmp_path / "text.tif").write_text("hello")
    assert "text.tif" in refusal(1, "info", tmp_path / "text.tif")
    assert "no such file" in refusal(1, "info", tmp_path / "none.tif")
