"""What a scene is fit for: the commands ask before they work, and `p3vae info` asks for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from p3vae.cli.errors import BandMismatchError, ModelFileError, P3vaeError, SceneError
from p3vae.cli.run.model_files import model_errors
from p3vae.cli.scenes.base import Quantity, Scene
from p3vae.models.landcover.usable import FEWEST_COVERED, FEWEST_USABLE, usable_bands
from p3vae.models.methane.bands import SAME_BAND_NM
from p3vae.physics.spectral_response import (
    METHANE_NM,
    WATER_VAPOUR_NM,
    BandAdapter,
    BandCoverageError,
    Bands,
    adapt_bands,
    covered_bands,
    outside,
)

_LEVELS: dict[Quantity, str] = {"reflectance": "level-2", "radiance": "level-1"}


def require_quantity(scene: Scene, quantity: Quantity, purpose: str) -> None:
    """Refuse a scene that holds the other quantity."""
    if scene.quantity != quantity:
        raise BandMismatchError(
            f"holds {scene.quantity}, and {purpose} needs {quantity} (a {_LEVELS[quantity]} product)",
            path=scene.path,
            remedy=f"give a {quantity} product, or --quantity {quantity} if the file says so wrongly",
        )


def sun_zenith(scene: Scene) -> float:
    """Of the sun of a scene [degree], which must be known."""
    zenith = scene.acquisition.sun_zenith_deg
    if zenith is None:
        raise SceneError("the sun's zenith angle is unknown", path=scene.path, remedy="give --sun-zenith DEG")
    return zenith


def sun_above_horizon(scene: Scene) -> float:
    """Zenith of the sun [degree], which must give direct light."""
    zenith = sun_zenith(scene)
    if not 0 <= zenith < 90:
        raise SceneError(f"a sun zenith of {zenith:g} degrees gives no direct light", path=scene.path)
    return zenith


def require_land_cover(scene: Scene) -> None:
    """Refuse a scene whose land cover and light cannot be told, whatever the model."""
    require_quantity(scene, "reflectance", "a land-cover model")
    sun_above_horizon(scene)


def require_methane(scene: Scene) -> None:
    """Refuse a scene in which methane cannot be seen."""
    require_quantity(scene, "radiance", "a methane retrieval")
    centres = scene.bands.wavelength_nm[
        scene.bands.good & outside(scene.bands.wavelength_nm, WATER_VAPOUR_NM)
    ]
    if outside(centres, METHANE_NM).all():
        ranges = " or ".join(f"{low:.0f} to {high:.0f}" for low, high in METHANE_NM)
        raise BandMismatchError(
            f"no band sees methane: good bands from {ranges} nm are needed", path=scene.path
        )
    sun_zenith(scene)


_NEEDS: dict[str, Callable[[Scene], None]] = {
    **dict.fromkeys(("classify", "irradiance-map", "train", "explain", "suggest"), require_land_cover),
    "invert-methane": require_methane,
    "brightness": lambda scene: None,
}
"""What each command asks of a scene."""


def fit_commands(scene: Scene) -> list[dict[str, Any]]:
    """Per command: whether the scene is fit for it, and if not, why."""
    return [
        {"command": name, "fit": not (problem := _problem(scene, need)), "reason": problem}
        for name, need in _NEEDS.items()
    ]


def _problem(scene: Scene, need: Callable[[Scene], None]) -> str:
    try:
        need(scene)
    except P3vaeError as error:
        remedy = f": {error.remedy}" if isinstance(error, SceneError) and error.remedy else ""
        return error.problem + remedy
    return ""


def fit_line(commands: Sequence[Mapping[str, Any]]) -> str:
    """The commands that a scene is fit for, in one line."""
    return ", ".join(entry["command"] for entry in commands if entry["fit"])


def unfit_lines(commands: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why it is not fit for the others, one line per reason."""
    reasons: dict[str, list[str]] = {}
    for entry in commands:
        if not entry["fit"]:
            reasons.setdefault(entry["reason"], []).append(entry["command"])
    return [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]


