"""From a finished methane map to plumes: mask, polygons with mass and emission rate."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import geopandas
import numpy as np
import numpy.typing as npt
import rasterio
import shapely
from pyproj import Geod
from rasterio import features
from rasterio.transform import AffineTransformer, GCPTransformer
from scipy import ndimage

from p3vae.cli.base.tiling import Window
from p3vae.cli.products.make import Findings, RunSummary
from p3vae.cli.products.rasters import RasterSink, class_map, gdal_environment
from p3vae.cli.products.staging import Staging, writing
from p3vae.cli.products.styles import Categories, Category
from p3vae.cli.scenes.base import Grid, Scene
from p3vae.models.methane.plumes import Plume, PlumeRule, count_false_alarms, label_plumes, list_plumes
from p3vae.physics.emission import DEFAULT_EFFECTIVE_WIND, EFFECTIVE_WIND, EffectiveWind
from p3vae.physics.quality import Quality

Values = npt.NDArray[np.floating[Any]]
Mask = npt.NDArray[np.bool_]

MASK = class_map(
    "plume_mask",
    "methane plumes",
    Categories((Category(1, "no plume", "#e8e8e8"), Category(2, "plume", "#d7301f"))),
)
PLUME_FILES = ("plume_mask.tif", "plumes.gpkg")
"""Ends of the names of mask and polygons."""
_FIELDS = (
    *("plume", "pixels", "area_m2", "peak_ppm_m", "mean_ppm_m", "ime_kg", "ime_std_kg"),
    *("q_kg_h", "q_std_kg_h", "wind_m_s", "ueff_a", "ueff_b"),
)
UNUSABLE = (Quality.CLOUD, Quality.WATER, Quality.FLARE, Quality.SATURATED)
UNSURE = 3.0
"""Pixels this many times less certain than the scene's median are judged by their neighbours."""
REACH_PIXELS, FEWEST_SURE = 1.5, 0.1
"""Standard deviation of the neighbourhood's weights, and the share of it that must be sure."""
RULE = PlumeRule(threshold_sigma=3.0, min_pixels=9, min_peak_sigma=12.0, rim_sigma=2.0)
"""In units of the scatter over the scene, which has heavy tails."""
UNFIT_TO_FILL = (Quality.CLOUD, Quality.FLARE)
WGS84 = Geod(ellps="WGS84")


@dataclass(frozen=True)
class PlumeOptions:
    """How plumes are separated from noise, and what is known of the wind."""

    rule: PlumeRule = RULE
    wind_m_s: float | None = None
    wind_std_m_s: float | None = None
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


@dataclass(frozen=True, eq=False)
class _MethaneMap:
    ppm_m: Values
    """Without gaps: see `fill_from_neighbours`."""
    std: Values
    valid: npt.NDArray[np.bool_]
    """Where a plume may be: a result, over ground that allows one."""
    missing: npt.NDArray[np.bool_]
    grid: Grid
    tags: dict[str, str]


def write_plumes(summary: RunSummary, scene: Scene, options: PlumeOptions) -> Findings:
    """Write SCENE_plume_mask.tif and SCENE_plumes.gpkg beside the methane map, and say what they hold."""
    found = _read(summary)
    seen = found.ppm_m, found.std, found.valid
    labels = label_plumes(*seen, options.rule)
    area = pixel_area_m2(found.grid)
    if area is None and options.ground_sampling_m is not None:
        area = options.ground_sampling_m**2
    plumes = list_plumes(
        *seen,
        labels,
        area,
        wind_m_s=options.wind_m_s,
        wind_std_m_s=options.wind_std_m_s,
        effective_wind=options.effective_wind(scene.product),
    )
    stem = summary.products[0].path.name.removesuffix("_methane.tif")
    names = tuple(f"{stem}_{end}" for end in PLUME_FILES)
    folder = summary.products[0].path.parent
    with gdal_environment(), Staging(folder, names, overwrite=True) as staging:
        sink = RasterSink(staging, names[0], MASK, found.grid, tags=found.tags)
        try:
            mask = np.where(found.valid, np.where(labels > 0, 2, 1), 0).astype(np.uint8)
            sink.write(Window(0, 0, found.grid.height, found.grid.width), mask)
            sink.finish()
        finally:
            sink.close()
        rows = _rows(plumes, options, scene.product)
        with writing(folder / names[1]), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "'crs' was not provided")  # a scene that is nowhere
            _polygons(labels, rows, found.grid).to_file(staging.path(names[1]), layer="plumes", driver="GPKG")
        staging.commit()
    lines = [str(folder / name) for name in names]
    lines.append(f"{int(found.missing.sum()):,} pixels without a result: saturated, dead or without signal")
    lines += [_line(plume) for plume in plumes] or ["no plume found"]
    record: dict[str, Any] = {"plumes": rows}
    if plumes and area is None:
        lines.append("no georeference: areas and masses need --ground-sampling METRES")
    if options.control:
        alarms = record["control_plumes"] = count_false_alarms(*seen, options.rule)
        reported = "says nothing, the map has no negative values" if alarms is None else f"{alarms} plumes"
        lines.append(f"control (sign-flipped map): {reported}")
    return Findings(lines, record)


