"""`p3vae suggest`: where labels would help a model most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import geopandas
import numpy as np
import numpy.typing as npt
import shapely
from sklearn.cluster import KMeans

from p3vae.cli.colours import hex_colour
from p3vae.cli.errors import UsageError
from p3vae.cli.labels import draw_pixels
from p3vae.cli.landcover.scene_model import SceneModel
from p3vae.cli.landcover.settings import SuggestSettings
from p3vae.cli.rasters.areas import to_map
from p3vae.cli.rasters.vectors import save_geopackage
from p3vae.cli.run.model_files import load_land_cover, model_name
from p3vae.cli.scenes.base import Scene
from p3vae.cli.styles.rasters import Category
from p3vae.cli.styles.vectors import to_label_style

DRAWN_PIXELS = 20_000
CANDIDATES = 0.1
"""Share of the drawn pixels that are doubtful enough to be suggested."""


@dataclass(frozen=True)
class Suggestion:
    """A pixel worth a label."""

    row: int
    col: int
    reason: str
    """"unknown" or "uncertain"."""
    likeliest: str
    second: str
    confidence: float
    misfit: float | None


def suggest(scene: Scene, settings: SuggestSettings) -> list[Suggestion]:
    """Write points to label: doubtful pixels, each of another kind of spectrum.

    The most doubtful pixels by misfit and by entropy of the class probabilities are put into `settings.count`
    clusters of spectral shape; of each, the most doubtful pixel is suggested.
    """
    if scene.grid.transform is None and not scene.grid.gcps:
        raise UsageError("is not georeferenced", path=scene.path, remedy="points need a place on Earth")
    brought = SceneModel.of(
        scene,
        load_land_cover(settings.model),
        settings.irradiance,
        model_name(settings.model),
        scene_gain=settings.scene_gain,
    )
    drawn = draw_pixels(scene, DRAWN_PIXELS, settings.seed)
    found = brought.predict(drawn.spectra)
    assert found.probabilities is not None
    doubt = _doubt(found.probabilities, found.misfit)
    doubt[found.class_id == 0] = -1.0
    chosen = _diverse(np.asarray(brought.adapter(drawn.spectra)), doubt, settings.count, settings.seed)
    suggestions = []
    for k in chosen:
        order = np.argsort(-found.probabilities[k])
        misfit = None if found.misfit is None else float(found.misfit[k])
        unknown = misfit is not None and misfit > 1
        suggestions.append(
            Suggestion(
                row=int(drawn.row[k]),
                col=int(drawn.col[k]),
                reason="unknown" if unknown else "uncertain",
                likeliest=brought.model.legend.names[order[0]],
                second=brought.model.legend.names[order[1]],
                confidence=float(found.confidence[k]),
                misfit=misfit,
            )
        )
    legend = brought.model.legend
    classes = [
        Category(number, name, hex_colour(colour))
        for number, name, colour in zip(legend.ids, legend.names, legend.colours, strict=True)
    ]
    save_geopackage(
        settings.output,
        _frame(scene, suggestions),
        "suggestions",
        overwrite=settings.overwrite,
        inputs=(scene.path,),
        style=to_label_style("class", classes),
    )
    return suggestions


def _doubt(probabilities: npt.NDArray[Any], misfit: npt.NDArray[Any] | None) -> npt.NDArray[np.float64]:
    """Entropy of the classes, from 0 to 1, plus how far a spectrum is beyond what the model knows."""
    p = np.clip(probabilities.astype(np.float64), 1e-12, 1)
    entropy: npt.NDArray[np.float64] = -(p * np.log(p)).sum(axis=1) / np.log(p.shape[1])
    if misfit is not None:
        entropy += np.log1p(np.maximum(np.nan_to_num(misfit) - 1, 0))
    return entropy


def _diverse(spectra: npt.NDArray[Any], doubt: npt.NDArray[np.float64], count: int, seed: int) -> list[int]:
    """Indices of the most doubtful pixel of each kind, the most doubtful first."""
    usable = np.flatnonzero(doubt >= 0)
    if len(usable) < count:
        raise UsageError(f"{count} suggestions are more than the {len(usable)} pixels that can be judged")
    most = max(count, int(CANDIDATES * len(usable)))
    candidates = usable[np.argsort(-doubt[usable], kind="stable")][:most]
    shapes = spectra[candidates] / np.maximum(
        np.linalg.norm(spectra[candidates], axis=1, keepdims=True), 1e-9
    )
    groups = KMeans(count, n_init=1, random_state=seed).fit_predict(shapes)
    first = {int(group): int(k) for group, k in reversed(list(zip(groups, candidates, strict=True)))}
    return sorted(first.values(), key=lambda k: -doubt[k])


def _frame(scene: Scene, suggestions: list[Suggestion]) -> geopandas.GeoDataFrame:
    centres = to_map(scene.grid, np.array([[s.col + 0.5, s.row + 0.5] for s in suggestions]))
    columns = {
        "rank": np.arange(1, len(suggestions) + 1),
        "class": np.array([None] * len(suggestions), dtype=object),
        **{name: [getattr(s, name) for s in suggestions] for name in ("reason", "likeliest", "second")},
        "confidence": [s.confidence for s in suggestions],
        "misfit": np.array([np.nan if s.misfit is None else s.misfit for s in suggestions]),
    }
    crs = None if scene.grid.crs is None else scene.grid.crs.to_wkt()
    return geopandas.GeoDataFrame(columns, geometry=shapely.points(centres), crs=crs)
