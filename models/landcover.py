"""The land-cover p3VAE: everything other rooms need of it, in one place."""

from __future__ import annotations

from p3vae.models.landcover_model import LandCoverModel, load_model, save_model
from p3vae.models.landcover_training import train_land_cover
from p3vae.models.landcover_types import (
    ClassLegend,
    ClassScore,
    EpochReport,
    Method,
    ModelName,
    Prediction,
    Preset,
    TrainingError,
    TrainingSet,
    TrainingSettings,
    TrainingState,
    TrainingSummary,
)

__all__ = [
    "ClassLegend",
    "ClassScore",
    "EpochReport",
    "LandCoverModel",
    "Method",
    "ModelName",
    "Prediction",
    "Preset",
    "TrainingError",
    "TrainingSet",
    "TrainingSettings",
    "TrainingState",
    "TrainingSummary",
    "load_model",
    "save_model",
    "train_land_cover",
]
