"""The irradiance that a scene was seen under: its day, and a user's table."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from p3vae.cli.errors import SceneError, UsageError
from p3vae.cli.landcover.irradiance import LightSettings, scene_irradiance
from p3vae.cli.scenes.base import Acquisition
from tests.cli.fake_scene import memory_scene, random_cube

APHELION_AU, PERIHELION_AU = 1.01671, 0.98331
"""Distances of the Earth from the sun on 4 July and 4 January."""


def seen(options=None, **acquisition):
    scene = replace(memory_scene(random_cube()), acquisition=Acquisition(**acquisition))
    return scene_irradiance(scene, scene.bands, options or LightSettings())


def test_the_distance_from_the_sun_is_that_of_the_day():
    january, july, undated = (
        seen(sun_zenith_deg=30.0, time=time)
        for time in (datetime(2023, 1, 4, 10, tzinfo=UTC), datetime(2023, 7, 4, 10, tzinfo=UTC), None)
    )
    nearer = (APHELION_AU / PERIHELION_AU) ** 2
    for part in ("direct", "diffuse"):
        np.testing.assert_allclose(getattr(january, part), nearer * getattr(july, part), rtol=2e-3)
    np.testing.assert_allclose(undated.total, july.total, rtol=5e-3)


def test_more_aerosol_and_water_are_those_of_the_options():
    usual = seen(sun_zenith_deg=30.0)
    hazy = seen(LightSettings(aerosol_optical_depth=0.8), sun_zenith_deg=30.0)
    moist = seen(LightSettings(water_vapour_cm=4.0), sun_zenith_deg=30.0)
    snow = seen(LightSettings(ground_albedo=0.9), sun_zenith_deg=30.0)
    assert (hazy.direct < usual.direct).all() and hazy.diffuse[0] > usual.diffuse[0]
    assert (moist.direct <= usual.direct).all() and (moist.direct < usual.direct).any()
    assert (snow.diffuse > usual.diffuse).all()
    np.testing.assert_allclose(snow.direct, usual.direct)


def test_a_table_is_used_as_it_is_in_any_order(tmp_path):
    """Straight lines: the average over a symmetric band is the value at its centre."""
    table = tmp_path / "sky.csv"
    rows = [f"{nm},{2000 - 0.5 * nm},{300 - 0.1 * nm}" for nm in (2500, 400, 1200)]
    table.write_text("\n".join(["wavelength_nm,direct,diffuse", *rows]) + "\n")
    found = seen(LightSettings(table=table), sun_zenith_deg=42.0)
    np.testing.assert_allclose(found.direct, 2000 - 0.5 * found.wavelength_nm, rtol=1e-6)
    np.testing.assert_allclose(found.diffuse, 300 - 0.1 * found.wavelength_nm, rtol=1e-6)
    assert found.sun_zenith_deg == 42.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("wavelength_nm,direct,diffuse\n400,1,1\n", "fewer than two wavelengths"),
        ("wavelength_nm,direct,diffuse\n400,1,1\n900,1,1\n", "not covered|lack|missing|reach"),
        ("wavelength_nm,direct,diffuse\n400,1,1\n2500,-1,1\n", "not negative"),
        ("wavelength_nm,direct\n400,1\n2500,1\n", "cannot be read as an irradiance table"),
    ],
)
def test_a_table_that_cannot_serve_is_refused(tmp_path, text, words):
    table = tmp_path / "sky.csv"
    table.write_text(text)
    with pytest.raises(UsageError, match=words):
        seen(LightSettings(table=table), sun_zenith_deg=30.0)


@pytest.mark.parametrize("zenith", [None, -1.0, 90.0, 120.0])
def test_a_scene_needs_a_sun_above_the_horizon(zenith):
    with pytest.raises(SceneError, match="sun"):
        seen(sun_zenith_deg=zenith)
    assert seen(sun_zenith_deg=0.0).total.min() > 0 and seen(sun_zenith_deg=89.0).total.min() >= 0
