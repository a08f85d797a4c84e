"""Methane absorption against published points and a second source; curves, mass and flux in closed form."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from p3vae.physics.emission import (
    EFFECTIVE_WIND,
    emission_rate,
    integrated_mass_enhancement,
    ppm_m_to_kg_m2,
)
from p3vae.physics.methane import BandTransmittance, MethaneAbsorption, air_mass_factor
from p3vae.physics.spectral_response import Bands

TABLE = MethaneAbsorption.load()
REFERENCE_NM = np.array([1665, 2205, 2260, 2300, 2315, 2350, 2370, 2390, 2410.0])
REFERENCE_BANDS = Bands.from_centres(REFERENCE_NM, np.full(9, 10.0))
CURVES = TABLE.band_transmittance(REFERENCE_BANDS)


def depth(column_ppm_m: float) -> np.ndarray:
    return CURVES.optical_depth(torch.tensor(column_ppm_m, dtype=torch.float64)).numpy()


def test_absorption_matches_published_points():
    low = np.array([1.1, 1.93, 3.7, 5.7, 4.4, 7.4, 7.0, 3.8, 1.8]) * 1e-6
    high = np.where(REFERENCE_NM == 2300, 6.5e-6, low)
    a = CURVES.absorption.numpy()
    assert (a > 0.95 * low).all() and (a < 1.05 * high).all()


def test_mean_absorption_of_the_strong_window():
    bands = Bands.from_centres(np.arange(2150.0, 2421.0, 10.0), np.full(28, 10.0))
    mean = TABLE.band_transmittance(bands).absorption.mean().item()
    assert mean == pytest.approx(3.1e-6, rel=0.1)


def test_constant_absorption_underestimates_strong_plumes_as_known():
    apparent = [depth(2.0 * z)[5] / CURVES.absorption[5].item() / (2.0 * z) for z in (10e3, 24e3, 51e3)]
    assert 1.0 - np.array(apparent) == pytest.approx([0.07, 0.16, 0.27], abs=0.02)


def test_second_source():
    """10 nm optical depths of a LUT from another code (marshsi 0.1.4), air mass factor 2.1547.

    Enhancements over the standard column of a well-mixed atmosphere of 8 km equivalent height. That table
    carries no water vapour, so levels differ by more than the saturation does.
    """
    weak = np.array([0.0051, 0.0085, 0.0162, 0.0285, 0.0206, 0.0326, 0.0328, 0.0174, 0.0072])
    strong = np.array([0.0895, 0.186, 0.3336, 0.5885, 0.3283, 0.6166, 0.5241, 0.3272, 0.1606])
    ratio_weak, ratio_strong = depth(1987 * 2.1547) / weak, depth(52979 * 2.1547) / strong
    assert ((ratio_weak > 0.82) & (ratio_weak < 1.1)).all()
    assert ratio_weak.mean() == pytest.approx(1.0, abs=0.1)
    assert ratio_strong / ratio_weak == pytest.approx(np.ones(9), abs=0.09)


def test_table_is_small_and_needs_no_pickle():
    assert len(TABLE.wavelength_nm) > 20000
    assert TABLE.wavelength_nm[0] < 1550 and TABLE.wavelength_nm[-1] > 2500


@given(st.floats(0.0, 4e5), st.floats(1.0, 5e4))
@settings(deadline=None, max_examples=50)
def test_transmittance_falls_with_the_column(column, more):
    light = CURVES(torch.tensor([column, column + more], dtype=torch.float64))
    assert (light[1] < light[0]).all()
    assert (light <= 1.0).all() and (light > 0.0).all()


def test_curves_equal_the_fine_integral_between_nodes():
    sigma = 10.0 / 2.354820045
    for column in (730.0, 12_345.0, 98_765.0):
        fine = np.exp(-TABLE.optical_depth(column))
        response = np.exp(-0.5 * ((TABLE.wavelength_nm - 2350.0) / sigma) ** 2) * TABLE.background
        exact = np.trapezoid(response * fine, TABLE.wavelength_nm) / np.trapezoid(
            response, TABLE.wavelength_nm
        )
        assert np.exp(-depth(column)[5]) == pytest.approx(exact, rel=2e-4)


def test_interpolation_between_nodes_adds_next_to_nothing():
    """Depths of any column against the sum over all lines, by the band's response as far as it is taken."""
    distance = (TABLE.wavelength_nm - 2350.0) / (10.0 / 2.354820045)
    response = np.exp(-0.5 * distance**2) * TABLE.background * np.gradient(TABLE.wavelength_nm)
    response *= np.abs(distance) < 4.0
    for column in np.geomspace(50.0, 4e5, 40):
        exact = -np.log((response * np.exp(-TABLE.optical_depth(column))).sum() / response.sum())
        assert depth(column)[5] == pytest.approx(exact, rel=3e-6)


