"""What turns a scene into maps, one for each product family.

A mapper is made for one scene and is cheap to make: its `specs` are known at once, for a dry run. `prepare`
learns from the scene what takes time; then it is called for every tile, and `finish` works on the maps as a
whole.
`run/brightness.py` is the smallest one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from p3vae.cli.rasters.files import MapSpec
from p3vae.cli.run.maps import Maps
from p3vae.cli.scenes.tiling import SpectraTile

Steps = Callable[[int, int], None]
"""Is told steps done and steps to do."""


class Mapper:
    """From the spectra of a tile to named maps, each (rows, cols) or (bands, rows, cols).

    It need not care for invalid pixels: whatever it returns there is replaced by nodata, but for maps that
    report why pixels are invalid (`MapSpec.reports_invalid`). Nor need it care for pixels around a tile that
    only its `halo` has added: what it returns there is dropped.
    """

    specs: Mapping[str, MapSpec]
    """The maps that it returns, by name."""
    files: Sequence[str] = ()
    """Suffixes of the files that `finish` adds."""
    halo: int = 0
    """How far it looks at neighbours [pixels]."""
    tile_size: int | None = None
    """Side of tiles that suits it, unless the user gives one or a limit of memory [pixels]."""
    model_sha256: str | None = None

    def prepare(self, progress: Steps) -> None:
        """Learn from the scene, before the first tile."""

    def __call__(self, tile: SpectraTile) -> Mapping[str, npt.NDArray[Any]]:
        """The maps of a tile."""
        raise NotImplementedError

    def finish(self, maps: Maps) -> None:
        """Work on the finished maps: add to them, and say what they hold."""

    def keep(self) -> None:
        """What is left to do when all products are in place."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides the result, for the manifest; known once it is prepared."""
        return {}

    @property
    def results(self) -> Mapping[str, Any]:
        """What is known once every pixel is mapped, for the manifest and JSON."""
        return {}
