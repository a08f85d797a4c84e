"""The encoder of `earth`: which network serves a sensor, and what leaving it out costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from p3vae.cli.run.model_files import default_land_cover
from p3vae.models.landcover.library.encoder import Encoder
from p3vae.models.landcover.model import load_model
from p3vae.models.landcover.sensors import fit_sensor
from p3vae.physics.clouds import cloud_over
from p3vae.physics.illumination import clear_sky_irradiance
from p3vae.physics.spectral_response import Bands

EARTH = load_model(default_land_cover())


def sensor(nm, width=None):
    centres = np.asarray(nm, float)
    return Bands.from_centres(centres, None if width is None else np.full(len(centres), float(width)))


@pytest.mark.parametrize(
    ("bands", "nodes_to_nm"),
    [
        (sensor(np.arange(400, 2451, 6.0), 6), 2320),
        (sensor(np.arange(410, 2440, 10.0), 10), 2320),
        (sensor(np.arange(400, 1001, 5.0), 5), 1000),
        (sensor(np.arange(450, 891, 10.0), 10), 880),
        (sensor((492, 560, 665, 704, 740, 783, 833, 865, 1614, 2202), 40), 2200),
        (sensor((482, 561, 655, 865, 1609, 2201), 60), 2200),
        (sensor((490, 560, 660, 840), 60), 860),
    ],
)
def test_a_sensor_is_served_by_the_richest_grid_that_it_covers(bands, nodes_to_nm):
    network = fit_sensor(EARTH, bands).model.estimator.network
    assert network.grid.wavelength_nm.max() == nodes_to_nm


def test_without_a_grid_the_decoder_judges_alone():
    model = fit_sensor(EARTH, sensor(np.arange(1500, 2400, 20.0), 20)).model
    assert model.methods == ("posterior",)
    light = clear_sky_irradiance(model.bands, 40.0)
    found = model.estimator.cover(torch.full((3, len(model.bands)), 0.3), light)
    np.testing.assert_allclose(found.fraction.sum(1), 1, atol=1e-4)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_probabilities_and_fractions_sum_to_one_for_any_spectrum(seed):
    rng = np.random.default_rng(seed)
    spectra = rng.uniform(0, 1, (5, len(EARTH.bands))).astype(np.float32)
    light = EARTH.irradiance
    found = EARTH.predict(spectra, light, want_probabilities=True)
    np.testing.assert_allclose(found.probabilities.sum(1), 1, atol=1e-4)
    cover = EARTH.estimator.cover(torch.from_numpy(spectra), light)
    np.testing.assert_allclose(cover.fraction.sum(1), 1, atol=1e-4)
    assert (cover.fraction_std > 0).all()


def test_a_pixel_is_judged_the_same_however_the_scene_is_cut():
    spectra = np.random.default_rng(0).uniform(0.02, 0.5, (700, len(EARTH.bands))).astype(np.float32)
    whole = EARTH.predict(spectra, EARTH.irradiance, want_probabilities=True).probabilities
    parts = [
        EARTH.predict(some, EARTH.irradiance, want_probabilities=True).probabilities
        for some in np.split(spectra, [1, 320])
    ]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


def test_the_encoder_knows_shade_that_the_decoder_takes_for_dark_ground():
    """Component means in half shadow: the pool is right more often than the decoder alone."""
    estimator, light = EARTH.estimator, EARTH.irradiance
    owner = estimator.class_of[estimator.material]
    shade = 0.3 * light.direct_ratio + 0.6 * light.diffuse_ratio
    spectra = (estimator.library.mean * shade).astype(np.float32)
    alone = replace(EARTH, estimator=replace(estimator, encoder=Encoder(()), network=None))
    right = [
        np.mean(np.take(EARTH.legend.ids, owner) == model.predict(spectra, light).class_id)
        for model in (EARTH, alone)
    ]
    assert right[0] > right[1] + 0.03


def test_merged_classes_add_their_fractions():
    bands = sensor(np.arange(410, 1001, 10.0), 10)
    merged = fit_sensor(EARTH, bands).model
    light = clear_sky_irradiance(merged.bands, 40.0)
    bright = cloud_over(merged.bands.wavelength_nm, np.full(len(merged.bands), 0.1), 20.0)
    cover = merged.estimator.cover(torch.as_tensor(bright[None], dtype=torch.float32), light)
    assert cover.fraction.shape[1] == len(merged.legend)
    assert cover.fraction[0, merged.legend.names.index("snow, ice or cloud")] > 0.7
    np.testing.assert_allclose(cover.fraction.sum(1), 1, atol=1e-4)
