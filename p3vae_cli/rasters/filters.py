"""Filters of class maps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from p3vae.cli.errors import ProductError
from p3vae.cli.rasters.maps import MapFile


def majority(mapped: MapFile, radius: int) -> npt.NDArray[np.uint8]:
    """The commonest class in the square of `radius` pixels around each pixel; its own in a tie.

    Pixels without a class stay without, and do not count; the whole map is filtered at once.
    """
    assert mapped.categories is not None
    own = np.where(mapped.valid, mapped.values, 0)
    if own.max() > 255 or own.min() < 0:
        raise ProductError("holds values beyond 255", path=mapped.path, remedy="give a map of 1 to 255")
    size, best = 2 * radius + 1, own.astype(np.uint8)
    most = np.zeros(own.shape, np.float64)
    for item in mapped.categories.items:
        here = (own == item.value).astype(np.float64)
        count = ndimage.uniform_filter(here, size, mode="constant") * size**2
        count += 0.5 * here  # a tie is the pixel's own
        better = (count > most + 1e-6) & (own > 0)
        best[better], most[better] = item.value, count[better]
    return best
