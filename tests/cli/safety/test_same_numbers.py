"""The same numbers stored otherwise give the same maps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rasterio

from tests.cli.calls import run

SAMPLES = Path(__file__).parents[3] / "sample_data"


@pytest.fixture(scope="module")
def maps(tmp_path_factory):
    """Maps of the sample town as int16, float32 and float64, with a scale and an offset or without."""
    folder = tmp_path_factory.mktemp("stored")
    with rasterio.open(SAMPLES / "town.tif") as source:
        profile, tags = source.profile, [source.tags(band) for band in source.indexes]
        reflectance = source.read().astype(np.float64) * np.array(source.scales)[:, None, None]
        valid = source.dataset_mask() > 0
        general, described = source.tags(), source.descriptions
    found = {}
    for name, scale, offset in (("plain", 1e-4, 0.0), ("shifted", 1e-4, -0.1), ("odd", 1 / 30000, 0.013)):
        counts = np.clip(np.round((reflectance - offset) / scale), -32000, 32000)
        exact = counts * scale + offset
        for dtype in ("int16", "float64", "float32"):
            path = folder / f"{name}-{dtype}.tif"
            options = {**profile, "dtype": dtype, "nodata": -32768}
            with rasterio.open(path, "w", **options) as target:
                stored = counts if dtype == "int16" else exact
                target.write(np.where(valid, stored, -32768).astype(dtype))
                target.update_tags(**general)
                for band, own in enumerate(tags, start=1):
                    target.update_tags(band, **own)
                    target.set_band_description(band, described[band - 1] or "")
                if dtype == "int16":
                    target.scales, target.offsets = [scale] * target.count, [offset] * target.count
                else:
                    target.scales, target.offsets = [1.0] * target.count, [0.0] * target.count
            done = run("classify", path, "-m", "town", "-o", folder / "maps")
            assert done.exit_code == 0, done.output
            found[name, dtype] = {
                quantity: rasterio.open(folder / "maps" / f"{path.stem}_{quantity}.tif").read(1)
                for quantity in ("landcover", "confidence", "irradiance")
            }
    return found


@pytest.mark.parametrize("name", ["plain", "shifted", "odd"])
@pytest.mark.parametrize("dtype", ["int16", "float64"])
def test_maps_do_not_depend_on_the_type_of_the_file(maps, name, dtype):
    one, other = maps[name, dtype], maps[name, "float32"]
    assert np.array_equal(one["landcover"], other["landcover"])
    for quantity in ("confidence", "irradiance"):
        assert np.abs(one[quantity] - other[quantity]).max() <= 1e-5
