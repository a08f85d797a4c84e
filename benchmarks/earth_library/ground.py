"""Ground as a sensor sees it: library spectra wetted, shaded and mixed, seen through imperfect correction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from p3vae.physics.clouds import Phase, cloud_over
from p3vae.physics.water import wet_reflectance

from .legend import CLASSES, MATERIALS
from .sources import MaterialSpectra

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_PURE = 0.3
"""Share of pixels of one material only [1]."""
_NEIGHBOURS = {
    "tree": 0.2,
    "grass and low vegetation": 0.25,
    "built-up": 0.25,
    "bare ground": 0.15,
    "dry vegetation": 0.1,
    "water": 0.05,
}
"""Classes of what a pixel holds besides its dominant material."""
_ADJACENCY = 0.15
"""Largest share of light from the surroundings at 500 nm; it falls with wavelength [1]."""
_GAIN_STD, _OFFSET_STD = 0.04, 0.004
"""Of the smooth calibration error: relative, and absolute at 500 nm and beyond [reflectance]."""
_SMOOTH_NM = 250.0
"""Correlation length of the calibration error [nm]."""
_BETWEEN = 0.5
"""Share of draws that lie between two spectra of a library [1]."""
_SOURCE_POWER = 0.5
"""A source with n spectra has the weight n to this power: neither drowned nor dominant."""


@dataclass(frozen=True, eq=False)
class Ground:
    """Spectra to draw pixels from."""

    wavelength_nm: FloatArray
    spectra: Sequence[MaterialSpectra]

    def draw(self, material: str, count: int, rng: np.random.Generator) -> FloatArray:
        """Pure ground of a material, or ground below a cloud, (count, bands)."""
        if material in _CLOUDS:
            depth = 10 ** rng.uniform(np.log10(_LEAST_CLOUD), np.log10(_MOST_CLOUD), count)
            return self.clouded(self.any_ground(count, rng), depth, material, rng)
        made = _MADE_OF.get(material, material)
        mine = [one for one in self.spectra if one.material == made]
        if material in _MADE_OF:
            mine += [one for one in self.spectra if one.material == material]
        weight = np.array([len(one.reflectance) ** _SOURCE_POWER for one in mine])
        chosen = rng.choice(len(mine), count, p=weight / weight.sum())
        found = np.stack([_variant(mine[k].reflectance, rng) for k in chosen])
        own = np.array([mine[k].material == material for k in chosen])
        if material == "broadleaf trees":
            shade = rng.uniform(0.45, 0.95, (count, 1))
            found = np.where(own[:, None], found, found * shade)
        if material == "wet soil":
            found = np.stack(
                [
                    wet_reflectance(self.wavelength_nm, one, 10 ** rng.uniform(-2, 0), rng.uniform(0.4, 1))
                    for one in found
                ]
            )
        return found

    def draw_class(self, name: str, count: int, rng: np.random.Generator) -> FloatArray:
        """Pure ground of a class, its materials equally often, (count, bands)."""
        materials = [m for m, c in MATERIALS.items() if c == name and self.has(m)]
        chosen = rng.integers(len(materials), size=count)
        found = np.empty((count, len(self.wavelength_nm)))
        for number, material in enumerate(materials):
            rows = chosen == number
            if rows.any():
                found[rows] = self.draw(material, int(rows.sum()), rng)
        return found

    def any_ground(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Pure ground of all classes equally often, (count, bands)."""
        names = [name for name in CLASSES if name != "cloud" and self.has_class(name)]
        chosen = rng.integers(len(names), size=count)
        found = np.empty((count, len(self.wavelength_nm)))
        for number, name in enumerate(names):
            rows = chosen == number
            found[rows] = self.draw_class(name, int(rows.sum()), rng)
        return found

    def clouded(
        self, ground: FloatArray, optical_depth: FloatArray, material: str, rng: np.random.Generator
    ) -> FloatArray:
        """Ground (pixels, bands) below clouds of these optical depths (pixels,)."""
        phase, low, high = _CLOUDS[material]
        radius = rng.uniform(low, high, len(ground))
        rows = zip(ground, optical_depth, radius, strict=True)
        made = [cloud_over(self.wavelength_nm, one, depth, r, phase) for one, depth, r in rows]
        return np.array(made).reshape(ground.shape)

    def has_class(self, name: str) -> bool:
        """Whether any source has a material of the class."""
        return any(self.has(m) for m, c in MATERIALS.items() if c == name)

    def has(self, material: str) -> bool:
        """Whether any source has it; clouds are always to be had."""
        if material in _CLOUDS:
            return True
        made = _MADE_OF.get(material, material)
        return any(one.material in (made, material) for one in self.spectra)

    def pixels(self, material: str, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Pixels dominated by a material in flat light, (count, bands), and fractions, (count, classes)."""
        names = list(CLASSES)
        own = self.draw(material, count, rng)
        share = np.where(rng.random(count) < _PURE, 1.0, rng.uniform(0.5, 1.0, count))
        second = np.where(rng.random(count) < 0.5, 1.0, rng.uniform(0.5, 1.0, count))
        reflectance = share[:, None] * own
        fraction = np.zeros((count, len(names)))
        fraction[:, names.index(MATERIALS[material])] = share
        for part in ((1 - share) * second, (1 - share) * (1 - second)):
            of = rng.choice(len(_NEIGHBOURS), count, p=list(_NEIGHBOURS.values()))
            for number, name in enumerate(_NEIGHBOURS):
                rows = np.flatnonzero((of == number) & (part > 0))
                if len(rows):
                    reflectance[rows] += part[rows, None] * self.draw_class(name, len(rows), rng)
                    fraction[rows, names.index(name)] += part[rows]
        return self.seen(reflectance, rng), fraction

    def seen(self, reflectance: FloatArray, rng: np.random.Generator) -> FloatArray:
        """What an atmospheric correction reports of ground (pixels, bands): adjacency, gain and offset."""
        count, nm = len(reflectance), self.wavelength_nm
        around = 0.5 * (
            self.draw_class("grass and low vegetation", count, rng) + self.draw_class("built-up", count, rng)
        )
        share = rng.uniform(0, _ADJACENCY, (count, 1)) * (500 / nm)
        gain = np.exp(_GAIN_STD * smooth_errors(nm, count, rng))
        offset = _OFFSET_STD * (1 + 2 * np.exp(-(nm - 400) / 60)) * smooth_errors(nm, count, rng)
        return gain * ((1 - share) * reflectance + share * around) + offset


_CLOUDS: dict[str, tuple[Phase, float, float]] = {
    "water cloud": ("water", 5.0, 20.0),
    "ice cloud": ("ice", 15.0, 60.0),
}
"""Phase, and range of the effective radius [µm]."""
_LEAST_CLOUD, _MOST_CLOUD = 1.5, 60.0
"""Optical depths from which on a pixel is cloud rather than the ground below, and of the thickest [1]."""
_MADE_OF = {"broadleaf trees": "grass", "wet soil": "soil"}
"""Materials that are made from the spectra of another: crowns shade themselves, soils get wet."""


def _variant(spectra: FloatArray, rng: np.random.Generator) -> FloatArray:
    """One of the spectra of a material, or a mixture of two: a library holds few of what there is."""
    one, two = spectra[rng.integers(len(spectra), size=2)]
    share = rng.uniform() if rng.random() < _BETWEEN else 1.0
    return np.asarray(share * one + (1 - share) * two)


def smooth_errors(wavelength_nm: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Gaussian processes of unit variance over wavelength, (count, bands)."""
    root = _smooth_root(tuple(wavelength_nm.tolist()))
    return np.asarray(rng.standard_normal((count, root.shape[1])) @ root.T)


@lru_cache(maxsize=2)
def _smooth_root(wavelength_nm: tuple[float, ...]) -> FloatArray:
    """A square root of their covariance, (bands, rank)."""
    nm = np.array(wavelength_nm)
    covariance = np.exp(-0.5 * np.square((nm[:, None] - nm) / _SMOOTH_NM))
    values, vectors = np.linalg.eigh(covariance)
    kept = values > 1e-6 * values.max()
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))
