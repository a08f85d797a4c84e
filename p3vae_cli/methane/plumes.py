"""From finished methane maps to plumes: mask, polygons with mass and emission rate, pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from p3vae.cli.methane.plume_catalogue import catalogue
from p3vae.cli.methane.plume_maps import Mask, MethaneMap, Values
from p3vae.cli.methane.plume_pictures import add_pictures
from p3vae.cli.methane.plume_table import (
    WindEstimate,
    plume_frame,
    plume_line,
    plume_polygons,
    plume_rows,
)
from p3vae.cli.methane.settings import PlumeSettings
from p3vae.cli.methane.wind import Place, wind_over
from p3vae.cli.rasters.areas import pixel_area_m2
from p3vae.cli.rasters.files import class_map
from p3vae.cli.rasters.resample import on_map
from p3vae.cli.run.maps import Maps
from p3vae.cli.run.memory import return_memory
from p3vae.cli.scenes.base import Scene
from p3vae.cli.scenes.tiling import Window
from p3vae.cli.styles.rasters import Categories, Category, Ramp
from p3vae.cli.styles.vectors import plume_style
from p3vae.models.methane.plumes.clusters import count_false_alarms, find_plumes
from p3vae.models.methane.plumes.mass import list_plumes
from p3vae.models.methane.plumes.vetting import LogRatio
from p3vae.physics.emission import (
    DEFAULT_EFFECTIVE_WIND,
    EFFECTIVE_WIND,
    EffectiveWind,
    default_wind_uncertainty,
)

MASK = class_map(
    "plume_mask",
    "methane plumes",
    Categories((Category(1, "no plume", "#e8e8e8", alpha=0), Category(2, "plume", "#d7301f"))),
)
PLUME_FILES = ("plume_mask.tif", "plumes.gpkg", "plumes.geojson")
"""Suffixes of mask and polygons."""
LONGEST_VISIBLE_NM = 700.0
_TABLE = "methane plumes with mass and emission rate"
ROUND_PPM_M = 500.0
"""Step of where the colours of methane begin [ppm m]."""


def effective_wind(settings: PlumeSettings, product: str) -> EffectiveWind:
    """U_eff of a sensor, or as the user says."""
    sensor = EFFECTIVE_WIND.get(product, DEFAULT_EFFECTIVE_WIND)
    return EffectiveWind(
        sensor.a if settings.ueff_a is None else settings.ueff_a,
        sensor.b if settings.ueff_b is None else settings.ueff_b,
    )


def winds_at(settings: PlumeSettings, scene: Scene, place: Place | None = None) -> list[WindEstimate]:
    """The wind of every source at a place of a scene, or at its centre."""
    effective = effective_wind(settings, scene.product)
    found = []
    for source in settings.winds:
        wind = wind_over(source, scene)(place)
        std = wind.std_m_s if settings.wind_std_m_s is None else settings.wind_std_m_s
        found.append(
            WindEstimate(wind, default_wind_uncertainty(wind.m_s) if std is None else std, effective)
        )
    return found


def plume_record(settings: PlumeSettings, scene: Scene) -> dict[str, Any]:
    """For the manifest: what decides plumes, masses and rates of a scene; winds at its centre."""
    effective, winds = effective_wind(settings, scene.product), winds_at(settings, scene)
    first = winds[0].record() if winds else {}
    return {
        "plume_rule": asdict(settings.rule),
        "wind_m_s": first.get("wind_m_s"),
        "wind_std_m_s": first.get("wind_std_m_s"),
        "wind_source": first.get("source"),
        "ueff_a": effective.a,
        "ueff_b": effective.b,
        "ueff_m_s": first.get("ueff_m_s"),
        "winds": [wind.record() for wind in winds],
        "ground_sampling_m": settings.ground_sampling_m,
    }


SpectrumJudge = Callable[[Mask, Values, Window], LogRatio | None]
"""What the spectrum of a cluster of pixels says; with the enhancement in a part of the scene."""


def add_plumes(
    maps: Maps, scene: Scene, settings: PlumeSettings, *, prior: bool, judge: SpectrumJudge | None = None
) -> None:
    """Add mask, polygons and pictures of plumes to the maps, and say what they hold.

    Plumes are found and weighed on the detector grid, where no pixel counts twice, also if the maps are not.
    `prior`: whether the maps hold a prior, which dividing by the sensitivity takes out.
    """
    seen = MethaneMap.of(maps.seen, prior=prior)
    arrays = seen.ppm_m, seen.std, seen.valid
    return_memory()
    if judge is None:
        found = find_plumes(*arrays, settings.rule)
    else:
        found = find_plumes(*arrays, settings.rule, lambda cluster: judge(cluster, seen.ppm_m, maps.area))
    return_memory()
    area = pixel_area_m2(seen.grid)
    if area is None and settings.ground_sampling_m is not None:
        area = settings.ground_sampling_m**2
    plumes = list_plumes(*arrays, found, area)
    rows = plume_rows(
        plumes,
        found.labels,
        seen,
        scene,
        maps.area,
        lambda place: winds_at(settings, scene, place),
        effective_wind(settings, scene.product),
    )
    _restyle(maps, seen)
    _add_products(maps, scene, seen, found.labels, rows)
    maps.lines += _blind_spots(scene)
    maps.lines += [
        seen.figures.line(),
        seen.left_out(),
        *([plume_line(row) for row in rows] or ["no plume found"]),
    ]
    if found.rejected:
        maps.lines.append(
            f"{found.rejected} as strong as a plume left out: the spectrum speaks against methane"
        )
    maps.record |= {
        "plumes": rows,
        "rejected_by_spectrum": found.rejected,
        "clear": asdict(seen.figures),
    }
    if plumes and area is None:
        maps.lines.append("no georeference: areas and masses need --ground-sampling METRES")
    if settings.control:
        alarms = maps.record["control_plumes"] = count_false_alarms(*arrays, settings.rule)
        reported = "says nothing, the map has no negative values" if alarms is None else f"{alarms} plumes"
        maps.lines.append(f"control (sign-flipped map): {reported}")


def _add_products(
    maps: Maps, scene: Scene, seen: MethaneMap, labels: npt.NDArray[np.int32], rows: list[dict[str, Any]]
) -> None:
    """Mask, polygons, catalogue and pictures, on the grid of the maps."""
    grid = seen.grid
    mask = np.where(seen.valid, np.where(labels > 0, 2, 1), 0).astype(np.uint8)
    polygons = plume_polygons(labels, rows, grid)
    if maps.onto is not None:
        grid, mask = maps.onto.grid, on_map(mask, maps.onto, 0)
        labels = on_map(labels, maps.onto, 0)
        polygons = plume_polygons(labels, rows, grid, otherwise=polygons)
    frame = plume_frame(rows, polygons, grid)
    maps.add("plume_mask", MASK, mask)
    maps.add_table("plumes", frame, "plumes", plume_style(), _TABLE, plumes=rows)
    if frame.crs is not None:
        maps.add_file("plumes.geojson", lambda: catalogue(rows, frame), _TABLE, plumes=rows)
    add_pictures(maps, scene, labels, rows)


def _restyle(maps: Maps, seen: MethaneMap) -> None:
    """Methane below two standard deviations of a usual clear pixel is shown transparent."""
    usual, style = seen.figures.typical_std_ppm_m, maps.specs["methane"].style
    if usual is not None and isinstance(style, Ramp):
        shown_from = float(ROUND_PPM_M * np.ceil(2.0 * usual / ROUND_PPM_M))
        maps.restyle("methane", replace(style, shown_from=shown_from))


def _blind_spots(scene: Scene) -> list[str]:
    """What the scene's bands cannot tell."""
    visible = scene.bands.good & (scene.bands.wavelength_nm < LONGEST_VISIBLE_NM)
    return [] if visible.any() else ["no visible band: cloud cannot be separated from bright ground"]
