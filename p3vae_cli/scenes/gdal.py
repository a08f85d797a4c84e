"""GDAL's own errors, under a public name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rasterio.errors import RasterioError


class GdalError(RasterioError):  # type: ignore[misc]  # rasterio has no types
    """What GDAL says where rasterio has no error of its own for it."""


@contextmanager
def gdal_errors() -> Iterator[None]:
    """Raise `GdalError` for exceptions of rasterio that are not among its public ones.

    Warping, copying and coordinate transforms let GDAL's errors through as they are, of classes whose home
    is private to rasterio and whose base is `Exception`.
    """
    try:
        yield
    except Exception as error:
        package, _, module = type(error).__module__.partition(".")
        if package != "rasterio" or module == "errors":
            raise
        raise GdalError(str(error)) from error
