"""Square patches of images, for models that look at a pixel's neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage

IntArray = npt.NDArray[np.integer[Any]]
FloatArray = npt.NDArray[np.float32]

PATCH_SIZE = 32
"""Pixels along a side, a whole number of pooling cells."""
MOST_BYTES = 128 * 2**20
"""What all patches of a training may take [bytes]."""


@dataclass(frozen=True, eq=False)
class PatchSet:
    """Patches that do not overlap, and where the labelled samples of a training set lie in them."""

    images: FloatArray
    """(patches, rows, cols, bands), PATCH_SIZE square: reflectance [1]; NaN is nodata or beyond the scene."""
    place: IntArray
    """(samples, 3): patch, row and column of each labelled sample."""

    def label_images(self, class_index: IntArray, shown: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """(patches, rows, cols): the classes (samples,) of the samples `shown`, -1 elsewhere."""
        labels = np.full(self.images.shape[:3], -1, np.int64)
        labels[tuple(self.place[shown].T)] = class_index[shown]
        return labels

    def without_nodata(self) -> PatchSet:
        """The same without patches that hold no usable pixel, such as those of a scene's empty border."""
        used = np.any(np.isfinite(self.images).all(-1), axis=(1, 2))
        patch = (np.cumsum(used) - 1)[self.place[:, 0]]
        return PatchSet(self.images[used], np.stack([patch, self.place[:, 1], self.place[:, 2]], 1))


def joined(parts: Sequence[PatchSet]) -> PatchSet:
    """Patches of several scenes as one set, in their order."""
    counts = np.cumsum([0, *(len(part.images) for part in parts)])
    places = [part.place + np.array([count, 0, 0]) for part, count in zip(parts, counts[:-1], strict=True)]
    return PatchSet(np.concatenate([part.images for part in parts]), np.concatenate(places))


@dataclass(frozen=True, eq=False)
class PatchPlan:
    """Which patches of a scene to read."""

    corners: IntArray
    """(patches, 2): row and column of each patch's first pixel, multiples of PATCH_SIZE."""
    kept: npt.NDArray[np.bool_]
    """(samples,): labelled pixels that lie in a patch."""
    place: IntArray
    """(kept samples, 3): patch, row and column."""


def plan_patches(
    shape: tuple[int, int],
    row: IntArray,
    col: IntArray,
    class_index: IntArray,
    *,
    unlabelled: int,
    most: int,
    rng: np.random.Generator,
) -> PatchPlan:
    """Patches with labelled pixels (row, col), at most `most`, and up to `unlabelled` others.

    Where not all labelled pixels can be covered, classes are served in turn.
    """
    blocks_across = -(-shape[1] // PATCH_SIZE)
    block = row // PATCH_SIZE * blocks_across + col // PATCH_SIZE
    labelled = _first_seen(block[_classes_in_turn(class_index, rng)])[:most]
    free = np.setdiff1d(np.arange(-(-shape[0] // PATCH_SIZE) * blocks_across), block)
    others = rng.permutation(free)[: max(0, min(unlabelled, most - len(labelled)))]
    chosen = np.sort(np.concatenate([labelled, others]).astype(np.int64))
    kept = np.isin(block, labelled)
    patch = np.searchsorted(chosen, block[kept])
    place = np.stack([patch, row[kept] % PATCH_SIZE, col[kept] % PATCH_SIZE], 1)
    return PatchPlan(np.stack(np.divmod(chosen, blocks_across), 1) * PATCH_SIZE, kept, place)


def patches_affordable(bands: int) -> int:
    """How many patches a training may have."""
    return max(1, MOST_BYTES // (PATCH_SIZE**2 * bands * 4))


def full_patch(values: FloatArray) -> FloatArray:
    """A patch cut off by the scene's border, (rows, cols, bands), filled up with NaN."""
    missing = [(0, PATCH_SIZE - length) for length in values.shape[:2]]
    return np.pad(values, [*missing, (0, 0)], constant_values=np.nan)


def connected_groups(class_image: IntArray) -> npt.NDArray[np.int64]:
    """(rows, cols): a number from 1 for each connected patch of one class, 0 where the class is negative."""
    groups, count = np.zeros(class_image.shape, np.int64), 0
    for k in np.unique(class_image[class_image >= 0]):
        numbered, found = ndimage.label(class_image == k, structure=np.ones((3, 3)))
        groups[numbered > 0] = numbered[numbered > 0] + count
        count += found
    return groups


def _classes_in_turn(class_index: IntArray, rng: np.random.Generator) -> npt.NDArray[np.intp]:
    order = rng.permutation(len(class_index))
    turn = np.empty(len(order), np.int64)
    for k in np.unique(class_index):
        mine = class_index[order] == k
        turn[mine] = np.arange(mine.sum())
    return order[np.argsort(turn, kind="stable")]


def _first_seen(values: IntArray) -> IntArray:
    distinct, first = np.unique(values, return_index=True)
    return distinct[np.argsort(first)]
