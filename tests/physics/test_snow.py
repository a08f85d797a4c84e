"""Snow beside numbers of an independent radiative-transfer code."""

from __future__ import annotations

import numpy as np
import pytest

from p3vae.physics.snow import snow_albedo

_NM = np.array([450.0, 800.0, 1030.0, 1310.0])


@pytest.mark.parametrize(
    ("surface_area", "expected"),
    [
        (5.0, [0.98, 0.808, 0.469, 0.228]),
        (20.0, [0.99, 0.898, 0.679, 0.453]),
        (60.0, [0.994, 0.94, 0.798, 0.627]),
    ],
)
def test_albedo_is_that_of_two_stream_theory(surface_area, expected):
    """TARTES 2.0.3 (Libois et al. 2013): semi-infinite snow of 300 kg m-3 in diffuse light."""
    found = snow_albedo(_NM, surface_area)
    np.testing.assert_allclose(found[:3], expected[:3], atol=0.03)
    assert found[3] == pytest.approx(expected[3], abs=0.06), "the asymptotic theory is for weak absorption"


def test_soot_darkens_the_visible_only():
    clean, dirty = (snow_albedo(np.array([450.0, 1310.0]), 20.0, soot) for soot in (0.0, 1000.0))
    assert dirty[0] < 0.9 < clean[0]
    assert dirty[1] == pytest.approx(clean[1], abs=0.01)
