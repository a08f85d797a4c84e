"""Labelled pixels, whatever file they came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from p3vae.cli.errors import LabelError

MAX_CLASSES = 255
"""Land cover is written as uint8 with 0 for nodata."""
MANY_CLASSES = 100
"""More look like measurements or numbers of polygons."""


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
    lost: Mapping[LabelClass, str] = field(default_factory=dict)
    """Classes of the labels that have no pixel left, and why."""

    @classmethod
    def none(cls) -> LabelledPixels:
        """No pixel at all."""
        nothing = np.empty(0, np.int64)
        return cls(nothing, nothing, nothing, nothing, ())

    def subset(self, kept: npt.NDArray[np.int64], lost_because: str) -> LabelledPixels:
        """Some of the pixels, with the classes that remain; `lost_because` says why others do not."""
        present = set(np.unique(self.class_id[kept]).tolist())
        return replace(
            self,
            row=self.row[kept],
            col=self.col[kept],
            class_id=self.class_id[kept],
            group=self.group[kept],
            classes=tuple(entry for entry in self.classes if entry.id in present),
            lost={
                **self.lost,
                **{entry: lost_because for entry in self.classes if entry.id not in present},
            },
        )


def names_alike(classes: Sequence[LabelClass]) -> tuple[str, ...]:
    """A note on class names that are the same but for case and spaces; none where all differ."""
    alike: dict[str, list[str]] = {}
    for entry in classes:
        alike.setdefault(" ".join(entry.name.casefold().split()), []).append(repr(entry.name))
    groups = [" and ".join(names) for names in alike.values() if len(names) > 1]
    if not groups:
        return ()
    return (f"{', '.join(groups)} differ at most in case or spaces, and stay separate classes",)


class NoLabelOnSceneError(LabelError):
    """Labels that lie elsewhere."""
