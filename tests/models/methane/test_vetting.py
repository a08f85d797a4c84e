"""The test of spectra against ground with and without methane, made here by other equations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from p3vae.models.methane.plumes.clusters import find_plumes
from p3vae.models.methane.plumes.vetting import LogRatio, SpectrumTest
from p3vae.models.methane.types import PlumeOptics
from p3vae.physics.methane import MethaneAbsorption, air_mass_factor
from p3vae.physics.spectral_response import Bands

NM = np.r_[np.arange(1450.0, 1800.0, 12.0), np.arange(1960.0, 2451.0, 10.0)]
SIDE = 60


def optics() -> PlumeOptics:
    curves = MethaneAbsorption.load().band_transmittance(Bands.from_centres(NM, np.full(len(NM), 11.0)))
    return PlumeOptics(curves, air_mass_factor(30.0), torch.as_tensor(NM), 5e4)


def ground(seed: int, pixels: int) -> np.ndarray:
    """Smooth ground of random slope and curvature, seen with a noise of half a percent."""
    rng = np.random.default_rng(seed)
    x = (NM - 2000.0) / 500.0
    a, b = (0.1 * rng.standard_normal((pixels, 1)) for _ in range(2))
    clean = 5.0 * np.exp(0.3 * rng.standard_normal((pixels, 1)) + a * x + b * x**2)
    return clean * (1.0 + 0.005 * rng.standard_normal((pixels, len(NM))))


@pytest.fixture(scope="module")
def test_of_scene() -> SpectrumTest:
    row, col = np.indices((SIDE, SIDE)).reshape(2, -1)
    return SpectrumTest.learn(torch.as_tensor(ground(0, SIDE**2)), optics(), row, col)


def ratio(test: SpectrumTest, factor: np.ndarray, ppm_m: float = 2000.0, pixels: int = 60) -> LogRatio:
    seen = torch.as_tensor(ground(1, pixels) * factor)
    return test.log_ratio(seen, torch.full((pixels,), ppm_m, dtype=torch.float64))


def methane(ppm_m: float) -> np.ndarray:
    return optics().transmittance(torch.tensor(ppm_m, dtype=torch.float64)).numpy()


def test_methane_is_recognised_and_the_more_the_surer(test_of_scene):
    weak, strong = (ratio(test_of_scene, methane(z), z) for z in (1500.0, 6000.0))
    assert weak.name == strong.name == "methane"
    assert strong.found > 4.0 * weak.found
    assert strong.found == pytest.approx(strong.expected, rel=0.3)


@pytest.mark.parametrize("centre", [2130.0, 2210.0, 2300.0, 2340.0])
@pytest.mark.parametrize("depth", [-0.1, 0.1])
def test_a_single_feature_is_ground(test_of_scene, centre, depth):
    shape = 1.0 - depth * np.exp(-0.5 * ((NM - centre) / 35.0) ** 2)
    found = ratio(test_of_scene, shape)
    assert found.name == "ground" and found.speaks_against


def test_plain_ground_is_undecided(test_of_scene):
    assert ratio(test_of_scene, np.ones_like(NM)).name == "undecided"


def test_methane_over_ground_with_a_feature_of_its_own_is_still_methane(test_of_scene):
    shape = 1.0 - 0.02 * np.exp(-0.5 * ((NM - 2210.0) / 30.0) ** 2)
    assert ratio(test_of_scene, shape * methane(8000.0), 8000.0).name == "methane"


def test_pixels_that_err_alike_count_for_fewer(test_of_scene):
    """The mean of n errors with correlation r has the variance of n / (1 + (n - 1) r) independent ones."""
    spectrum = torch.as_tensor(ground(1, 1) * methane(1500.0))

    def of(pixels: int, correlation: float) -> tuple[float, float]:
        test = replace(test_of_scene, correlation=correlation)
        found = test.log_ratio(
            spectrum.expand(pixels, -1), torch.full((pixels,), 1500.0, dtype=torch.float64)
        )
        return found.found, found.expected

    assert of(60, 1.0) == pytest.approx(of(1, 0.0))
    assert of(60, 5.0 / 59.0) == pytest.approx(of(10, 0.0))
    assert of(60, 0.0)[1] > 4.5 * of(10, 0.0)[1]


def test_a_spectrum_as_the_regression_foresees_speaks_for_neither(test_of_scene):
    """Nothing is left to explain: methane still costs its one parameter, half of ln(bands)."""
    seen = torch.as_tensor(ground(1, 1))
    log = torch.log(seen)
    known = torch.cat([log[:, test_of_scene.continuum], torch.ones(1, 1, dtype=torch.float64)], 1)
    seen[:, test_of_scene.absorbing] = torch.exp(known @ test_of_scene.gain)
    found = test_of_scene.log_ratio(seen, torch.full((1,), 2000.0, dtype=torch.float64)).found
    assert found == pytest.approx(-0.5 * np.log(len(test_of_scene.absorbing)))


def test_continuum_bands_that_say_the_same_do_not_upset_the_regression():
    row, col = np.indices((SIDE, SIDE)).reshape(2, -1)
    plume_free, seen = ground(0, SIDE**2), ground(1, 60) * methane(6000.0)
    twin = np.flatnonzero(~optics().absorbing.numpy())[:2]
    for radiance in (plume_free, seen):
        radiance[:, twin[1]] = 2.0 * radiance[:, twin[0]]
    test = SpectrumTest.learn(torch.as_tensor(plume_free), optics(), row, col)
    place = [test.continuum.tolist().index(band) for band in twin]
    torch.testing.assert_close(test.gain[place[0]], test.gain[place[1]], rtol=1e-3, atol=1e-6)
    found = test.log_ratio(torch.as_tensor(seen), torch.full((60,), 6000.0, dtype=torch.float64))
    assert found.name == "methane" and found.found == pytest.approx(found.expected, rel=0.3)


def noisy_map(peak: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    ppm_m = 500.0 * rng.standard_normal((150, 150))
    ppm_m[60:72, 60:80] += peak
    return ppm_m, np.full_like(ppm_m, 500.0), np.ones_like(ppm_m, bool)


@pytest.mark.parametrize(
    ("peak", "said", "count"),
    [
        (2000.0, None, 1),
        (2000.0, LogRatio(-5.0, 20.0), 0),
        (2000.0, LogRatio(0.0, 20.0), 0),
        (2000.0, LogRatio(0.0, 1.0), 1),
        (2000.0, LogRatio(10.0, 20.0), 1),
        (200.0, None, 0),
        (200.0, LogRatio(8.0, 8.0), 1),
        (200.0, LogRatio(0.0, 8.0), 0),
    ],
)
def test_spectra_decide_about_weak_clusters_and_may_reject_strong_ones(peak, said, count):
    there = np.zeros((150, 150), bool)
    there[60:72, 60:80] = True
    found = find_plumes(*noisy_map(peak), vet=lambda cluster: said if (cluster & there).any() else None)
    assert found.count == count
    assert found.rejected == int(peak == 2000.0 and count == 0)
