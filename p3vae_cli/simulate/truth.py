"""True maps of a simulated scene, as rasters on the scene's grid."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from p3vae.cli.rasters.files import MapSpec, RasterSink, class_map
from p3vae.cli.records.staging import Staging
from p3vae.cli.scenes.base import Grid
from p3vae.cli.scenes.tiling import Window
from p3vae.cli.styles.rasters import Categories, Category, Ramp
from p3vae.physics.simulation.materials import LAND_COVER
from p3vae.physics.simulation.scene import Relief, SimulatedScene

Mask = npt.NDArray[np.bool_]


def truth_names(stem: str, *, with_plume: bool, relief: Relief = "town") -> tuple[str, ...]:
    """File names of the true maps of a scene called `stem`; methane only if there is a plume."""
    return tuple(f"{stem}_{spec.suffix}.tif" for spec in _specs(with_plume, relief).values())


def write_truth(
    staging: Staging,
    stem: str,
    simulated: SimulatedScene,
    grid: Grid,
    *,
    visible: Mask,
    tags: Mapping[str, str],
) -> None:
    """Stage all true maps; pixels that are not `visible` hold no data."""
    maps = _maps(simulated)
    for key, spec in _specs(bool(simulated.plumes), simulated.settings.relief).items():
        sink = RasterSink(staging, f"{stem}_{spec.suffix}.tif", spec, grid, tags=tags)
        try:
            values = np.where(visible, maps[key], spec.nodata).astype(spec.dtype)
            sink.write(Window(0, 0, grid.height, grid.width), values)
            sink.finish()
        finally:
            sink.close()


def _specs(with_plume: bool, relief: Relief) -> dict[str, MapSpec]:
    legend = Categories(
        tuple(Category(number, cover.name, cover.color) for number, cover in enumerate(LAND_COVER, start=1))
    )
    specs = {
        "class": class_map("class", "True land cover", legend),
        "irradiance": MapSpec(
            "irradiance_truth",
            "True direct light: lit fraction x cosine of incidence [1]",
            unit="1",
            style=Ramp(0.0, 1.0, "cividis"),
        ),
        "sky_view": MapSpec("sky_view", "True sky view factor [1]", unit="1", style=Ramp(0.0, 1.0, "gray")),
        "shadow": MapSpec(
            "shadow", "True shaded fraction of the pixel [1]", unit="1", style=Ramp(0.0, 1.0, "gray")
        ),
    }
    methane = MapSpec(
        "methane_truth",
        "True methane enhancement [ppm m]",
        unit="ppm m",
        nodata=-9999.0,
        style=Ramp(0.0, None, "inferno", " ppm·m"),
    )
    mountains = {
        "incidence": MapSpec(
            "incidence",
            "True cosine of incidence, without cast shadow [1]",
            unit="1",
            style=Ramp(0.0, 1.0, "cividis"),
        ),
        "height": MapSpec(
            "dem_truth",
            "True elevation [m]",
            unit="m",
            nodata=-9999.0,
            style=Ramp(0.0, None, "viridis", " m"),
        ),
    }
    specs |= mountains if relief == "mountains" else {}
    return specs | ({"methane": methane} if with_plume else {})


def _maps(simulated: SimulatedScene) -> dict[str, npt.NDArray[np.generic]]:
    return {
        "class": simulated.class_id,
        "irradiance": simulated.direct_light,
        "sky_view": simulated.sky_view,
        "shadow": 1.0 - simulated.lit_fraction,
        "incidence": simulated.incidence,
        "height": simulated.height_m,
        "methane": simulated.ppm_m,
    }
