"""Optics of a plume: which bands see it, and how much light they lose."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from p3vae.models.methane.types import MethaneEstimate, PlumeOptics
from p3vae.physics.methane import BandTransmittance, MethaneAbsorption
from p3vae.physics.spectral_response import Bands

NM = torch.tensor([2200.0, 2250.0, 2300.0], dtype=torch.float64)


def beer_lambert(max_ppm_m: float) -> PlumeOptics:
    """Absorption of 1e-8, 4e-8 and 5e-6 per ppm m, on a path of two and a half vertical ones."""
    return PlumeOptics(BandTransmittance.constant([1e-8, 4e-8, 5e-6]), 2.5, NM, max_ppm_m)


def test_bands_see_a_plume_that_takes_three_thousandths_of_their_light():
    assert beer_lambert(5e4).absorbing.tolist() == [False, True, True]  # depths of .00125, .005 and .6
    assert beer_lambert(2e4).absorbing.tolist() == [False, False, True]
    assert beer_lambert(2e5).absorbing.tolist() == [True, True, True]


def test_the_light_of_a_thin_gas_is_that_of_beer_and_lambert():
    optics, ppm_m = beer_lambert(5e4), torch.tensor([0.0, 100.0, 3e4], dtype=torch.float64)
    expected = np.exp(-2.5 * np.outer(ppm_m, [1e-8, 4e-8, 5e-6]))
    np.testing.assert_allclose(optics.transmittance(ppm_m), expected, rtol=1e-9)
    np.testing.assert_allclose(optics.slope, 2.5 * np.array([1e-8, 4e-8, 5e-6]))
    assert optics.detector_columns is None


def test_slopes_of_a_smile_are_the_mean_of_its_columns():
    bands = Bands.from_centres(NM.numpy(), np.full(3, 10.0))
    centres = NM.numpy() + np.array([-4.0, 0.0, 3.0])[:, None]
    optics = PlumeOptics(MethaneAbsorption.load().band_transmittance(bands, centres_nm=centres), 2.5, NM, 5e4)
    alone = [optics.of_columns(column, column + 1).slope.numpy() for column in range(3)]
    np.testing.assert_allclose(optics.slope, np.mean(alone, axis=0))
    assert optics.detector_columns == 3
    step = torch.tensor(1e-3, dtype=torch.float64)
    for column in range(3):
        one = optics.of_columns(column, column + 1)
        numerical = -torch.log(one.transmittance(step)) / step
        np.testing.assert_allclose(one.slope, numerical, rtol=1e-5)


def test_estimates_are_joined_in_order():
    parts = [MethaneEstimate(*(torch.full((2,), float(10 * n + k)) for k in range(3))) for n in range(2)]
    whole = MethaneEstimate.concatenate(parts)
    assert whole.ppm_m.tolist() == [0, 0, 10, 10] and whole.std.tolist() == [1, 1, 11, 11]
    assert whole.sensitivity.tolist() == [2, 2, 12, 12]


@pytest.mark.parametrize("ppm_m", [100.0, 4e4])
def test_each_detector_column_has_its_own_light(ppm_m):
    bands = Bands.from_centres(NM.numpy(), np.full(3, 10.0))
    centres = NM.numpy() + np.array([-4.0, 3.0])[:, None]
    optics = PlumeOptics(MethaneAbsorption.load().band_transmittance(bands, centres_nm=centres), 2.5, NM, 5e4)
    found = optics.transmittance(torch.full((2,), ppm_m, dtype=torch.float64), torch.tensor([1, 0]))
    for row, column in enumerate((1, 0)):
        one = optics.of_columns(column, column + 1)
        torch.testing.assert_close(found[row], one.transmittance(torch.tensor(ppm_m, dtype=torch.float64)))
