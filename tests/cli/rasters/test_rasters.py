"""What is written is read back: pixels that a disk loses are noticed before anything is in place."""

from __future__ import annotations

import numpy as np
import pytest
import rasterio
import rasterio.shutil
from rasterio.windows import Window as Part

from p3vae.cli.errors import ProductError
from p3vae.cli.rasters.files import MapSpec, RasterSink
from p3vae.cli.records.staging import Staging
from p3vae.cli.scenes.tiling import Window
from tests.cli.fake_scene import map_grid

HEIGHT, WIDTH = 40, 50


@pytest.fixture
def disk_loses_rows(monkeypatch):
    """Blank some rows of the working file before GDAL copies it, as a disk that is full does."""
    copy = rasterio.shutil.copy

    def lose(rows: int) -> None:
        def after_loss(source, target, **options):
            with rasterio.open(source, "r+") as raster:
                nothing = np.full((1, rows, WIDTH), raster.nodata, raster.dtypes[0])
                raster.write(nothing, window=Part(0, 3, WIDTH, rows))
            copy(source, target, **options)

        monkeypatch.setattr(rasterio.shutil, "copy", after_loss)

    return lose


def written(folder, **options) -> None:
    with Staging(folder, ["a_map.tif"], "a_p3vae.json") as staging:
        sink = RasterSink(staging, "a_map.tif", MapSpec("map", "a map"), map_grid(HEIGHT, WIDTH), **options)
        sink.write(Window(0, 0, HEIGHT, WIDTH), np.ones((HEIGHT, WIDTH), np.float32))
        sink.finish()


def test_lost_pixels_are_counted_and_nothing_stays(tmp_path, disk_loses_rows):
    disk_loses_rows(2)
    with pytest.raises(ProductError, match=f"{2 * WIDTH} pixels were lost"):
        written(tmp_path / "maps")
    assert not (tmp_path / "maps").exists()


@pytest.mark.parametrize(("rows", "lost"), [(2, False), (HEIGHT - 3, False), (0, False)])
def test_a_compression_that_alters_values_may_alter_some(tmp_path, disk_loses_rows, rows, lost):
    disk_loses_rows(rows)
    written(tmp_path / "maps", creation_options={"COMPRESS": "LERC"})


def test_a_compression_that_alters_values_may_not_lose_all(tmp_path, monkeypatch):
    copy = rasterio.shutil.copy

    def empty(source, target, **options):
        with rasterio.open(source, "r+") as raster:
            raster.write(np.full((1, HEIGHT, WIDTH), np.nan, np.float32))
        copy(source, target, **options)

    monkeypatch.setattr(rasterio.shutil, "copy", empty)
    with pytest.raises(ProductError, match="were lost"):
        written(tmp_path / "maps", creation_options={"COMPRESS": "LERC"})


def test_gdal_finds_the_statistics_and_the_share_of_valid_pixels(tmp_path):
    values = np.linspace(2.0, 9.0, HEIGHT * WIDTH, dtype=np.float32).reshape(HEIGHT, WIDTH)
    values[:10] = np.nan
    with Staging(tmp_path, ["a_map.tif"], "a_p3vae.json") as staging:
        sink = RasterSink(staging, "a_map.tif", MapSpec("map", "a map"), map_grid(HEIGHT, WIDTH))
        sink.write(Window(0, 0, 16, WIDTH), values[:16])
        sink.write(Window(16, 0, HEIGHT - 16, WIDTH), values[16:])
        sink.finish()
        with rasterio.open(staging.path("a_map.tif")) as made:
            tags = {
                name: float(value) for name, value in made.tags(1).items() if name.startswith("STATISTICS")
            }
    known = values[10:].astype(float)
    assert tags["STATISTICS_VALID_PERCENT"] == pytest.approx(75.0)
    assert tags["STATISTICS_MINIMUM"] == pytest.approx(known.min())
    assert tags["STATISTICS_MAXIMUM"] == pytest.approx(known.max())
    assert tags["STATISTICS_MEAN"] == pytest.approx(known.mean(), rel=1e-6)
    assert tags["STATISTICS_STDDEV"] == pytest.approx(known.std(), rel=1e-6)
