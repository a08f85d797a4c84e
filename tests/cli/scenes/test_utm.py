"""UTM zones against the register of PROJ."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyproj.aoi import AreaOfInterest
from pyproj.database import query_utm_crs_info

from p3vae.cli.scenes.utm import utm_epsg


@settings(deadline=None, max_examples=60)
@given(zone=st.integers(1, 60), within=st.floats(0.01, 5.99), latitude=st.floats(-79.9, 83.9))
def test_a_zone_is_that_of_the_register(zone, within, latitude):
    longitude = -180.0 + 6.0 * (zone - 1) + within
    if abs(latitude) < 0.01:
        return
    place = AreaOfInterest(longitude, latitude, longitude, latitude)
    registered = {info.code for info in query_utm_crs_info(datum_name="WGS 84", area_of_interest=place)}
    assert str(utm_epsg(longitude, latitude)) in registered


@pytest.mark.parametrize(
    ("longitude", "code"), [(-180.0, 32601), (180.0, 32601), (-186.0, 32660), (179.9, 32660)]
)
def test_zones_go_round_the_earth(longitude, code):
    assert utm_epsg(longitude, 10.0) == code
    assert utm_epsg(longitude, -89.0) == code + 100
