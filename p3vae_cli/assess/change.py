"""`p3vae change`: what became of each class between two maps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.errors import UsageError
from p3vae.cli.rasters.areas import M2_PER_HECTARE, row_areas_m2
from p3vae.cli.rasters.derived import write_derived
from p3vae.cli.rasters.files import MapSpec, class_map
from p3vae.cli.rasters.maps import MapFile, companion, read_class_map, read_map, require_same_grid
from p3vae.cli.styles.rasters import Categories, Category, Ramp

SAME = 1
"""Value of pixels that keep their class."""
_SAME_COLOUR = "#d9d9d9"
_MOST_TRANSITIONS = 254


@dataclass(frozen=True)
class Transition:
    """Pixels of one class that have another one later."""

    before: str
    after: str
    colour: str
    pixels: int
    hectares: float | None
    confidence: float | None
    """Mean probability that both classes are right, if both maps have a confidence."""


@dataclass(frozen=True)
class Change:
    """What differs between two maps."""

    pixels: int
    """Classified in both maps."""
    changed: int
    transitions: tuple[Transition, ...]
    """The largest first."""


def find_change(first: Path, second: Path, output: Path | None, *, overwrite: bool) -> Change:
    """Compare two class maps of one grid by class names, and write a map of the changes if asked to."""
    before, after = read_class_map(first), read_class_map(second)
    require_same_grid(before, after)
    confidence = _confidence(before, after)
    classified = _classified(before) & _classified(after)
    if not classified.any():
        raise UsageError(f"no pixel is classified in both {first.name} and {second.name}")
    values = np.where(classified, np.uint8(SAME), np.uint8(0))
    transitions = []
    pairs = sorted(_pairs(before, after, classified), key=lambda pair: -int(pair[2].sum()))
    if len(pairs) > _MOST_TRANSITIONS:
        raise UsageError(
            f"{len(pairs)} kinds of change are too many for one map", remedy="merge classes first"
        )
    for number, (old, new, here) in enumerate(pairs, start=SAME + 1):
        values[here] = number
        transitions.append(_transition(old, new, here, before, confidence))
    found = Change(int(classified.sum()), int((values > SAME).sum()), tuple(transitions))
    if output is not None:
        _write(output, values, found, confidence, before, (first, second), overwrite)
    return found


def _classified(mapped: MapFile) -> npt.NDArray[np.bool_]:
    return mapped.valid & np.isin(mapped.values, [item.value for item in mapped.classes])


def _pairs(before: MapFile, after: MapFile, classified: npt.NDArray[np.bool_]) -> Any:
    """Old class, new class and where, for all pairs of different names that occur."""
    for old in before.classes:
        was = classified & (before.values == old.value)
        for new in after.classes:
            here = was & (after.values == new.value)
            if old.name.casefold() != new.name.casefold() and here.any():
                yield old, new, here


def _transition(
    old: Category,
    new: Category,
    here: npt.NDArray[np.bool_],
    before: MapFile,
    confidence: npt.NDArray[np.float32] | None,
) -> Transition:
    areas = row_areas_m2(before.grid)
    hectares = None if areas is None else float(here.sum(axis=1) @ areas) / M2_PER_HECTARE
    sure = None if confidence is None else float(np.nanmean(confidence[here]))
    return Transition(old.name, new.name, new.color, int(here.sum()), hectares, sure)


def _confidence(before: MapFile, after: MapFile) -> npt.NDArray[np.float32] | None:
    """Probability that both classes are right, (rows, cols); None unless both maps have a confidence."""
    paths = [companion(mapped.path, "_landcover", "_confidence") for mapped in (before, after)]
    if None in paths:
        return None
    first, second = (read_map(path) for path in paths if path is not None)
    for raster in (first, second):
        require_same_grid(before, raster)
    product = np.where(first.valid & second.valid, first.values * second.values, np.nan)
    return product.astype(np.float32)


def _write(
    output: Path,
    values: npt.NDArray[np.uint8],
    found: Change,
    confidence: npt.NDArray[np.float32] | None,
    before: MapFile,
    inputs: tuple[Path, ...],
    overwrite: bool,
) -> None:
    named = [Category(SAME, "no change", _SAME_COLOUR)]
    named += [
        Category(number, f"{t.before} → {t.after}", t.colour)
        for number, t in enumerate(found.transitions, start=SAME + 1)
    ]
    layers: dict[str, tuple[MapSpec, npt.NDArray[Any]]] = {
        output.name: (class_map("change", "change of land cover", Categories(tuple(named))), values)
    }
    if confidence is not None:
        spec = MapSpec(
            "confidence", "probability that both classes are right", unit="1", style=Ramp(0.0, 1.0, "viridis")
        )
        kept = np.where(values > 0, confidence, np.float32(np.nan))
        layers[f"{output.stem}_confidence{output.suffix}"] = (spec, kept)
    write_derived(output.parent, layers, before.grid, before.tags, overwrite=overwrite, inputs=inputs)
