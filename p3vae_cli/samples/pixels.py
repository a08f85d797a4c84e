"""Labelled pixels, whatever file they came from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from p3vae.cli.base.errors import LabelError

MAX_CLASSES = 255
"""Land cover is written as uint8 with 0 for nodata."""


@dataclass(frozen=True)
class LabelClass:
    """One land-cover class as the labels name it."""

    id: int
    """Value in every product, 1 to 255."""
    name: str
    colour: str | None = None
    """#rrggbb, if the labels give one."""


@dataclass(frozen=True, eq=False)
class LabelledPixels:
    """Pixels whose class is known; all arrays are (pixels,)."""

    row: npt.NDArray[np.int64]
    col: npt.NDArray[np.int64]
    class_id: npt.NDArray[np.int64]
    group: npt.NDArray[np.int64]
    """Polygon, or connected patch of a label raster: what a validation split keeps whole."""
    classes: tuple[LabelClass, ...]
    """In ascending order of id."""
    notes: tuple[str, ...] = ()
    """What the user should know: pixels dropped, polygons outside, ..."""

    @classmethod
    def none(cls) -> LabelledPixels:
        """No pixel at all."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing, nothing, ())


class NoLabelOnSceneError(LabelError):
    """Labels that lie elsewhere."""
