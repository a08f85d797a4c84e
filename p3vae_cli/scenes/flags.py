"""Pixels that a product itself flags as cloud or cirrus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.scenes.tiling import Window


@dataclass(frozen=True, eq=False)
class Flags:
    """The flags of a scene, on its grid."""

    names: tuple[str, ...]
    """What is flagged, e.g. "cloud", for people."""
    at: Callable[[Window], npt.NDArray[np.bool_]]
    """(rows, cols) of a window: True where any of them is set."""

    @classmethod
    def of(cls, layers: Mapping[str, Callable[[Window], npt.NDArray[Any]]]) -> Flags | None:
        """Flags of layers whose value is 1 or more where it is set; None without any.

        255, which products write where a layer has no value, is no flag.
        """
        if not layers:
            return None

        def at(window: Window) -> npt.NDArray[np.bool_]:
            found = np.zeros((window.rows, window.cols), dtype=bool)
            for read in layers.values():
                values = read(window)
                found |= (values >= 1) & (values < NO_VALUE)
            return found

        return cls(tuple(layers), at)


NO_VALUE = 255
"""In a layer of flags."""
