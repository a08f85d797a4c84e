"""What `p3vae classify` makes of its finished land cover: a smoothed map, and polygons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from p3vae.cli.assess.class_maps import majority
from p3vae.cli.rasters.files import RasterSink, class_map
from p3vae.cli.rasters.grids import whole
from p3vae.cli.rasters.maps import MapFile, read_class_map
from p3vae.cli.rasters.polygons import class_polygons
from p3vae.cli.rasters.vectors import write_geopackage
from p3vae.cli.records.manifest import product_record, sha256
from p3vae.cli.records.staging import Staging, writing
from p3vae.cli.run.make import Findings, RunSummary
from p3vae.cli.run.mapping import Plan
from p3vae.cli.styles.vectors import class_style

SMOOTHED, POLYGONS = "landcover_smooth", "landcover_polygons"


@dataclass(frozen=True)
class LandCoverExtras:
    """What is made beside the map."""

    smooth: int | None = None
    """Radius of the majority filter [pixels]; None is no smoothed map."""
    polygons: bool = False
    """Polygons of the smoothed map, or of the map itself without one."""

    def request(self) -> dict[str, Any]:
        """What was asked for, without what was not."""
        asked = {"smooth": self.smooth, "polygons": self.polygons or None}
        return {name: value for name, value in asked.items() if value is not None}

    def added_to(self, plan: Plan) -> Plan:
        """The plan that makes them, too; the whole map is held in memory for that."""
        names = [f"{SMOOTHED}.tif"] * (self.smooth is not None) + [f"{POLYGONS}.gpkg"] * self.polygons
        if not names:
            return plan

        def after(summary: RunSummary, staging: Staging) -> Findings:
            found = plan.after(summary, staging) if plan.after else Findings()
            return replace(found, products=[*found.products, *self._made(summary, staging)])

        return replace(plan, after=after, more=[*plan.more, *names])

    def _made(self, summary: RunSummary, staging: Staging) -> list[dict[str, Any]]:
        name = next(p.path.name for p in summary.products if p.spec.suffix == "landcover")
        stem = name.removesuffix("landcover.tif")
        mapped, records = read_class_map(staging.path(name)), []
        if self.smooth is not None:
            mapped = replace(mapped, values=majority(mapped, self.smooth))
            records.append(_smoothed(mapped, f"{stem}{SMOOTHED}.tif", staging))
        if self.polygons:
            records.append(_polygons(mapped, f"{stem}{POLYGONS}.gpkg", staging))
        return records


def _smoothed(mapped: MapFile, name: str, staging: Staging) -> dict[str, Any]:
    assert mapped.categories is not None
    kept: Mapping[str, str] = {k: v for k, v in mapped.tags.items() if k.startswith("P3VAE_")}
    spec = class_map(SMOOTHED, "land cover, each pixel as most around it", mapped.categories)
    sink = RasterSink(staging, name, spec, mapped.grid, tags=kept)
    try:
        sink.write(whole(mapped.grid), mapped.values)
        sink.finish()
    finally:
        sink.close()
    return product_record(staging.path(name), sink)


def _polygons(mapped: MapFile, name: str, staging: Staging) -> dict[str, Any]:
    assert mapped.categories is not None
    path = staging.path(name)
    with writing(staging.folder / name):
        write_geopackage(path, class_polygons(mapped), "landcover")
        path.with_suffix(".qml").write_bytes(class_style("class", mapped.categories.items))
    return {
        "file": name,
        "description": "patches of one class, with their area",
        "size": path.stat().st_size,
        "sha256": sha256(path),
        "side_files": [path.with_suffix(".qml").name],
    }