def fit_bands(scene: Scene, bands: Bands, model: str) -> BandAdapter:
    """The adapter from the scene's bands to a model's, or an error that names what is missing."""
    try:
        return adapt_bands(scene.bands, bands)
    except BandCoverageError as error:
        raise BandMismatchError(
            f"{error}, which the model {model} needs",
            path=scene.path,
            remedy="use a model trained on this sensor's bands (p3vae train)",
        ) from error


def require_covered(scene: Scene, bands: Bands, model: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Bands of a Gaussian model that the scene covers, (model bands,); it goes without the others."""
    covered = covered_bands(scene.bands, bands)
    if covered.sum() < FEWEST_COVERED:
        raise BandMismatchError(
            f"covers {covered.sum()} of the {len(covered)} bands of the model {model}, "
            f"and {FEWEST_COVERED} are needed",
            path=scene.path,
            remedy="use a model trained on this sensor's bands (p3vae train)",
        )
    return covered


def require_usable(scene: Scene, bands: Bands, model: str) -> int:
    """How many bands of the scene lie where a model of materials has any."""
    count = int(usable_bands(bands, scene.bands).sum())
    if count < FEWEST_USABLE:
        raise BandMismatchError(
            f"{count} of its bands lie where the model has any, {FEWEST_USABLE} are needed",
            path=scene.path,
            remedy=f"the model {model} needs bands from {bands.wavelength_nm[0]:.0f} to "
            f"{bands.wavelength_nm[-1]:.0f} nm",
        )
    return count


def fit_models(scene: Scene, models: Sequence[Path]) -> list[dict[str, Any]]:
    """Per model file: whether it could be applied to the scene, and how or why not; no model is loaded."""
    found = []
    for path in models:
        try:
            reason, applicable = _fit(scene, path), True
        except (ModelFileError, BandMismatchError) as error:
            reason, applicable = error.problem, False
        found.append({"model": path.name, "applicable": applicable, "reason": reason})
    return found


def _fit(scene: Scene, path: Path) -> str:
    from p3vae.models.checkpoint import read_card

    with model_errors(path):
        kind, card = read_card(path)
        if kind == "methane":
            require_quantity(scene, "radiance", "a methane model")
            return _fit_methane(scene, path, card)
        if kind != "landcover":
            raise ModelFileError(f"is no model but a {kind}", path=path)
        require_quantity(scene, "reflectance", "a landcover model")
        return _fit_land_cover(scene, path, card)


def _fit_land_cover(scene: Scene, path: Path, card: Mapping[str, Any]) -> str:
    bands = Bands.from_centres(card["bands"]["wavelength_nm"], card["bands"]["fwhm_nm"])
    name = card.get("settings", {}).get("model")
    kind = f"landcover ({name})" if name else "landcover"
    if card.get("materials"):
        return f"{kind}, brought to {require_usable(scene, bands, path.name)} bands of the scene"
    without = ""
    if "home" in card:
        covered, total = require_covered(scene, bands, path.name), len(bands)
        bands = bands.select(covered)
        if len(bands) < total:
            without = f", {total - len(bands)} of its {total} bands are missing and integrated out"
    exact = fit_bands(scene, bands, path.name).is_exact
    return f"{kind}, {'bands match' if exact else f'bands are resampled to its {len(bands)}'}{without}"


def _fit_methane(scene: Scene, path: Path, card: Mapping[str, Any]) -> str:
    """A methane background is never resampled: it needs the bands that it was learned on."""
    own = np.asarray(card.get("wavelength_nm", ()), np.float64)
    if len(own) == 0:
        raise ModelFileError("comes from another version of p3vae", path=path)
    missing = int((np.abs(own[:, None] - scene.bands.wavelength_nm).min(axis=1) > SAME_BAND_NM).sum())
    if missing:
        raise ModelFileError(f"{missing} of its {len(own)} bands are not the scene's", path=path)
    return "methane, bands match"
