"""Errors of GDAL that rasterio lets through."""

from __future__ import annotations

from pathlib import Path

import pytest
from rasterio.crs import CRS
from rasterio.errors import RasterioError, RasterioIOError
from rasterio.warp import transform

from p3vae.cli.scenes.gdal import GdalError, gdal_errors

PACKAGE = Path(__file__).resolve().parents[3] / "p3vae_cli"
NOWHERE = CRS.from_wkt('LOCAL_CS["nowhere",UNIT["metre",1]]')


def test_no_private_module_of_rasterio_is_used():
    assert not [path for path in PACKAGE.rglob("*.py") if "rasterio._err" in path.read_text()]


def test_an_error_of_gdal_gets_a_public_name_and_keeps_its_words():
    with pytest.raises(GdalError, match="Cannot find coordinate operations") as caught, gdal_errors():
        transform(NOWHERE, CRS.from_epsg(4326), [1.0], [2.0])
    assert isinstance(caught.value, RasterioError)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("error", [RasterioIOError("cut"), OSError("full"), ValueError("odd"), KeyError("k")])
def test_all_other_errors_stay_what_they_are(error):
    with pytest.raises(type(error)) as caught, gdal_errors():
        raise error
    assert caught.value is error
