"""A model of materials brought to the bands of a sensor: what it lacks is integrated out, or merged."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from p3vae.models.landcover.library.materials import MaterialEstimator
from p3vae.models.landcover.model import LandCoverModel
from p3vae.models.landcover.types import ClassLegend
from p3vae.models.landcover.usable import FEWEST_USABLE, usable_bands
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands

_FEW_BANDS = 12
"""With fewer a map is no more than a sketch."""


@dataclass(frozen=True)
class _Merger:
    """Classes that cannot be separated without a band in each of the ranges [nm]."""

    needed_nm: tuple[tuple[float, float], ...]
    classes: tuple[str, ...]
    name: str


_MERGERS = (
    _Merger(((2000, 2400),), ("bare ground", "dry vegetation"), "bare ground or dry vegetation"),
    _Merger(((1500, 1800),), ("snow and ice", "cloud"), "snow, ice or cloud"),
    _Merger(((600, 700), (750, 900)), ("tree", "grass and low vegetation"), "green vegetation"),
)
"""Cellulose and lignin absorb at 2100 and 2300 nm, soil does not; snow is dark at 1600 nm, a cloud bright;
crowns and meadows differ in the red and in the near infrared."""


@dataclass(frozen=True, eq=False)
class SensorFit:
    """A model at the bands of a sensor, and what a user should know of it."""

    model: LandCoverModel
    notes: tuple[str, ...]


def is_flexible(model: LandCoverModel) -> bool:
    """Whether the model can be brought to other bands without resampling spectra."""
    return isinstance(model.estimator, MaterialEstimator)


def fit_sensor(model: LandCoverModel, sensor: Bands) -> SensorFit:
    """The model for spectra of `sensor`; it must have `FEWEST_USABLE` usable bands."""
    assert isinstance(model.estimator, MaterialEstimator)
    bands = sensor.select(usable_bands(model.bands, sensor))
    if len(bands) < FEWEST_USABLE:
        raise ValueError(f"{len(bands)} of its bands lie where the model has any, {FEWEST_USABLE} are needed")
    estimator = model.estimator.at_bands(model.bands, bands)
    legend, notes = model.legend, []
    for merger in _MERGERS:
        if all(_any_within(bands, low, high) for low, high in merger.needed_nm):
            continue
        missing = " and ".join(f"{low:.0f}-{high:.0f}" for low, high in merger.needed_nm)
        notes.append(f"without bands at {missing} nm {' and '.join(merger.classes)} are one class")
        legend, index = _merged_legend(legend, merger)
        estimator = estimator.merged(index)
    if len(bands) < _FEW_BANDS:
        notes.append(f"only {len(bands)} bands can be used; expect many errors")
    light = model.irradiance
    direct, diffuse = (
        np.interp(bands.wavelength_nm, light.wavelength_nm, part) for part in (light.direct, light.diffuse)
    )
    irradiance = SpectralIrradiance(bands.wavelength_nm, direct, diffuse, light.sun_zenith_deg)
    at_bands = replace(model, bands=bands, legend=legend, estimator=estimator, irradiance=irradiance)
    return SensorFit(at_bands, tuple(notes))


def _any_within(bands: Bands, low: float, high: float) -> bool:
    return bool(np.any((bands.wavelength_nm >= low) & (bands.wavelength_nm <= high)))


def _merged_legend(legend: ClassLegend, merger: _Merger) -> tuple[ClassLegend, npt.NDArray[np.int64]]:
    """The legend with one class in place of several, and the new index of each class."""
    chosen = [legend.names.index(name) for name in merger.classes]
    first, others = chosen[0], chosen[1:]
    kept = [k for k in range(len(legend)) if k not in others]
    index = np.array([kept.index(first if k in others else k) for k in range(len(legend))])
    names = [merger.name if k == first else legend.names[k] for k in kept]
    ids, colours = [legend.ids[k] for k in kept], [legend.colours[k] for k in kept]
    return ClassLegend(tuple(ids), tuple(names), tuple(colours)), index
