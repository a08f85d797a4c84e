"""`p3vae assess`: a map against reference data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.errors import LabelError, UsageError
from p3vae.cli.labels import LabelledPixels, NoLabelOnSceneError, read_labels
from p3vae.cli.labels.raster import is_raster, quantity_on_grid
from p3vae.cli.rasters.maps import (
    UNKNOWN_NAME,
    MapFile,
    companion,
    read_class_map,
    read_map,
    require_same_grid,
)
from p3vae.cli.styles.rasters import Category
from p3vae.cli.tables import read_rows
from p3vae.models.accuracy import (
    AreaAdjusted,
    ErrorMatrixScore,
    PairedComparison,
    area_adjusted,
    compare_paired,
    error_matrix,
    score_error_matrix,
)
from p3vae.models.accuracy_intervals import AreaAdjustedIntervals, area_adjusted_intervals
from p3vae.models.metrics import RegressionScore, Reliability, regression_score, reliability

RELIABILITY_BINS = 10
MOST_UNSAMPLED = 0.01
"""Share of the map, of classes without a sample, up to which estimates are made for the rest."""
BY_VALUE = Path("values")
"""In place of a mapping: a reference without names has the numbers of the map."""
_MAPPING_COLUMNS = ["reference", "map"]
Index = npt.NDArray[np.intp]


@dataclass(frozen=True)
class AssessRequest:
    """What the user asked for."""

    map: Path
    reference: Path
    class_field: str | None = None
    class_map: Path | None = None
    """CSV with the columns reference, map: names of classes that differ; or `BY_VALUE`."""
    confidence: Path | None = None
    std: Path | None = None
    compare: Path | None = None


@dataclass(frozen=True)
class OtherMap:
    """A second map on the samples that both maps classify."""

    map: Path
    samples: int
    overall: float
    """Its overall accuracy [1]."""
    first_overall: float
    comparison: PairedComparison


@dataclass(frozen=True, eq=False)
class ClassAssessment:
    """A class map against reference samples; arrays are (classes,) unless said."""

    map: Path
    reference: Path
    classes: tuple[Category, ...]
    counts: npt.NDArray[Any]
    """Samples by map class (rows) and reference class (columns)."""
    score: ErrorMatrixScore
    mapped_pixels: npt.NDArray[np.int64]
    mapped_ha: npt.NDArray[np.float64] | None
    adjusted: AreaAdjusted | None
    """None where a class of the map has no sample."""
    intervals: AreaAdjustedIntervals | None
    """Of `adjusted`."""
    reliability: Reliability | None
    other: OtherMap | None
    notes: tuple[str, ...]

    @property
    def estimated_ha(self) -> float | None:
        """Area that the adjusted estimates share out: of all map classes with a sample [ha]."""
        return None if self.mapped_ha is None else float(self.mapped_ha[self.counts.any(axis=1)].sum())


@dataclass(frozen=True, eq=False)
class QuantityAssessment:
    """A map of a quantity against a reference raster."""

    map: Path
    reference: Path
    unit: str
    pixels: int
    score: RegressionScore
    rmse: float
    r_squared: float
    """1 - sum of squared errors / sum of squared deviations of the reference from its mean."""
    has_std: bool
    """Without a map of standard deviations, coverage is unknown."""
    notes: tuple[str, ...] = ()


Assessment = ClassAssessment | QuantityAssessment


def assess(request: AssessRequest) -> Assessment:
    """Whatever the map holds, against its reference."""
    if not request.reference.exists():
        raise LabelError("no such file", path=request.reference, remedy="check the path given to --reference")
    found = read_map(request.map)
    if found.categories is None:
        return _assess_quantity(found, request)
    return _assess_classes(read_class_map(request.map), request)


def _assess_classes(mapped: MapFile, request: AssessRequest) -> ClassAssessment:
    labels = _reference_labels(mapped, request)
    names = _reference_names(labels, mapped, request)
    classes = tuple(
        item for item in mapped.classes if mapped.pixels(item.value) or item.name in names.values()
    )
    position = {item.name: index for index, item in enumerate(classes)}
    truth = np.array([position.get(names[id_], -1) for id_ in labels.class_id.tolist()], np.intp)
    samples = _ReferencePixels(labels.row, labels.col, truth)
    found = samples.on(mapped, classes)
    used = (truth >= 0) & (found >= 0)
    if not used.any():
        raise LabelError(
            "no reference sample lies on a classified pixel", path=request.reference, remedy="check the map"
        )
    counts = error_matrix(found[used], truth[used], len(classes))
    pixels = np.array([mapped.pixels(item.value) for item in classes], np.int64)
    hectares = [mapped.area_ha(item.value) for item in classes]
    areas = None if None in hectares else np.array(hectares, np.float64)
    notes = [*labels.notes, *_notes(labels, truth, found), *_unknown_note(mapped)]
    weights = pixels.astype(np.float64) if areas is None else areas
    unsampled = (weights > 0) & ~counts.any(axis=1)
    share = float(weights[unsampled].sum() / weights.sum())
    adjust = share <= MOST_UNSAMPLED
    if unsampled.any():
        names_of = ", ".join(item.name for item, without in zip(classes, unsampled, strict=True) if without)
        what = f"leave out {100 * share:.2f} % of the map" if adjust else "cannot be made"
        notes.append(f"area-adjusted estimates {what}: no sample lies on {names_of}")
    weights = np.where(unsampled, 0.0, weights)
    other = None if request.compare is None else _compared(mapped, request.compare, samples, classes, found)
    return ClassAssessment(
        map=mapped.path,
        reference=request.reference,
        classes=classes,
        counts=counts,
        score=score_error_matrix(counts),
        mapped_pixels=pixels,
        mapped_ha=areas,
        adjusted=area_adjusted(counts, weights) if adjust else None,
        intervals=area_adjusted_intervals(counts, weights) if adjust else None,
        reliability=_reliability(mapped, request.confidence, samples, found),
        other=other,
        notes=tuple(notes),
    )


@dataclass(frozen=True, eq=False)
class _ReferencePixels:
    """Reference pixels, (samples,) each."""

    row: npt.NDArray[np.int64]
    col: npt.NDArray[np.int64]
    truth: Index
    """Class index; -1 for one that is left out."""

    def on(self, mapped: MapFile, classes: tuple[Category, ...]) -> Index:
        """Class index in a map; -1 where it has no class or calls a pixel unknown."""
        position = {_plain(item.name): index for index, item in enumerate(classes)}
        table = {item.value: position.get(_plain(item.name), -1) for item in mapped.classes}
        here = mapped.values[self.row, self.col].tolist()
        valid = mapped.valid[self.row, self.col]
        return np.where(valid, np.array([table.get(value, -1) for value in here], np.intp), -1)


def _reference_labels(mapped: MapFile, request: AssessRequest) -> LabelledPixels:
    try:
        return read_labels(request.reference, mapped.grid, class_field=request.class_field)
    except NoLabelOnSceneError as error:
        raise LabelError(
            "no reference sample falls on the map",
            path=request.reference,
            remedy="check the extents and the CRS of both files",
        ) from error


def _reference_names(labels: LabelledPixels, mapped: MapFile, request: AssessRequest) -> dict[int, str]:
    """Name in the map of every reference class, by its id; "" for one that the mapping leaves out."""
    by_value = request.class_map == BY_VALUE and not BY_VALUE.exists()
    if by_value:
        given = {_plain(f"class {item.value}"): item.name for item in mapped.classes}
    else:
        given = {} if request.class_map is None else _read_mapping(request.class_map)
    known = {"": ""} | {_plain(item.name): item.name for item in mapped.classes}
    found, foreign, nameless = {}, [], False
    for entry in labels.classes:
        nameless |= entry.name == f"class {entry.id}"
        usual = given.get(str(entry.id), entry.name) if nameless else entry.name
        name = _plain(given.get(_plain(entry.name), usual))
        found[entry.id] = known.get(name, "")
        if name not in known:
            foreign.append(entry.name)
    if foreign:
        legend = ", ".join(f"{item.value} {item.name}" if nameless else item.name for item in mapped.classes)
        values = ", --class-map values if the numbers are those of the map" if nameless else ""
        raise LabelError(
            f"its classes {', '.join(foreign)} are not in the map, which has {legend}",
            path=request.reference,
            remedy=f"give --class-map CSV with the columns reference,map{values}",
        )
    return found


def _read_mapping(path: Path) -> dict[str, str]:
    try:
        heading, *rows = read_rows(path) or [[]]
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot be read as CSV: {error}", path=path) from error
    if [title.strip() for title in heading[:2]] != _MAPPING_COLUMNS or any(len(row) < 2 for row in rows):
        raise UsageError("needs the columns reference,map", path=path, remedy="one line per reference class")
    return {_plain(row[0]): row[1].strip() for row in rows}


def _plain(name: str) -> str:
    return " ".join(name.casefold().split())


def _notes(labels: LabelledPixels, truth: Index, found: Index) -> list[str]:
    left_out, unclassified = int((truth < 0).sum()), int(((truth >= 0) & (found < 0)).sum())
    notes = []
    if left_out:
        notes.append(f"{left_out} samples of classes that --class-map leaves out do not count")
    if unclassified:
        notes.append(f"{unclassified} samples lie on nodata or unknown pixels and do not count")
    if len(np.unique(labels.group)) < len(labels.group):
        notes.append("pixels of one polygon or patch are not independent: the intervals are too narrow")
    return notes


def _unknown_note(mapped: MapFile) -> list[str]:
    """That unknown pixels are no stratum."""
    items = () if mapped.categories is None else mapped.categories.items
    unknown = sum(mapped.pixels(item.value) for item in items if item.name.casefold() == UNKNOWN_NAME)
    if not unknown:
        return []
    share = 100 * unknown / int(mapped.valid.sum())
    return [f"{unknown:,} pixels ({share:.1f} %) are unknown: no stratum, and in no area or accuracy"]


def _reliability(
    mapped: MapFile, confidence: Path | None, samples: _ReferencePixels, found: Index
) -> Reliability | None:
    path = confidence or companion(mapped.path, "_landcover", "_confidence")
    if path is None:
        return None
    raster = read_map(path)
    require_same_grid(mapped, raster)
    values = raster.values[samples.row, samples.col]
    used = (samples.truth >= 0) & (found >= 0) & raster.valid[samples.row, samples.col]
    if used.any() and not (values[used].min() >= 0 and values[used].max() <= 1):
        raise UsageError("holds values outside 0 to 1", path=path, remedy="--confidence is a probability")
    return reliability(values[used], found[used] == samples.truth[used], bins=RELIABILITY_BINS)


def _compared(
    mapped: MapFile, path: Path, samples: _ReferencePixels, classes: tuple[Category, ...], first: Index
) -> OtherMap:
    other = read_class_map(path)
    require_same_grid(mapped, other)
    second = samples.on(other, classes)
    both = (samples.truth >= 0) & (first >= 0) & (second >= 0)
    if not both.any():
        raise UsageError("shares no classified sample with the map", path=path, remedy="check its classes")
    first_right, second_right = (index[both] == samples.truth[both] for index in (first, second))
    comparison = compare_paired(first_right, second_right)
    overall = float(second_right.mean()), float(first_right.mean())
    return OtherMap(path, int(both.sum()), *overall, comparison)


def _assess_quantity(mapped: MapFile, request: AssessRequest) -> QuantityAssessment:
    if not is_raster(request.reference):
        raise UsageError(
            f"is no raster, and {mapped.path.name} holds a quantity",
            path=request.reference,
            remedy="give a reference raster",
        )
    if request.compare or request.confidence or request.class_map or request.class_field:
        raise UsageError("holds a quantity: options of class maps are of no use", path=mapped.path)
    truth, notes = quantity_on_grid(request.reference, mapped.grid)
    path = request.std or companion(mapped.path, "", "_std")
    std = np.full(mapped.values.shape, np.nan)
    if path is not None:
        raster = read_map(path)
        require_same_grid(mapped, raster)
        std = np.where(raster.valid, raster.values, np.nan)
    used = mapped.valid & np.isfinite(truth) & (np.isfinite(std) if path is not None else True)
    if used.sum() < 2:
        raise LabelError(
            "no value falls on the map",
            path=request.reference,
            remedy="check the extents and the CRS of both",
        )
    expected, found = truth[used].astype(np.float64), mapped.values[used].astype(np.float64)
    squares = float(((found - expected) ** 2).sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        r_squared = 1 - np.float64(squares) / ((expected - expected.mean()) ** 2).sum()
    return QuantityAssessment(
        map=mapped.path,
        reference=request.reference,
        unit=mapped.unit,
        pixels=int(used.sum()),
        score=regression_score(expected, found, std[used]),
        rmse=float(np.sqrt(squares / used.sum())),
        r_squared=float(r_squared),
        has_std=path is not None,
        notes=notes,
    )
