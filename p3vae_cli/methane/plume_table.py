"""Plumes as a table: what is reported of each, its polygon, its place on Earth."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import geopandas
import numpy as np
import numpy.typing as npt
import shapely
from rasterio import features
from rasterio.warp import transform

from p3vae.cli.methane.plume_maps import MethaneMap
from p3vae.cli.methane.wind import Place, SceneWind
from p3vae.cli.rasters.areas import WGS84, to_map
from p3vae.cli.scenes.base import Grid, Scene
from p3vae.cli.scenes.tiling import Window
from p3vae.models.methane.plumes.mass import Place as PixelPlace
from p3vae.models.methane.plumes.mass import Plume
from p3vae.physics.emission import EffectiveWind, emission_rate

FIELDS = (
    *("id", "scene", "time_utc", "sensor", "gas", "plume", "probability", "false_plumes", "quality"),
    *("spectrum", "methane_log_ratio"),
    *("touches_edge", "clear_share", "pixels", "area_m2", "peak_ppm_m", "peak_std_ppm_m", "mean_ppm_m"),
    *("peak_lon", "peak_lat", "source_lon", "source_lat", "direction_deg"),
    *("ime_kg", "ime_std_kg", "ime_std_noise_kg", "ime_std_background_kg", "ime_std_mask_kg"),
    *("ime_std_absorption_kg", "q_kg_h", "q_std_kg_h", "q_std_ime_kg_h", "q_std_wind_kg_h"),
    *("wind_m_s", "wind_std_m_s", "wind_towards_deg", "wind_source", "ueff_a", "ueff_b", "winds"),
)
"""Columns of the table; the unit is the last part of a name (deg: clockwise from north, towards).

`winds` lists every source of the wind with its Q; in vector files it is JSON text.
"""
_MASSES = (
    *("ime_kg", "ime_std_kg", "ime_std_noise_kg", "ime_std_background_kg", "ime_std_mask_kg"),
    "ime_std_absorption_kg",
)
_RATES = ("q_kg_h", "q_std_kg_h", "q_std_ime_kg_h", "q_std_wind_kg_h")
_FLAT = {
    **{name: name for name in (*_RATES, "wind_m_s", "wind_std_m_s", "wind_towards_deg")},
    "wind_source": "source",
}
"""Columns, by the entries of the first wind that they repeat."""
LIKELY, MOSTLY_CLEAR = 0.95, 0.8
"""Probability and share of clear pixels from which a plume is of good quality."""


@dataclass(frozen=True)
class WindEstimate:
    """A wind, its one-sigma error, and how it becomes the speed of a plume's mass."""

    wind: SceneWind
    std_m_s: float
    effective: EffectiveWind

    def record(self) -> dict[str, Any]:
        """As JSON-like values."""
        return {
            "source": self.wind.source,
            "wind_m_s": self.wind.m_s,
            "wind_std_m_s": self.std_m_s,
            "wind_towards_deg": self.wind.towards_deg,
            "ueff_m_s": self.effective(self.wind.m_s),
        }

    def rate(self, plume: Plume) -> dict[str, Any]:
        """The same with the emission rate of a plume and its errors [kg h-1]; None without a mass."""
        values: tuple[float | None, ...] = (None,) * len(_RATES)
        if plume.mass is not None and plume.area_m2 is not None:
            found = emission_rate(
                plume.mass.kg,
                plume.area_m2,
                self.wind.m_s,
                ime_std_kg=plume.mass.std_kg,
                wind_std_m_s=self.std_m_s,
                effective_wind=self.effective,
            )
            values = (
                found.kg_per_hour,
                found.std_kg_per_hour,
                found.from_mass_kg_per_hour,
                found.from_wind_kg_per_hour,
            )
        return self.record() | dict(zip(_RATES, values, strict=True))


def plume_rows(
    plumes: Sequence[Plume],
    labels: npt.NDArray[np.int32],
    seen: MethaneMap,
    scene: Scene,
    area: Window,
    winds_at: Callable[[Place | None], Sequence[WindEstimate]],
    effective: EffectiveWind,
) -> list[dict[str, Any]]:
    """What is reported of each plume, by the names of `FIELDS`; `area` is the part of the scene."""
    time = scene.acquisition.time
    common = {
        "scene": scene.path.name,
        "time_utc": None if time is None else time.isoformat(),
        "sensor": scene.product,
        "gas": "CH4",
        "ueff_a": effective.a,
        "ueff_b": effective.b,
    }
    rows = []
    for plume in plumes:
        places = _places(plume, seen.grid, scene, area)
        source = None if places["source_lon"] is None else (places["source_lon"], places["source_lat"])
        winds = [wind.rate(plume) for wind in winds_at(source)]
        clear_share = float(seen.clear[labels == plume.label].mean())
        first: dict[str, Any] = winds[0] if winds else {}
        row = common | {
            "id": f"{scene.path.stem}-{plume.label}",
            "plume": plume.label,
            "probability": plume.probability,
            "false_plumes": plume.false_plumes,
            "quality": quality(plume, clear_share),
            "spectrum": None if plume.log_ratio is None else plume.log_ratio.name,
            "methane_log_ratio": None if plume.log_ratio is None else plume.log_ratio.found,
            "touches_edge": plume.touches_edge,
            "clear_share": clear_share,
            "pixels": plume.pixels,
            "area_m2": plume.area_m2,
            "peak_ppm_m": plume.peak_ppm_m,
            "peak_std_ppm_m": float(seen.std[int(plume.peak[0]), int(plume.peak[1])]),
            "mean_ppm_m": plume.mean_ppm_m,
            **places,
            **_mass(plume),
            **{name: first.get(entry) for name, entry in _FLAT.items()},
            "winds": winds,
        }
        rows.append({name: row[name] for name in FIELDS})
    return rows


