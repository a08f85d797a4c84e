"""Plumes as a table: what is reported of each, its polygon, its place on Earth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import geopandas
import numpy as np
import numpy.typing as npt
import shapely
from rasterio import features
from rasterio.warp import transform

from p3vae.cli.products.areas import WGS84, to_map
from p3vae.cli.scenes.base import Grid, Scene
from p3vae.models.methane.plume_mass import Place, Plume, Wind

FIELDS = (
    *("id", "scene", "time_utc", "sensor", "plume", "probability", "false_plumes", "touches_edge"),
    *("spectrum", "methane_log_ratio"),
    *("clear_share", "pixels", "area_m2", "peak_ppm_m", "mean_ppm_m", "peak_lon", "peak_lat"),
    *("source_lon", "source_lat", "direction_deg", "ime_kg", "ime_std_kg", "ime_std_noise_kg"),
    *("ime_std_background_kg", "ime_std_mask_kg", "ime_std_absorption_kg", "q_kg_h", "q_std_kg_h"),
    *("q_std_ime_kg_h", "q_std_wind_kg_h", "wind_m_s", "wind_std_m_s", "wind_source", "ueff_a", "ueff_b"),
)
"""Columns of the table; the unit is the last part of a name (deg: clockwise from north, towards)."""


def plume_rows(
    plumes: Sequence[Plume],
    labels: npt.NDArray[np.int32],
    clear: npt.NDArray[np.bool_],
    scene: Scene,
    grid: Grid,
    wind: Wind,
    wind_source: str | None,
) -> list[dict[str, Any]]:
    """What is reported of each plume, by the names of `FIELDS`."""
    time = scene.acquisition.time
    common = {
        "scene": scene.path.name,
        "time_utc": None if time is None else time.isoformat(),
        "sensor": scene.product,
        "wind_m_s": wind.m_s,
        "wind_std_m_s": wind.std_m_s,
        "wind_source": wind_source,
        "ueff_a": wind.effective.a,
        "ueff_b": wind.effective.b,
    }
    rows = []
    for plume in plumes:
        row = common | {
            "id": f"{scene.path.stem}-{plume.label}",
            "plume": plume.label,
            "probability": plume.probability,
            "false_plumes": plume.false_plumes,
            "touches_edge": plume.touches_edge,
            "spectrum": None if plume.log_ratio is None else plume.log_ratio.name,
            "methane_log_ratio": None if plume.log_ratio is None else plume.log_ratio.found,
            "clear_share": float(clear[labels == plume.label].mean()),
            "pixels": plume.pixels,
            "area_m2": plume.area_m2,
            "peak_ppm_m": plume.peak_ppm_m,
            "mean_ppm_m": plume.mean_ppm_m,
            **_places(plume, grid),
            **_mass(plume),
        }
        rows.append({name: row[name] for name in FIELDS})
    return rows


def _mass(plume: Plume) -> dict[str, float | None]:
    mass, rate = plume.mass, plume.emission
    masses = (
        (mass.kg, mass.std_kg, mass.noise_kg, mass.background_kg, mass.mask_kg, mass.absorption_kg)
        if mass
        else ()
    )
    rates = (
        (rate.kg_per_hour, rate.std_kg_per_hour, rate.from_mass_kg_per_hour, rate.from_wind_kg_per_hour)
        if rate
        else ()
    )
    first = FIELDS.index("ime_kg")
    names = FIELDS[first : first + 10]
    values = (*(masses or (None,) * 6), *(rates or (None,) * 4))
    return dict(zip(names, values, strict=True))


def _places(plume: Plume, grid: Grid) -> dict[str, float | None]:
    """Longitude and latitude [degree] of peak and source, and where the plume drifts to."""
    names = ("peak_lon", "peak_lat", "source_lon", "source_lat", "direction_deg")
    if grid.crs is None:
        return dict.fromkeys(names)
    peak, source, centroid = (_lon_lat(place, grid) for place in (plume.peak, plume.source, plume.centroid))
    direction = None
    if plume.has_direction:
        direction = float(WGS84.inv(*source, *centroid)[0] % 360.0)
    return dict(zip(names, (*peak, *source, direction), strict=True))


def _lon_lat(place: Place, grid: Grid) -> tuple[float, float]:
    x, y = to_map(grid, np.array([[place[1] + 0.5, place[0] + 0.5]]))[0]
    longitude, latitude = transform(grid.crs, "EPSG:4326", [x], [y])
    return float(longitude[0]), float(latitude[0])


def plume_polygons(
    labels: npt.NDArray[np.int32], rows: Sequence[dict[str, Any]], grid: Grid
) -> geopandas.GeoDataFrame:
    """The table with the outlines of the plumes, in the grid's own CRS."""
    outlines: dict[int, list[Any]] = {}
    for shape, label in features.shapes(labels, mask=labels > 0, connectivity=8):
        outlines.setdefault(int(label), []).append(shapely.geometry.shape(shape))
    geometry = [
        shapely.transform(shapely.MultiPolygon(outlines[row["plume"]]), lambda points: to_map(grid, points))
        for row in rows
    ]
    crs = None if grid.crs is None else grid.crs.to_wkt()
    return geopandas.GeoDataFrame(rows, columns=[*FIELDS, "geometry"], geometry=geometry, crs=crs)


def plume_line(plume: Plume) -> str:
    """One line for the report."""
    line = (
        f"plume {plume.label}: {plume.pixels:,} pixels, peak {plume.peak_ppm_m:,.0f} ppm·m, "
        f"probability {plume.probability:.3f}"
    )
    if plume.log_ratio is not None:
        line += f", spectrum: {plume.log_ratio.name}"
    if plume.mass is not None and plume.area_m2 is not None:
        line += f", {plume.area_m2 / 1e6:.2f} km², IME {plume.mass.kg:,.0f} ± {plume.mass.std_kg:,.0f} kg"
    if plume.emission is not None:
        line += f", Q {plume.emission.kg_per_hour:,.0f} ± {plume.emission.std_kg_per_hour:,.0f} kg/h"
    return line + (", goes on beyond what is seen" if plume.touches_edge else "")
