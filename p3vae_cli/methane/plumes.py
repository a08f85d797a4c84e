"""From a finished methane map to plumes: mask, polygons with mass and emission rate, pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import geopandas
import numpy as np
import numpy.typing as npt

from p3vae.cli.methane.plume_catalogue import catalogue
from p3vae.cli.methane.plume_maps import Mask, MethaneMap, Values
from p3vae.cli.methane.plume_pictures import PlumePictures, earlier_pictures
from p3vae.cli.methane.plume_table import Blown, plume_frame, plume_line, plume_polygons, plume_rows
from p3vae.cli.methane.wind import Place, WindOption
from p3vae.cli.rasters.areas import pixel_area_m2
from p3vae.cli.rasters.files import RasterSink, class_map
from p3vae.cli.rasters.resample import on_map
from p3vae.cli.rasters.vectors import write_geopackage
from p3vae.cli.records.manifest import product_record, sha256
from p3vae.cli.records.staging import Staging, writing
from p3vae.cli.run.make import Findings, RunSummary
from p3vae.cli.run.memory import return_memory
from p3vae.cli.scenes.base import Grid, Scene
from p3vae.cli.scenes.tiling import Window
from p3vae.cli.styles.rasters import Categories, Category, Ramp, style_document
from p3vae.cli.styles.vectors import plume_style
from p3vae.models.methane.plumes.clusters import PlumeRule, count_false_alarms, find_plumes
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
"""Ends of the names of mask and polygons."""
LONGEST_VISIBLE_NM = 700.0
ROUND_PPM_M = 500.0
"""Step of where the colours of methane begin [ppm m]."""


@dataclass(frozen=True)
class PlumeOptions:
    """How plumes are separated from noise, and what is known of the wind."""

    rule: PlumeRule = field(default_factory=PlumeRule)
    winds: tuple[WindOption, ...] = ()
    """Sources of the wind; the first is that of Q, the others are reported beside it."""
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

    def winds_over(self, scene: Scene, place: Place | None = None) -> list[Blown]:
        """The wind of every source at a place of a scene, or at its centre."""
        effective = self.effective_wind(scene.product)
        found = []
        for option in self.winds:
            wind = option.over(scene)(place)
            std = wind.std_m_s if self.wind_std_m_s is None else self.wind_std_m_s
            found.append(Blown(wind, default_wind_uncertainty(wind.m_s) if std is None else std, effective))
        return found

    def settings(self, scene: Scene) -> dict[str, Any]:
        """For the manifest: what decides plumes, masses and rates of a scene; winds at its centre."""
        effective, winds = self.effective_wind(scene.product), self.winds_over(scene)
        first = winds[0].record() if winds else {}
        return {
            "plume_rule": asdict(self.rule),
            "wind_m_s": first.get("wind_m_s"),
            "wind_std_m_s": first.get("wind_std_m_s"),
            "wind_source": first.get("source"),
            "ueff_a": effective.a,
            "ueff_b": effective.b,
            "ueff_m_s": first.get("ueff_m_s"),
            "winds": [wind.record() for wind in winds],
            "ground_sampling_m": self.ground_sampling_m,
        }


Vet = Callable[[Mask, Values, Window], LogRatio | None]
"""What the spectrum of a cluster of pixels says; with the enhancement in a part of the scene."""


def write_plumes(
    summary: RunSummary,
    staging: Staging,
    scene: Scene,
    options: PlumeOptions,
    *,
    prior: bool,
    vet: Vet | None = None,
) -> Findings:
    """Write mask, polygons and pictures of plumes beside the staged maps, and say what they hold.

    Plumes are found and weighed on the detector grid, where no pixel counts twice, also if the maps are not.
    `prior`: whether the maps hold a prior, which dividing by the sensitivity takes out.
    """
    seen = MethaneMap.read(summary, staging, prior=prior)
    maps = seen.ppm_m, seen.std, seen.valid
    return_memory()
    if vet is None:
        found = find_plumes(*maps, options.rule)
    else:
        found = find_plumes(*maps, options.rule, lambda cluster: vet(cluster, seen.ppm_m, summary.area))
    return_memory()
    area = pixel_area_m2(seen.grid)
    if area is None and options.ground_sampling_m is not None:
        area = options.ground_sampling_m**2
    plumes = list_plumes(*maps, found, area)
    rows = plume_rows(
        plumes,
        found.labels,
        seen,
        scene,
        summary.area,
        lambda place: options.winds_over(scene, place),
        options.effective_wind(scene.product),
    )
    writer = _PlumeWriter(summary, staging, scene, seen, found.labels, rows)
    records, gone = writer.write()
    folder = summary.products[0].path.parent
    lines = [str(folder / record["file"]) for record in records]
    lines += _blind_spots(scene)
    lines += [
        seen.figures.line(),
        seen.left_out(),
        *([plume_line(row) for row in rows] or ["no plume found"]),
    ]
    if found.rejected:
        lines.append(f"{found.rejected} as strong as a plume left out: the spectrum speaks against methane")
    record: dict[str, Any] = {
        "plumes": rows,
        "rejected_by_spectrum": found.rejected,
        "clear": asdict(seen.figures),
    }
    if plumes and area is None:
        lines.append("no georeference: areas and masses need --ground-sampling METRES")
    if options.control:
        alarms = record["control_plumes"] = count_false_alarms(*maps, options.rule)
        reported = "says nothing, the map has no negative values" if alarms is None else f"{alarms} plumes"
        lines.append(f"control (sign-flipped map): {reported}")
    return Findings(lines, record, records, gone)


def _blind_spots(scene: Scene) -> list[str]:
    """What the scene's bands cannot tell."""
    visible = scene.bands.good & (scene.bands.wavelength_nm < LONGEST_VISIBLE_NM)
    return [] if visible.any() else ["no visible band: cloud cannot be separated from bright ground"]