def quality(plume: Plume, clear_share: float) -> str:
    """ "good", or what makes a plume less than that."""
    flaws = {
        "uncertain": plume.probability < LIKELY,
        "cut off": plume.touches_edge,
        "partly unclear": clear_share < MOSTLY_CLEAR,
    }
    return ", ".join(name for name, is_so in flaws.items() if is_so) or "good"


def _mass(plume: Plume) -> dict[str, float | None]:
    mass = plume.mass
    if mass is None:
        return dict.fromkeys(_MASSES)
    values = (mass.kg, mass.std_kg, mass.noise_kg, mass.background_kg, mass.mask_kg, mass.absorption_kg)
    return dict(zip(_MASSES, values, strict=True))


def _places(plume: Plume, grid: Grid, scene: Scene, area: Window) -> dict[str, Any]:
    """Longitude and latitude [degree] of peak and source, and where the plume drifts to."""
    names = ("peak_lon", "peak_lat", "source_lon", "source_lat", "direction_deg")
    if grid.crs is None:
        return dict.fromkeys(names)
    direction = None
    if plume.has_direction:
        ends = _on_grid(plume.source, grid), _on_grid(plume.centroid, grid)
        direction = float(WGS84.inv(*ends[0], *ends[1])[0] % 360.0)
    peak, source = (
        _of_pixel(place, scene, area) or _on_grid(place, grid) for place in (plume.peak, plume.source)
    )
    return dict(zip(names, (*peak, *source, direction), strict=True))


def _of_pixel(place: PixelPlace, scene: Scene, area: Window) -> Place | None:
    """As the product itself places the pixel of a swath."""
    found = scene.geolocation(Window(int(place[0]) + area.row, int(place[1]) + area.col, 1, 1))
    if found is None or not np.isfinite(found).all():
        return None
    return float(found[0][0, 0]), float(found[1][0, 0])


def _on_grid(place: PixelPlace, grid: Grid) -> Place:
    x, y = to_map(grid, np.array([[place[1] + 0.5, place[0] + 0.5]]))[0]
    longitude, latitude = transform(grid.crs, "EPSG:4326", [x], [y])
    return float(longitude[0]), float(latitude[0])


def plume_polygons(
    labels: npt.NDArray[np.int32],
    rows: Sequence[dict[str, Any]],
    grid: Grid,
    otherwise: geopandas.GeoSeries | None = None,
) -> geopandas.GeoSeries:
    """The outlines of the plumes, in the grid's CRS; those that a map does not show as in `otherwise`."""
    outlines: dict[int, list[Any]] = {}
    for shape, label in features.shapes(labels, mask=labels > 0, connectivity=8):
        outlines.setdefault(int(label), []).append(shapely.geometry.shape(shape))
    crs = None if grid.crs is None else grid.crs.to_wkt()
    fallback = None if otherwise is None else otherwise.to_crs(crs)
    made = []
    for number, row in enumerate(rows):
        if row["plume"] in outlines or fallback is None:
            whole = shapely.MultiPolygon(outlines[row["plume"]])
            made.append(shapely.transform(whole, lambda points: to_map(grid, points)))
        else:
            made.append(fallback.iloc[number])
    return geopandas.GeoSeries(made, crs=crs)


def plume_frame(
    rows: Sequence[dict[str, Any]], polygons: geopandas.GeoSeries, grid: Grid
) -> geopandas.GeoDataFrame:
    """The table with its polygons."""
    flat = [row | {"winds": json.dumps(row["winds"])} for row in rows]
    crs = None if grid.crs is None else grid.crs.to_wkt()
    return geopandas.GeoDataFrame(flat, columns=[*FIELDS, "geometry"], geometry=list(polygons), crs=crs)


def plume_line(row: dict[str, Any]) -> str:
    """One line for the report."""
    line = (
        f"plume {row['plume']}: {row['pixels']:,} pixels, peak {row['peak_ppm_m']:,.0f} ppm·m, "
        f"probability {row['probability']:.3f}"
    )
    if row["spectrum"] is not None:
        line += f", spectrum: {row['spectrum']}"
    if row["ime_kg"] is not None:
        line += f", {row['area_m2'] / 1e6:.2f} km², IME {row['ime_kg']:,.0f} ± {row['ime_std_kg']:,.0f} kg"
    for wind in row["winds"]:
        if wind["q_kg_h"] is not None:
            of = f" ({wind['source']})" if len(row["winds"]) > 1 else ""
            line += f", Q {wind['q_kg_h']:,.0f} ± {wind['q_std_kg_h']:,.0f} kg/h{of}"
    return line + (", goes on beyond what is seen" if row["touches_edge"] else "")