def pixel_area_m2(grid: Grid) -> float | None:
    """Mean area of a pixel on the ground [m2]; None for a grid that is nowhere."""
    if grid.crs is None:
        return None
    if grid.transform is None:
        corners = _ground(
            grid, np.array([[0, 0], [grid.width, 0], [grid.width, grid.height], [0, grid.height]], float)
        )
        if grid.crs.is_geographic:
            area = abs(WGS84.polygon_area_perimeter(corners[:, 0], corners[:, 1])[0])
        else:
            area = shapely.Polygon(corners).area * grid.crs.linear_units_factor[1] ** 2
        return float(area / (grid.width * grid.height))
    area = abs(grid.transform.determinant)
    if grid.crs.is_geographic:
        x, y = grid.transform @ (grid.width / 2, grid.height / 2)
        dx, dy = abs(grid.transform.a) / 2, abs(grid.transform.e) / 2
        cell = [(x - dx, y - dy), (x + dx, y - dy), (x + dx, y + dy), (x - dx, y + dy)]
        return abs(WGS84.polygon_area_perimeter([x for x, _ in cell], [y for _, y in cell])[0])
    return float(area * grid.crs.linear_units_factor[1] ** 2)


def _read(summary: RunSummary) -> _MethaneMap:
    paths = {product.spec.suffix: product.path for product in summary.products}
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
    with rasterio.open(paths["methane_std"]) as source:
        std = source.read(1)
    with rasterio.open(paths["quality"]) as source:
        quality = source.read(1)
    trusted = ~missing & ~np.isin(quality, UNUSABLE)
    ppm_m, std, valid = fill_from_neighbours(ppm_m, std, trusted)
    return _MethaneMap(ppm_m, std, valid & ~np.isin(quality, UNFIT_TO_FILL), missing, grid, tags)


def fill_from_neighbours(ppm_m: Values, std: Values, trusted: Mask) -> tuple[Values, Values, Mask]:
    """Maps whose unsure pixels (deep shadow, above all) take the precision-weighted mean around them.

    Their own values lean towards the middle of the prior, which would look like plumes; without them, plumes
    would have holes. Returns enhancement and standard deviation [ppm m] and where both can be believed.
    """
    sure = trusted & (std < UNSURE * np.median(std[trusted])) if trusted.any() else trusted
    weight = sure / np.where(sure, std, 1.0).astype(np.float64) ** 2
    total = _around(weight)
    filled = ~sure & (_around(sure.astype(np.float64)) > FEWEST_SURE)
    scale = np.where(filled, total, 1.0)
    mean = _around(weight * ppm_m) / scale
    spread = np.sqrt(np.maximum(_around(weight * ppm_m**2) / scale - mean**2, 1.0 / scale))
    return np.where(filled, mean, ppm_m), np.where(filled, spread, std), sure | filled


def _around(values: Values) -> Values:
    smooth: Values = ndimage.gaussian_filter(values, REACH_PIXELS)
    return smooth


def _rows(plumes: Sequence[Plume], options: PlumeOptions, product: str) -> list[dict[str, Any]]:
    """What is reported of each plume, by field name."""
    wind = options.effective_wind(product)
    return [
        {
            "plume": plume.label,
            "pixels": plume.pixels,
            "area_m2": plume.area_m2,
            "peak_ppm_m": plume.peak_ppm_m,
            "mean_ppm_m": plume.mean_ppm_m,
            "ime_kg": plume.ime_kg,
            "ime_std_kg": plume.ime_std_kg,
            "q_kg_h": plume.emission.kg_per_hour if plume.emission else None,
            "q_std_kg_h": plume.emission.std_kg_per_hour if plume.emission else None,
            "wind_m_s": options.wind_m_s,
            "ueff_a": wind.a,
            "ueff_b": wind.b,
        }
        for plume in plumes
    ]


def _polygons(
    labels: npt.NDArray[np.int32], rows: Sequence[dict[str, Any]], grid: Grid
) -> geopandas.GeoDataFrame:
    outlines: dict[int, list[Any]] = {}
    for shape, label in features.shapes(labels, mask=labels > 0, connectivity=8):
        outlines.setdefault(int(label), []).append(shapely.geometry.shape(shape))
    geometry = [
        shapely.transform(shapely.MultiPolygon(outlines[row["plume"]]), lambda points: _ground(grid, points))
        for row in rows
    ]
    crs = None if grid.crs is None else grid.crs.to_wkt()
    return geopandas.GeoDataFrame(rows, columns=[*_FIELDS, "geometry"], geometry=geometry, crs=crs)


def _ground(grid: Grid, pixels: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Pixel coordinates (col, row), whole numbers at corners, to map coordinates."""
    if grid.transform is not None:
        transformer = AffineTransformer(grid.transform)
    else:
        transformer = GCPTransformer(list(grid.gcps), tps=True)
    x, y = transformer.xy(pixels[:, 1], pixels[:, 0], offset="ul")
    return np.column_stack([x, y])


def _line(plume: Plume) -> str:
    rate = ""
    if plume.emission is not None:
        rate = f", Q {plume.emission.kg_per_hour:,.0f} ± {plume.emission.std_kg_per_hour:,.0f} kg/h"
    line = f"plume {plume.label}: {plume.pixels:,} pixels, peak {plume.peak_ppm_m:,.0f} ppm·m"
    if plume.area_m2 is None:
        return line
    return (
        f"{line}, {plume.area_m2 / 1e6:.2f} km², IME {plume.ime_kg:,.0f} ± {plume.ime_std_kg:,.0f} kg{rate}"
    )