def test_small_signal_slope_is_the_absorption_on_both_sides_of_zero():
    u = torch.tensor([-1.0, 0.0, 1e-6], dtype=torch.float64, requires_grad=True)
    CURVES.optical_depth(u).sum().backward()
    assert u.grad.numpy() == pytest.approx(np.full(3, CURVES.absorption.sum().item()), rel=1e-6)


def test_gradient_is_exact():
    u = torch.tensor([10.0, 5e3, 8e4, 7e5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(CURVES, (u,), eps=1.0, atol=1e-9, rtol=1e-4)


def test_slope_is_continuous_over_nodes():
    node = CURVES.nodes_ppm_m[20].item()
    u = torch.tensor([node - 1e-3, node + 1e-3], dtype=torch.float64, requires_grad=True)
    CURVES.optical_depth(u)[:, 5].sum().backward()
    assert u.grad[0].item() == pytest.approx(u.grad[1].item(), rel=1e-5)


def test_constant_layer_is_beer_lambert():
    a = np.array([0.0, 1e-6, 7e-6])
    u = torch.tensor([-500.0, 0.4, 3e4], dtype=torch.float64)
    expected = np.exp(-u.numpy()[:, None] * a)
    assert BandTransmittance.constant(a)(u).numpy() == pytest.approx(expected, rel=1e-12)


def test_a_flat_table_is_beer_lambert_in_every_band():
    grid = np.arange(2000.0, 2500.0, 1.0)
    curves = MethaneAbsorption.from_table(grid, np.full_like(grid, 5e-6)).band_transmittance(
        Bands.from_centres([1000.0, 2100.0, 2300.0], [10.0, 10.0, 10.0])
    )
    light = curves(torch.tensor(2e4, dtype=torch.float64)).numpy()
    assert light == pytest.approx([1.0, np.exp(-0.1), np.exp(-0.1)], rel=1e-9)
    assert curves.absorbing(1e4).tolist() == [False, True, True]


def test_scaling_and_shifting_the_table():
    doubled = TABLE.scaled(2.0).band_transmittance(REFERENCE_BANDS)
    assert doubled(torch.tensor(1e4)).numpy() == pytest.approx(CURVES(torch.tensor(2e4)).numpy(), rel=1e-3)
    moved = Bands.from_centres(REFERENCE_NM + 0.5, REFERENCE_BANDS.fwhm_nm)
    shifted = TABLE.shifted(0.5).band_transmittance(moved)
    assert shifted.absorption.numpy() == pytest.approx(CURVES.absorption.numpy(), rel=1e-9)


def test_smile_curves_per_detector_column():
    centres = REFERENCE_NM + np.array([-1.5, 0.0, 1.5])[:, None]
    curves = TABLE.band_transmittance(REFERENCE_BANDS, centres_nm=centres)
    u = torch.tensor([2e4, 2e4, 2e4], dtype=torch.float64)
    light = curves(u, torch.tensor([0, 1, 2])).numpy()
    assert light[1] == pytest.approx(CURVES(u[:1])[0].numpy(), rel=1e-5)
    assert np.abs(light[0] - light[2]).max() > 0.005


def test_curves_of_some_columns_are_the_mean_of_these_columns():
    centres = REFERENCE_NM + np.linspace(-3.0, 3.0, 5)[:, None]
    curves = TABLE.band_transmittance(REFERENCE_BANDS, centres_nm=centres)
    u = torch.tensor([3e3, 4e4], dtype=torch.float64)
    of = [curves.optical_depth(u, torch.full((2,), column)).numpy() for column in range(5)]
    for start, stop in ((0, 1), (2, 4), (3, 5)):
        found = curves.of_columns(start, stop).optical_depth(u).numpy()
        np.testing.assert_allclose(found, np.mean(of[start:stop], axis=0), rtol=1e-9)


@pytest.mark.parametrize("table", [([1, 2], [1]), ([2, 1], [1, 1]), ([1, 2], [1, -1]), ([1, 2], [1, np.nan])])
def test_broken_tables_are_refused(table):
    with pytest.raises(ValueError, match="absorption"):
        MethaneAbsorption.from_table(np.array(table[0], float), np.array(table[1], float))


def test_a_sensor_without_swir_is_refused():
    with pytest.raises(ValueError, match="absorbs methane"):
        TABLE.band_transmittance(Bands.from_centres([450.0, 650.0, 850.0]))


def test_air_mass_factor():
    assert air_mass_factor(60.0) == pytest.approx(3.0)
    assert air_mass_factor(30.0, 60.0) == pytest.approx(2.0 + 2.0 / np.sqrt(3.0))
    with pytest.raises(ValueError, match="sun zenith"):
        air_mass_factor(86.0)


def test_ppm_m_is_the_ideal_gas_mass_at_standard_conditions():
    molar_mass, gas_constant = 0.016043, 8.314462618
    kg_m3 = 101325.0 * molar_mass / (gas_constant * 273.15)
    assert ppm_m_to_kg_m2(1.0) == pytest.approx(1e-6 * kg_m3, rel=2e-3)


def test_mass_of_a_uniform_square_plume():
    assert integrated_mass_enhancement(np.full((10, 10), 1000.0), 900.0) == pytest.approx(
        100 * 900.0 * 1000.0 * 7.16e-7
    )


def test_emission_rate_by_the_formula():
    rate = emission_rate(64.44, 90_000.0, 4.0, ime_std_kg=6.444)
    assert rate.kg_per_hour == pytest.approx(3600 * (0.34 * 4 + 0.44) * 64.44 / 300)
    relative = np.hypot(0.1, 0.34 * 1.5 / 1.8)
    assert rate.std_kg_per_hour == pytest.approx(rate.kg_per_hour * relative)


def test_emission_rate_of_emit_in_weak_wind():
    rate = emission_rate(10.0, 3600.0, 2.0, effective_wind=EFFECTIVE_WIND["EMIT"])
    assert rate.kg_per_hour == pytest.approx(3600 * 1.38 * 10 / 60)
    assert rate.std_kg_per_hour == pytest.approx(3600 * 0.36 * 1.0 * 10 / 60)
    with pytest.raises(ValueError, match="positive area"):
        emission_rate(10.0, 0.0, 2.0)


def test_a_coarse_table_of_the_same_gas_saturates_as_the_fine_one():
    """Means over 1 nm hide the lines; Beer-Lambert with them is a quarter off in a strong plume."""
    edges = np.arange(1600.0, 2501.0, 1.0)
    middle = (edges[1:] + edges[:-1]) / 2.0
    cell = np.digitize(TABLE.wavelength_nm, edges)
    step = np.gradient(TABLE.wavelength_nm)
    inside = [cell == k for k in range(1, len(edges))]
    mean = np.array([(TABLE.absorption * step)[m].sum() / step[m].sum() for m in inside])
    column = torch.tensor(1e5, dtype=torch.float64)
    bands = Bands.from_centres(REFERENCE_NM[1:-1], np.full(7, 10.0))
    true = TABLE.band_transmittance(bands).optical_depth(column).numpy()
    found, beer = (
        table.band_transmittance(bands).optical_depth(column).numpy()
        for table in (
            MethaneAbsorption.from_user(middle, mean, source="coarse"),
            MethaneAbsorption.from_table(middle, mean),
        )
    )
    np.testing.assert_allclose(found, true, rtol=0.02)
    assert (beer / true).max() > 1.25
    doubled = MethaneAbsorption.from_user(middle, 2.0 * mean, source="coarse").band_transmittance(bands)
    np.testing.assert_allclose(doubled.optical_depth(column / 2.0).numpy(), true, rtol=0.02)


def test_a_line_resolved_table_is_averaged_with_the_light_in_a_band():
    rng = np.random.default_rng(0)
    nm = np.arange(2300.0, 2330.0, 0.01)
    lines = rng.uniform(2300.0, 2330.0, 60)
    k = 2e-5 * (0.03**2 / ((nm[:, None] - lines) ** 2 + 0.03**2)).sum(1)
    table = MethaneAbsorption.from_user(nm, k, source="lines")
    assert table.source == "lines" and not table.borrowed_lines
    bands = Bands.from_centres(np.array([2315.0]), np.array([8.0]))
    light = np.interp(nm, TABLE.wavelength_nm, TABLE.background)
    response = np.exp(-4.0 * np.log(2.0) * ((nm - 2315.0) / 8.0) ** 2)
    for column in (1e3, 5e4):
        expected = np.average(np.exp(-k * column), weights=response * light)
        found = table.band_transmittance(bands)(torch.tensor(column, dtype=torch.float64)).item()
        assert found == pytest.approx(expected, rel=2e-3)
    flat = np.average(np.exp(-k * 5e4), weights=response)
    assert abs(flat - expected) > 5e-3


def test_a_coarse_table_of_twice_the_strength_is_twice_as_strong_up_to_its_ends():
    nm = np.arange(2250.0, 2391.0, 2.0)
    total = integrate.cumulative_trapezoid(TABLE.absorption, TABLE.wavelength_nm, initial=0.0)
    below, above = (np.interp(nm + side, TABLE.wavelength_nm, total) for side in (-1.0, 1.0))
    table = MethaneAbsorption.from_user(nm, 2.0 * (above - below) / 2.0, source="coarse")
    inside = (TABLE.wavelength_nm > nm[0]) & (TABLE.wavelength_nm < nm[-1])
    np.testing.assert_allclose(table.absorption[inside], 2.0 * TABLE.absorption[inside], rtol=0.01)
    np.testing.assert_allclose(table.saturation[inside], 2.0 * TABLE.saturation[inside], rtol=0.01)
    assert not table.absorption[TABLE.wavelength_nm > nm[-1] + 2.0].any()
    assert table.borrowed_lines and table.source == "coarse" and not TABLE.borrowed_lines


def test_a_coarse_table_that_is_no_methane_is_held_at_ten_times_ours():
    nm = np.arange(2250.0, 2391.0, 2.0)
    table = MethaneAbsorption.from_user(nm, np.full_like(nm, 1.0), source="coarse")
    inside = (TABLE.wavelength_nm > nm[0]) & (TABLE.wavelength_nm < nm[-1])
    np.testing.assert_allclose(table.absorption[inside], 10.0 * TABLE.absorption[inside])


def test_bands_are_covered_where_their_centres_are():
    first, last = TABLE.wavelength_nm[[0, -1]]
    bands = Bands.from_centres(np.array([first - 1.0, first, 2300.0, last, last + 1.0]), np.full(5, 10.0))
    assert TABLE.covers(bands).tolist() == [False, True, True, True, False]
