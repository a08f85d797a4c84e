"""From a finished methane map to plumes: mask, polygons with mass and emission rate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import rasterio
from scipy import ndimage

from p3vae.cli.base.memory import return_memory
from p3vae.cli.base.tiling import Window
from p3vae.cli.products.areas import pixel_area_m2
from p3vae.cli.products.make import Findings, RunSummary
from p3vae.cli.products.manifest import product_record, sha256
from p3vae.cli.products.plume_table import plume_line, plume_polygons, plume_rows
from p3vae.cli.products.rasters import RasterSink, class_map
from p3vae.cli.products.staging import Staging, writing
from p3vae.cli.products.styles import Categories, Category
from p3vae.cli.products.vector_styles import plume_style
from p3vae.cli.products.vectors import write_geopackage
from p3vae.cli.products.wind import SceneWind, WindOption
from p3vae.cli.scenes.base import Grid, Scene
from p3vae.models.methane.plume_mass import Wind, list_plumes
from p3vae.models.methane.plumes import FoundPlumes, PlumeRule, count_false_alarms, find_plumes
from p3vae.models.methane.vetting import LogRatio
from p3vae.physics.emission import (
    DEFAULT_EFFECTIVE_WIND,
    EFFECTIVE_WIND,
    EffectiveWind,
    default_wind_uncertainty,
)
from p3vae.physics.quality import Quality

Values = npt.NDArray[np.floating[Any]]
Mask = npt.NDArray[np.bool_]

MASK = class_map(
    "plume_mask",
    "methane plumes",
    Categories((Category(1, "no plume", "#e8e8e8", alpha=0), Category(2, "plume", "#d7301f"))),
)
PLUME_FILES = ("plume_mask.tif", "plumes.gpkg", "plumes.geojson")
"""Ends of the names of mask and polygons."""
UNSURE = 3.0
"""Pixels this many times less certain than the scene's median are judged by their neighbours."""
REACH_PIXELS, FEWEST_SURE = 1.5, 0.1
"""Standard deviation of the neighbourhood's weights, and the share of it that must be sure."""
UNFIT_TO_FILL = (Quality.CLOUD, Quality.FLARE)


@dataclass(frozen=True)
class PlumeOptions:
    """How plumes are separated from noise, and what is known of the wind."""

    rule: PlumeRule = field(default_factory=PlumeRule)
    wind: WindOption | None = None
    wind_std_m_s: float | None = None
    """Instead of that of the table, or of the usual one."""
    ueff_a: float | None = None
    ueff_b: float | None = None
    ground_sampling_m: float | None = None
    """Side of a pixel [m] where the scene does not say."""
    control: bool = False
    """Count what the same rule finds in the sign-flipped map."""

    def effective_wind(self, product: str) -> EffectiveWind:
        """U_eff of a sensor, or as the user says."""
        sensor = EFFECTIVE_WIND.get(product, DEFAULT_EFFECTIVE_WIND)
        return EffectiveWind(
            sensor.a if self.ueff_a is None else self.ueff_a, sensor.b if self.ueff_b is None else self.ueff_b
        )

    def wind_of(self, scene: Scene) -> tuple[Wind, SceneWind | None]:
        """The wind over a scene, and where it comes from."""
        effective = self.effective_wind(scene.product)
        if self.wind is None:
            return Wind(effective=effective), None
        given = self.wind.of(scene.path)
        std = given.std_m_s if self.wind_std_m_s is None else self.wind_std_m_s
        return Wind(given.m_s, default_wind_uncertainty(given.m_s) if std is None else std, effective), given

    def settings(self, scene: Scene) -> dict[str, Any]:
        """For the manifest: what decides plumes, masses and emission rates of a scene."""
        wind, given = self.wind_of(scene)
        return {
            "plume_rule": asdict(self.rule),
            "wind_m_s": wind.m_s,
            "wind_std_m_s": wind.std_m_s,
            "wind_source": None if given is None else given.source,
            "ueff_a": wind.effective.a,
            "ueff_b": wind.effective.b,
            "ueff_m_s": None if wind.m_s is None else wind.effective(wind.m_s),
            "ground_sampling_m": self.ground_sampling_m,
        }


@dataclass(frozen=True, eq=False)
class _MethaneMap:
    ppm_m: Values
    """Without the prior and without gaps: see `fill_from_neighbours`."""
    std: Values
    valid: Mask
    """Where a plume may be: a result, over ground that allows one."""
    clear: Mask
    quality: npt.NDArray[np.uint8]
    grid: Grid
    tags: dict[str, str]


Vet = Callable[[Mask, Values, Grid], LogRatio | None]
"""What the spectrum of a cluster of pixels of a map says; enhancement and grid of the map."""


