"""A small scene in memory, for tests that are about what happens after reading."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from affine import Affine
from rasterio.control import GroundControlPoint
from rasterio.crs import CRS

from p3vae.cli.run.make import Target, make_products
from p3vae.cli.run.mapper import Mapper
from p3vae.cli.run.settings import OutputSettings
from p3vae.cli.scenes.base import Acquisition, Grid, Scene
from p3vae.physics.spectral_response import Bands


class MemoryReader:
    """A cube held in memory."""

    def __init__(self, cube):
        self.cube = cube

    def read(self, window, bands):
        return self.cube[window.slices][..., bands].copy()

    def close(self):
        pass


def map_grid(height, width):
    return Grid(width, height, CRS.from_epsg(32631), Affine(30.0, 0.0, 500_000.0, 0.0, -30.0, 4_800_000.0))


def swath_grid(height, width, step=10):
    """Control points at pixel centres: longitude grows with the column and a little with the row."""
    rows = sorted({*range(0, height, step), height - 1})
    cols = sorted({*range(0, width, step), width - 1})
    gcps = tuple(
        GroundControlPoint(
            row=r + 0.5, col=c + 0.5, x=4.0 + 3e-4 * c + 5e-5 * r, y=43.0 - 3e-4 * r, id=f"{r}-{c}"
        )
        for r in rows
        for c in cols
    )
    return Grid(width, height, CRS.from_epsg(4326), None, gcps)


def memory_scene(cube, grid=None, *, good=None, path="town.tif", block_shape=(16, 16), reader=None):
    height, width, bands = cube.shape
    return Scene(
        path=Path(path),
        product="GeoTIFF",
        level=None,
        grid=grid or map_grid(height, width),
        bands=Bands(
            np.linspace(450.0, 2400.0, bands),
            np.full(bands, 10.0),
            np.ones(bands, bool) if good is None else good,
        ),
        quantity="reflectance",
        acquisition=Acquisition(sun_zenith_deg=30.0),
        block_shape=block_shape,
        reader=reader or MemoryReader(cube.astype(np.float32)),
        file_bands=np.arange(bands),
    )


def random_cube(height=70, width=90, bands=5, *, holes=True, seed=1):
    rng = np.random.default_rng(seed)
    cube = rng.uniform(0.05, 0.6, (height, width, bands)).astype(np.float32)
    if holes:
        cube[10:14, 20:40] = np.nan
    return cube


class FunctionMapper(Mapper):
    """A mapper of a plain function."""

    def __init__(self, function, specs, *, model_sha256=None, settings=None):
        self._function, self.specs, self.model_sha256 = function, specs, model_sha256
        self._settings = settings or {}

    def __call__(self, tile):
        return self._function(tile)

    @property
    def settings(self):
        return self._settings


def make(scene, mapper, folder, *, provenance=None, in_flight=2, **outputs):
    """Products of a scene in a folder; `outputs` are settings."""
    target = Target(Path(folder), scene.path.stem)
    return make_products(
        scene, mapper, target, OutputSettings(**outputs), provenance=provenance, in_flight=in_flight
    )
