"""Bands, resampling and the band adapter against closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3vae.physics.spectral_response import (
    BandCoverageError,
    Bands,
    adapt_bands,
    gaussian_average_matrix,
    resampling_matrix,
    select_spectra,
)

SENSOR = Bands.from_centres(np.arange(400.0, 2501.0, 8.0), np.full(263, 9.0))


def test_identical_bands_are_passed_through_unchanged():
    spectra = np.random.default_rng(0).random((3, 4, len(SENSOR)), dtype=np.float32)
    adapter = adapt_bands(SENSOR, Bands.from_centres(SENSOR.wavelength_nm + 0.05, SENSOR.fwhm_nm + 0.3))
    assert adapter.is_exact
    np.testing.assert_array_equal(adapter(spectra), spectra)


def test_a_subset_of_bands_is_selected():
    wanted = [3, 40, 200]
    adapter = adapt_bands(SENSOR, SENSOR.select(wanted))
    spectrum = np.arange(len(SENSOR), dtype=np.float64)
    assert adapter.is_exact
    np.testing.assert_array_equal(adapter(spectrum), np.float32(wanted))
    assert adapter(spectrum).dtype == np.float32


@given(
    start=st.floats(420, 900),
    step=st.floats(3, 40),
    width=st.floats(4, 60),
    level=st.floats(-2, 2),
    slope=st.floats(-2, 2),
)
def test_straight_spectra_survive_any_resampling(start, step, width, level, slope):
    target = Bands.from_centres(start + step * np.arange(5), np.full(5, width))

    def line(nm):
        return level + slope * (nm - 1000.0) / 1000.0

    resampled = line(SENSOR.wavelength_nm) @ resampling_matrix(SENSOR, target)
    inside = (target.wavelength_nm - 2 * width > 400) & (target.wavelength_nm + 2 * width < 2496)
    np.testing.assert_allclose(resampled[inside], line(target.wavelength_nm)[inside], atol=1e-6)


def test_a_parabola_gains_the_variance_of_the_remaining_blur():
    """Averaging x² over a Gaussian adds its variance; linear pieces of length h add h²/6 on average."""
    target = Bands.from_centres([900.0, 1200.0, 1603.0], [41.0, 60.0, 30.0])
    resampled = SENSOR.wavelength_nm**2 @ resampling_matrix(SENSOR, target)
    variance = (target.fwhm_nm**2 - 9.0**2) / (8 * np.log(2))
    np.testing.assert_allclose(resampled, target.wavelength_nm**2 + variance + 8.0**2 / 6, atol=1e-3)


def test_resampling_equals_numerical_integration_of_a_narrow_feature():
    fine = np.arange(400.0, 2500.0, 0.5)
    truth = 0.4 - 0.2 * np.exp(-0.5 * ((fine - 2205) / 25) ** 2)
    weights = gaussian_average_matrix(fine, np.array([2200.0]), np.array([12.0]))
    sigma = 12.0 / 2.3548200450309493
    response = np.exp(-0.5 * ((fine - 2200.0) / sigma) ** 2)
    assert float((truth @ weights)[0]) == pytest.approx((truth * response).sum() / response.sum(), abs=2e-5)


def test_weights_sum_to_one_and_bad_source_bands_are_never_read():
    good = np.ones(len(SENSOR), dtype=bool)
    good[50] = False
    source = Bands(SENSOR.wavelength_nm, SENSOR.fwhm_nm, good)
    target = Bands.from_centres(np.arange(500.0, 1000.0, 13.0), np.full(39, 15.0))
    spectrum = np.full(len(SENSOR), 0.25)
    spectrum[50] = np.nan
    np.testing.assert_allclose(adapt_bands(source, target)(spectrum), 0.25, rtol=1e-6)


def test_a_gap_in_the_source_is_refused_by_name():
    keep = (SENSOR.wavelength_nm < 1340) | (SENSOR.wavelength_nm > 1450)
    with pytest.raises(BandCoverageError, match=r"13\d\d-14\d\d nm") as caught:
        adapt_bands(SENSOR.select(keep), Bands.from_centres(np.arange(1000.0, 1700.0, 10.0)))
    ((low, high),) = caught.value.missing_nm
    assert 1330 < low < 1355
    assert 1435 < high < 1460


def test_bands_beyond_the_source_are_refused_with_both_ranges():
    visible = SENSOR.select(SENSOR.wavelength_nm < 1000)
    with pytest.raises(BandCoverageError, match="345-355, 2195-2205 nm"):
        adapt_bands(visible, Bands.from_centres([350.0, 600.0, 2200.0], [10.0, 10.0, 10.0]))


def test_uncovered_bands_the_model_does_not_use_are_no_reason_to_refuse():
    visible = SENSOR.select(SENSOR.wavelength_nm < 1000)
    target = Bands.from_centres([605.0, 2200.0], [20.0, 20.0], [True, False])
    assert adapt_bands(visible, target)(np.ones(len(visible))).shape == (2,)


@pytest.mark.parametrize(
    ("centres", "widths", "flags", "message"),
    [
        ([500.0, 400.0], [5.0, 5.0], [True, True], "ascending"),
        ([400.0, np.nan], [5.0, 5.0], [True, True], "ascending"),
        ([400.0, 500.0], [5.0, 0.0], [True, True], "widths"),
        ([400.0, 500.0], [5.0], [True, True], "one length"),
    ],
)
def test_impossible_bands_are_refused(centres, widths, flags, message):
    with pytest.raises(ValueError, match=message):
        Bands(np.array(centres), np.array(widths), np.array(flags))


def test_spectra_of_the_wrong_length_are_refused():
    with pytest.raises(ValueError, match="263 bands"):
        adapt_bands(SENSOR, SENSOR)(np.zeros(10))


@pytest.mark.parametrize("order", ["C", "F"])
def test_selected_spectra_keep_their_order_of_memory(order):
    spectra = np.asarray(np.arange(12.0).reshape(4, 3), order=order)
    kept = select_spectra(spectra, np.array([True, False, True, True]))
    np.testing.assert_array_equal(kept, spectra[[0, 2, 3]])
    assert kept.flags[f"{order}_CONTIGUOUS"]
    assert select_spectra(spectra, np.ones(4, bool)) is spectra


def test_bands_without_widths_are_as_wide_as_they_are_apart():
    assert Bands.from_centres([500.0, 520.0]).fwhm_nm.tolist() == [20.0, 20.0]
    assert Bands.from_centres([500.0, 510.0, 540.0]).fwhm_nm.tolist() == [10.0, 20.0, 30.0]
    assert Bands.from_centres([500.0]).fwhm_nm.tolist() == [10.0]
