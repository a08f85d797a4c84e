"""UTM zones."""

from __future__ import annotations


def utm_epsg(longitude_deg: float, latitude_deg: float) -> int:
    """EPSG code of the WGS 84 UTM zone of a place [degree]; any longitude, beyond 180 it wraps.

    The register of `pyproj.database` has none beyond 84° N and 80° S; here zones go on to the poles.
    """
    zone = int((longitude_deg + 180.0) // 6.0) % 60 + 1
    return (32600 if latitude_deg >= 0 else 32700) + zone
