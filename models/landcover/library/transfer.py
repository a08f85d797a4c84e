"""A model of materials as the prior of an analyst's classes, so that a few polygons suffice.

A polygon shows what a class looks like here, but not how it varies between places. A library of materials
knows that. A class with a name that the library knows is a mixture of its components j there; its polygons
say which, by Bayes with a Dirichlet prior:

    π_kj = (κ·π⁰_kj + Σ_polygons mean p(j | x)) / (κ + n_k)

A class without has the weights π⁰ of all ground, so that the library says nothing between two of them. With
q_k(x) ∝ Σ_j π_kj p(x | j) and the posterior p_k(x) of the labels alone, the posterior is the logarithmic
opinion pool (Genest and Zidek 1986)

    p(k | x) ∝ p_k(x)^(1 - α) q_k(x)^α,    α = 1 / (1 + (n / 2)²)

where the log-odds of the labels are divided by the misfit of a spectrum that is out-of-distribution, and
with n the mean number of polygons per class: the library has half of the say at two polygons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from p3vae.models.landcover.estimator import Frame, part
from p3vae.models.landcover.library.decoder import FloatArray
from p3vae.models.landcover.library.materials import MaterialEstimator
from p3vae.models.landcover.model import LandCoverModel
from p3vae.models.landcover.types import TrainingError, TrainingSet
from p3vae.models.landcover.usable import FEWEST_USABLE, usable_bands
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands

_PRIOR_POLYGONS = 1.0
"""κ: polygons that the library's own weights of components count for."""
_EQUAL_SAY = 2.0
"""Polygons per class at which library and labels count the same."""


@dataclass(frozen=True, eq=False)
class PriorModel:
    """A model of materials, and which of its classes or materials each class of the labels is."""

    model: LandCoverModel
    matches: Mapping[str, str]
    """Class of the labels to class or material of the library; none for the others."""


def matched_names(model: LandCoverModel, classes: Sequence[str], alias: Mapping[str, str]) -> dict[str, str]:
    """The library's class or material for each class that has one; `alias` goes first.

    A name matches if it is one of the library's, or if its words are among those of a single one.
    """
    known = library_names(model)
    for own, name in alias.items():
        if own not in classes:
            raise TrainingError(f"the labels have no class {own!r} that could be {name!r}")
        if name not in known:
            raise TrainingError(f"the library has no {name!r}; it has {', '.join(known)}")
    found = {own: [alias[own]] if own in alias else _alike(own, known) for own in classes}
    for own, names in found.items():
        if len(names) > 1:
            raise TrainingError(
                f"class {own!r} may be {' or '.join(names)}; say which by --alias '{own}=...'"
            )
    return {own: names[0] for own, names in found.items() if names}


def library_names(model: LandCoverModel) -> tuple[str, ...]:
    """Names of the classes and materials of a model of materials."""
    assert isinstance(model.estimator, MaterialEstimator)
    return tuple(dict.fromkeys((*model.legend.names, *model.estimator.materials)))


def _alike(own: str, known: Sequence[str]) -> list[str]:
    """Names equal to one of the labels, or else those with all its words."""
    said = own.casefold().strip()
    words = set(said.split())
    same = [name for name in known if name.casefold() == said]
    return same or [name for name in known if words and words <= set(name.casefold().split())]


