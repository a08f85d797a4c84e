"""Plumes as GeoJSON, with the names of properties by which the public catalogues call the same things."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import geopandas
import shapely

from p3vae.cli.records.manifest import finite

_DIGITS = 7
"""Of degrees: a centimetre."""


def catalogue(rows: Sequence[Mapping[str, Any]], frame: geopandas.GeoDataFrame) -> bytes:
    """A feature collection (RFC 7946) with the outline of every plume and all that is reported of it."""
    shapes = frame.geometry.to_crs("EPSG:4326")
    features = [
        {"type": "Feature", "properties": properties(row), "geometry": _geometry(shape)}
        for row, shape in zip(rows, shapes, strict=True)
    ]
    collection = {"type": "FeatureCollection", "features": features}
    return json.dumps(finite(collection), ensure_ascii=False, indent=1).encode() + b"\n"


def properties(row: Mapping[str, Any]) -> dict[str, Any]:
    """Our columns, then those of EMIT's plume complexes and of Carbon Mapper's plumes."""
    time = row["time_utc"]
    utc = None if time is None else datetime.fromisoformat(time).strftime("%Y-%m-%dT%H:%M:%SZ")
    emit = {
        "Plume ID": row["id"],
        "Scene FIDs": [row["scene"]],
        "UTC Time Observed": utc,
        "Max Plume Concentration (ppm m)": row["peak_ppm_m"],
        "Concentration Uncertainty (ppm m)": row["peak_std_ppm_m"],
        "Latitude of max concentration": row["peak_lat"],
        "Longitude of max concentration": row["peak_lon"],
    }
    carbon_mapper = {
        "plume_id": row["id"],
        "plume_latitude": row["source_lat"],
        "plume_longitude": row["source_lon"],
        "scene_id": row["scene"],
        "scene_timestamp": utc,
        "instrument": row["sensor"],
        "plume_quality": row["quality"],
        "emission_auto": row["q_kg_h"],
        "emission_uncertainty_auto": row["q_std_kg_h"],
        "wind_speed_avg_auto": row["wind_m_s"],
        "wind_speed_std_auto": row["wind_std_m_s"],
        "wind_source_auto": row["wind_source"],
    }
    return {**row, **emit, **carbon_mapper}


def _geometry(shape: shapely.Geometry) -> Any:
    """Outer rings counter-clockwise."""
    turned = shapely.MultiPolygon([shapely.geometry.polygon.orient(part) for part in shape.geoms])
    rounded = shapely.transform(turned, lambda points: points.round(_DIGITS))
    return json.loads(shapely.to_geojson(rounded))
