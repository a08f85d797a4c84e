"""Writes cubes of reflectance as plain GeoTIFF or ENVI, with everything a reader needs in the metadata."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import rasterio
from affine import Affine
from rasterio.crs import CRS

from p3vae.physics.spectral_response import Bands

REFLECTANCE_SCALE = 10_000
"""Stored value of reflectance 1."""
NODATA = -32768
BLOCK = 128


@dataclass(frozen=True)
class Placement:
    """Where and when a cube was taken."""

    epsg: int
    """Code of a northern UTM zone."""
    transform: Affine
    """Pixel corner (col, row) of the image to coordinates of the CRS."""
    time: datetime
    """UTC."""
    sun_zenith_deg: float
    sun_azimuth_deg: float
    view_zenith_deg: float

    @property
    def crs(self) -> CRS:
        """The CRS that `epsg` stands for."""
        return CRS.from_epsg(self.epsg)


def write_geotiff(path: Path, cube: npt.NDArray[np.float32], bands: Bands, placement: Placement) -> None:
    """A tiled GeoTIFF of int16 reflectance; `cube` is (rows, cols, bands), NaN where there is no data."""
    counts = _counts(cube)
    rows, cols, count = counts.shape
    profile = {
        "driver": "GTiff",
        "width": cols,
        "height": rows,
        "count": count,
        "dtype": "int16",
        "nodata": NODATA,
        "crs": placement.crs,
        "transform": placement.transform,
        "tiled": True,
        "blockxsize": BLOCK,
        "blockysize": BLOCK,
        "interleave": "band",
        "compress": "deflate",
        "zlevel": 9,
        "predictor": 2,
        "bigtiff": "if_safer",
    }
    with rasterio.open(path, "w", **profile) as target:
        target.write(counts.transpose(2, 0, 1))
        target.scales = (1.0 / REFLECTANCE_SCALE,) * count
        target.update_tags(
            quantity="reflectance",
            unit="1",
            sun_zenith_deg=repr(placement.sun_zenith_deg),
            sun_azimuth_deg=repr(placement.sun_azimuth_deg),
            view_zenith_deg=repr(placement.view_zenith_deg),
            acquisition_time=placement.time.isoformat(),
        )
        for index, (centre, width, good) in enumerate(_rows(bands), start=1):
            target.set_band_description(index, f"{centre:.2f} nm")
            target.update_tags(
                index,
                wavelength=repr(centre),
                wavelength_units="Nanometers",
                fwhm=repr(width),
                good="1" if good else "0",
            )
            target.update_tags(
                index, ns="IMAGERY", CENTRAL_WAVELENGTH_UM=repr(centre / 1000), FWHM_UM=repr(width / 1000)
            )


def write_envi(path: Path, cube: npt.NDArray[np.float32], bands: Bands, placement: Placement) -> None:
    """An ENVI cube, lines interleaved by band, int16 reflectance; the header is `path` with suffix .hdr."""
    counts = _counts(cube)
    counts.transpose(0, 2, 1).astype("<i2").tofile(path)
    path.with_suffix(".hdr").write_text(_envi_header(counts.shape, bands, placement), encoding="ascii")


def _envi_header(shape: tuple[int, ...], bands: Bands, placement: Placement) -> str:
    rows, cols, count = shape
    zone = placement.epsg % 100
    x, y, step = placement.transform.c, placement.transform.f, placement.transform.a
    fields = {
        "description": "{Synthetic apparent reflectance}",
        "samples": cols,
        "lines": rows,
        "bands": count,
        "header offset": 0,
        "file type": "ENVI Standard",
        "data type": 2,
        "interleave": "bil",
        "byte order": 0,
        "map info": f"{{UTM, 1, 1, {x!r}, {y!r}, {step!r}, {step!r}, {zone}, North, WGS-84, units=Meters}}",
        "coordinate system string": f"{{{placement.crs.to_wkt(version='WKT1_ESRI')}}}",
        "data ignore value": NODATA,
        "reflectance scale factor": REFLECTANCE_SCALE,
        "wavelength units": "Nanometers",
        "wavelength": _braced(repr(float(value)) for value in bands.wavelength_nm),
        "fwhm": _braced(repr(float(value)) for value in bands.fwhm_nm),
        "bbl": _braced("1" if good else "0" for good in bands.good),
        "sun elevation": repr(90.0 - placement.sun_zenith_deg),
        "sun azimuth": repr(placement.sun_azimuth_deg),
        "view zenith": repr(placement.view_zenith_deg),
        "acquisition time": placement.time.isoformat(),
    }
    return "ENVI\n" + "".join(f"{name} = {value}\n" for name, value in fields.items())


def _braced(items: Iterable[str]) -> str:
    return "{" + ", ".join(items) + "}"


def _rows(bands: Bands) -> list[tuple[float, float, bool]]:
    return [
        (float(centre), float(width), bool(good))
        for centre, width, good in zip(bands.wavelength_nm, bands.fwhm_nm, bands.good, strict=True)
    ]


def _counts(cube: npt.NDArray[np.float32]) -> npt.NDArray[np.int16]:
    limits = NODATA + 1, np.iinfo(np.int16).max
    counts = np.clip(np.rint(cube * np.float32(REFLECTANCE_SCALE)), *limits)
    return np.where(np.isnan(cube), NODATA, counts).astype(np.int16)
