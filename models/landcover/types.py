"""What the land-cover model is trained on, how, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from p3vae.models.landcover.patches import PatchSet
from p3vae.models.nn.trainer import TrainingState
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.irradiance import SKY_OFFSET, relight_spectra

__all__ = [
    "ClassLegend",
    "ClassPrior",
    "ClassScore",
    "DoubtfulPolygon",
    "EpochReport",
    "Method",
    "ModelName",
    "Prediction",
    "Preset",
    "Surroundings",
    "TrainingError",
    "TrainingSet",
    "TrainingSettings",
    "TrainingState",
    "TrainingSummary",
]

FloatArray = npt.NDArray[np.float32]
Preset = Literal["default", "paper"]
Method = Literal["posterior", "classifier"]
ClassPrior = Literal["uniform", "labels", "scene"]
ModelName = str


@dataclass(frozen=True)
class ClassLegend:
    """The land-cover classes, in the order of the model's class index."""

    ids: tuple[int, ...]
    """Values written in products, 1 to 255; 0 is nodata."""
    names: tuple[str, ...]
    colours: tuple[tuple[int, int, int], ...]
    """Red, green, blue, 0 to 255."""

    def __post_init__(self) -> None:
        if not len(self.ids) == len(self.names) == len(self.colours):
            raise ValueError("a legend needs one id, one name and one colour per class")
        if len(self.ids) < 2:
            raise ValueError("at least two classes are needed to map land cover")
        if len(set(self.ids)) != len(self.ids) or not all(1 <= i <= 255 for i in self.ids):
            raise ValueError("class ids must be distinct whole numbers from 1 to 255")

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The 3 × 3 pixels about labelled samples, at the model's bands."""

    spectra: FloatArray
    """(pixels, bands), each pixel once [1]."""
    index: npt.NDArray[np.int64]
    """(samples, 9): rows of `spectra`, from the upper left to the lower right; -1 for nodata, and for all
    nine where they are not known."""


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Spectra to learn from, at the model's bands, as apparent reflectance [1]."""

    spectra: FloatArray
    """Labelled, (samples, bands)."""
    class_index: npt.NDArray[np.integer[Any]]
    """Position of each sample's class in the legend, (samples,)."""
    group: npt.NDArray[np.integer[Any]]
    """Polygon each sample came from, (samples,): validation keeps whole polygons aside."""
    unlabelled: FloatArray
    """(pixels, bands); may have no rows."""
    patches: PatchSet | None = None
    """The images around the labelled samples and others, for models that learn from images."""
    around: Surroundings | None = None
    """The neighbours of the labelled samples, which decide whether neighbours count in a map."""
    flat: FloatArray | None = None
    """The labelled spectra as flat, sunlit ground would show them, where terrain tells their light: (samples,
    bands), rows of NaN elsewhere."""
    scenes: tuple[FloatArray, ...] = ()
    """Pixels of each scene, (pixels, bands), by which other scenes are compared with it."""

    def subset(self, rows: npt.NDArray[np.bool_]) -> Self:
        """Some of the labelled samples, with all unlabelled ones."""
        patches, around = self.patches, self.around
        return replace(
            self,
            spectra=self.spectra[rows],
            class_index=self.class_index[rows],
            group=self.group[rows],
            patches=patches and replace(patches, place=patches.place[rows]),
            around=around and replace(around, index=around.index[rows]),
            flat=None if self.flat is None else self.flat[rows],
        )


@dataclass(frozen=True)
class TrainingSettings:
    """What to train, and how."""

    preset: Preset = "default"
    """p3VAE as published (`paper`) or ours; baselines are always as published."""
    epochs: int | None = None
    """Passes over the data; None is the model's own number."""
    seed: int = 0
    physics: bool = True
    """False leaves f_E out of our p3VAE: the no-physics ablation."""
    stop_gradient: bool = True
    """Unlabelled pixels never change the latent reflectance spectra that labels gave."""
    batch_size: int = 64
    spectra_per_class: int = 4
    """dim(v): latent reflectance spectra of one class, at most."""
    validation_fraction: float = 0.25
    """Share of each class's polygons kept aside."""
    model: ModelName = "p3vae"
    class_prior: ClassPrior = "uniform"
    """Of the classes: all the same, as in the labels, or as in the unlabelled pixels of the scene."""
    prior: str | None = None
    """Name of the model of materials that is the prior of the classes."""
    sky_offset: float = SKY_OFFSET
    """g_b of the published p3VAE: the skylight that reaches ground without any sun [1]."""


@dataclass(frozen=True)
class EpochReport:
    """What to show after one epoch."""

    epoch: int
    """From 1."""
    epochs: int
    losses: Mapping[str, float]
    """Named terms of the objective, batch means."""
    validation_f1: float
    """Average F1 of held-out samples; nan where all are learned from."""
    step: str = "training"
    """What is going on."""


@dataclass(frozen=True)
class ClassScore:
    """How well one class was found on the validation polygons."""

    name: str
    samples: int
    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class DoubtfulPolygon:
    """Labels that the rest of the labels contradict."""

    group: int
    """Number of the polygon, as in `TrainingSet.group`."""
    label: str
    """Its class."""
    likelier: str
    """The class that the other polygons say it is."""
    probability: float
    """Of its own class, by a model that never saw it; mean over its pixels [1]."""
    pixels: int


@dataclass(frozen=True)
class TrainingSummary:
    """The outcome of a training run, kept in the model file."""

    epochs: int
    scores: tuple[ClassScore, ...]
    """One per class, by the model's usual method."""
    average_f1: float
    accuracy: float
    log_loss: float
    """Mean of −log p(y|x) [nat]."""
    calibration_error: float
    """Expected calibration error (ECE) in ten bins of confidence [1]."""
    confusion: tuple[tuple[int, ...], ...]
    """Validation pixels by true class (rows) and predicted class (columns)."""
    restarts: int = 0
    warnings: tuple[str, ...] = ()
    doubtful: tuple[DoubtfulPolygon, ...] = ()
    """The most contradicted first."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """Maps of one block of pixels, every array (pixels,) unless said."""

    class_id: npt.NDArray[np.uint8]
    """Ids of the legend; 0 where the spectrum was not finite or entirely dark."""
    confidence: FloatArray
    """Probability of the chosen class."""
    irradiance: FloatArray | None = None
    """z_E = δ·cosΘ, posterior mean [1]; None from a model that does not estimate light."""
    irradiance_std: FloatArray | None = None
    """Posterior standard deviation of z_E [1]."""
    sky: FloatArray | None = None
    """Share of the diffuse irradiance of flat ground, posterior mean [1]."""
    misfit: FloatArray | None = None
    """How badly the best class explains a spectrum, unknown above 1; None without a decoder."""
    known_light: FloatArray | None = None
    """r, the probability that a pixel is lit as the labels of the model are [1]."""
    surprise: FloatArray | None = None
    """Direct light by the terrain less what the spectrum lets expect [std]; zero without terrain."""
    probabilities: FloatArray | None = None
    """(pixels, classes), only when asked for."""

    def relit(self, spectra: FloatArray, irradiance: SpectralIrradiance) -> FloatArray:
        """What the same pixels would show flat and sunlit, NaN where they have no class.

        `spectra` (pixels, bands) and `irradiance` may be at other bands than the model's.
        """
        if self.irradiance is None or self.sky is None:
            raise ValueError("the model does not estimate light")
        sun = np.where(self.class_id > 0, self.irradiance, np.float32(np.nan))
        return relight_spectra(spectra, sun, self.sky, irradiance)


class TrainingError(ValueError):
    """A training set or a run that cannot give a model."""