@dataclass(frozen=True, eq=False)
class _PlumeWriter:
    """Puts the files of plumes into a staging folder."""

    summary: RunSummary
    staging: Staging
    scene: Scene
    seen: MethaneMap
    labels: npt.NDArray[np.int32]
    rows: list[dict[str, Any]]

    @property
    def stem(self) -> str:
        """First part of the names."""
        return self.summary.products[0].path.name.removesuffix("_methane.tif")

    def write(self) -> tuple[list[dict[str, Any]], list[str]]:
        """What the manifest says of the files, and the names of an earlier run's pictures that go."""
        swath, grid = self.summary.swath, self.seen.grid
        mask = np.where(self.seen.valid, np.where(self.labels > 0, 2, 1), 0).astype(np.uint8)
        labels, polygons = self.labels, plume_polygons(self.labels, self.rows, grid)
        if swath is not None:
            grid, mask = swath.onto.grid, on_map(mask, swath.onto, 0)
            labels = on_map(labels, swath.onto, 0)
            polygons = plume_polygons(labels, self.rows, grid, otherwise=polygons)
        frame = plume_frame(self.rows, polygons, grid)
        self._restyle()
        records = [self._mask(mask, grid), *self._vectors(frame)]
        pictures = PlumePictures(self.summary, self.staging, self.scene, self.stem, labels)
        records += [self._record(name, "picture of a plume") for name in pictures.write(self.rows)]
        made = {record["file"] for record in records}
        return records, earlier_pictures(self.summary.manifest, self.stem, made)

    def _restyle(self) -> None:
        """Methane below two standard deviations of a usual clear pixel is shown transparent."""
        usual = self.seen.figures.typical_std_ppm_m
        product = next(p for p in self.summary.products if p.spec.suffix == "methane")
        style = product.spec.style
        if usual is None or not isinstance(style, Ramp):
            return
        shown_from = float(ROUND_PPM_M * np.ceil(2.0 * usual / ROUND_PPM_M))
        name = product.path.with_suffix(".qml").name
        self.staging.path(name).write_bytes(style_document(replace(style, shown_from=shown_from)))

    def _mask(self, mask: npt.NDArray[np.uint8], grid: Grid) -> dict[str, Any]:
        name = f"{self.stem}_{PLUME_FILES[0]}"
        sink = RasterSink(self.staging, name, MASK, grid, tags=self.seen.tags)
        try:
            sink.write(Window(0, 0, grid.height, grid.width), mask)
            sink.finish()
        finally:
            sink.close()
        return product_record(self.staging.path(name), sink)

    def _vectors(self, frame: geopandas.GeoDataFrame) -> list[dict[str, Any]]:
        names = [f"{self.stem}_{end}" for end in PLUME_FILES[1 : 2 if frame.crs is None else 3]]
        with writing(self.summary.manifest.parent / names[0]):
            write_geopackage(self.staging.path(names[0]), frame, "plumes")
            self.staging.path(f"{self.stem}_plumes.qml").write_bytes(plume_style())
            for name in names[1:]:
                self.staging.path(name).write_bytes(catalogue(self.rows, frame))
        return [
            self._record(name, "methane plumes with mass and emission rate") | {"plumes": self.rows}
            for name in names
        ]

    def _record(self, name: str, description: str) -> dict[str, Any]:
        path = self.staging.path(name)
        return {
            "file": name,
            "description": description,
            "size": path.stat().st_size,
            "sha256": sha256(path),
        }
