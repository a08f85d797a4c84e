"""Relief and ground of a synthetic scene."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Field = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Landscape:
    """Fields on the fine grid, `refinement` cells per pixel side; rows run south."""

    refinement: int
    height: Field
    """Surface height [pixels]."""
    slope_east: Field
    """Surface slope towards east [1]."""
    slope_north: Field
    """Surface slope towards north [1]."""
    material: npt.NDArray[np.uint8]
    """Index into `materials.all_materials()`."""