@dataclass(frozen=True, eq=False)
class LibraryPosterior:
    """q_k(x), and how much it counts."""

    materials: MaterialEstimator
    """At some of the model's bands."""
    columns: npt.NDArray[np.int64]
    """Which bands of the model these are."""
    share: FloatArray
    """π, (classes, components)."""
    pooling: float
    """α."""
    matches: Mapping[str, str]
    """As in `PriorModel`."""

    @classmethod
    def fit(
        cls,
        prior: PriorModel,
        bands: Bands,
        light: SpectralIrradiance,
        classes: Sequence[str],
        data: TrainingSet,
    ) -> Self:
        """π from the polygons of each class."""
        source = prior.model
        assert isinstance(source.estimator, MaterialEstimator)
        usable = usable_bands(source.bands, bands)
        if usable.sum() < FEWEST_USABLE:
            raise TrainingError(f"only {usable.sum()} bands lie where the prior model has any")
        materials = source.estimator.at_bands(source.bands, bands.select(usable)).to("cpu")
        columns = np.flatnonzero(usable)
        spectra = torch.from_numpy(np.ascontiguousarray(data.spectra[:, columns]))
        with torch.inference_mode():
            found = materials.solver(_selected(light, columns)).solve(spectra)
        seen = found.logits.softmax(1).double().numpy()
        share = []
        for index, name in enumerate(classes):
            own = materials.weight * _belongs(source, prior.matches.get(name))
            mine = data.class_index == index
            shown = _per_polygon(seen[mine], data.group[mine]) if name in prior.matches else seen[:0]
            share.append((_PRIOR_POLYGONS * own / own.sum() + shown.sum(0)) / (_PRIOR_POLYGONS + len(shown)))
        polygons = len(np.unique(np.stack([data.class_index, data.group]), axis=1).T) / len(classes)
        pooling = 1 / (1 + (polygons / _EQUAL_SAY) ** 2)
        return cls(materials, columns, np.stack(share), pooling, dict(prior.matches))

    def pooled(self, logits: Tensor, spectra: Tensor, irradiance: SpectralIrradiance) -> Tensor:
        """Log-odds of classes, (pixels, classes), from those of the labels."""
        solver = self.materials.solver(_selected(irradiance, self.columns))
        columns = torch.as_tensor(self.columns, device=spectra.device)
        joint = solver.solve(spectra[:, columns].contiguous()).logits
        ratio = joint.new_tensor(self.share / self.materials.weight).log()
        library = torch.stack([(joint + of_class).logsumexp(1) for of_class in ratio], 1)
        return (1 - self.pooling) * logits.log_softmax(1) + self.pooling * library.log_softmax(1)

    def at_bands(self, columns: npt.NDArray[np.integer[Any]]) -> Self:
        """The same where the model has only these of its bands."""
        kept = np.isin(self.columns, columns)
        materials = replace(
            self.materials,
            library=self.materials.library.at_bands(np.flatnonzero(kept)),
            independent_bands=self.materials.independent_bands * float(kept.mean()),
        )
        return replace(
            self, materials=materials, columns=np.searchsorted(columns, self.columns[kept]).astype(np.int64)
        )

    def to(self, device: str) -> Self:
        """The same on another device."""
        return replace(self, materials=self.materials.to(device))

    def metadata(self) -> dict[str, Any]:
        """For the model card."""
        return {
            "pooling": self.pooling,
            "matches": dict(self.matches),
            "materials": self.materials.metadata() | {"description": {}},
        }

    def tensors(self) -> dict[str, Tensor]:
        """For storage."""
        found = {f"materials.{name}": values for name, values in self.materials.tensors().items()}
        return found | {"columns": torch.as_tensor(self.columns), "share": torch.as_tensor(self.share)}

    @classmethod
    def restore(cls, frame: Frame, card: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """What these are of."""
        materials = MaterialEstimator.restore(frame, card["materials"], part(tensors, "materials."))
        columns, share = (tensors[name].numpy() for name in ("columns", "share"))
        return cls(materials, columns, share, float(card["pooling"]), dict(card["matches"]))


def _belongs(source: LandCoverModel, name: str | None) -> npt.NDArray[np.bool_]:
    """Which components are of the class or material of a name; all for None."""
    assert isinstance(source.estimator, MaterialEstimator)
    estimator = source.estimator
    material = np.array(estimator.materials)[estimator.material]
    broad = np.array(source.legend.names)[estimator.class_of[estimator.material]]
    return np.asarray((material == name) | (broad == name) | (name is None))


def _per_polygon(values: FloatArray, group: npt.NDArray[Any]) -> FloatArray:
    """Means over the pixels of each polygon, (polygons, columns)."""
    return np.stack([values[group == one].mean(0) for one in np.unique(group)])


def _selected(light: SpectralIrradiance, columns: npt.NDArray[np.int64]) -> SpectralIrradiance:
    return SpectralIrradiance(
        light.wavelength_nm[columns], light.direct[columns], light.diffuse[columns], light.sun_zenith_deg
    )