def write_plumes(
    summary: RunSummary,
    staging: Staging,
    scene: Scene,
    options: PlumeOptions,
    *,
    prior: bool,
    vet: Vet | None = None,
) -> Findings:
    """Write mask and polygons of plumes beside the staged maps, and say what they hold.

    `prior`: whether the maps hold a prior, which dividing by the sensitivity takes out.
    """
    seen = _read(summary, staging, prior=prior)
    maps = seen.ppm_m, seen.std, seen.valid
    return_memory()
    if vet is None:
        found = find_plumes(*maps, options.rule)
    else:
        found = find_plumes(*maps, options.rule, lambda cluster: vet(cluster, seen.ppm_m, seen.grid))
    return_memory()
    area = pixel_area_m2(seen.grid)
    if area is None and options.ground_sampling_m is not None:
        area = options.ground_sampling_m**2
    wind, given = options.wind_of(scene)
    plumes = list_plumes(*maps, found, area, wind)
    source = None if given is None else given.source
    rows = plume_rows(plumes, found.labels, seen.clear, scene, seen.grid, wind, source)
    records = _write(summary, staging, seen, found, rows)
    folder = summary.products[0].path.parent
    lines = [str(folder / record["file"]) for record in records]
    lines += [_left_out(seen), *([plume_line(plume) for plume in plumes] or ["no plume found"])]
    if found.rejected:
        lines.append(f"{found.rejected} as strong as a plume left out: the spectrum speaks against methane")
    record: dict[str, Any] = {"plumes": rows, "rejected_by_spectrum": found.rejected}
    if plumes and area is None:
        lines.append("no georeference: areas and masses need --ground-sampling METRES")
    if options.control:
        alarms = record["control_plumes"] = count_false_alarms(*maps, options.rule)
        reported = "says nothing, the map has no negative values" if alarms is None else f"{alarms} plumes"
        lines.append(f"control (sign-flipped map): {reported}")
    return Findings(lines, record, records)


def _write(
    summary: RunSummary,
    staging: Staging,
    seen: _MethaneMap,
    found: FoundPlumes,
    rows: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Mask and polygons, staged; returns what the manifest says of them."""
    stem = summary.products[0].path.name.removesuffix("_methane.tif")
    folder, grid = summary.products[0].path.parent, seen.grid
    names = [f"{stem}_{end}" for end in PLUME_FILES[: 2 if grid.crs is None else 3]]
    sink = RasterSink(staging, names[0], MASK, grid, tags=seen.tags)
    try:
        mask = np.where(seen.valid, np.where(found.labels > 0, 2, 1), 0).astype(np.uint8)
        sink.write(Window(0, 0, grid.height, grid.width), mask)
        sink.finish()
    finally:
        sink.close()
    polygons = plume_polygons(found.labels, rows, grid)
    with writing(folder / names[1]):
        write_geopackage(staging.path(names[1]), polygons, "plumes")
        staging.path(f"{stem}_plumes.qml").write_bytes(plume_style())
        for name in names[2:]:
            polygons.to_crs("EPSG:4326").to_file(staging.path(name), driver="GeoJSON")
    vectors = [
        {
            "file": name,
            "description": "methane plumes with mass and emission rate",
            "size": staging.path(name).stat().st_size,
            "sha256": sha256(staging.path(name)),
            "plumes": rows,
        }
        for name in names[1:]
    ]
    return [product_record(staging.path(names[0]), sink), *vectors]


def _left_out(seen: _MethaneMap) -> str:
    """How many pixels have no result, and why."""
    counts = {quality.label: int((seen.quality == quality).sum()) for quality in Quality}
    counts.pop(Quality.CLEAR.label)
    counts["dead or without signal"] = int((seen.quality == 0).sum())
    named = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    return f"{sum(counts.values()):,} pixels without a result{': ' if named else ''}{named}"


def _read(summary: RunSummary, staging: Staging, *, prior: bool) -> _MethaneMap:
    paths = {product.spec.suffix: staging.path(product.path.name) for product in summary.products}
    with rasterio.open(paths["methane"]) as source:
        ppm_m = source.read(1)
        gcps, gcp_crs = source.gcps
        swath = bool(gcps)
        grid = Grid(
            source.width,
            source.height,
            gcp_crs if swath else source.crs,
            None if swath else source.transform,
            tuple(gcps),
        )
        tags = {key: value for key, value in source.tags().items() if key.startswith("P3VAE_")}
        missing = ppm_m == source.nodata
    std, sensitivity, quality = (_band(paths[n]) for n in ("methane_std", "methane_sensitivity", "quality"))
    clear = ~missing & (quality == Quality.CLEAR)
    if prior:
        ppm_m = np.where(clear, ppm_m / np.where(clear, sensitivity, 1.0), 0.0)
        std = np.where(clear, std / np.sqrt(np.where(clear, sensitivity, 1.0)), 1.0)
    ppm_m, std, valid = fill_from_neighbours(ppm_m, std, clear)
    allowed = valid & ~np.isin(quality, UNFIT_TO_FILL)
    return _MethaneMap(ppm_m, std, allowed, clear, quality.astype(np.uint8), grid, tags)


def _band(path: Any) -> Values:
    with rasterio.open(path) as source:
        values: Values = source.read(1)
        return values


def fill_from_neighbours(ppm_m: Values, std: Values, trusted: Mask) -> tuple[Values, Values, Mask]:
    """Maps whose unsure pixels (deep shadow, above all) take the precision-weighted mean around them.

    Their own values lean towards the middle of the prior, which would look like plumes; without them, plumes
    would have holes. Returns enhancement and standard deviation [ppm m] and where both can be believed.
    """
    sure = trusted & (std < UNSURE * np.median(std[trusted])) if trusted.any() else trusted
    weight = sure / np.where(sure, std, 1.0).astype(np.float64) ** 2
    filled = ~sure & (_around(sure.astype(np.float32)) > FEWEST_SURE)
    scale = _around(weight)[filled]
    mean = _around(weight * ppm_m)[filled] / scale
    variance = np.maximum(_around(weight * ppm_m**2)[filled] / scale - mean**2, 1.0 / scale)
    ppm_m, std = ppm_m.copy(), std.copy()
    ppm_m[filled], std[filled] = mean, np.sqrt(variance)
    return ppm_m, std, sure | filled


def _around(values: Values) -> Values:
    smooth: Values = ndimage.gaussian_filter(values, REACH_PIXELS)
    return smooth
