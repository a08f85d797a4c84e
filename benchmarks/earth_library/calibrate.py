"""Confidence of `earth`: a temperature and a spread of fractions for every grid, of withheld spectra.

The temperature makes the mean confidence the accuracy. That of the least log loss is larger: a few pixels
that are sure and wrong would make all others unsure.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from scipy.optimize import brentq

from p3vae.models.landcover.library.encoder import Encoder, Network
from p3vae.models.landcover.library.materials import MaterialEstimator
from p3vae.models.landcover.model import LandCoverModel
from p3vae.models.landcover.sensors import fit_sensor
from p3vae.physics.spectral_response import Bands, resampling_matrix

from .ground import FloatArray, Ground, IntArray
from .sources import model_bands
from .withheld import withheld_pixels

_PIXELS = 150
"""Per material."""
_KNOWN = 0.97
"""Share of pixels of withheld spectra that are not out-of-distribution."""
_HELD = 0.925
"""Share of fractions that 90 % intervals shall hold: more, for ground is more varied than libraries."""
_SIGMA_90 = 1.645
_ROUNDED = 1e-3
"""What a fraction may be off for nothing [1]."""


def calibrated(model: LandCoverModel, withheld: Ground, seed: int) -> LandCoverModel:
    """The model with thresholds, temperatures and spreads of withheld ground."""
    estimator = model.estimator
    assert isinstance(estimator, MaterialEstimator)
    pixels = withheld_pixels(withheld, model.irradiance, _PIXELS, seed)
    misfit = replace(estimator, ood_threshold=1.0).predict_logits(
        _single(pixels[0]), model.irradiance, "posterior"
    )[4]
    assert misfit is not None
    known = replace(estimator, ood_threshold=float(np.quantile(misfit.numpy(), _KNOWN)))
    alone = replace(model, estimator=known)
    networks = tuple(_of_grid(alone, number, *pixels) for number in range(len(estimator.encoder.networks)))
    encoder = Encoder(networks)
    network = encoder.at_bands(model_bands())
    return replace(model, estimator=replace(known, encoder=encoder, network=network))


def with_calibration(model: LandCoverModel, other: LandCoverModel) -> LandCoverModel:
    """A model with the thresholds, temperatures and spreads of another."""
    mine, its = model.estimator, other.estimator
    assert isinstance(mine, MaterialEstimator) and isinstance(its, MaterialEstimator)
    pairs = zip(mine.encoder.networks, its.encoder.networks, strict=True)
    encoder = Encoder(tuple(replace(a, temperature=b.temperature, spread=b.spread) for a, b in pairs))
    network = encoder.at_bands(model_bands())
    estimator = replace(mine, encoder=encoder, network=network, ood_threshold=its.ood_threshold)
    return replace(model, estimator=estimator)


def sensor_of(network: Network) -> Bands:
    """Bands of a sensor that has those of a grid and no others."""
    grid, own = network.grid, model_bands()
    if len(grid) < 10:
        return grid
    inside = own.wavelength_nm <= grid.wavelength_nm.max() + 10
    return own.select(inside)


def _of_grid(
    model: LandCoverModel, number: int, spectra: FloatArray, truth: IntArray, fraction: FloatArray
) -> Network:
    """The network of a grid, calibrated on the spectra that a sensor of its range sees."""
    estimator = model.estimator
    assert isinstance(estimator, MaterialEstimator)
    network = estimator.encoder.networks[number]
    sensor = sensor_of(network)
    alone = replace(model, estimator=replace(estimator, encoder=Encoder((network,))))
    fitted = fit_sensor(alone, sensor).model
    at_sensor, light = fitted.estimator, fitted.irradiance
    assert isinstance(at_sensor, MaterialEstimator)
    seen = _single(spectra @ resampling_matrix(model_bands(), sensor))
    merging = np.arange(fraction.shape[1]) if at_sensor.merging is None else at_sensor.merging
    logits = at_sensor.predict_logits(seen, light, "posterior").logits.double().numpy()
    owner, shares = merging[truth], fraction @ np.eye(merging.max() + 1)[merging]
    wrong = float((logits.argmax(1) != owner).mean())

    def surer(log: float) -> float:
        return float(_softmax(logits / np.exp(log)).max(1).mean()) - (1 - wrong)

    cover = at_sensor.cover(seen, light)
    error, std = np.abs(cover.fraction.numpy() - shares), cover.fraction_std.numpy()

    def missing(log: float) -> float:
        return float((error <= _SIGMA_90 * np.exp(log) * std + _ROUNDED).mean()) - _HELD

    return replace(
        network, temperature=float(np.exp(brentq(surer, -3, 3))), spread=float(np.exp(brentq(missing, -2, 2)))
    )


def _softmax(logits: FloatArray) -> FloatArray:
    share = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(share / share.sum(1, keepdims=True))


def _single(spectra: FloatArray) -> torch.Tensor:
    return torch.as_tensor(spectra, dtype=torch.float32)
