"""Materials at the bands of another sensor, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from p3vae.models.landcover.library.decoder import LightPrior, SpectralLibrary
from p3vae.models.landcover.library.materials import MaterialEstimator
from p3vae.physics.spectral_response import Bands

FWHM_PER_SIGMA = np.sqrt(8.0 * np.log(2.0))
NM = np.arange(500.0, 1501.0, 5.0)
OWN = Bands.from_centres(NM, np.full(len(NM), 20.0))
CENTRE_NM, SIGMA_NM, DEPTH = 1000.0, 30.0, 0.2


def dip(nm: np.ndarray, fwhm_nm: float) -> np.ndarray:
    """A Gaussian absorption feature as a Gaussian band sees it: the variances of both widths add."""
    sigma = np.hypot(SIGMA_NM, fwhm_nm / FWHM_PER_SIGMA)
    return DEPTH * SIGMA_NM / sigma * np.exp(-0.5 * ((nm - CENTRE_NM) / sigma) ** 2)


@pytest.fixture
def materials() -> MaterialEstimator:
    rows = dip(NM, 20.0)
    library = SpectralLibrary(
        0.5 - rows[None], 0.1 * rows[None, None], 0.2 * rows[None], np.full(len(NM), 1e-4)
    )
    one, zero = np.ones(1), np.zeros(1, np.int64)
    return MaterialEstimator(
        library,
        LightPrior.flat(1.0),
        one,
        zero,
        zero,
        one[:, None],
        0 * one[:, None],
        ("soil",),
        2.0,
        0.0,
        {},
    )


def test_its_own_bands_leave_it_as_it_is(materials):
    spaced = Bands.from_centres(NM[::4], np.full(len(NM[::4]), 20.0))
    found = materials.at_bands(OWN, spaced)
    for name in ("mean", "directions", "factors", "noise"):
        given = getattr(materials.library, name)[..., ::4]
        np.testing.assert_allclose(getattr(found.library, name), given, rtol=1e-9)
    assert found.independent_bands == pytest.approx(len(spaced))


@pytest.mark.parametrize("fwhm_nm", [30.0, 60.0, 90.0])
def test_wider_bands_see_what_they_would_have_seen(materials, fwhm_nm):
    centres = np.arange(800.0, 1201.0, 100.0)
    found = materials.at_bands(OWN, Bands.from_centres(centres, np.full(len(centres), fwhm_nm))).library
    seen = dip(centres, fwhm_nm)
    np.testing.assert_allclose(found.mean[0], 0.5 - seen, atol=6e-4)
    np.testing.assert_allclose(found.directions[0, 0], 0.1 * seen, atol=6e-5)
    np.testing.assert_allclose(found.factors[0], 0.2 * seen, atol=1.2e-4)


def test_neighbours_closer_than_those_of_the_library_share_their_errors(materials):
    """Twice as many bands know no more: twice the noise each, and as many independent ones."""
    sparse, dense = (
        materials.at_bands(OWN, Bands.from_centres(centres, np.full(len(centres), 20.0)))
        for centres in (np.arange(600.0, 1401.0, 20.0), np.arange(600.0, 1401.0, 10.0))
    )
    np.testing.assert_allclose(dense.library.noise, 2.0 * sparse.library.noise[0], rtol=1e-6)
    assert dense.independent_bands == pytest.approx(sparse.independent_bands, rel=0.02)
